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
  const wanted = wordsOf(pattern);
  const isExact = wanted.every((text, at) => {
    const word = command.words[at];
    return word?.kind === "literal" && word.text === text;
  });
  if (isExact) return "exact";
  if (approval === "preApproved" || programNameOf(pattern) !== programName(command)) return "none";
  const { subcommands, others, expand } = partsOf(pattern);
  const words = expand(command.words);
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

/** Returns the words that a word of a rule or command stands for, or the word itself. */
type Meaning = (word: string) => readonly string[];

const meanings: Readonly<Record<string, Meaning>> = {
  // `-D` is `-d -f`.
  "git branch": (word) => {
    const [, letter] = /^-\w*([DMC])/.exec(word) ?? [];
    return letter ? [`-${letter.toLowerCase()}`, "-f"] : [word];
  },
  "git push": (word) => {
    if (word === "--mirror") return ["--force", "--delete"];
    if (/^-\w*d/.test(word)) return ["--delete"];
    return word.startsWith("-") ? [word] : readRefspec(word);
  },
};

/** Returns the branch that a refspec pushes to, after options: `+HEAD:refs/heads/main` is `--force main`, and `:main` is `--delete main`. */
function readRefspec(word: string): string[] {
  const [, plus, source, name = ""] = /^(\+?)(?:([^:]*):)?(?:refs\/heads\/)?(.+)$/.exec(word) ?? [];
  if (name === "") return [word];
  return [...(plus ? ["--force"] : []), ...(source === "" ? ["--delete"] : []), name];
}

/** A part of a rule, such as `-f` of the rule `rm -rf`, or the value of an option. */
interface RulePart {
  /** All names of the option, such as `-f` and `--force`. */
  names: readonly string[];
  syntax: ProgramSyntax | undefined;
}

interface RuleParts {
  /** Each with all its names. */
  subcommands: string[][];
  /** The options, with what follows them. */
  others: RulePart[];
  /** Adds to the words of a command what they stand for. */
  expand: (words: readonly CommandWord[]) => CommandWord[];
}

function partsOf(pattern: string): RuleParts {
  const [program = "", ...words] = wordsOf(pattern);
  const meaning = meanings[`${programNameOf(program)} ${words[0]}`] ?? ((word) => [word]);
  const rest = words.flatMap((word) => (word.startsWith("-") ? [word] : meaning(word)));
  const firstOption = rest.findIndex((text) => text.startsWith("-"));
  const subcommands = firstOption === -1 ? rest : rest.slice(0, firstOption);
  const syntax = findKnownProgram([program, ...subcommands].map(literal))?.program;
  const others = rest.slice(subcommands.length).flatMap((text) => {
    const isCluster = /^-[A-Za-z0-9]+$/.test(text) && !syntax?.separateOptions;
    const options = isCluster ? [...text.slice(1)].map((letter) => `-${letter}`) : [text];
    return options.flatMap((option) => (option.startsWith("-") ? meaning(option) : [option]));
  });
  const namesOf = (option: string) => syntax?.spellings.find((names) => names.includes(option)) ?? [option];
  const groups = (subcommandNames[programNameOf(program)] ?? "").split(/\s+/).map((group) => group.split("="));
  return {
    subcommands: subcommands.map((text) => groups.find((names) => names.includes(text)) ?? [text]),
    others: others.map((option) => ({ names: namesOf(option), syntax })),
    expand: (found) => found.flatMap((word) => expandWord(word, meaning)),
  };
}

/** Options are kept, because other letters of a cluster have meanings of their own. */
function expandWord(word: CommandWord, meaning: Meaning): CommandWord[] {
  const meant = meaning(word.text);
  if (meant.length === 1 && meant[0] === word.text) return [word];
  const words = meant.map((text) => (text.startsWith("-") ? literal(text) : { ...word, text }));
  return word.text.startsWith("-") ? [word, ...words] : words;
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
function matchPart(words: readonly CommandWord[], { names, syntax }: RulePart): Match {
  const texts = words.flatMap(({ kind, text }) => (kind === "literal" ? [text] : []));
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
  const { subcommands, others, expand } = partsOf(pattern);
  // Checks each command separately. The words must appear in order, with anything between them.
  return plain.split(/[;&|\n(){}`]/).some((part) => {
    const found = named.exec(part);
    if (!found) return false;
    const words = expand(part.slice(found.index).split(/\s+/).map(literal));
    return areInOrder(subcommands, words) && others.every((other) => matchPart(words, other) !== "none");
  });
}

function areInOrder(wanted: readonly (readonly string[])[], words: readonly CommandWord[]): boolean {
  let at = 0;
  for (const { text } of words) if (wanted[at]?.includes(text)) at += 1;
  return at >= wanted.length;
}
