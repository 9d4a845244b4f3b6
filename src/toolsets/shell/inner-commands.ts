import { type CommandWord, readCommand, type SimpleCommand } from "./read-command.ts";

/** How a program that runs another one takes its own words, before those of the other one. */
interface Wrapper {
  /** Short and long options whose value is a word of its own. */
  valued: RegExp;
  /** Words before the program, besides options. */
  operands: number;
}

const none = /^$/;
const wrapper = (valued: RegExp, operands = 0): Wrapper => ({ valued, operands });
const wrappers = new Map<string, Wrapper>([
  ["env", wrapper(/^(u|C|S|unset|chdir|split-string)$/)],
  ["command", wrapper(none)],
  ["builtin", wrapper(none)],
  ["exec", wrapper(/^a$/)],
  ["nohup", wrapper(none)],
  ["nice", wrapper(/^(n|adjustment)$/)],
  ["time", wrapper(/^(f|o|format|output)$/)],
  ["timeout", wrapper(/^(k|s|kill-after|signal)$/, 1)],
  ["xargs", wrapper(/^([adEILnPs]|arg-file|delimiter|max-(args|procs|chars)|process-slot-var)$/)],
  ["sudo", wrapper(/^([CDghpRrTtUu]|user|group|host|prompt|chdir|chroot|role|type|other-user|close-from)$/)],
  ["doas", wrapper(/^[Cu]$/)],
  ["setsid", wrapper(none)],
  ["stdbuf", wrapper(/^([ioe]|input|output|error)$/)],
  ["busybox", wrapper(none)],
  ["watch", wrapper(/^(n|interval)$/)],
  ["ionice", wrapper(/^(c|n|p|class|classdata|pid)$/)],
  ["chroot", wrapper(none, 1)],
  ["flock", wrapper(/^([wE]|timeout|wait|conflict-exit-code)$/, 1)],
  ["strace", wrapper(/^[abeEIoOpPsSuUX]$/)],
  ["unbuffer", wrapper(none)],
]);
const shells = new Set(["bash", "sh", "dash", "zsh", "ksh", "ash"]);

const maxDepth = 20;
const maxCommands = 500;

/** The name of a program, without the folder it lies in. */
export function programName({ words: [program] }: SimpleCommand): string {
  return program?.text.slice(program.text.lastIndexOf("/") + 1) ?? "";
}

/**
 * A command and the commands it would run for somebody: `env x`, `xargs x`, `bash -c x`, `find -exec x`, `eval x`. What
 * is nested past telling is there as a program nobody knows.
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

/** True for a shell whose commands are not in the line: they are fed to it, or lie in a file. */
export function runsUnseen(command: SimpleCommand): boolean {
  const name = programName(command);
  const args = command.words.slice(1);
  if (name === "." || name === "source") return true;
  if (name === "alias") return args.some(({ text }) => text.includes("="));
  const isAsked = args.some(({ text }) => text === "--version" || text === "--help");
  return shells.has(name) && !isAsked && shellScript(args) === undefined;
}

function inside(command: SimpleCommand): SimpleCommand[] {
  const args = command.words.slice(1);
  const name = programName(command);
  const known = wrappers.get(name);
  if (known) return wrapped(command, args, known);
  if (name === "eval") return args.length > 0 ? fromText(command, joined(args)) : [];
  if (name === "trap") return args[0] ? fromText(command, args[0]) : [];
  if (name === "find") return afterExec(command, args);
  const script = shells.has(name) ? shellScript(args) : undefined;
  return script ? fromText(command, script) : [];
}

/** The program a wrapper starts: its options, their values, its operands and its assignments are passed over. */
function wrapped(command: SimpleCommand, args: readonly CommandWord[], { valued, operands }: Wrapper): SimpleCommand[] {
  const assigned = [...command.assigned];
  let left = operands;
  for (let at = 0; at < args.length; at += 1) {
    const text = args[at]?.text ?? "";
    const assignment = /^([A-Za-z_]\w*)=/.exec(text)?.[1];
    if (text.startsWith("-") && text !== "-") {
      const script = splitString(command, args, at);
      if (script) return fromText(command, joined(script));
      if (takesNext(text, valued)) at += 1;
    } else if (assignment) assigned.push(assignment);
    else if (text === "-") continue;
    else if (left > 0) left -= 1;
    else {
      const inner = { ...command, words: args.slice(at), assigned };
      return programName(command) === "xargs" ? fed(inner, replacedBy(args.slice(0, at))) : [inner];
    }
  }
  return [];
}

/** A command whose words come from elsewhere: behind the others, or where one stands for them. Judged as it is written, too. */
function fed(command: SimpleCommand, placeholder: string | undefined): SimpleCommand[] {
  const { words } = command;
  if (placeholder === undefined) return [{ ...command, words: [...words, { text: "", fixed: false }] }];
  const filled = words.map((word) => (word.text.includes(placeholder) ? { ...word, fixed: false } : word));
  return [command, { ...command, words: filled }];
}

/** What stands for the words xargs reads; undefined when they are put behind the others. */
function replacedBy(options: readonly CommandWord[]): string | undefined {
  for (const [at, { text }] of options.entries()) {
    const found = /^(?:-[a-zA-Z0]*?[Ii]|--replace=?)(.*)$/s.exec(text);
    if (!found) continue;
    const own = found[1] || (/I$/.test(text) ? options[at + 1]?.text : undefined);
    return own || "{}";
  }
  return undefined;
}

/** The words `env -S` makes a command of, from `-S'x y'`, `-S 'x y'` or `--split-string=x y`, and those after it. */
function splitString(command: SimpleCommand, args: readonly CommandWord[], at: number): CommandWord[] | undefined {
  const option = args[at];
  const split = /^(?:-[a-zA-Z0]*?S|--split-string(?:=|$))(.*)$/s.exec(option?.text ?? "");
  if (programName(command) !== "env" || !option || !split) return undefined;
  const own = split[1] ? [{ text: split[1], fixed: option.fixed }] : [];
  return [...own, ...args.slice(at + 1)];
}

function takesNext(option: string, valued: RegExp): boolean {
  if (option.startsWith("--")) return valued.test(option.slice(2)) && option.length > 3;
  const letters = [...option.slice(1)];
  const first = letters.findIndex((letter) => valued.test(letter));
  // `-n5` has its value with it, `-rn 5` has not.
  return first !== -1 && first === letters.length - 1;
}

/** What a shell is told to run by `-c`; undefined when it reads its commands elsewhere. */
function shellScript(args: readonly CommandWord[]): CommandWord | undefined {
  let isGiven = false;
  for (let at = 0; at < args.length; at += 1) {
    const text = args[at]?.text ?? "";
    if (text === "--" || text === "-") return isGiven ? args[at + 1] : undefined;
    if (!/^[-+]/.test(text)) return isGiven ? args[at] : undefined;
    if (/^-[a-zA-Z]*c/.test(text)) isGiven = true;
    if (/^([-+][a-zA-Z]*[oO]|--(rcfile|init-file))$/.test(text)) at += 1;
  }
  return undefined;
}

function fromText(command: SimpleCommand, script: CommandWord): SimpleCommand[] {
  const read = script.fixed ? readCommand(script.text) : undefined;
  return read?.kind === "clear" ? read.commands : [unknown(command, script.text)];
}

function unknown(command: SimpleCommand, text = ""): SimpleCommand {
  return { ...command, words: [{ text, fixed: false }] };
}

function joined(words: readonly CommandWord[]): CommandWord {
  return { text: words.map(({ text }) => text).join(" "), fixed: words.every(({ fixed }) => fixed) };
}

function afterExec(command: SimpleCommand, args: readonly CommandWord[]): SimpleCommand[] {
  const found: SimpleCommand[] = [];
  for (let at = 0; at < args.length; at += 1) {
    const text = args[at]?.text ?? "";
    if (text === "-delete") found.push({ ...command, words: [{ text: "rm", fixed: true }] });
    if (!/^-(exec|ok)(dir)?$/.test(text)) continue;
    const length = args.slice(at + 1).findIndex((word) => word.text === ";" || word.text === "+");
    const end = length === -1 ? args.length : at + 1 + length;
    found.push(...fed({ ...command, words: args.slice(at + 1, end) }, "{}"));
    at = end;
  }
  return found;
}
