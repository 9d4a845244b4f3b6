import { RE2JS } from "re2js";

/**
 * Returns true if one of the paths matches one of the patterns, or if there are no patterns. `{a,b}` is a choice, as in the
 * patterns of all settings.
 */
export function matchesSomePath(patterns: readonly string[] | undefined, paths: readonly string[]): boolean {
  if (!patterns) return true;
  const tests = patterns.map((pattern) => compilePathPattern(pattern, { braces: true }));
  return paths.some((path) => tests.some((matches) => matches(path)));
}

/**
 * Compiles a pattern of CODEOWNERS to a test for paths. `*` and `?` match within one name, `**` across folders. A pattern
 * with a slash at the beginning or in the middle starts at the root of the repository; any other matches at every depth.
 * A folder covers everything below it, but a last name `*` covers files of that folder only. Paths are case-sensitive.
 * RE2 takes linear time for every pattern.
 */
export function compilePathPattern(pattern: string, { braces = false } = {}): (path: string) => boolean {
  const isAnchored = /^\/|\/./.test(pattern);
  const body = pattern.replace(/^\/+/, "");
  const isFolder = body.endsWith("/");
  const names = body.replace(/\/+$/, "").split("/");
  const source = names
    .map((name, index) => {
      const isLast = index === names.length - 1;
      if (name === "**") return isLast ? ".+" : "(?:[^/]+/)*";
      return translate(name, braces) + (isLast ? "" : "/");
    })
    .join("");
  const below = isFolder ? "/.+" : names.at(-1) === "*" || names.at(-1) === "**" ? "" : "(?:/.+)?";
  const compiled = RE2JS.compile(`^${isAnchored ? "" : "(?:.*/)?"}${source}${below}$`, RE2JS.DOTALL);
  return (path) => compiled.test(path);
}

/** `braces`: `{a,b}` is a choice. */
function translate(name: string, braces: boolean): string {
  let source = "";
  let depth = 0;
  for (let at = 0; at < name.length; at++) {
    const character = name.charAt(at);
    if (character === "\\") source += RE2JS.quote(name.charAt(++at));
    else if (character === "*") source += name.charAt(at - 1) === "*" ? "" : "[^/]*";
    else if (character === "?") source += "[^/]";
    else if (braces && character === "{" && name.includes("}", at)) {
      depth++;
      source += "(?:";
    } else if (depth > 0 && character === "}") {
      depth--;
      source += ")";
    } else if (depth > 0 && character === ",") source += "|";
    else source += RE2JS.quote(character);
  }
  return source + ")".repeat(depth);
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
