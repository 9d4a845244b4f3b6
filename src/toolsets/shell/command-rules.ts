import type { ApprovalDecisionType } from "#domain/approval.ts";
import type { ChildHandler } from "#executors/serve-parent.ts";
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
import { inspectScript } from "./inspect-script.ts";
import { effectOf, listsPaths, onlyReads, pathWords, shellScript } from "./program-effects.ts";
import { shells, type Wrapper, wrappers } from "./program-lists.ts";
import type { CommandReview } from "./review-command.ts";
import { type CommandWord, leavesTree, programName, type SimpleCommand } from "./simple-command.ts";

const severity: ApprovalDecisionType[] = ["preApproved", "ask", "blocked"];

/** Variables that make a program run another program, load code or read different settings. */
const steering = new RegExp(
  [
    "^(RANDOM|SRANDOM|SECONDS|OPTIND|LINENO|EPOCHSECONDS|OLDPWD|PWD|BASHPID|PPID|E?UID)$",
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
  const attached = /^-\w*?(\/[^\s/].*|\.\.(?:\/.*)?)$/s.exec(text)?.[1];
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

const maxDepth = 20;
const maxCommands = 500;

/**
 * Returns a command and the commands it would run: `env x`, `xargs x`, `bash -c x`, `find -exec x`, `eval x`. Commands
 * that are nested too deeply are replaced by one with an unknown program.
 */
export function withInner(command: SimpleCommand): SimpleCommand[] {
  const found: SimpleCommand[] = [];
  let level = [command];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > maxDepth || found.length + level.length > maxCommands) return [...found, unknown(command)];
    found.push(...level);
    level = level.flatMap(inside);
  }
  return found;
}

function inside(command: SimpleCommand): SimpleCommand[] {
  const args = command.words.slice(1);
  const name = programName(command);
  // `command -v` only looks up a program.
  if (name === "command" && /^-[vV]+$/.test(args[0]?.text ?? "")) return [];
  const known = wrappers.get(name);
  if (known) return wrapped(command, args, known);
  if (name === "eval") return args.length > 0 ? fromText(command, joined(args)) : [];
  if (name === "trap") return args[0] ? fromText(command, args[0]) : [];
  if (name === "find") return afterExec(command, args);
  const script = shells.has(name) ? shellScript(args) : undefined;
  return script ? fromText(command, script) : [];
}

/** Returns the command that a wrapper starts, skipping the wrapper's own options, their values, operands and assignments. */
function wrapped(command: SimpleCommand, args: readonly CommandWord[], { valued, operands }: Wrapper): SimpleCommand[] {
  const assigned = [...command.assigned];
  let left = operands;
  for (let at = 0; at < args.length; at += 1) {
    const text = args[at]?.text ?? "";
    const [, variable, value] = /^([A-Za-z_]\w*)=(.*)$/s.exec(text) ?? [];
    if (text.startsWith("-") && text !== "-") {
      const script = splitString(command, args, at);
      if (script) return fromText(command, joined(script));
      if (takesNext(text, valued)) at += 1;
    } else if (variable)
      assigned.push({ name: variable, value: args[at]?.fixed ? value : undefined, isExported: true });
    else if (text === "-") continue;
    else if (left > 0) left -= 1;
    else {
      const inner = { ...command, words: args.slice(at), assigned };
      if (programName(command) !== "xargs") return [inner];
      const options = args.slice(0, at);
      const has = (option: RegExp) => options.some(({ text }) => option.test(text));
      // Names with spaces or line breaks are split, unless they end in NUL.
      const endInNul = has(/^(-[rtxp]*0|--null$)/) && command.source?.words.some((word) => word.text === "-print0");
      return fed(inner, replacedBy(options), {
        isSplit: !endInNul,
        isFromFile: has(/^(-[0rtxp]*a|--arg-file)/),
      });
    }
  }
  return [];
}

/**
 * Adds the words that a command reads from its input, at the end or in place of `placeholder`. With a placeholder, the
 * command is also judged as it is written.
 */
function fed(
  command: SimpleCommand,
  placeholder: string | undefined,
  { isSplit = false, isFromFile = false } = {},
): SimpleCommand[] {
  const { words, source } = command;
  const unknown = isFromFile || source === undefined || !listsPaths(source);
  // find prefixes each name with its starting folder, so the name cannot be an option unless it is split at spaces.
  const mayBeOption = unknown || isSplit || programName(source) !== "find";
  if (placeholder === undefined) {
    return [{ ...command, words: [...words, { text: "", fixed: false, unknown, mayBeOption, mayBeSeveral: true }] }];
  }
  const filled = words.map((word) => {
    const at = word.text.indexOf(placeholder);
    return at === -1
      ? word
      : {
          ...word,
          fixed: false,
          unknown,
          mayBeOption: at === 0 ? mayBeOption : word.mayBeOption || word.text.startsWith("-"),
        };
  });
  return [command, { ...command, words: filled }];
}

/** Returns the placeholder that xargs replaces with its input; undefined if it appends the input. */
function replacedBy(options: readonly CommandWord[]): string | undefined {
  for (const [at, { text }] of options.entries()) {
    const found = /^(?:-[a-zA-Z0]*?[Ii]|--replace=?)(.*)$/s.exec(text);
    if (!found) continue;
    const own = found[1] || (/I$/.test(text) ? options[at + 1]?.text : undefined);
    return own || "{}";
  }
  return undefined;
}

/**
 * Returns the words that `env -S` turns into a command (`-S'x y'`, `-S 'x y'` or `--split-string=x y`) and the words
 * after it.
 */
function splitString(command: SimpleCommand, args: readonly CommandWord[], at: number): CommandWord[] | undefined {
  const option = args[at];
  const split = /^(?:-[a-zA-Z0]*?S|--split-string(?:=|$))(.*)$/s.exec(option?.text ?? "");
  if (programName(command) !== "env" || !option || !split) return undefined;
  const own = split[1] ? [{ ...option, text: split[1] }] : [];
  return [...own, ...args.slice(at + 1)];
}

function takesNext(option: string, valued: RegExp): boolean {
  if (option.startsWith("--")) return valued.test(option.slice(2)) && option.length > 3;
  const letters = [...option.slice(1)];
  const first = letters.findIndex((letter) => valued.test(letter));
  // `-n5` includes its value, `-rn 5` does not.
  return first !== -1 && first === letters.length - 1;
}

function fromText(command: SimpleCommand, script: CommandWord): SimpleCommand[] {
  const inspection = script.fixed ? inspectScript(script.text) : undefined;
  return inspection?.kind === "inspected" ? inspection.commands : [unknown(command, script.text)];
}

function unknown(command: SimpleCommand, text = ""): SimpleCommand {
  return { ...command, words: [{ text, fixed: false, unknown: true, mayBeOption: true, mayBeSeveral: true }] };
}

function joined(words: readonly CommandWord[]): CommandWord {
  const fixed = words.every((word) => word.fixed);
  return {
    text: words.map(({ text }) => text).join(" "),
    fixed,
    unknown: !fixed,
    mayBeOption: !fixed,
    mayBeSeveral: !fixed,
  };
}

function afterExec(command: SimpleCommand, args: readonly CommandWord[]): SimpleCommand[] {
  const found: SimpleCommand[] = [];
  for (let at = 0; at < args.length; at += 1) {
    const text = args[at]?.text ?? "";
    if (text === "-delete")
      found.push({
        ...command,
        words: [{ text: "rm", fixed: true, unknown: false, mayBeOption: false, mayBeSeveral: false }],
      });
    if (!/^-(exec|ok)(dir)?$/.test(text)) continue;
    const isEnd = ({ text }: CommandWord, index: number, rest: CommandWord[]) =>
      text === ";" || (text === "+" && rest[index - 1]?.text === "{}");
    const length = args.slice(at + 1).findIndex(isEnd);
    const end = length === -1 ? args.length : at + 1 + length;
    const source = { ...command, words: [command.words[0], ...args.slice(0, at)].filter((word) => word !== undefined) };
    found.push(...fed({ ...command, words: args.slice(at + 1, end), source }, "{}"));
    at = end;
  }
  return found;
}

/** Judges commands in a separate process, which is killed if one takes too much time or memory. */
const handler: ChildHandler = {
  async handle(request): Promise<CommandReview> {
    const { command, policy } = request as { command: string; policy: CommandPolicy };
    return { ...judgeCommand(command, policy), interactive: interactiveProblem(command) };
  },
};
export default handler;
