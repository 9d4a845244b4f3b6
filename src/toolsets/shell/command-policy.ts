import type { ApprovalDecisionType } from "#domain/approval.ts";
import { inCode } from "#text/visible-text.ts";
import { mayBeOption, type ProgramSyntax } from "./options.ts";
import { findKnownProgram } from "./programs.ts";
import { type CommandWord, literal, programName, type SimpleCommand } from "./simple-command.ts";

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

type Match = "exact" | "similar" | "possible" | "none";

/**
 * Matches a command against a rule. A rule that allows must match word for word. A rule that restricts also matches a
 * program with a folder, after options, with its options in any order and spelling, and where a word is unknown.
 */
export function matchOf(command: SimpleCommand, { pattern, approval }: CommandRule): Match {
  const { words } = command;
  const wanted = wordsOf(pattern);
  const isExact = wanted.every((text, at) => words[at]?.kind === "literal" && words[at].text === text);
  if (isExact) return "exact";
  if (approval === "preApproved" || programNameOf(pattern) !== programName(command)) return "none";
  const { subcommands, others } = partsOf(pattern);
  const matches = [matchSubcommands(words, subcommands), ...others.map((part) => matchPart(words.slice(1), part))];
  return (["none", "possible"] as const).find((match) => matches.includes(match)) ?? "similar";
}

function programNameOf(pattern: string): string {
  return programName({ words: [literal(wordsOf(pattern)[0] ?? "")] });
}

/** The names of subcommands that mean the same. */
const subcommandNames: Readonly<Record<string, string>> = {
  npm: `install=i=add=in=ins=inst=insta=instal=isnt=isnta=isntal=isntall uninstall=un=unlink=remove=rm=r run=run-script=rum=urn
    test=t=tst exec=x ci=ic=clean-install=install-clean=isntall-clean update=up=upgrade=udpate`,
  pnpm: "install=i=add remove=rm=uninstall=un update=up=upgrade run=run-script test=t=tst",
  bun: "install=i=add=a remove=rm",
  cargo: "build=b run=r test=t check=c remove=rm",
};

/** Words of a command that stand for options: `git branch -D` is `git branch -d -f`. */
const impliedOptions: Readonly<Record<string, readonly [word: RegExp, options: readonly string[]][]>> = {
  "git branch": [
    [/^-\w*D/, ["-d", "-f"]],
    [/^-\w*M/, ["-m", "-f"]],
    [/^-\w*C/, ["-c", "-f"]],
  ],
  "git push": [
    [/^\+/, ["--force"]],
    [/^:.|^-\w*d/, ["--delete"]],
    [/^--mirror$/, ["--force", "--delete"]],
  ],
};

/** A part of a rule, such as `-f` of the rule `rm -rf`, or the value of an option. */
interface RulePart {
  /** All names of the option, such as `-f` and `--force`. */
  names: readonly string[];
  syntax: ProgramSyntax | undefined;
  /** Returns the options that a word of the command implies, such as `--force` for `+main`. */
  impliedBy: (word: string) => readonly string[];
}

/** Returns the subcommands that a rule names, each with all its names, and its options with what follows them. */
function partsOf(pattern: string): { subcommands: string[][]; others: RulePart[] } {
  const [program = "", ...rest] = wordsOf(pattern);
  const firstOption = rest.findIndex((text) => text.startsWith("-"));
  const subcommands = firstOption === -1 ? rest : rest.slice(0, firstOption);
  const syntax = findKnownProgram([program, ...subcommands].map(literal))?.program;
  const implied = impliedOptions[`${programNameOf(program)} ${subcommands[0]}`] ?? [];
  const impliedBy = (word: string) => implied.flatMap(([meant, options]) => (meant.test(word) ? options : []));
  const others = rest.slice(subcommands.length).flatMap((text) => {
    const isCluster = /^-[A-Za-z0-9]+$/.test(text) && !syntax?.separateOptions;
    const options = isCluster ? [...text.slice(1)].map((letter) => `-${letter}`) : [text];
    return options.flatMap((option) => (impliedBy(option).length > 0 ? impliedBy(option) : [option]));
  });
  const namesOf = (option: string) => syntax?.spellings.find((names) => names.includes(option)) ?? [option];
  const groups = (subcommandNames[programNameOf(program)] ?? "").split(/\s+/).map((group) => group.split("="));
  return {
    subcommands: subcommands.map((text) => groups.find((names) => names.includes(text)) ?? [text]),
    others: others.map((option) => ({ names: namesOf(option), syntax, impliedBy })),
  };
}

function matchSubcommands(words: readonly CommandWord[], wanted: readonly (readonly string[])[]): Match {
  let at = 1;
  let isSure = true;
  const isLiteral = () => words[at]?.kind === "literal";
  const is = (names: readonly string[]) => isLiteral() && names.includes(words[at]?.text ?? "");
  for (const names of wanted) {
    while (!is(names) && words[at]?.text.startsWith("-")) {
      at += 1;
      // A word after an option may be its value: `git -C folder push`.
      const isValue = !is(names) && isLiteral() && !words[at]?.text.startsWith("-");
      if (isValue) at += 1;
    }
    if (!words[at] || (isLiteral() && !is(names))) return "none";
    if (!isLiteral()) isSure = false;
    at += 1;
  }
  return isSure ? "similar" : "possible";
}

/** Without the program's syntax, letters that are found in an option may be the end of a longer name. */
function matchPart(words: readonly CommandWord[], { names, syntax, impliedBy }: RulePart): Match {
  const texts = words.flatMap(({ kind, text }) => (kind === "literal" ? [text, ...impliedBy(text)] : []));
  if (texts.some((text) => names.includes(optionIn(text)))) return "similar";
  if (names.some((name) => texts.some((text) => isSpelling(text, name, syntax))))
    return syntax ? "similar" : "possible";
  return words.some(mayBeOption) ? "possible" : "none";
}

/** True if a word of a command contains an option: in a cluster of letters, or abbreviated. */
function isSpelling(text: string, name: string, syntax: ProgramSyntax | undefined): boolean {
  if (!text.startsWith("-")) return false;
  const kindOf = (option: string) => syntax?.options.get(option) ?? syntax?.changing.get(option);
  const option = optionIn(text);
  if (name.startsWith("--")) return /^--./.test(option) && name.startsWith(option) && kindOf(option) === undefined;
  if (!name.startsWith("-")) return text.endsWith(name);
  if (name.length > 2 || text.startsWith("--") || syntax?.separateOptions) return false;
  const letters = [...text.slice(1)];
  const end = letters.findIndex((letter) => (kindOf(letter) ?? "flag") !== "flag");
  return letters.slice(0, end === -1 ? undefined : end + 1).includes(name.slice(1));
}

function optionIn(word: string): string {
  return word.startsWith("-") ? (word.split("=", 1)[0] ?? "") : word;
}

function mentions(line: string, pattern: string): boolean {
  const plain = line.replace(/["'\\]/g, "");
  const named = new RegExp(`(^|[^\\w.-])${RegExp.escape(programNameOf(pattern))}($|[^\\w.-])`);
  const { subcommands, others } = partsOf(pattern);
  // Checks each command separately. The words must appear in order, with anything between them.
  return plain.split(/[;&|\n(){}`]/).some((part) => {
    const found = named.exec(part);
    if (!found) return false;
    const words = part.slice(found.index).split(/\s+/);
    return areInOrder(subcommands, words) && others.every((other) => matchPart(words.map(literal), other) !== "none");
  });
}

function areInOrder(wanted: readonly (readonly string[])[], words: readonly string[]): boolean {
  let at = 0;
  for (const word of words) if (wanted[at]?.includes(word)) at += 1;
  return at >= wanted.length;
}
