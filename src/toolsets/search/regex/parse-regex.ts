import { CharClass, escapeChar, literalClass, perlClass, posixClass, propertyClass } from "./char-class.ts";

/** A condition on the characters around a position. `word` is a word boundary; `ascii` limits words to ASCII letters. */
export interface Assertion {
  kind: "assert";
  at: "line-start" | "line-end" | "word" | "not-word" | "word-start" | "word-end" | "word-start-half" | "word-end-half";
  unicode: boolean;
}

export type RegexNode =
  | { kind: "empty" }
  | { kind: "class"; class: CharClass }
  | { kind: "concat"; items: RegexNode[] }
  | { kind: "alternate"; items: RegexNode[] }
  | { kind: "repeat"; item: RegexNode; min: number; max: number }
  | Assertion;

/** Thrown for a pattern that is invalid, or that a linear-time search cannot support. */
export class RegexError extends Error {
  override readonly name = "RegexError";
  readonly unsupported: boolean;

  constructor(message: string, { unsupported = false } = {}) {
    super(message);
    this.unsupported = unsupported;
  }
}

interface Flags {
  ignoreCase: boolean;
  unicode: boolean;
  verbose: boolean;
}

const maxDepth = 100;
const maxRepeat = 1_000;

/**
 * Parses a regular expression in the syntax of Rust's regex, which ripgrep uses. A `{` that does not start a repetition
 * is literal, whereas ripgrep reports an error. Throws a RegexError.
 */
export function parseRegex(pattern: string, { ignoreCase = false } = {}): RegexNode {
  return new Parser(pattern, { ignoreCase, unicode: true, verbose: false }).parse();
}

/** Returns the pattern for plain text. Throws a RegexError if it contains a line break. */
export function parseLiteral(text: string, { ignoreCase = false } = {}): RegexNode {
  if (text.includes("\n")) throw new RegexError("it contains a line break, and the search is line by line");
  const items = [...text].map(
    (character): RegexNode => ({ kind: "class", class: literalClass(character, ignoreCase) }),
  );
  return { kind: "concat", items };
}

const controlEscapes: Record<string, string> = { t: "\t", n: "\n", r: "\r", f: "\f", v: "\v", a: "\x07" };
const anchors: Record<string, Assertion["at"]> = {
  A: "line-start",
  z: "line-end",
  b: "word",
  B: "not-word",
  "<": "word-start",
  ">": "word-end",
};
const namedBoundaries: Record<string, Assertion["at"]> = {
  start: "word-start",
  end: "word-end",
  "start-half": "word-start-half",
  "end-half": "word-end-half",
};

class Parser {
  readonly #characters: string[];
  #at = 0;
  #depth = 0;
  #flags: Flags;

  constructor(pattern: string, flags: Flags) {
    this.#characters = [...pattern];
    this.#flags = flags;
  }

  parse(): RegexNode {
    const node = this.#alternation();
    if (this.#at < this.#characters.length) throw new RegexError("there is a ) without a (");
    return node;
  }

  #peek(offset = 0): string {
    return this.#characters[this.#at + offset] ?? "";
  }

  #take(text: string): boolean {
    const matches = [...text].every((character, offset) => this.#peek(offset) === character);
    if (matches) this.#at += [...text].length;
    return matches;
  }

  #next(length: number): string {
    this.#at += length;
    return this.#characters.slice(this.#at - length, this.#at).join("");
  }

  /** Consumes everything up to and including `end`. */
  #until(end: string, what: string): string {
    const close = this.#characters.indexOf(end, this.#at);
    if (close === -1) throw new RegexError(`${what} is not closed`);
    const text = this.#characters.slice(this.#at, close).join("");
    this.#at = close + 1;
    return text;
  }

  #alternation(): RegexNode {
    if (++this.#depth > maxDepth) throw new RegexError("it is nested too deeply");
    // Flags set inside a group end with it.
    const flags = { ...this.#flags };
    const items = [this.#concatenation()];
    while (this.#take("|")) items.push(this.#concatenation());
    this.#flags = flags;
    this.#depth--;
    return items.length === 1 && items[0] ? items[0] : { kind: "alternate", items };
  }

  #concatenation(): RegexNode {
    const items: RegexNode[] = [];
    for (;;) {
      if (this.#flags.verbose) this.#skipSpace();
      if (this.#at >= this.#characters.length || this.#peek() === "|" || this.#peek() === ")") break;
      const atom = this.#atom();
      if (atom) items.push(this.#repetitions(atom));
    }
    if (items.length === 0) return { kind: "empty" };
    return items.length === 1 && items[0] ? items[0] : { kind: "concat", items };
  }

  #skipSpace(): void {
    for (;;) {
      if (/\s/.test(this.#peek())) this.#at++;
      else if (this.#peek() === "#") {
        while (this.#at < this.#characters.length && this.#peek() !== "\n") this.#at++;
      } else return;
    }
  }

  #repetitions(atom: RegexNode): RegexNode {
    let node = atom;
    for (;;) {
      if (this.#flags.verbose) this.#skipSpace();
      const range = this.#repetition();
      if (!range) return node;
      this.#take("?");
      node = { kind: "repeat", item: node, ...range };
    }
  }

  #repetition(): { min: number; max: number } | undefined {
    if (this.#take("*")) return { min: 0, max: Number.POSITIVE_INFINITY };
    if (this.#take("+")) return { min: 1, max: Number.POSITIVE_INFINITY };
    if (this.#take("?")) return { min: 0, max: 1 };
    if (this.#peek() !== "{") return undefined;

    const counted = /^\{\s*(\d*)\s*(,?)\s*(\d*)\s*\}/.exec(this.#characters.slice(this.#at, this.#at + 24).join(""));
    if (!counted || (counted[1] === "" && counted[3] === "")) return undefined;
    this.#at += counted[0].length;
    const min = Number(counted[1]);
    const max = counted[2] === "" ? min : counted[3] === "" ? Number.POSITIVE_INFINITY : Number(counted[3]);
    if (min > max) throw new RegexError(`the range of ${counted[0]} is reversed`);
    if (min > maxRepeat || (Number.isFinite(max) && max > maxRepeat)) {
      throw new RegexError(`${counted[0]} repeats more than ${maxRepeat} times`);
    }
    return { min, max };
  }

  #atom(): RegexNode | undefined {
    const character = this.#peek();
    if ("*+?".includes(character)) throw new RegexError(`there is nothing to repeat before ${character}`);
    if (character === "(") return this.#group();
    if (character === "[") return this.#class(this.#bracketed());
    this.#at++;
    switch (character) {
      case "\\":
        return this.#escape();
      case "^":
        return this.#assertion("line-start");
      case "$":
        return this.#assertion("line-end");
      case ".":
        return this.#class(this.#whole());
      default:
        return this.#literal(character);
    }
  }

  #literal(character: string): RegexNode {
    if (character === "\n") throw new RegexError("it contains a line break, and the search is line by line");
    return { kind: "class", class: literalClass(character, this.#flags.ignoreCase) };
  }

  #class(source: string): RegexNode {
    return { kind: "class", class: new CharClass(source, { ignoreCase: this.#flags.ignoreCase }) };
  }

  #assertion(at: Assertion["at"]): RegexNode {
    return { kind: "assert", at, unicode: this.#flags.unicode };
  }

  #whole(): string {
    if (!this.#flags.unicode) throw this.#bytesError();
    return "[\\0-\\u{10ffff}]";
  }

  #bytesError(): RegexError {
    return new RegexError("single bytes, as (?-u) gives them", { unsupported: true });
  }

  #group(): RegexNode | undefined {
    this.#at++;
    const rest = this.#characters.slice(this.#at, this.#at + 4).join("");
    if (/^\?(?:<?[=!]|>)/.test(rest)) {
      throw new RegexError("lookaround, atomic groups or backreferences", { unsupported: true });
    }
    const named = /^\?P?</.exec(rest);
    if (named) {
      this.#at += named[0].length;
      const name = this.#until(">", "the name of a group");
      if (!/^[\p{L}_][\p{L}\p{N}_.[\]]*$/u.test(name)) throw new RegexError(`${name} is not a name for a group`);
    } else if (this.#take("?")) {
      const before = { ...this.#flags };
      if (this.#setFlags() === ")") return undefined;
      const node = this.#alternation();
      this.#flags = before;
      return this.#closeGroup(node);
    }
    return this.#closeGroup(this.#alternation());
  }

  #closeGroup(node: RegexNode): RegexNode {
    if (!this.#take(")")) throw new RegexError("there is a ( without a )");
    return node;
  }

  /** Reads flags such as `i-u` and returns the character that ends them: `:` or `)`. */
  #setFlags(): string {
    let value = true;
    const flags = { ...this.#flags };
    for (;;) {
      const flag = this.#peek();
      this.#at++;
      if (flag === ":" || flag === ")") {
        this.#flags = flags;
        return flag;
      }
      if (flag === "-") value = false;
      else if (flag === "i") flags.ignoreCase = value;
      else if (flag === "u") flags.unicode = value;
      else if (flag === "x") flags.verbose = value;
      // These do not affect whether a single line matches.
      else if (!/^[msU]$/.test(flag)) throw new RegexError(`${flag || "the end"} is not a flag`);
    }
  }

  #escape(): RegexNode {
    const character = this.#peek();
    if (/[1-9]/.test(character)) {
      throw new RegexError("lookaround, atomic groups or backreferences", { unsupported: true });
    }
    const anchor = anchors[character];
    if (anchor) {
      this.#at++;
      const name =
        anchor === "word" ? /^\{([a-z-]+)\}/.exec(this.#characters.slice(this.#at, this.#at + 14).join("")) : null;
      const boundary = name && namedBoundaries[name[1] ?? ""];
      if (name && boundary) this.#at += name[0].length;
      return this.#assertion(boundary ?? anchor);
    }
    const members = this.#escapedClass();
    return members === undefined ? this.#literal(this.#escapedCharacter()) : this.#class(members);
  }

  /** Reads `\d`, `\pL`, `\p{Greek}` or a negation of them; returns undefined for any other escape. */
  #escapedClass(): string | undefined {
    const letter = this.#peek();
    if (/^[dDwWsS]$/.test(letter)) {
      this.#at++;
      if (!this.#flags.unicode && letter !== letter.toLowerCase()) throw this.#bytesError();
      return perlClass(letter, this.#flags.unicode);
    }
    if (!/^[pP]$/.test(letter)) return undefined;

    this.#at++;
    const one = this.#peek();
    this.#at++;
    const written = one === "{" ? this.#until("}", "the name of a property") : one;
    const name = written.replace(/^\^/, "");
    const source = propertyClass(name, (letter === "P") !== written.startsWith("^"));
    if (source === undefined) throw new RegexError(`${name} is not a Unicode property that is known here`);
    return source;
  }

  #escapedCharacter(): string {
    const character = this.#peek();
    this.#at++;
    const control = controlEscapes[character];
    if (control !== undefined) return control;
    if ("xuU".includes(character) && character !== "") return this.#codePoint(character);
    if (character === "") throw new RegexError("it ends with a backslash");
    if (/^[\0-\x7f]$/.test(character) && !/[0-9A-Za-z<>]/.test(character)) return character;
    throw new RegexError(`\\${character} has no meaning`);
  }

  #codePoint(letter: string): string {
    const length = { x: 2, u: 4, U: 8 }[letter] ?? 2;
    const digits = this.#take("{") ? this.#until("}", "a code point") : this.#next(length);
    const value = /^[0-9a-f]+$/i.test(digits) ? Number.parseInt(digits, 16) : Number.NaN;
    if (!(value <= 0x10ffff) || (value >= 0xd800 && value <= 0xdfff)) {
      throw new RegexError(`${digits} is not the number of a character`);
    }
    if (!this.#flags.unicode && value > 0x7f) throw this.#bytesError();
    return String.fromCodePoint(value);
  }

  /** Reads a bracketed class and returns it in the syntax of the `v` flag. */
  #bracketed(): string {
    if (++this.#depth > maxDepth) throw new RegexError("it is nested too deeply");
    this.#at++;
    const negated = this.#take("^");
    if (negated && !this.#flags.unicode) throw this.#bytesError();

    let members = "";
    // A ] or - at the start is literal.
    while (this.#peek() === "-" || (members === "" && this.#peek() === "]")) {
      members += this.#classRange();
    }
    let left: string | undefined;
    let operator = "";
    const combined = () => (left === undefined ? `[${members}]` : combine(left, operator, `[${members}]`));
    for (;;) {
      if (this.#flags.verbose) this.#skipSpace();
      if (this.#at >= this.#characters.length) throw new RegexError("a [ is not closed");
      if (this.#take("]")) break;
      const next = ["&&", "--", "~~"].find((symbol) => this.#take(symbol));
      if (next) {
        left = combined();
        operator = next;
        members = "";
      } else members += this.#classItem();
    }
    this.#depth--;
    return negated ? `[^${combined()}]` : combined();
  }

  #classItem(): string {
    if (this.#peek() === "[") return this.#posix() ?? this.#bracketed();
    if (this.#peek() === "\\") {
      this.#at++;
      const members = this.#escapedClass();
      if (members !== undefined) return members;
      this.#at--;
    }
    return this.#classRange();
  }

  #posix(): string | undefined {
    const match = /^\[:(\^?)(\w+):\]/.exec(this.#characters.slice(this.#at, this.#at + 14).join(""));
    const source = match && posixClass(match[2] ?? "", match[1] === "^");
    if (source) this.#at += match[0].length;
    return source ?? undefined;
  }

  #classRange(): string {
    const from = this.#classCharacter();
    const isRange = this.#peek() === "-" && !["]", "-", ""].includes(this.#peek(1));
    if (!isRange) return escapeChar(from);
    this.#at++;
    const to = this.#classCharacter();
    if ((from.codePointAt(0) ?? 0) > (to.codePointAt(0) ?? 0)) {
      throw new RegexError(`the range ${from}-${to} is reversed`);
    }
    return `${escapeChar(from)}-${escapeChar(to)}`;
  }

  #classCharacter(): string {
    if (this.#at >= this.#characters.length) throw new RegexError("a [ is not closed");
    const character = this.#peek();
    this.#at++;
    const found = character === "\\" ? this.#escapedCharacter() : character;
    if (found === "\n") throw new RegexError("it contains a line break, and the search is line by line");
    return found;
  }
}

function combine(left: string, operator: string, right: string): string {
  if (operator === "~~") return `[[${left}--${right}][${right}--${left}]]`;
  return `[${left}${operator}${right}]`;
}
