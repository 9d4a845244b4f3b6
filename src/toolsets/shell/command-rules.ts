import type { ApprovalDecisionType } from "#domain/approval.ts";
import { programName, runsUnseen, withInner } from "./inner-commands.ts";
import { readCommand, type SimpleCommand } from "./read-command.ts";

export interface CommandRule {
  /** The first words of a command, such as `git status`. */
  pattern: string;
  approval: ApprovalDecisionType;
}

export interface CommandVerdict {
  decision: ApprovalDecisionType;
  /** Why, as the end of "because …". */
  reason: string;
}

const severity: ApprovalDecisionType[] = ["preApproved", "ask", "blocked"];

// Set for a program, these make it run another one.
const steering =
  /^(LD_|DYLD_|PATH$|IFS$|ENV$|BASH_|SHELLOPTS$|PS4$|NODE_OPTIONS$|PYTHON|PERL5|RUBY|GIT_|PAGER$|EDITOR$|VISUAL$|npm_config_)/;

/** What the rules say of a command line: every command in it must be allowed, and the strictest verdict counts. */
export function judgeCommand(
  line: string,
  rules: readonly CommandRule[],
  otherwise: ApprovalDecisionType,
): CommandVerdict {
  const read = readCommand(line);
  if (read.kind === "unclear") {
    // What cannot be read cannot be allowed, and must not slip past a rule that forbids.
    const named = rules.find(({ approval, pattern }) => approval === "blocked" && mentions(line, pattern));
    if (named) return { decision: "blocked", reason: `\`${named.pattern}\` is blocked` };
    return {
      decision: otherwise === "blocked" ? "blocked" : "ask",
      reason: `${read.why}, so its commands cannot be told apart`,
    };
  }
  return read.commands
    .flatMap(withInner)
    .map((command) => judgeSimple(command, rules, otherwise))
    .reduce(stricter);
}

function stricter(one: CommandVerdict, other: CommandVerdict): CommandVerdict {
  return severity.indexOf(other.decision) > severity.indexOf(one.decision) ? other : one;
}

function judgeSimple(
  command: SimpleCommand,
  rules: readonly CommandRule[],
  otherwise: ApprovalDecisionType,
): CommandVerdict {
  const [program] = command.words;
  if (!program) return verdictForNoProgram(command, otherwise);
  if (!program.fixed) return atLeastAsk(otherwise, "which program it runs is not known before it runs");

  const at = rules.findIndex((rule) => matchOf(command, rule) !== "none");
  const rule = rules[at];
  if (!rule) {
    if (runsUnseen(command)) return atLeastAsk(otherwise, `what \`${shown(command)}\` runs is not in the command`);
    return { decision: otherwise, reason: `no rule speaks of \`${shown(command)}\`` };
  }
  const match = matchOf(command, rule);
  const because = `\`${rule.pattern}\` is ${rule.approval === "preApproved" ? "allowed" : rule.approval === "ask" ? "always asked" : "blocked"}`;
  if (rule.approval === "blocked" && match !== "perhaps") return { decision: "blocked", reason: because };
  if (match !== "exact") {
    const why = match === "perhaps" ? `\`${shown(command)}\` may come to be \`${rule.pattern}\`` : because;
    return stricter({ decision: "ask", reason: why }, judgeSimple(command, rules.slice(at + 1), otherwise));
  }
  if (rule.approval === "ask") return { decision: "ask", reason: because };

  if (command.writes) return { decision: "ask", reason: `\`${shown(command)}\` writes into a file` };
  const steered = command.assigned.find((name) => steering.test(name));
  return steered ? { decision: "ask", reason: `it sets ${steered}` } : { decision: "preApproved", reason: because };
}

function verdictForNoProgram({ assigned, writes }: SimpleCommand, otherwise: ApprovalDecisionType): CommandVerdict {
  if (writes) return atLeastAsk(otherwise, "it writes into a file");
  return assigned.some((name) => steering.test(name))
    ? atLeastAsk(otherwise, `it sets ${assigned.join(", ")}`)
    : { decision: "preApproved", reason: "it only sets a variable" };
}

function atLeastAsk(otherwise: ApprovalDecisionType, why: string): CommandVerdict {
  return { decision: otherwise === "blocked" ? "blocked" : "ask", reason: why };
}

type Match = "exact" | "alike" | "perhaps" | "none";

/** What allows has to stand there word for word. What restricts is also met behind a folder and options, or behind what is not known yet. */
function matchOf(command: SimpleCommand, { pattern, approval }: CommandRule): Match {
  const wanted = wordsOf(pattern);
  const isExact = wanted.every((text, at) => command.words[at]?.fixed && command.words[at].text === text);
  if (isExact) return "exact";
  if (approval === "preApproved" || wanted[0] !== programName(command)) return "none";
  return alike(command, wanted);
}

function alike({ words }: SimpleCommand, [, ...wanted]: readonly string[]): Match {
  let at = 1;
  let isSure = true;
  const is = (text: string) => words[at]?.fixed && words[at]?.text === text;
  for (const text of wanted) {
    while (!is(text) && words[at]?.text.startsWith("-")) {
      at += 1;
      // A word after an option may be its value: `git -C folder push`.
      const isValue = !is(text) && words[at]?.fixed && !words[at]?.text.startsWith("-");
      if (isValue) at += 1;
    }
    const word = words[at];
    if (!word || (word.fixed && word.text !== text)) return "none";
    if (!word.fixed) isSure = false;
    at += 1;
  }
  return isSure ? "alike" : "perhaps";
}

function wordsOf(pattern: string): string[] {
  return pattern.split(/\s+/).filter(Boolean);
}

function mentions(line: string, pattern: string): boolean {
  const plain = line.replace(/["'\\]/g, "");
  const [program = "", ...rest] = wordsOf(pattern);
  const named = new RegExp(`(^|[^\\w.-])${escapeForRegExp(program)}($|[^\\w-])`);
  // One command at a time, and its words in their order, whatever stands between them.
  return plain.split(/[;&|\n(){}`]/).some((part) => {
    const found = named.exec(part);
    return found !== null && areInOrder(rest, part.slice(found.index).split(/\s+/));
  });
}

function areInOrder(wanted: readonly string[], words: readonly string[]): boolean {
  let at = 0;
  for (const word of words) if (word === wanted[at]) at += 1;
  return at >= wanted.length;
}

function escapeForRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

function shown({ words }: SimpleCommand): string {
  const text = words.map((word) => word.text).join(" ");
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}
