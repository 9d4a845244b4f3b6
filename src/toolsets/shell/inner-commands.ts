import { inspectScript } from "./inspect-script.ts";
import { listsPaths, shellScript } from "./program-effects.ts";
import { shells, type Wrapper, wrappers } from "./program-lists.ts";
import { type CommandWord, programName, type SimpleCommand } from "./simple-command.ts";

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
      return programName(command) === "xargs" ? fed(inner, replacedBy(args.slice(0, at))) : [inner];
    }
  }
  return [];
}

/**
 * Adds the words that a command reads from its input, at the end or in place of `placeholder`. With a placeholder, the
 * command is also judged as it is written.
 */
function fed(command: SimpleCommand, placeholder: string | undefined): SimpleCommand[] {
  const { words, source } = command;
  const unknown = source === undefined || !listsPaths(source);
  // find prefixes each name with its starting folder, so the name cannot be an option.
  const mayBeOption = unknown || programName(source) !== "find";
  if (placeholder === undefined) {
    return [{ ...command, words: [...words, { text: "", fixed: false, unknown, mayBeOption }] }];
  }
  const filled = words.map((word) => {
    const at = word.text.indexOf(placeholder);
    return at === -1 ? word : { ...word, fixed: false, unknown, mayBeOption: mayBeOption && at === 0 };
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
  return { ...command, words: [{ text, fixed: false, unknown: true, mayBeOption: true }] };
}

function joined(words: readonly CommandWord[]): CommandWord {
  const fixed = words.every((word) => word.fixed);
  return { text: words.map(({ text }) => text).join(" "), fixed, unknown: !fixed, mayBeOption: !fixed };
}

function afterExec(command: SimpleCommand, args: readonly CommandWord[]): SimpleCommand[] {
  const found: SimpleCommand[] = [];
  for (let at = 0; at < args.length; at += 1) {
    const text = args[at]?.text ?? "";
    if (text === "-delete")
      found.push({ ...command, words: [{ text: "rm", fixed: true, unknown: false, mayBeOption: false }] });
    if (!/^-(exec|ok)(dir)?$/.test(text)) continue;
    const length = args.slice(at + 1).findIndex((word) => word.text === ";" || word.text === "+");
    const end = length === -1 ? args.length : at + 1 + length;
    const source = { ...command, words: [command.words[0], ...args.slice(0, at)].filter((word) => word !== undefined) };
    found.push(...fed({ ...command, words: args.slice(at + 1, end), source }, "{}"));
    at = end;
  }
  return found;
}
