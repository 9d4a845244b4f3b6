import type { ApprovalDecisionType } from "#domain/approval.ts";
import type { ChildHandler } from "#executors/serve-parent.ts";
import { inCode } from "#text/visible-text.ts";
import {
  allowsEverything,
  type CommandPolicy,
  type CommandVerdict,
  inOtherFolder,
  judgeUnclear,
  judgeUninspectable,
  matchOf,
  wordsOf,
} from "./command-policy.ts";
import { interactiveProblem } from "./interactive-commands.ts";
import { outsideProblem, readArguments, takesNext } from "./options.ts";
import { readScript } from "./plain-script.ts";
import { findKnownProgram } from "./programs.ts";
import type { CommandReview } from "./review-command.ts";
import { type CommandWord, programName, type SimpleCommand } from "./simple-command.ts";
import { readFind, startedBy } from "./started-commands.ts";

const severity: ApprovalDecisionType[] = ["preApproved", "ask", "blocked"];

/** Judges a script by the rules. Every command in it must be allowed, and the strictest verdict wins. */
export function judgeCommand(line: string, policy: CommandPolicy): CommandVerdict {
  if (allowsEverything(policy)) return { decision: "preApproved", reason: "every command is allowed" };
  const script = readScript(line);
  if (script.kind === "notInspectable") return judgeUninspectable(line, policy, script.reason);
  const commands = withStarted(script.commands);
  if (!commands) return judgeUninspectable(line, policy, "its commands start too many others");
  const isMoving = commands.some((command) => programName(command) === "cd");
  const applied = isMoving ? inOtherFolder(policy) : policy;
  return commands.map((command) => judgeSimple(command, applied)).reduce(stricter);
}

const maxDepth = 10;
const maxCommands = 1_000;

/** Returns the commands with those that they start; undefined if there are too many. */
export function withStarted(commands: readonly SimpleCommand[]): SimpleCommand[] | undefined {
  const found: SimpleCommand[] = [];
  let level = [...commands];
  for (let depth = 0; level.length > 0; depth += 1) {
    if (depth > maxDepth || found.length + level.length > maxCommands) return undefined;
    found.push(...level);
    level = level.flatMap(startedBy);
  }
  return found;
}

function stricter(one: CommandVerdict, other: CommandVerdict): CommandVerdict {
  return severity.indexOf(other.decision) > severity.indexOf(one.decision) ? other : one;
}

function judgeSimple(command: SimpleCommand, policy: CommandPolicy): CommandVerdict {
  const { rules } = policy;
  if (command.words[0]?.kind !== "literal")
    return judgeUninspectable(textOf(command), policy, "the program it runs is known only at run time");

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
  return excess ? judgeUnclear(textOf(command), policy, excess) : { decision: "preApproved", reason };
}

/** Judges a command by the default for those that no rule covers. */
function judgeUncovered(command: SimpleCommand, policy: CommandPolicy): CommandVerdict {
  const { otherwise, reading = otherwise } = policy;
  const uncovered = `no rule covers ${inCode(shown(command))}`;
  const usage = usageOf(command, 0);
  // An unknown program, or one with unknown options, could start a program that a rule restricts.
  if (otherwise === "preApproved") {
    const reason = usage ? usage.problem : `${inCode(shown(command))} may run other programs`;
    return reason ? judgeUnclear(textOf(command), policy, reason) : { decision: "preApproved", reason: uncovered };
  }
  if (!usage) return judgeUnclear(textOf(command), policy, uncovered);
  if (!usage.reads) return { decision: otherwise, reason: usage.problem ?? uncovered };
  const excess = usage.problem ?? excessOf(command, 0);
  if (excess) return { decision: otherwise, reason: excess };
  return { decision: reading, reason: reading === "preApproved" ? "it only reads" : uncovered };
}

interface Usage {
  /** True if it only reads, as far as its options say. */
  reads: boolean;
  problem: string | undefined;
  outsideProblem: string | undefined;
}

/** Returns how a command uses a known program. Its first `covered` words are not checked: a rule names them. */
function usageOf(command: SimpleCommand, covered: number): Usage | undefined {
  const known = findKnownProgram(command.words);
  if (!known) return undefined;
  const { name, program, args, folders } = known;
  if (name === "find") {
    const { problem, paths } = readFind(args);
    return { reads: program.reads, problem, outsideProblem: outsideProblem(paths) };
  }
  // A rule does not change which of the words are the command that a program starts.
  const coveredArgs =
    program.startsAfter === undefined ? args.slice(0, Math.max(0, covered - (command.words.length - args.length))) : [];
  // The option at the end of a rule takes the next word as its value: `awk -F`.
  const isOpen = takesNext(coveredArgs.at(-1)?.text ?? "", program);
  const uncovered = args.slice(coveredArgs.length - (isOpen ? 1 : 0));
  const isFirstCovered = program.first instanceof RegExp && coveredArgs.some(({ text }) => !text.startsWith("-"));
  const checked = isFirstCovered ? { ...program, first: undefined } : program;
  const reading = readArguments(name, uncovered, checked, false);
  const isReading = program.reads && !reading.problem;
  const used = isReading ? reading : readArguments(name, uncovered, checked, true);
  return { reads: isReading, problem: used.problem, outsideProblem: used.outsideProblem ?? outsideProblem(folders) };
}

/** Returns a reason if a command does more than a rule with its first words allows; otherwise undefined. */
function excessOf(command: SimpleCommand, covered: number): string | undefined {
  if (command.writes) return `${inCode(shown(command))} writes to a file`;
  const rest = command.words.slice(covered);
  const isAboutProgram = command.words.length === 2 && /^(--version|--help)$/.test(command.words[1]?.text ?? "");
  if (isAboutProgram && covered > 0) return undefined;
  const usage = usageOf(command, covered);
  if (!usage) return excessOfUnknown(command, rest, covered);
  return usage.problem ?? usage.outsideProblem ?? outsideProblem(command.reads);
}

/** Programs that start the program that a further word names, or run it on another machine. */
const launcher = new RegExp(
  String.raw`^(?:sudo|doas|nice|ionice|nohup|stdbuf|strace|watch|parallel|npx|bunx|uvx|pnpx|setsid|time|gdb|valgrind|ltrace
  |unshare|bwrap|firejail|proot|fakeroot|eatmydata|xvfb-run|systemd-run|dbus-run-session|chronic|unbuffer|rlwrap
  |hyperfine|nodemon|cross-env|dotenv|dotenvx|env-cmd|busybox|pkexec|tini|dumb-init|proxychains4?|torsocks
  |perf (?:stat|record)|choom|caffeinate|xcrun|watchexec|reflex|onchange|chokidar|entr|sem|tsp|uclampset
  |(?:flock|chroot|ssh|taskset|chrt|numactl|nsenter|setpriv|prlimit|runuser|su|gosu|su-exec|setarch|linux(?:32|64)|cpulimit
  |cgexec|faketime|retry|runcon|sg|(?:direnv|chamber|aws-vault|sops|rustup|heroku|ddev|lando|vagrant|machinectl|docker|podman
  |nerdctl|buildah|kubectl|oc|crictl|ctr|lxc|incus|multipass|toolbox|distrobox)(?: compose)? (?:run|exec|shell|ssh|rsh|enter))
  \b.*)$`.replace(/\n\s*/g, ""),
);
/** Subcommands that start the program or script that a further word names: `uv run`, `dune exec`, `rails runner`. */
const starter =
  /^(?:(?:tool|pub) )?(?:[\w-]+:)?(?:(?:run|exec)[\w-]*|x|dlx|shell|ssh|rsh|enter|launch|watch|devenv|explore|tool|pub|workspace)$/;

/** Returns the words that are neither options nor may be their values. */
function operandsOf(words: readonly CommandWord[]): string[] {
  const texts = words.map(({ text }) => text);
  return texts.filter((text, at) => !text.startsWith("-") && !texts[at - 1]?.startsWith("-"));
}

/** For programs whose options are not known: a rule allows the words that it names, and further names of files. */
function excessOfUnknown(command: SimpleCommand, rest: readonly CommandWord[], covered: number): string | undefined {
  const program = command.words[0]?.text ?? "";
  const named = command.words.slice(0, covered);
  if (named.length < 2 && rest.length > 0 && !program.includes("/"))
    return `a rule with ${inCode(program)} alone does not say what ${inCode(shown(command))} may do`;
  if (command.hasInput) return `the input of ${inCode(program)} may be code`;
  // Behind `bash -c` or `python3 -m`, any word is code, and behind a launcher it is a program.
  const [, ...operands] = operandsOf(named);
  const isLauncher = launcher.test([program, ...operands].join(" ")) || starter.test(operands.join(" "));
  const isNamed =
    program.includes("/") || (!isLauncher && named.filter(({ text }) => !text.startsWith("-")).length > 1);
  const isFile = ({ text, kind }: CommandWord) =>
    /^[\w./][\w./@+,:%[\]*?-]*$/.test(text) && (kind === "literal" || kind === "pattern");
  const other = rest.find((word) => !isNamed || !isFile(word));
  if (other) return `the rule does not include ${inCode(other.text.slice(0, 60) || "its input")}`;
  return outsideProblem(rest);
}

function textOf({ words }: SimpleCommand): string {
  return words.map(({ text }) => text).join(" ");
}

function shown(command: SimpleCommand): string {
  const text = textOf(command);
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}

/** Judges commands in a separate process, which is killed if one takes too much time or memory. */
const handler: ChildHandler = {
  async handle(request): Promise<CommandReview> {
    const { command, policy } = request as { command: string; policy: CommandPolicy };
    return { ...judgeCommand(command, policy), interactive: interactiveProblem(command) };
  },
};
export default handler;
