/**
 * A set of characters. V8 evaluates it: the members are written as a RegExp class with the `v` flag, which has Unicode
 * properties, case folding and set operations, so this code needs no tables.
 */
export class CharClass {
  /** The class as a RegExp with the `v` flag, such as `[a-z\p{Nd}]`. */
  readonly source: string;
  readonly ignoreCase: boolean;
  /** The only member, if the class is a single character in the pattern. */
  readonly literal: string | undefined;
  #expression: RegExp | undefined;
  #ascii: readonly boolean[] | undefined;

  constructor(source: string, { ignoreCase = false, literal }: { ignoreCase?: boolean; literal?: string } = {}) {
    this.source = source;
    this.ignoreCase = ignoreCase;
    this.literal = literal;
  }

  get key(): string {
    return `${this.ignoreCase ? "i" : ""}${this.source}`;
  }

  /** Line breaks are never members, since the search is line by line. */
  has(codePoint: number): boolean {
    this.#expression ??= new RegExp(`^${this.source}$`, this.ignoreCase ? "vi" : "v");
    return codePoint !== 0x0a && this.#expression.test(String.fromCodePoint(codePoint));
  }

  /** Membership by ASCII character code. */
  get ascii(): readonly boolean[] {
    this.#ascii ??= Array.from({ length: 128 }, (_, codePoint) => this.has(codePoint));
    return this.#ascii;
  }

  /** False only if no non-ASCII character can be a member. */
  get mayHaveNonAscii(): boolean {
    // K and S also match the Kelvin sign and the long s when case is ignored.
    if (this.ignoreCase) return !/^[\0-\x7f]$/.test(this.literal ?? "") || /[ks]/i.test(this.literal ?? "");
    return !/^(?:\[(?:\\u\{[0-7]?[0-9a-f]\}|-)+\])$/.test(this.source);
  }
}

export function escapeChar(character: string): string {
  return `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`;
}

export function literalClass(character: string, ignoreCase: boolean): CharClass {
  return new CharClass(`[${escapeChar(character)}]`, { ignoreCase, literal: character });
}

// The definitions in Unicode Technical Standard 18, which Rust's regex follows; JavaScript's \w and \d are ASCII only.
const unicodeClasses: Record<string, string> = {
  d: "\\p{Nd}",
  w: "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}",
  s: "\\p{White_Space}",
};
const asciiClasses: Record<string, string> = { d: "0-9", w: "0-9A-Za-z_", s: "\\t\\n\\v\\f\\r " };

/** Returns the class of `\d`, `\w` or `\s`, negated for an upper-case letter. */
export function perlClass(letter: string, unicode: boolean): string {
  const members = (unicode ? unicodeClasses : asciiClasses)[letter.toLowerCase()] ?? "";
  return letter === letter.toLowerCase() ? `[${members}]` : `[^${members}]`;
}

const posixClasses: Record<string, string> = {
  alnum: "0-9A-Za-z",
  alpha: "A-Za-z",
  ascii: "\\0-\\x7f",
  blank: "\\t ",
  cntrl: "\\0-\\x1f\\x7f",
  digit: "0-9",
  graph: "!-~",
  lower: "a-z",
  print: " -~",
  punct: "!-\\/:-@\\[-`\\{-~",
  space: "\\t\\n\\v\\f\\r ",
  upper: "A-Z",
  word: "0-9A-Za-z_",
  xdigit: "0-9A-Fa-f",
};

/** Returns the class of `[:alpha:]`; undefined if the name does not exist. */
export function posixClass(name: string, negated: boolean): string | undefined {
  const members = posixClasses[name];
  return members && `[${negated ? "^" : ""}${members}]`;
}

/** Returns the class of `\p{name}`, accepting Rust's loose spelling; undefined if JavaScript does not have the name. */
export function propertyClass(name: string, negated: boolean): string | undefined {
  const p = negated ? "\\P" : "\\p";
  const [property, value] = name.split(/[=:]/, 2).map((part) => part.trim());
  const titled = (text = "") =>
    text
      .split(/[\s_-]+/)
      .map((word) => word.charAt(0).toUpperCase() + word.slice(1).toLowerCase())
      .join("_");
  const spellings = value === undefined ? [name, name.toUpperCase(), titled(name)] : [value, titled(value)];
  const isScript = value !== undefined && /^(sc|script)$/i.test(property ?? "");
  const kinds = value === undefined ? ["", "Script="] : [isScript ? "Script=" : "General_Category="];
  if (/^any$/i.test(name)) return negated ? "[]" : "[\\0-\\u{10ffff}]";
  // When ignoring case, V8 does not fold the long s into \p{ASCII}.
  if (/^ascii$/i.test(name)) return `[${negated ? "^" : ""}\\0-\\x7f]`;
  for (const kind of kinds) {
    for (const spelling of spellings) {
      const source = `[${p}{${kind}${spelling}}]`;
      try {
        new RegExp(source, "v");
        return source;
      } catch {
        // JavaScript does not have the name in this spelling.
      }
    }
  }
  return undefined;
}
