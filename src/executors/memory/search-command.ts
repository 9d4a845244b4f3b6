import { type Command, decodeBytesToUtf8, defineCommand, type ResolvedCommandContext } from "just-bash";
import { RE2JS } from "re2js";
import { messageOf } from "#domain/errors.ts";
import type { IndexedFs } from "./indexed-fs.ts";
import { type SearchOptions, searchOptions } from "./search-options.ts";

interface SearchContext {
  context: ResolvedCommandContext;
  files: IndexedFs;
}

type SearchOutput = { stdout: string; stderr: string; exitCode: number };

/** `rg`, and recursive `grep`, in linear time. Options they lack fall back to the shell's own, slower command. */
export function searchCommand(program: "grep" | "rg", files: IndexedFs): Command {
  return defineCommand(program, async (args, context) => {
    const options = searchOptions(program, args);
    const ours = options && (program === "rg" || options.recursive);
    if (!ours)
      return (await context.origCommand?.(args)) ?? { stdout: "", stderr: `${program}: not here\n`, exitCode: 2 };

    return search(program, options, { context, files });
  });
}

const decoder = new TextDecoder();

async function search(program: string, options: SearchOptions, where: SearchContext): Promise<SearchOutput> {
  const { context, files } = where;
  let matcher: LineMatcher;
  try {
    matcher = lineMatcher(options.show === "listing" ? { ...options, patterns: [""] } : options);
  } catch (error) {
    const why = messageOf(error);
    const hint = "look-around and back-references are not available here";
    return { stdout: "", stderr: `${program}: ${why} (${hint})\n`, exitCode: 2 };
  }

  const piped = decodeBytesToUtf8(context.stdin);
  if (options.paths.length === 0 && piped !== "" && program === "rg" && options.show !== "listing") {
    const found = matchFile("", piped, { ...options, fileNames: false }, matcher);
    return { stdout: found.text, stderr: "", exitCode: found.hits > 0 ? 0 : 1 };
  }
  const { found, missing } = await filesToSearch(options, where);
  const stderr = missing.map((path) => `${program}: ${path}: No such file or directory\n`).join("");
  if (options.show === "listing")
    return { stdout: found.map(({ shown }) => `${shown}\n`).join(""), stderr, exitCode: 0 };

  // Neither program prints the file name when searching a single named file.
  const isOneFile = options.paths.length === 1 && found.length === 1 && found[0]?.shown === options.paths[0];
  const named = { ...options, fileNames: options.fileNames ?? !isOneFile };
  const pieces: string[] = [];
  let hits = 0;
  let size = 0;
  for (const { path, shown } of found) {
    const content = asBuffer(files.loaded(path) ?? (await context.fs.readFileBuffer(path)));
    if (content.includes(0)) continue;
    const isOut = matcher.required && !content.includes(matcher.required);
    const matched = matchFile(shown, isOut && !named.invert ? "" : decoder.decode(content), named, matcher);
    hits += matched.hits;
    size += matched.text.length;
    pieces.push(matched.text);
    if (options.quiet && hits > 0) break;
    if (size > context.limits.maxOutputSize) break;
  }
  return {
    stdout: options.quiet ? "" : pieces.join(""),
    stderr,
    exitCode: stderr !== "" && hits === 0 ? 2 : hits > 0 ? 0 : 1,
  };
}

function asBuffer({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

function matchFile(
  name: string,
  text: string,
  options: SearchOptions,
  matcher: LineMatcher,
): { text: string; hits: number } {
  const prefix = options.fileNames ? `${name}:` : "";
  const lines = options.invert || matcher.maySee(text) ? text.replace(/\n$/, "").split("\n") : [];
  const found: number[] = [];
  for (let at = 0; at < lines.length && found.length < options.max; at += 1) {
    if (matcher.matches(lines[at] ?? "") !== options.invert) found.push(at);
  }
  const hits = found.length;

  switch (options.show) {
    case "files":
      return { text: hits > 0 ? `${name}\n` : "", hits };
    case "filesWithout":
      return { text: hits === 0 ? `${name}\n` : "", hits: hits === 0 ? 1 : 0 };
    case "count":
      return { text: hits > 0 || options.zeros ? `${prefix}${hits}\n` : "", hits };
    case "parts":
      return {
        text: found
          .flatMap((at) => matcher.parts(lines[at] ?? "").map((part) => `${prefix}${number(options, at)}${part}\n`))
          .join(""),
        hits,
      };
    case "lines":
    case "listing":
      return { text: withContext(name, lines, found, options), hits };
  }
}

function number(options: SearchOptions, at: number, separator = ":"): string {
  return options.lineNumbers ? `${at + 1}${separator}` : "";
}

function withContext(name: string, lines: string[], found: number[], options: SearchOptions): string {
  const hits = new Set(found);
  const pieces: string[] = [];
  let last = -1;
  for (const hit of found) {
    const from = Math.max(last + 1, hit - options.before);
    const to = Math.min(lines.length - 1, hit + options.after);
    if (last >= 0 && from > last + 1 && options.before + options.after > 0) pieces.push("--\n");
    for (let at = from; at <= to; at += 1) {
      if (at > hit && hits.has(at)) break;
      const separator = hits.has(at) ? ":" : "-";
      const prefix = options.fileNames ? `${name}${separator}` : "";
      pieces.push(`${prefix}${number(options, at, separator)}${lines[at]}\n`);
      last = at;
    }
  }
  return pieces.join("");
}

interface Found {
  path: string;
  shown: string;
}

async function filesToSearch(
  options: SearchOptions,
  where: SearchContext,
): Promise<{ found: Found[]; missing: string[] }> {
  const { context } = where;
  const found: Found[] = [];
  const missing: string[] = [];
  const roots = options.paths.length > 0 ? options.paths : ["."];

  for (const root of roots) {
    const start = context.fs.resolvePath(context.cwd, root);
    if (!(await context.fs.exists(start))) {
      missing.push(root);
    } else if ((await context.fs.stat(start)).isFile) {
      found.push({ path: start, shown: root });
    } else {
      const shownRoot = options.paths.length === 0 ? "" : root.replace(/\/+$/, "") || "/";
      await walk({ folder: start, shown: shownRoot, below: "" }, options, where, found);
    }
  }
  return { found, missing };
}

interface Folder {
  folder: string;
  shown: string;
  /** The path relative to the folder where the search began. */
  below: string;
}

async function walk(at: Folder, options: SearchOptions, where: SearchContext, found: Found[]): Promise<void> {
  const { files } = where;
  const { folder, shown, below } = at;
  const entries = files.indexed(folder) ?? (await files.readdirWithFileTypes(folder));
  for (const { name, isDirectory, isFile } of entries) {
    if (!options.hidden && name.startsWith(".")) continue;
    const path = folder === "/" ? `/${name}` : `${folder}/${name}`;
    const relative = below === "" ? name : `${below}/${name}`;
    const shownPath = shown === "" ? name : `${shown}/${name}`;
    if (isDirectory) await walk({ folder: path, shown: shownPath, below: relative }, options, where, found);
    else if (isFile && options.includes(relative)) found.push({ path, shown: shownPath });
  }
}

type LinePattern = Pick<SearchOptions, "patterns" | "syntax" | "ignoreCase" | "wholeWord" | "wholeLine">;

type LineMatcher = ReturnType<typeof lineMatcher>;

/** Compiles search patterns that match in linear time. Throws for patterns that RE2 does not support. */
function lineMatcher({ patterns, syntax, ignoreCase, wholeWord, wholeLine }: LinePattern) {
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
    /** Bytes that every match contains; undefined if they cannot be derived: invalid UTF-8 is decoded as U+FFFD. */
    required: required === "" || ignoreCase || required.includes("\ufffd") ? undefined : Buffer.from(required),
    /** False only if no line of the text can match. */
    maySee: matches,
    matches,
    /** The matching parts of the line, for `-o`. */
    parts(line: string): string[] {
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

/** Converts GNU's `\<` and `\>` to RE2's `\b`. */
function gnuEscapes(pattern: string): string {
  return mapOutsideBrackets(pattern, (token) => {
    if (token === "\\") return "\\\\";
    return /^\\[<>]$/.test(token) ? "\\b" : token;
  });
}

/** Replaces each character or escape outside of brackets. Inside, models use escapes such as \d and \], although POSIX has none. */
function mapOutsideBrackets(pattern: string, replace: (token: string, before: string) => string): string {
  let result = "";
  for (let at = 0; at < pattern.length; ) {
    const end = pattern[at] === "[" ? bracketEnd(pattern, at) : at + (pattern[at] === "\\" ? 2 : 1);
    const token = pattern.slice(at, end);
    result += token.startsWith("[") ? token : replace(token, result);
    at = end;
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
  return mapOutsideBrackets(pattern, (token, before) => {
    const character = token.at(-1) ?? "";
    if (token.startsWith("\\")) return token.length > 1 && swapped.includes(character) ? character : token;
    const isLiteralStar = token === "*" && (before === "" || /(^|[^\\])[(|^]$/.test(before));
    return isLiteralStar || swapped.includes(token) ? `\\${token}` : token;
  });
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
