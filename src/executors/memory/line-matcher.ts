import { RE2JS } from "re2js";

export interface LinePattern {
  patterns: string[];
  syntax: "basic" | "extended" | "fixed";
  ignoreCase: boolean;
  wholeWord: boolean;
  wholeLine: boolean;
}

export interface LineMatcher {
  /** Bytes that every match contains; undefined if they cannot be derived. */
  required: Buffer | undefined;
  /** False only if no line of the text can match. */
  maySee(text: string): boolean;
  matches(line: string): boolean;
  /** The matching parts of the line, for `-o`. */
  parts(line: string): string[];
}

/** Compiles search patterns that match in linear time. Throws for patterns that RE2 does not support. */
export function lineMatcher({ patterns, syntax, ignoreCase, wholeWord, wholeLine }: LinePattern): LineMatcher {
  const sources = patterns
    .flatMap((pattern) => pattern.split("\n"))
    .map((pattern) => {
      const source = toRe2(pattern, syntax);
      if (wholeLine) return `^(?:${source})$`;
      return wholeWord ? `\\b(?:${source})\\b` : source;
    });
  const flags = (ignoreCase ? RE2JS.CASE_INSENSITIVE : 0) | RE2JS.MULTILINE;
  const regex = RE2JS.compile(sources.map((source) => `(?:${source})`).join("|"), flags);
  const required = requiredOf(patterns, { syntax, ignoreCase });
  const isPlain = syntax === "fixed" && required !== "" && !ignoreCase && !wholeWord && !wholeLine;
  const mayMatch = (text: string) => required === "" || (ignoreCase ? fold(text) : text).includes(required);
  const matches = (text: string) => mayMatch(text) && (isPlain || regex.matcher(text).find());

  return {
    // Invalid UTF-8 is decoded as U+FFFD, so its bytes are unknown.
    required: required === "" || ignoreCase || required.includes("\ufffd") ? undefined : Buffer.from(required),
    maySee: matches,
    matches,
    parts(line) {
      const found: string[] = [];
      const matcher = regex.matcher(line);
      while (matcher.find()) if (matcher.group()) found.push(matcher.group() ?? "");
      return found;
    },
  };
}

/** Returns a string that every match contains, in lower case if case is ignored; empty if it cannot be derived. */
function requiredOf(
  patterns: readonly string[],
  { syntax, ignoreCase }: Pick<LinePattern, "syntax" | "ignoreCase">,
): string {
  const [pattern = "", ...others] = patterns;
  if (others.length > 0 || pattern.includes("\n")) return "";
  const text = syntax === "fixed" ? pattern : requiredLiteral(toRe2(pattern, syntax));
  if (!ignoreCase) return text;
  return /^[ -~]*$/.test(text) ? text.toLowerCase() : "";
}

/** Folds case for ASCII patterns as RE2 does, which treats the long s (U+017F) as an s. */
function fold(text: string): string {
  return text.toLowerCase().replaceAll("\u017f", "s");
}

function toRe2(pattern: string, syntax: LinePattern["syntax"]): string {
  if (syntax === "fixed") return RE2JS.quote(pattern);
  const extended = syntax === "basic" ? basicToExtended(pattern) : pattern;
  return gnuEscapes(extended);
}

/** Converts GNU's `\<` and `\>` to RE2's `\b`. A backslash inside POSIX brackets is literal. */
function gnuEscapes(pattern: string): string {
  let result = "";
  for (let at = 0; at < pattern.length; at += 1) {
    const char = pattern[at] ?? "";
    if (char === "[") {
      const end = bracketEnd(pattern, at);
      // Copied unchanged: models use escapes such as \d and \] inside brackets, although POSIX has none there.
      result += pattern.slice(at, end);
      at = end - 1;
    } else if (char === "\\") {
      const next = pattern[at + 1] ?? "";
      result += next === "<" || next === ">" ? "\\b" : next === "" ? "\\\\" : `\\${next}`;
      at += 1;
    } else {
      result += char;
    }
  }
  return result;
}

/** Returns a text that every match of a regular expression contains; empty if none is obvious. Runs in linear time. */
export function requiredLiteral(pattern: string): string {
  const lastBrace = pattern.lastIndexOf("}");
  const runs: string[] = [];
  let run = "";
  const endRun = () => {
    runs.push(run);
    run = "";
  };
  for (let at = 0; at < pattern.length; at++) {
    const character = pattern.charAt(at);
    const next = pattern.charAt(at + 1);
    if ("(|)".includes(character)) return "";
    if (character === "[") {
      // A bracket that comes first is a member of the set.
      const end = pattern.indexOf("]", at + (next === "^" ? 3 : 2));
      const set = pattern.slice(at, end);
      // In `[[:alpha:]]` the first closing bracket does not end the set.
      if (end === -1 || set.includes("\\") || set.includes("[:")) return "";
      endRun();
      at = end;
    } else if ("*?{".includes(character)) {
      run = [...run].slice(0, -1).join("");
      endRun();
      if (character === "{" && at < lastBrace) at = pattern.indexOf("}", at);
    } else if (character === "\\" && /[^\w\s]/.test(next)) {
      run += next;
      at++;
    } else if (character === "\\") {
      if (/[pPQxE0-9]/.test(next)) return "";
      endRun();
      at++;
    } else if (".^$+".includes(character)) {
      endRun();
    } else {
      run += character;
    }
  }
  endRun();
  return runs.reduce((longest, candidate) => (candidate.length > longest.length ? candidate : longest), "");
}

const swapped = "(){}|+?";

/** Converts a POSIX basic regular expression (with GNU's `\|`, `\+`, `\?`) to an extended one. */
function basicToExtended(pattern: string): string {
  let result = "";
  for (let at = 0; at < pattern.length; at += 1) {
    const char = pattern[at] ?? "";
    const next = pattern[at + 1] ?? "";
    if (char === "[") {
      const end = bracketEnd(pattern, at);
      result += pattern.slice(at, end);
      at = end - 1;
    } else if (char === "\\") {
      result += swapped.includes(next) && next !== "" ? next : `\\${next}`;
      at += 1;
    } else if (char === "*" && (result === "" || /(^|[^\\])[(|^]$/.test(result))) {
      result += "\\*";
    } else {
      result += swapped.includes(char) ? `\\${char}` : char;
    }
  }
  return result;
}

/** Returns the end of a bracket expression. A `]` right after `[` or `[^` is a member; `[:alpha:]` may occur inside. */
function bracketEnd(pattern: string, start: number): number {
  let at = start + 1;
  if (pattern[at] === "^") at += 1;
  if (pattern[at] === "]") at += 1;
  while (at < pattern.length && pattern[at] !== "]") {
    const close = pattern[at] === "[" && pattern[at + 1] === ":" ? pattern.indexOf(":]", at + 2) : -1;
    at = close === -1 ? at + 1 : close + 2;
  }
  return Math.min(at + 1, pattern.length);
}
