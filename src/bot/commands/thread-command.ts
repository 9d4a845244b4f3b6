import { distance } from "fastest-levenshtein";

/** The thread's commands, in the order /help shows them. */
const commandNames = ["run", "approve", "deny", "stop", "resume", "cancel", "tool", "tools", "status", "help"] as const;
type CommandName = (typeof commandNames)[number];

/** What a comment asks for, read from its first line. */
export type ThreadCommand =
  | { kind: "run"; worker: string; text: string }
  /** `target`: an approval's id or `all`; undefined for the only one there is. */
  | { kind: "approve"; target: string | undefined; remember: "none" | "session"; changedArgs?: object; note?: string }
  /** The first word of the reason may be an id that only the ledger knows as one. */
  | { kind: "deny"; target: string | undefined; reason: string }
  | { kind: "resume"; text: string }
  | { kind: "stop" | "cancel" | "status" | "help" }
  /** A command for the tools of a run: `/tool`, `/t` or `/tools`, with everything behind it. */
  | { kind: "tool"; line: string }
  /** One of ours, but not written as it should be; the message says how. */
  | { kind: "malformed"; message: string }
  | { kind: "unknown"; word: string; meant: CommandName }
  /** A word after a slash that may be the name of a tool. `mayBeForeign`: it may as well be another bot's command. */
  | { kind: "direct"; line: string; mayBeForeign: boolean }
  /** No command at all. */
  | { kind: "text"; text: string };

/** Reads a comment. Only its first line can be a command, from its first character on. Never throws. */
export function parseThreadCommand(body: string): ThreadCommand {
  const lines = body.split(/\r\n|\n|\r/);
  const line = (lines[0] ?? "").trimEnd();
  const match = /^\/([A-Za-z][A-Za-z0-9_-]{0,63})(?:[ \t]+(.*))?$/.exec(line);
  if (!match) return { kind: "text", text: body.trim() };

  const word = (match[1] ?? "").toLowerCase();
  const rest = (match[2] ?? "").trim();
  const more = lines.slice(1).join("\n").trim();
  switch (word) {
    case "run":
      return readRun(rest, more);
    case "approve":
      return readApprove(rest, more);
    case "deny":
      return readDeny(rest, more);
    case "resume":
      return { kind: "resume", text: joined(rest, more) };
    case "cancel":
      return rest
        ? { kind: "malformed", message: "`/cancel` stands alone: it ends every run of this thread." }
        : { kind: "cancel" };
    case "stop":
    case "status":
    case "help":
      return { kind: word };
    case "tool":
    case "tools":
    case "t":
      return { kind: "tool", line };
  }
  const meant = nearestCommand(word);
  // Other bots' commands are letters and hyphens.
  return meant ? { kind: "unknown", word, meant } : { kind: "direct", line, mayBeForeign: !/[0-9_]/.test(word) };
}

function readRun(rest: string, more: string): ThreadCommand {
  const [, worker = "", text = ""] = /^(\S+)\s*(.*)$/.exec(rest) ?? [];
  if (!worker) return { kind: "malformed", message: "Name a worker: `/run <worker> what it should do`." };
  if (!/^[a-z0-9][a-z0-9_-]{0,63}$/i.test(worker)) {
    return {
      kind: "malformed",
      message: "A worker's name is letters, digits, `-` and `_`: `/run <worker> what it should do`.",
    };
  }
  return { kind: "run", worker, text: joined(text, more) };
}

const approveForms =
  "Nothing was approved. Write `/approve`, `/approve <id>` or `/approve all`, with `session` after it to agree to equal calls as well.";

function readApprove(rest: string, more: string): ThreadCommand {
  const words = rest.split(/\s+/).filter(Boolean);
  const session = words.at(-1)?.toLowerCase() === "session";
  const targets = session ? words.slice(0, -1) : words;
  if (targets.length > 1 || targets.some((target) => !idPattern.test(target))) {
    return { kind: "malformed", message: approveForms };
  }

  const target = targets[0]?.toLowerCase().replace(/^#/, "");
  const remember = session ? "session" : "none";
  const fenced = /^(`{3,}|~{3,})[ \t]*(?:json)?[ \t]*\n([\s\S]*?)\n?\1[ \t]*(?:\n([\s\S]*))?$/i.exec(more);
  if (!fenced) {
    if (/^(`{3}|~{3}|\{)/m.test(more)) return { kind: "malformed", message: changedForms };
    return { kind: "approve", target, remember, ...(more ? { note: more } : {}) };
  }

  const changedArgs = readObject(fenced[2] ?? "");
  const note = (fenced[3] ?? "").trim();
  if (!changedArgs || target === "all" || /^(`{3}|~{3})/m.test(note))
    return { kind: "malformed", message: changedForms };
  return { kind: "approve", target, remember, changedArgs, ...(note ? { note } : {}) };
}

const changedForms =
  "Nothing was approved. To change the arguments, name one approval and put one JSON object in a fenced block on the lines after `/approve <id>`.";

function readObject(json: string): object | undefined {
  try {
    const value: unknown = JSON.parse(json);
    return value !== null && typeof value === "object" && !Array.isArray(value) ? value : undefined;
  } catch {
    return undefined;
  }
}

const idPattern = /^#?[A-Za-z0-9][A-Za-z0-9-]{0,39}$/;

/** A first word with a digit in it is an id: reasons begin with words. */
function readDeny(rest: string, more: string): ThreadCommand {
  const [, first = "", after = ""] = /^(\S+)\s*(.*)$/.exec(rest) ?? [];
  const named = /^all$/i.test(first) || (idPattern.test(first) && first.length <= 16 && /\d/.test(first));
  return named
    ? { kind: "deny", target: first.toLowerCase().replace(/^#/, ""), reason: joined(after, more) }
    : { kind: "deny", target: undefined, reason: joined(rest, more) };
}

function joined(rest: string, more: string): string {
  return [rest, more].filter(Boolean).join("\n");
}

/** A slip of the hand: one letter off, two swapped, or two off in a longer word. */
function nearestCommand(word: string): CommandName | undefined {
  const ranked = commandNames
    .map((name) => ({ name, far: sameLetters(name, word) ? 1 : distance(name, word) }))
    .sort((a, b) => a.far - b.far);
  const best = ranked[0];
  return best && best.far <= (word.length > 4 && best.name.length > 4 ? 2 : 1) ? best.name : undefined;
}

function sameLetters(a: string, b: string): boolean {
  return [...a].sort().join("") === [...b].sort().join("");
}
