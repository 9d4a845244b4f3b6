import type { ApprovalDecisionType } from "#approval.ts";
import { type CommandWord, readCommand, type SimpleCommand } from "./read-command.ts";

export interface CommandRule {
  /** The first words of a command, such as `git status`. */
  pattern: string;
  approval: ApprovalDecisionType;
}

export interface CommandVerdict {
  decision: ApprovalDecisionType;
  /** Why, as the end of "because …". */
  why: string;
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
    if (named) return { decision: "blocked", why: `\`${named.pattern}\` is blocked` };
    return {
      decision: otherwise === "blocked" ? "blocked" : "ask",
      why: `${read.why}, so its commands cannot be told apart`,
    };
  }
  const verdicts = read.commands.flatMap(withInner).map((command) => judgeSimple(command, rules, otherwise));
  return verdicts.reduce((worst, verdict) =>
    severity.indexOf(verdict.decision) > severity.indexOf(worst.decision) ? verdict : worst,
  );
}

function judgeSimple(
  command: SimpleCommand,
  rules: readonly CommandRule[],
  otherwise: ApprovalDecisionType,
): CommandVerdict {
  const [program] = command.words;
  if (!program) return verdictForNoProgram(command, otherwise);
  if (!program.fixed) return atLeastAsk(otherwise, "which program it runs is not known before it runs");

  const rule = rules.find(({ pattern, approval }) => startsWith(command.words, pattern, approval === "blocked"));
  if (!rule) return { decision: otherwise, why: `no rule speaks of \`${shown(command)}\`` };
  const because = `\`${rule.pattern}\` is ${rule.approval === "preApproved" ? "allowed" : rule.approval === "ask" ? "always asked" : "blocked"}`;
  if (rule.approval !== "preApproved") return { decision: rule.approval, why: because };

  if (command.writes) return { decision: "ask", why: `\`${shown(command)}\` writes into a file` };
  const steered = command.assigned.find((name) => steering.test(name));
  return steered ? { decision: "ask", why: `it sets ${steered}` } : { decision: "preApproved", why: because };
}

function verdictForNoProgram({ assigned, writes }: SimpleCommand, otherwise: ApprovalDecisionType): CommandVerdict {
  if (writes) return atLeastAsk(otherwise, "it writes into a file");
  return assigned.some((name) => steering.test(name))
    ? atLeastAsk(otherwise, `it sets ${assigned.join(", ")}`)
    : { decision: "preApproved", why: "it only sets a variable" };
}

function atLeastAsk(otherwise: ApprovalDecisionType, why: string): CommandVerdict {
  return { decision: otherwise === "blocked" ? "blocked" : "ask", why };
}

function startsWith(words: readonly CommandWord[], pattern: string, anyPath: boolean): boolean {
  return pattern
    .split(/\s+/)
    .filter(Boolean)
    .every((wanted, at) => {
      const word = words[at];
      if (!word) return false;
      // `/bin/rm` is `rm` to a rule that forbids it, and only to that one.
      const text = anyPath && at === 0 ? word.text.slice(word.text.lastIndexOf("/") + 1) : word.text;
      return word.fixed && text === wanted;
    });
}

function mentions(line: string, pattern: string): boolean {
  const plain = line.replace(/["'\\]/g, "");
  const words = pattern.split(/\s+/).filter(Boolean).map(escapeForRegExp).join("\\s+");
  return new RegExp(`(^|[^\\w.-])${words}($|[^\\w-])`).test(plain);
}

function escapeForRegExp(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

const wrappers = new Set([
  "env",
  "command",
  "builtin",
  "exec",
  "nohup",
  "nice",
  "time",
  "timeout",
  "xargs",
  "sudo",
  "doas",
  "setsid",
  "stdbuf",
  "busybox",
  "watch",
  "ionice",
  "chroot",
  "unbuffer",
]);
const shells = new Set(["bash", "sh", "dash", "zsh", "ksh", "ash"]);

/** A command and the commands it would run for somebody: `env x`, `xargs x`, `bash -c x`, `find -exec x`, `eval x`. */
export function withInner(command: SimpleCommand): SimpleCommand[] {
  const [program, ...args] = command.words;
  const name = program?.text.slice(program.text.lastIndexOf("/") + 1) ?? "";
  if (wrappers.has(name)) return [command, ...afterOptions(command, args)];
  if (shells.has(name))
    return [
      command,
      ...fromText(
        command,
        args[args.findIndex(({ text }) => /^-\w*c\w*$/.test(text)) + 1],
        args.some(({ text }) => /^-\w*c\w*$/.test(text)),
      ),
    ];
  if (name === "eval" || name === "trap")
    return [command, ...fromText(command, joined(name === "eval" ? args : args.slice(0, 1)), args.length > 0)];
  if (name === "find") return [command, ...afterExec(command, args)];
  return [command];
}

/** The first word that can be a program: options, their numbers and assignments of the wrapper are passed over. */
function afterOptions(command: SimpleCommand, args: readonly CommandWord[]): SimpleCommand[] {
  const isProgram = ({ text }: CommandWord) => !/^(-|\d+(\.\d+)?[smhd]?$|[A-Za-z_]\w*=|[IL]?\{\}$)/.test(text);
  const start = args.findIndex(isProgram);
  if (start === -1) return [];
  const assigned = args.slice(0, start).flatMap(({ text }) => /^([A-Za-z_]\w*)=/.exec(text)?.[1] ?? []);
  return withInner({ ...command, words: args.slice(start), assigned: [...command.assigned, ...assigned] });
}

function fromText(command: SimpleCommand, script: CommandWord | undefined, given: boolean): SimpleCommand[] {
  if (!given) return [];
  const read = script?.fixed ? readCommand(script.text) : undefined;
  if (read?.kind === "clear") return read.commands.flatMap(withInner);
  return [{ ...command, words: [{ text: script?.text ?? "", fixed: false }] }];
}

function joined(words: readonly CommandWord[]): CommandWord {
  return { text: words.map(({ text }) => text).join(" "), fixed: words.every(({ fixed }) => fixed) };
}

function afterExec(command: SimpleCommand, args: readonly CommandWord[]): SimpleCommand[] {
  const found: SimpleCommand[] = [];
  for (const [at, { text }] of args.entries()) {
    if (text === "-delete") found.push({ ...command, words: [{ text: "rm", fixed: true }] });
    if (!/^-(exec|ok)(dir)?$/.test(text)) continue;
    const rest = args.slice(at + 1);
    const end = rest.findIndex((word) => word.text === ";" || word.text === "+");
    found.push(...withInner({ ...command, words: end === -1 ? rest : rest.slice(0, end) }));
  }
  return found;
}

function shown({ words }: SimpleCommand): string {
  const text = words.map((word) => word.text).join(" ");
  return text.length > 80 ? `${text.slice(0, 80)}…` : text;
}
