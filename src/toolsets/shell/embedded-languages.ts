import { inCode } from "#text/visible-text.ts";
import type { CommandWord, ProgramEffect, SimpleCommand } from "./simple-command.ts";

// sed, awk and sqlite3 take programs as arguments. They are parsed only far enough to detect whether they start another
// program or write a file. Anything that is not understood counts as if it did.

/** Returns the effect of a sed command beyond editing its input; undefined if there is none. */
export function findSedEffect(args: readonly CommandWord[]): ProgramEffect | undefined {
  const scripts: CommandWord[] = [];
  const operands: CommandWord[] = [];
  for (let at = 0; at < args.length; at += 1) {
    const word = args[at];
    if (!word) continue;
    const { text } = word;
    if (word.mayBeOption) return { reason: `${inCode(text)} may become an option of \`sed\``, word };
    const attached = /^(?:-[nErsuz]*e|--expression=)(.+)$/s.exec(text)?.[1];
    if (attached !== undefined) scripts.push({ ...word, text: attached });
    else if (/^(-[nErsuz]*e|--expression)$/.test(text)) {
      at += 1;
      const script = args[at];
      if (script) scripts.push(script);
    } else if (
      /^-[nErsuz]*i|^--in-place|^-[nErsuz]+$|^--(quiet|silent|regexp-extended|separate|null-data|unbuffered|posix|sandbox|debug)$/.test(
        text,
      )
    )
      continue;
    else if (text === "-l" || text === "--line-length") at += 1;
    else if (/^--?[A-Za-z]/.test(text))
      return { reason: `${inCode(`sed ${text.slice(0, 60)}`)} runs a script that is not in the command`, word };
    else operands.push(word);
  }
  if (scripts.length === 0 && operands[0]) scripts.push(operands[0]);
  const unsafe = scripts.find(({ text, fixed }) => !fixed || !isPlainSed(text));
  return unsafe && { reason: "its sed script can run programs or write files", word: unsafe };
}

const address = String.raw`(?:\d+(?:~\d+)?|\$|/(?:[^/\\\n[]|\\.|\[\^?[^\]/\\\n][^\]/\\\n]*\])*/[IM]*|\\,(?:[^,\\\n[]|\\.)*,[IM]*|[+~]\d+)`;
const prefix = new RegExp(String.raw`[\s;]*(?:${address}(?:\s*,\s*${address})?)?\s*!?\s*`, "y");
/** Commands that only affect the input: not e, w, W, r, R, F, v. */
const oneLetter = /[{}=dDgGhHnNpPxz]|[lqQ]\s*\d*|[btT:][ \t]*[\w.-]*/y;
const appended = /[aic](?:\\\n|[ \t]*\\?)[^\n]*/y;

function isPlainSed(script: string): boolean {
  let at = 0;
  while (at < script.length) {
    const comment = matchAt(/[\s;]*#[^\n]*/y, script, at);
    if (comment > at) {
      at = comment;
      continue;
    }
    at = matchAt(prefix, script, at);
    if (at >= script.length) return true;
    const end =
      script[at] === "s" || script[at] === "y"
        ? endOfSubstitution(script, at)
        : Math.max(matchAt(oneLetter, script, at), matchAt(appended, script, at));
    if (end <= at) return false;
    at = end;
    if (at < script.length && !/[\s;}]/.test(script[at] ?? "") && script[at - 1] !== "{") return false;
  }
  return true;
}

function matchAt(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at;
  const found = pattern.exec(text);
  return found ? at + found[0].length : at;
}

/** Returns the position after `s/a/b/flags`, or -1 if a flag runs a command or writes a file. */
function endOfSubstitution(script: string, start: number): number {
  const delimiter = script[start + 1] ?? "\n";
  if (/[\s\\]/.test(delimiter)) return -1;
  let at = start + 2;
  for (let part = 0; part < 2; part += 1) {
    let isInBrackets = false;
    while (at < script.length && (script[at] !== delimiter || (isInBrackets && part === 0))) {
      if (script[at] === "\\") at += 1;
      // Implementations disagree on whether a delimiter in brackets ends the pattern.
      else if (part === 0 && script[at] === "[") {
        // A bracket at the start of a list is part of it, but not for every implementation.
        if (/^\^?\]/.test(script.slice(at + 1, at + 3))) return -1;
        isInBrackets = true;
      } else if (script[at] === "]") isInBrackets = false;
      if (isInBrackets && script[at] === delimiter) return -1;
      at += 1;
    }
    if (at >= script.length) return -1;
    at += 1;
  }
  return matchAt(/[gpiImM0-9]*/y, script, at);
}

/** Returns the effect of an awk command beyond printing; undefined if there is none. */
export function findAwkEffect(args: readonly CommandWord[]): ProgramEffect | undefined {
  let program: CommandWord | undefined;
  for (let at = 0; at < args.length; at += 1) {
    const word = args[at];
    if (!word) continue;
    const { text } = word;
    const isValueNext = /^-[Fv]$/.test(text);
    const value = isValueNext ? args[at + 1] : word;
    // Several words would be a program.
    if (text.startsWith("-") && value?.mayBeSeveral) {
      return { reason: `${inCode(value.text.slice(0, 60))} may become several words`, word: value };
    }
    if (isValueNext) at += 1;
    else if (/^-[Fv]./.test(text)) continue;
    else if (
      /^--(field-separator|assign|csv|posix|traditional|re-interval|sandbox)(=|$)/.test(text) &&
      text.includes("=") !== (text === "--csv")
    )
      continue;
    else if (text.startsWith("-"))
      return { reason: `${inCode(`awk ${text.slice(0, 60)}`)} can run code that is not in the command`, word };
    else {
      program = word;
      break;
    }
  }
  if (!program || (program.fixed && isPlainAwk(program.text))) return undefined;
  return { reason: "its awk program can run programs or write files", word: program };
}

function isPlainAwk(program: string): boolean {
  const code = withoutLiterals(program);
  if (code === undefined || /\b(system|getline|close|fflush|ENVIRON|PROCINFO|SYMTAB|FUNCTAB)\b|@/.test(code))
    return false;
  if (/(?<!\|)\|(?!\|)/.test(code)) return false;
  // A statement continues on the next line after these.
  return !/\bprintf?\b[^;}\n]*>/.test(code.replace(/([,&|?:{(])\s*\n/g, "$1 "));
}

/** Returns an awk program with its strings and patterns emptied; undefined if they cannot be identified reliably. */
function withoutLiterals(program: string): string | undefined {
  let code = "";
  for (let at = 0; at < program.length; at += 1) {
    const char = program[at] ?? "";
    const kind = char === "/" ? slashAfter(code) : undefined;
    if (kind === "unclear" || (char === "\\" && /^\\\r?\n/.test(program.slice(at)))) return undefined;
    if (char === "#") {
      const end = program.indexOf("\n", at);
      at = (end === -1 ? program.length : end) - 1;
    } else if (char === '"' || kind === "pattern") {
      const end = endOfLiteral(program, at);
      if (end === undefined) return undefined;
      code += '""';
      at = end;
    } else code += char;
  }
  return code;
}

/** True if a slash after this code begins a pattern, false if it divides. */
function slashAfter(code: string): "pattern" | "division" | "unclear" {
  const before = code.slice(-200).replace(/[ \t\r]+$/, "");
  if (/(^|[(,{};!~&|\n=?:<>*%^])$/.test(before) || before === "") return "pattern";
  if (/(^|[^\w$])(print|printf|return|in|else|do|case|delete|exit|getline)$/.test(before)) return "unclear";
  // Behind `if (…)` begins a pattern.
  if (before.endsWith(")") && /\b(if|while|for|switch)\b/.test(code)) return "unclear";
  return /[\w)\]"]$/.test(before) ? "division" : "unclear";
}

function endOfLiteral(text: string, start: number): number | undefined {
  for (let at = start + 1; at < text.length && text[at] !== "\n"; at += 1) {
    if (text[at] === "\\") at += 1;
    else if (text[at] === "[" && text[start] === "/") {
      // Some awk implementations end the pattern at a slash in brackets, others do not.
      const close = text.indexOf("]", at + (text[at + 1] === "^" ? 3 : 2));
      if (text.slice(at, close).includes("\\")) return undefined;
      if (close === -1 || text.slice(at, close).includes("/")) return undefined;
      at = close;
    } else if (text[at] === text[start]) return at;
  }
  return undefined;
}

/** Returns the effect of a sqlite3 command beyond querying its database; undefined if there is none. */
export function findSqlEffect(
  args: readonly CommandWord[],
  { hasInput }: Pick<SimpleCommand, "hasInput">,
): ProgramEffect | undefined {
  if (hasInput) return { reason: "its SQL is not in the command", word: undefined };
  const unsafe = args.find(
    ({ text, fixed }) =>
      !fixed ||
      /^\s*\./m.test(text) ||
      /\b(readfile|writefile|load_extension|edit|attach|vacuum|fts3_tokenizer|pragma)\b/i.test(text) ||
      (/^-/.test(text) &&
        !/^--?(json|csv|line|list|column|header|noheader|readonly|markdown|table|box|batch|bail|html|separator)$/.test(
          text,
        )),
  );
  return unsafe && { reason: "its SQL can run programs or write files", word: unsafe };
}
