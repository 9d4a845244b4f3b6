import { distance } from "fastest-levenshtein";
import { parseJsonObject } from "#text/json-values.ts";
import { type RunCommandName, runCommands, undoCommand } from "#ui/run-commands.ts";

/** A comment as a command, read from its first line. */
export type ThreadCommand =
  /** Without a worker, it lists the workers. */
  | { kind: "run"; worker: string | undefined; text: string }
  /** `target`: an approval's id or `all`; undefined for the only pending request. */
  | {
      kind: "approve";
      target: string | undefined;
      remember: "none" | "session";
      changedArgs?: object;
      /** US dollars to add to a run's cost limit, instead of approving a request. */
      budget?: number;
    }
  /** The first word of the reason may be an approval id without a digit, which only the store can recognize. */
  | { kind: "deny"; target: string | undefined; reason: string }
  | { kind: "revoke"; target: string; reason: string }
  | { kind: "resume"; text: string }
  | {
      kind:
        | "stop"
        | "cancel"
        | "status"
        | "help"
        | "retry"
        | "clear"
        | "exit"
        | "diff"
        | "log"
        | "cost"
        | "ready"
        | "update";
    }
  /** Without a model, it lists the models that the run may use. */
  | { kind: "model"; model: string | undefined }
  /** A command for the tools of a run: `/tool …`, `/t …` or `/tools`; `/undo` is short for one of them. */
  | { kind: "tool" | "tools" | "undo"; line: string }
  /** A known command with wrong arguments; the message shows the right form. */
  | { kind: "malformed"; message: string }
  | { kind: "unknown"; word: string; suggestion: RunCommandName }
  /** `/<word> …` where the word may name a tool. `mayBeForeign`: it may be the command of another bot. */
  | { kind: "direct"; line: string; mayBeForeign: boolean }
  /** `@golem-forge …`: a message to the thread's run, or a task for its default worker. */
  | { kind: "mention"; text: string }
  | { kind: "text"; text: string };

export type CommandOf<Kind extends ThreadCommand["kind"]> = Extract<ThreadCommand, { kind: Kind }>;

/** The text after a command's name: the rest of its line, the lines below, and the whole first line. */
interface CommandInput {
  rest: string;
  more: string;
  line: string;
}

const parsers: Record<RunCommandName, (input: CommandInput) => ThreadCommand> = {
  run: parseRun,
  approve: parseApprove,
  deny: parseDeny,
  revoke: parseRevoke,
  stop: () => ({ kind: "stop" }),
  resume: (input) => ({ kind: "resume", text: joinLines(input) }),
  cancel: ({ rest }) =>
    rest
      ? { kind: "malformed", message: "`/cancel` takes no arguments: it ends every run in this thread." }
      : { kind: "cancel" },
  retry: () => ({ kind: "retry" }),
  clear: () => ({ kind: "clear" }),
  model: parseModel,
  exit: () => ({ kind: "exit" }),
  status: () => ({ kind: "status" }),
  diff: () => ({ kind: "diff" }),
  log: () => ({ kind: "log" }),
  cost: () => ({ kind: "cost" }),
  ready: () => ({ kind: "ready" }),
  update: () => ({ kind: "update" }),
  undo: ({ rest }) => ({ kind: "undo", line: `${undoCommand} ${rest}`.trim() }),
  tool: ({ line }) => ({ kind: "tool", line }),
  tools: ({ line }) => ({ kind: "tools", line }),
  help: () => ({ kind: "help" }),
};

/** Parses a comment. Only its first line can be a command, and only from the first character. Never throws. */
export function parseThreadCommand(body: string): ThreadCommand {
  const lines = body.split(/\r\n|\n|\r/);
  const line = (lines[0] ?? "").trimEnd();
  const match = /^\/([A-Za-z][A-Za-z0-9_-]{0,63})(?:[ \t\u00A0]+(.*))?$/.exec(line);
  if (!match) return { kind: "text", text: body.trim() };

  const word = (match[1] ?? "").toLowerCase();
  const name = word === "t" ? "tool" : word;
  if (isCommandName(name)) {
    return parsers[name]({ rest: (match[2] ?? "").trim(), more: lines.slice(1).join("\n").trim(), line });
  }
  const suggestion = nearestCommand(word);
  if (suggestion) return { kind: "unknown", word, suggestion };
  // Other bots' commands consist of letters and hyphens.
  return { kind: "direct", line, mayBeForeign: !/[0-9_]/.test(word) };
}

/** Returns the text after a mention of the app at the very start of a comment; undefined without one. */
export function parseMention(body: string, slug: string): string | undefined {
  const match = /^@([A-Za-z0-9-]+)(?:\[bot\])?(?![\w/-])[ \t]*[,:]?([\s\S]*)$/.exec(body);
  return match?.[1]?.toLowerCase() === slug.toLowerCase() ? (match[2] ?? "").trim() : undefined;
}

function isCommandName(word: string): word is RunCommandName {
  return Object.hasOwn(runCommands, word);
}

function parseRun({ rest, more }: CommandInput): ThreadCommand {
  const [, worker = "", text = ""] = /^(\S+)\s*(.*)$/.exec(rest) ?? [];
  if (!worker) {
    if (more) return { kind: "malformed", message: "Name a worker: `/run <worker> [task]`." };
    return { kind: "run", worker: undefined, text: "" };
  }
  if (!/^[a-z0-9][a-z0-9_-]{0,63}$/i.test(worker)) {
    return {
      kind: "malformed",
      message: "A worker's name consists of letters, digits, `-` and `_`: `/run <worker> [task]`.",
    };
  }
  return { kind: "run", worker, text: joinLines({ rest: text, more }) };
}

function parseModel({ rest }: CommandInput): ThreadCommand {
  if (/^\S*$/.test(rest)) return { kind: "model", model: rest || undefined };
  return { kind: "malformed", message: "Name one model, such as `/model anthropic:claude-haiku-4-5`." };
}

const approveUsage =
  "Nothing was approved. Comment `/approve`, `/approve <id>` or `/approve all`; add `session` to approve identical calls later in this run. `/approve +$2` alone raises a cost limit.";

/** Only a comment that is nothing but the approval counts: text below it may take it back, or make it depend on something. */
function parseApprove({ rest, more }: CommandInput): ThreadCommand {
  const changed = more === "" ? undefined : parseChangedArguments(more);
  if (changed === null) return { kind: "malformed", message: approveAloneUsage };
  const [, run, budget] = /^(?:(\w{1,40})\s+)?\+\s*\$?\s*(\d{1,6}(?:\.\d{1,2})?)\s*\$?$/.exec(rest) ?? [];
  if (budget !== undefined) {
    if (changed) return { kind: "malformed", message: approveAloneUsage };
    return Number(budget) > 0
      ? { kind: "approve", target: run?.toLowerCase(), remember: "none", budget: Number(budget) }
      : { kind: "malformed", message: "To raise the cost limit, name an amount above zero, such as `/approve +$2`." };
  }
  const words = rest.split(/\s+/).filter(Boolean);
  const session = words.at(-1)?.toLowerCase() === "session";
  const targets = session ? words.slice(0, -1) : words;
  if (targets.length > 1 || targets.some((target) => !idPattern.test(target))) {
    return { kind: "malformed", message: approveUsage };
  }

  const target = targets[0]?.toLowerCase().replace(/^#/, "");
  const remember = session ? "session" : "none";
  if (!changed) return { kind: "approve", target, remember };
  if (target === "all") return { kind: "malformed", message: changedArgumentsUsage };
  return { kind: "approve", target, remember, changedArgs: changed };
}

/** Returns the JSON object of a fenced block; null for anything else. */
function parseChangedArguments(text: string): object | null {
  const [, , json] = /^(`{3,}|~{3,})[ \t]*(?:json)?[ \t]*\n([\s\S]*?)\n?\1$/i.exec(text) ?? [];
  return (json !== undefined && parseJsonObject(json)) || null;
}

const approveAloneUsage =
  "Nothing was approved, because your comment contains more than the command. Comment `/approve` alone, and write to the worker in another comment. To change the arguments, put one JSON object in a fenced block on the lines after `/approve <id>`, and nothing else.";

const changedArgumentsUsage =
  "Nothing was approved. To change the arguments, name one approval and put one JSON object in a fenced block on the lines after `/approve <id>`.";

function parseRevoke({ rest, more }: CommandInput): ThreadCommand {
  const [, target = "", reason = ""] = /^(\S+)\s*(.*)$/.exec(rest) ?? [];
  if (!idPattern.test(target)) return { kind: "malformed", message: "Name the approval: `/revoke <id> [reason]`." };
  return { kind: "revoke", target: target.toLowerCase().replace(/^#/, ""), reason: joinLines({ rest: reason, more }) };
}

const idPattern = /^#?[A-Za-z0-9][A-Za-z0-9-]{0,39}$/;

/** A first word with a digit in it is an id: reasons begin with ordinary words. */
function parseDeny({ rest, more }: CommandInput): ThreadCommand {
  const [, first = "", after = ""] = /^(\S+)\s*(.*)$/.exec(rest) ?? [];
  const isTarget = /^all$/i.test(first) || (idPattern.test(first) && first.length <= 16 && /\d/.test(first));
  return isTarget
    ? { kind: "deny", target: first.toLowerCase().replace(/^#/, ""), reason: joinLines({ rest: after, more }) }
    : { kind: "deny", target: undefined, reason: joinLines({ rest, more }) };
}

function joinLines({ rest, more }: Pick<CommandInput, "rest" | "more">): string {
  return [rest, more].filter(Boolean).join("\n");
}

/** Recognizes a typing error: one letter wrong, two swapped, or two wrong in a longer word. */
function nearestCommand(word: string): RunCommandName | undefined {
  const ranked = Object.keys(runCommands)
    .filter(isCommandName)
    .map((name) => ({ name, edits: sameLetters(name, word) ? 1 : distance(name, word) }))
    .sort((a, b) => a.edits - b.edits);
  const best = ranked[0];
  return best && best.edits <= (word.length > 4 && best.name.length > 4 ? 2 : 1) ? best.name : undefined;
}

function sameLetters(a: string, b: string): boolean {
  return [...a].sort().join("") === [...b].sort().join("");
}
