import type { ApprovalDecisionType } from "#domain/approval.ts";
import { inCode } from "#text/visible-text.ts";
import {
  allowsEverything,
  atLeastAsk,
  type CommandPolicy,
  type CommandRule,
  type CommandVerdict,
  judgeUninspectable,
  wordsOf,
} from "./command-policy.ts";
import { withInner } from "./inner-commands.ts";
import { inspectScript } from "./inspect-script.ts";
import { effectOf, onlyReads, pathWords } from "./program-effects.ts";
import { type CommandWord, leavesTree, programName, type SimpleCommand } from "./simple-command.ts";

const severity: ApprovalDecisionType[] = ["preApproved", "ask", "blocked"];

/** Variables that make a program run another program, load code or read different settings. */
const steering = new RegExp(
  [
    "^(LD_|DYLD_|PATH$|IFS$|ENV$|BASH_|SHELLOPTS$|PS[0-4]$|PROMPT_COMMAND$|NODE_|PYTHON|PERL|RUBY|GIT_|JAVA_|LESS|MAN|AWK|GLOB)",
    "^(CARGO_|RUST|GO[A-Z]+$|NPM_|npm_|YARN_|PNPM_|PIP_|UV_|BUNDLE_|GEM_|XDG_|HOME$|TERM|CC$|CXX$|LD$|AR$|SSH_|FPATH$|CDPATH$|HIST)",
    "(PAGER|EDITOR|VISUAL|BROWSER|SHELL|COMMAND|CMD|OPTIONS|OPTS|FLAGS|PRELOAD|PATH|RC|INIT|STARTUP|HOOK|PROXY|proxy|WRAPPER|CONFIG|ARGV0)$",
  ].join("|"),
);

/** Judges a script by the rules. Every command in it must be allowed, and the strictest verdict wins. */
export function judgeCommand(line: string, policy: CommandPolicy): CommandVerdict {
  if (allowsEverything(policy)) return { decision: "preApproved", reason: "every command is allowed" };
  const inspection = inspectScript(line);
  if (inspection.kind === "notInspectable") return judgeUninspectable(line, policy, inspection.reason);
  return inspection.commands
    .flatMap(withInner)
    .map((command) => judgeSimple(command, policy))
    .reduce(stricter);
}

function stricter(one: CommandVerdict, other: CommandVerdict): CommandVerdict {
  return severity.indexOf(other.decision) > severity.indexOf(one.decision) ? other : one;
}

function judgeSimple(command: SimpleCommand, policy: CommandPolicy): CommandVerdict {
  const { rules, otherwise } = policy;
  const [program] = command.words;
  if (!program) return judgeWithoutProgram(command, otherwise);
  if (!program.fixed)
    return atLeastAsk(otherwise, "it is not inspectable: the program it runs is known only at run time");

  const at = rules.findIndex((rule) => matchOf(command, rule) !== "none");
  const rule = rules[at];
  if (!rule) return judgeUncovered(command, policy);

  const match = matchOf(command, rule);
  const verb = { preApproved: "allowed", ask: "always asked", blocked: "blocked" }[rule.approval];
  const reason = `${inCode(rule.pattern)} is ${verb}`;
  if (rule.approval === "blocked" && match !== "possible") return { decision: "blocked", reason };
  if (match !== "exact") {
    const why = match === "possible" ? `${inCode(shown(command))} may become ${inCode(rule.pattern)}` : reason;
    return stricter({ decision: "ask", reason: why }, judgeSimple(command, { ...policy, rules: rules.slice(at + 1) }));
  }
  if (rule.approval === "ask") return { decision: "ask", reason };

  const excess = excessOf(command, wordsOf(rule.pattern).length);
  return excess ? { decision: "ask", reason: excess } : { decision: "preApproved", reason };
}

function judgeUncovered(command: SimpleCommand, { otherwise, reading = otherwise }: CommandPolicy): CommandVerdict {
  const uncovered = `no rule covers ${inCode(shown(command))}`;
  // When everything else is allowed, a command that starts other programs could bypass the restricting rules.
  if (otherwise === "preApproved") {
    const effect = effectOf(command);
    return effect ? { decision: "ask", reason: effect.reason } : { decision: otherwise, reason: uncovered };
  }
  if (onlyReads(command)) {
    const excess = excessOf(command, 1);
    if (excess) return { decision: otherwise, reason: excess };
    return { decision: reading, reason: reading === "preApproved" ? "it only reads" : uncovered };
  }
  return { decision: otherwise, reason: uncovered };
}

/** Returns a reason if a command does more than a rule with its first words allows; otherwise undefined. */
function excessOf(command: SimpleCommand, coveredWords: number): string | undefined {
  if (command.writes) return `${inCode(shown(command))} writes to a file`;
  const steered = command.assigned.find(isSteering);
  if (steered) return `it sets ${steered.name}`;

  const effect = effectOf(command);
  const isCovered = command.words.slice(0, coveredWords).some((word) => word === effect?.word);
  if (effect && !isCovered) return effect.reason;

  const paths = pathWords(command);
  const outside = paths.find((word) => isOutside(word.text));
  if (outside) return `${inCode(outside.text.slice(0, 80))} is outside the repository`;
  const unknown = paths.find((word) => word.unknown);
  return unknown && `it is not inspectable: ${inCode(unknown.text || shown(command))} is known only at run time`;
}

/** True for a path outside the repository, including one given as an option's value. */
function isOutside(text: string): boolean {
  const attached = /^-[A-Za-z](\/[^\s/].*)$/.exec(text)?.[1];
  return [text, attached ?? "", ...text.split(/[=:,@]/).slice(1)].some(
    (part) => !part.startsWith("//") && leavesTree(part),
  );
}

function judgeWithoutProgram(command: SimpleCommand, otherwise: ApprovalDecisionType): CommandVerdict {
  if (command.writes) return atLeastAsk(otherwise, "it writes to a file");
  const outside = command.reads.find(({ text, unknown }) => unknown || leavesTree(text));
  if (outside) return atLeastAsk(otherwise, `${inCode(outside.text.slice(0, 80))} may be outside the repository`);
  const steered = command.assigned.find(({ name }) => steering.test(name));
  if (steered) return atLeastAsk(otherwise, `it sets ${steered.name}`);
  return { decision: "preApproved", reason: "it only sets a variable" };
}

/** True if an assignment may change how a program behaves. Exported variables are safe only with plain values. */
function isSteering({ name, value, isExported }: SimpleCommand["assigned"][number]): boolean {
  return steering.test(name) || (isExported && (value === undefined || !/^[\w.,:+-]*$/.test(value)));
}

type Match = "exact" | "alike" | "possible" | "none";

/**
 * Matches a command against a rule. A rule that allows must match word for word. A rule that restricts also matches a
 * program with a folder, after options, and where a word is unknown.
 */
function matchOf(command: SimpleCommand, { pattern, approval }: CommandRule): Match {
  const wanted = wordsOf(pattern);
  const isExact = wanted.every((text, at) => command.words[at]?.fixed && command.words[at].text === text);
  if (isExact) return "exact";
  if (approval === "preApproved" || wanted[0] !== programName(command)) return "none";
  return matchRestriction(command.words, wanted.slice(1));
}

function matchRestriction(words: readonly CommandWord[], wanted: readonly string[]): Match {
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
  return isSure ? "alike" : "possible";
}

function shown({ words }: SimpleCommand): string {
  const text = words.map((word) => word.text).join(" ");
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

const always = new Map([
  ...["vi", "vim", "nvim", "nano", "emacs", "pico", "ed"].map(
    (name) => [name, "Edit files with the file tools or sed."] as const,
  ),
  ...["less", "more", "most"].map((name) => [name, "Use cat, head, tail or sed -n."] as const),
  ...["top", "htop", "btop", "watch"].map((name) => [name, "Use ps."] as const),
  ...["ssh", "sftp", "telnet", "ftp", "mosh"].map((name) => [name, "There is no network here."] as const),
  ...["tmux", "screen", "script"].map((name) => [name, "Run the command itself."] as const),
  ...["passwd", "su", "login", "fzf", "mc", "ranger", "dialog", "whiptail"].map(
    (name) => [name, "Nobody can answer it here."] as const,
  ),
]);

const promptWhenBare = new Set(
  "python python2 python3 ipython node deno bun ruby irb perl php lua ghci R julia bash sh zsh dash fish psql mysql sqlite3 redis-cli mongosh bc gdb".split(
    " ",
  ),
);

/** Explains which command would wait for keyboard input and what to run instead; undefined if there is none. */
export function interactiveProblem(line: string): string | undefined {
  const inspection = inspectScript(line);
  if (inspection.kind === "notInspectable") return undefined;
  for (const command of inspection.commands.flatMap(withInner)) {
    const problem = problemOf(command);
    if (problem) return problem;
  }
  return undefined;
}

function problemOf({ words, hasInput }: SimpleCommand): string | undefined {
  const [name = "", ...args] = words.map(({ text }) => text);
  const program = name.slice(name.lastIndexOf("/") + 1);
  const asks = (why: string) => `${program} waits for input from a keyboard, and there is none. ${why}`;

  const hint = always.get(program);
  if (hint && !args.some((arg) => arg === "--version" || arg === "--help")) return asks(hint);
  if (promptWhenBare.has(program) && !hasInput && (args.length === 0 || args.every((arg) => arg === "-i"))) {
    return asks("Give it a script, with -c, -e or a file.");
  }
  if (program === "git") return gitProblem(args, asks);
  if (program === "npm" && args[0] === "init" && !args.some((arg) => /^-(y|-yes)$/.test(arg)))
    return asks("Add --yes.");
  if (program === "tail" && args.some((arg) => /^(-\w*[fF]\w*|--follow.*)$/.test(arg)))
    return asks("Use tail without -f.");
  if (program === "crontab" && args.includes("-e")) return asks("Write the file instead.");
  return undefined;
}

function gitProblem(args: readonly string[], asks: (why: string) => string): string | undefined {
  const [command, ...rest] = args;
  const has = (...options: string[]) => rest.some((arg) => options.includes(arg));
  if (command === "rebase" && has("-i", "--interactive")) return asks("Rebase without -i.");
  if (
    (command === "add" || command === "checkout" || command === "reset" || command === "stash") &&
    has("-p", "-i", "--patch", "--interactive")
  ) {
    return asks("Name the paths instead.");
  }
  if (
    command === "commit" &&
    !rest.some((arg) => /^(-\w*[mFC]|--message|--file|--no-edit|--reuse-message)/.test(arg))
  ) {
    return asks("Give the message with -m.");
  }
  return undefined;
}
