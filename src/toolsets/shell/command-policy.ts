import type { ApprovalDecisionType } from "#domain/approval.ts";
import { inCode } from "#text/visible-text.ts";

export interface CommandRule {
  /** The first words of a command, such as `git status`. */
  pattern: string;
  approval: ApprovalDecisionType;
}

export interface CommandPolicy {
  /** The first rule that matches a command decides. */
  rules: readonly CommandRule[];
  /** For commands that only read inside the repository, where no rule covers them. Default: as for all others. */
  reading?: ApprovalDecisionType;
  /** For commands that no rule covers. */
  otherwise: ApprovalDecisionType;
}

export interface CommandVerdict {
  decision: ApprovalDecisionType;
  /** Completes "because …". */
  reason: string;
}

/** Asks about a command that may do more than is known. It must not bypass a rule that blocks what it mentions. */
export function judgeUnclear(line: string, { rules, otherwise }: CommandPolicy, reason: string): CommandVerdict {
  const named = rules.find(({ approval, pattern }) => approval === "blocked" && mentions(line, pattern));
  if (named) return { decision: "blocked", reason: `${inCode(named.pattern)} is blocked` };
  return { decision: otherwise === "blocked" ? "blocked" : "ask", reason };
}

/** Returns the verdict for a script whose commands cannot be determined. */
export function judgeUninspectable(line: string, policy: CommandPolicy, reason: string): CommandVerdict {
  return judgeUnclear(line, policy, `it is not inspectable: ${reason}`);
}

/** True if no rule restricts anything, so no command needs to be judged. */
export function allowsEverything({ rules, otherwise }: CommandPolicy): boolean {
  return otherwise === "preApproved" && rules.every(({ approval }) => approval === "preApproved");
}

/** Returns the policy for commands that run in another folder than the root, where `./check.sh` is another program. */
export function inOtherFolder(policy: CommandPolicy): CommandPolicy {
  const isKept = ({ approval, pattern }: CommandRule) =>
    approval !== "preApproved" || !wordsOf(pattern)[0]?.includes("/");
  return { ...policy, rules: policy.rules.filter(isKept) };
}

export function wordsOf(pattern: string): string[] {
  return pattern.split(/\s+/).filter(Boolean);
}

function mentions(line: string, pattern: string): boolean {
  const plain = line.replace(/["'\\]/g, "");
  const [program = "", ...rest] = wordsOf(pattern);
  const named = new RegExp(`(^|[^\\w.-])${RegExp.escape(program)}($|[^\\w.-])`);
  // Checks each command separately. The words must appear in order, with anything between them.
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
