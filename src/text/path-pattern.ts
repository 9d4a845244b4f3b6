import { RE2JS } from "re2js";

/** True if a path matches one of the patterns, or there are none. `{a,b}` is a choice, as in all settings. */
export function matchesSomePath(patterns: readonly string[] | undefined, paths: readonly string[]): boolean {
  if (!patterns) return true;
  const tests = patterns.map((pattern) => compilePathPattern(pattern, { braces: true }));
  return paths.some((path) => tests.some((matches) => matches(path)));
}

/**
 * Compiles a pattern of CODEOWNERS to a test for paths. `*` and `?` match within one name, `**` across folders. A pattern
 * with a slash at the beginning or in the middle starts at the root of the repository; any other matches at every depth.
 * A folder covers everything below it, but a last name `*` covers files of that folder only. Paths are case-sensitive.
 */
export function compilePathPattern(pattern: string, { braces = false } = {}): (path: string) => boolean {
  const isAnchored = /^\/|\/./.test(pattern);
  const isFolder = /[^/]\/+$/.test(pattern);
  const body = pattern.replace(/^\/+|\/+$/g, "");
  const below = isFolder ? "/.+" : /(?:^|\/)\*\*?$/.test(body) ? "" : "(?:/.+)?";
  return compile(`${isAnchored ? "" : "(?:.*/)?"}${translate(body, { braces, classes: false })}${below}`);
}

/**
 * Compiles a glob to a test for paths. `*` and `?` match within one name, `**` across folders; `[a-z]`, `[!a]` and
 * `{a,b}` are supported, a backslash escapes, and names with a leading dot are matched like any other.
 */
export function compileGlob(pattern: string): (path: string) => boolean {
  return compile(translate(pattern.replace(/^(\.?\/)+/, ""), { braces: true, classes: true }));
}

/** Compiles a glob as ripgrep's `--glob` does: without a slash, it matches names at any depth. */
export function compileFileGlob(pattern: string): (path: string) => boolean {
  return compileGlob(pattern.includes("/") ? pattern : `**/${pattern}`);
}

/** RE2 takes linear time for every pattern. */
function compile(source: string): (path: string) => boolean {
  const compiled = RE2JS.compile(`^(?:${source})$`, RE2JS.DOTALL);
  return (path) => compiled.test(path);
}

const token = /\\[\s\S]|\*\*\/|\*+|[\s\S]/g;
const tokenOrClass = new RegExp(`\\[[!^]?\\]?[^\\]/]+\\]|${token.source}`, "g");

/** Translates a pattern to RE2. `braces`: `{a,b}` is a choice. `classes`: `[a-z]` is a set of characters. */
function translate(pattern: string, { braces, classes }: { braces: boolean; classes: boolean }): string {
  const depths = braces ? braceDepths(pattern) : [];
  return pattern.replace(classes ? tokenOrClass : token, (text, at: number) => {
    if (text.startsWith("*")) {
      const end = at + text.length;
      // `**` crosses folders only as a whole name.
      const isName =
        (at === 0 || "/{,".includes(pattern.charAt(at - 1))) &&
        (text.endsWith("/") || end === pattern.length || "},".includes(pattern.charAt(end)));
      if (text === "**/") return isName ? "(?:[^/]+/)*" : "[^/]*/";
      return text !== "*" && isName ? ".*" : "[^/]*";
    }
    if (text === "?") return "[^/]";
    if (text.length > 1) return text.startsWith("\\") ? RE2JS.quote(text.slice(1)) : characterClass(text);
    const choice = depths[at] ? { "{": "(?:", "}": ")", ",": "|" }[text] : undefined;
    return choice ?? RE2JS.quote(text);
  });
}

function characterClass(text: string): string {
  const isNegated = /^\[[!^]/.test(text);
  const members = text
    .slice(isNegated ? 2 : 1, -1)
    .replace(/[\\[\]^]/g, "\\$&")
    .replace(/(.)-(.)/g, (range, from, to) => (from > to ? "-" : range));
  return `[${isNegated ? "^/" : ""}${members}]`;
}

/** Returns the brace depth of each character. The braces themselves count as inside; unclosed braces do not count. */
function braceDepths(pattern: string): number[] {
  const depths = Array<number>(pattern.length).fill(0);
  const open: number[] = [];
  for (let at = 0; at < pattern.length; at++) {
    const character = pattern.charAt(at);
    if (character === "\\") at++;
    else if (character === "{") open.push(at);
    else if (character === "}" && open.length > 0) {
      const from = open.pop() ?? 0;
      for (let inside = from; inside <= at; inside++) depths[inside] = (depths[inside] ?? 0) + 1;
    }
  }
  return depths;
}

/** True if the text matches a pattern in which `*` stands for any text. */
// Not a regular expression: patterns come from repositories, and `*a*a*a*b` would take exponential time.
export function matchesPattern(pattern: string, text: string): boolean {
  const pieces = pattern.split("*");
  const first = pieces[0] ?? "";
  const last = pieces.at(-1) ?? "";
  if (pieces.length === 1) return text === pattern;
  if (text.length < first.length + last.length || !text.startsWith(first) || !text.endsWith(last)) return false;

  const end = text.length - last.length;
  let from = first.length;
  for (const piece of pieces.slice(1, -1)) {
    const at = text.indexOf(piece, from);
    if (at < 0 || at + piece.length > end) return false;
    from = at + piece.length;
  }
  return true;
}
