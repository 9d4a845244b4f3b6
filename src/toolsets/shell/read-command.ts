/** One word of a command, with quotes taken off. */
export interface CommandWord {
  text: string;
  /** False when the shell would put something else in its place: a variable, a substitution, a pattern. */
  fixed: boolean;
}

/** One program a command line starts. */
export interface SimpleCommand {
  words: CommandWord[];
  /** Names of the variables set for it. */
  assigned: string[];
  /** True when it writes its output into a file. */
  writes: boolean;
  /** True when something is fed to it. */
  fed: boolean;
}

export type ReadCommand = { kind: "clear"; commands: SimpleCommand[] } | { kind: "unclear"; why: string };

const longest = 20_000;
const deepest = 20;
const keywords = new Set(
  "if then else elif fi for while until do done case esac function select in time coproc [[ ]] ! { }".split(" "),
);

class Unclear extends Error {}

/**
 * Reads a command line into every simple command it would run, those in substitutions and subshells too. What it does
 * not fully understand (control structures, here-documents, functions) is unclear: nothing is guessed.
 */
export function readCommand(line: string): ReadCommand {
  if (line.length > longest) return { kind: "unclear", why: "it is very long" };
  try {
    const commands: SimpleCommand[] = [];
    const end = readList(line, 0, undefined, commands, 0);
    if (end !== line.length) return { kind: "unclear", why: "its parentheses do not match" };
    return commands.length > 0 ? { kind: "clear", commands } : { kind: "unclear", why: "it has no command" };
  } catch (error) {
    if (error instanceof Unclear) return { kind: "unclear", why: error.message };
    throw error;
  }
}

/** Reads commands up to `close` or the end; gives the position after it. */
function readList(
  line: string,
  start: number,
  close: ")" | undefined,
  commands: SimpleCommand[],
  depth: number,
): number {
  if (depth > deepest) throw new Unclear("it is nested very deeply");
  let at = start;
  let command = emptyCommand(false);

  function finish(fedNext: boolean): void {
    if (command.words.length > 0 || command.assigned.length > 0 || command.writes) commands.push(checked(command));
    command = emptyCommand(fedNext);
  }

  while (at < line.length) {
    const char = line[at] ?? "";
    const next = line[at + 1] ?? "";
    if (char === ")") {
      if (close !== ")") throw new Unclear("its parentheses do not match");
      finish(false);
      return at + 1;
    }
    if (char === " " || char === "\t") {
      at += 1;
    } else if (char === "\\" && next === "\n") {
      at += 2;
    } else if (char === "#") {
      const newline = line.indexOf("\n", at);
      at = newline === -1 ? line.length : newline;
    } else if (char === "\n" || char === ";") {
      if (next === ";") throw new Unclear("it has a case");
      finish(false);
      at += 1;
    } else if (char === "&" && next === ">") {
      at = readRedirection(line, at, command, commands, depth);
    } else if (char === "&" || char === "|") {
      const isDouble = next === char;
      const isPipe = char === "|" && !isDouble;
      finish(isPipe);
      at += isDouble || (isPipe && next === "&") ? 2 : 1;
    } else if (char === "(") {
      if (command.words.length > 0 || command.assigned.length > 0)
        throw new Unclear("it defines a function or an array");
      at = readList(line, at + 1, ")", commands, depth + 1);
    } else if (char === "<" || char === ">" || /^\d+[<>]/.test(line.slice(at, at + 4))) {
      at = readRedirection(line, at, command, commands, depth);
    } else {
      const word: CommandWord = { text: "", fixed: true };
      at = readWord(line, at, word, commands, depth);
      addWord(command, word);
    }
  }
  if (close) throw new Unclear("its parentheses do not match");
  finish(false);
  return at;
}

function emptyCommand(fed: boolean): SimpleCommand {
  return { words: [], assigned: [], writes: false, fed };
}

function checked(command: SimpleCommand): SimpleCommand {
  const [first] = command.words;
  if (first && keywords.has(first.text)) throw new Unclear(`it has a control structure (${first.text})`);
  return command;
}

function addWord(command: SimpleCommand, word: CommandWord): void {
  const assignment = /^([A-Za-z_]\w*)\+?=/.exec(word.text);
  if (command.words.length === 0 && assignment?.[1]) command.assigned.push(assignment[1]);
  else command.words.push(word);
}

function readRedirection(
  line: string,
  start: number,
  command: SimpleCommand,
  commands: SimpleCommand[],
  depth: number,
): number {
  const operator = /^(?:\d*|&)(<<<|<<-?|<>|<&|<|>>|>\||>&|>)/.exec(line.slice(start, start + 12));
  if (!operator) throw new Unclear("it has a redirection that cannot be read");
  const symbol = operator[1] ?? "";
  if (symbol === "<<" || symbol === "<<-") throw new Unclear("it has a here-document");
  if (line[start + operator[0].length] === "(") throw new Unclear("it has a process substitution");
  let at = start + operator[0].length;
  while (line[at] === " " || line[at] === "\t") at += 1;

  const target: CommandWord = { text: "", fixed: true };
  const end = readWord(line, at, target, commands, depth);
  if (end === at) throw new Unclear("it has a redirection to nowhere");
  const isDescriptor = symbol.endsWith("&") && /^(\d+|-)$/.test(target.text) && target.fixed;
  if (symbol.startsWith("<") && symbol !== "<>") command.fed = true;
  else if (!isDescriptor && !(target.fixed && target.text === "/dev/null")) command.writes = true;
  return end;
}

function readWord(line: string, start: number, word: CommandWord, commands: SimpleCommand[], depth: number): number {
  let at = start;
  while (at < line.length) {
    const char = line[at] ?? "";
    if (/[<>]/.test(char) && /^\{\w+\}$/.test(line.slice(start, at))) {
      throw new Unclear("it has a redirection that cannot be read");
    }
    if (/[ \t\n;&|<>()]/.test(char)) {
      if (char === "(" && at > start) throw new Unclear("it defines a function, an array or an extended pattern");
      return at;
    }
    // A space to the eye, and part of a word to bash: shells need not agree.
    if (/[\s\p{Cc}\p{Cf}]/u.test(char)) throw new Unclear("it has a space or a control character of a special kind");
    if (char === "'") {
      const end = line.indexOf("'", at + 1);
      if (end === -1) throw new Unclear("a quote is not closed");
      word.text += line.slice(at + 1, end);
      at = end + 1;
    } else if (char === '"') {
      at = readDoubleQuoted(line, at + 1, word, commands, depth);
    } else if (char === "\\") {
      if (line[at + 1] !== "\n") word.text += line[at + 1] ?? "";
      at += 2;
    } else if (char === "$") {
      at = readDollar(line, at, word, commands, depth);
    } else if (char === "`") {
      throw new Unclear("it has backquotes");
    } else {
      const isBrace = char === "{" && /,|\.\./.test(/^\{[^{}\s]*\}/.exec(line.slice(at))?.[0] ?? "");
      if (/[*?[~]/.test(char) || isBrace) word.fixed = false;
      word.text += char;
      at += 1;
    }
  }
  return at;
}

function readDoubleQuoted(
  line: string,
  start: number,
  word: CommandWord,
  commands: SimpleCommand[],
  depth: number,
): number {
  let at = start;
  while (at < line.length) {
    const char = line[at] ?? "";
    if (char === '"') return at + 1;
    if (char === "\\") {
      const next = line[at + 1] ?? "";
      word.text += '"$`\\'.includes(next) ? next : next === "\n" ? "" : `\\${next}`;
      at += 2;
    } else if (char === "$") {
      at = readDollar(line, at, word, commands, depth);
    } else if (char === "`") {
      throw new Unclear("it has backquotes");
    } else {
      word.text += char;
      at += 1;
    }
  }
  throw new Unclear("a quote is not closed");
}

function readDollar(line: string, at: number, word: CommandWord, commands: SimpleCommand[], depth: number): number {
  const rest = line.slice(at);
  if (rest.startsWith("$((")) throw new Unclear("it has arithmetic");
  if (rest.startsWith("$(")) {
    word.fixed = false;
    return readList(line, at + 2, ")", commands, depth + 1);
  }
  if (rest.startsWith("$'") || rest.startsWith('$"')) throw new Unclear("it has a quote of a special kind");
  const variable = /^\$(?:[A-Za-z_]\w*|[0-9?$!@*#-]|\{[#]?[A-Za-z0-9_]+\})/.exec(rest);
  if (variable) {
    word.fixed = false;
    word.text += variable[0];
    return at + variable[0].length;
  }
  if (rest.startsWith("${")) throw new Unclear("it has an expansion that may do more than read a variable");
  word.text += "$";
  return at + 1;
}
