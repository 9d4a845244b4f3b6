import { EventLoopYielder } from "#domain/async-work.ts";
import type { ContentChunk } from "#domain/workspace.ts";
import { LineAutomaton, type Scan } from "./regex/line-automaton.ts";
import { parseLiteral, parseRegex } from "./regex/parse-regex.ts";
import { findRequiredFactors, maxFactorBytes, type RequiredFactor } from "./regex/required-factor.ts";

export interface LineQuery {
  pattern: string;
  /** Interprets the pattern as plain text. */
  literal: boolean;
  ignoreCase: boolean;
}

export interface FileMatches {
  path: string;
  /** The file as UTF-8, without a byte order mark. */
  text: Uint8Array;
  count: number;
  /** The positions in `text` where the first matching lines start, at most `maxLinesPerFile`. */
  lineStarts: number[];
  /** For each of these lines, a position in its match, or at the end of it. */
  matchedAt: number[];
}

export interface LineSearchOptions {
  maxLinesPerFile: number;
  /** Leaves a file after `maxLinesPerFile` matching lines, so that `count` is at most that. */
  stopsAtMax?: boolean;
  timeoutMs: number;
  signal?: AbortSignal | undefined;
}

/** Thrown if a search takes longer than its `timeoutMs`. */
export class SearchTimeoutError extends Error {
  override readonly name = "SearchTimeoutError";
}

/** The paths of files with the same content. */
interface SearchedFile {
  start: number;
  end: number;
  /** The position after a byte order mark. */
  textStart: number;
  paths: string[];
  isBinary: boolean | undefined;
  count: number;
  lineStarts: number[];
  matchedAt: number[];
}

const yieldEveryMs = 20;
const windowBytes = 1024 ** 2;
// A window is copied to a string for a RegExp, which is faster while the copy fits into the processor's cache.
const expressionWindowBytes = 128 * 1024;
const maxGapBytes = 64 * 1024;
const largeFileBytes = 16 * 1024;
/** Lines of so many bytes are shown as a whole, so that the position of the match does not matter. */
const maxShortLine = 300;
const headBytes = 1024;
const histogramBytes = 64 * 1024;
const maxAnchorBytes = 6;
const minSampleBytes = 16 * 1024;
const maxSampleBytes = 256 * 1024;
const newline = 0x0a;
const maxFilesPerTurn = 5_000;
/** Asking for the time takes as long as matching a short line. */
const linesPerTimeCheck = 64;
/** Nearby bytes are compared faster here than a call of Buffer.indexOf takes. */
const nearbyBytes = 64;

/**
 * Searches files line by line with the same results as ripgrep. Patterns have the syntax of Rust's regex with Unicode
 * classes and never match across lines. A byte order mark is not part of the first line, UTF-16 files with one are
 * converted, and files with a NUL byte are binary and not searched. Takes time linear in the size of the files, and
 * yields to the event loop.
 *
 * Searches many files at once for a part that every match contains, and matches only the lines that contain it.
 */
export class LineSearch {
  readonly matches: FileMatches[] = [];
  readonly binaryPaths: string[] = [];
  #factors: readonly RequiredFactor[];
  /** The factor to search for, once chosen. */
  #chosen: ChosenFactor | undefined;
  readonly #automaton: LineAutomaton;
  readonly #options: LineSearchOptions;
  readonly #deadline: number;
  readonly #yielder: EventLoopYielder;
  #linesUntilTimeCheck = linesPerTimeCheck;

  /** Throws a RegexError if the pattern is invalid or not supported. */
  constructor({ pattern, literal, ignoreCase }: LineQuery, options: LineSearchOptions) {
    const node = literal ? parseLiteral(pattern, { ignoreCase }) : parseRegex(pattern, { ignoreCase });
    this.#factors = findRequiredFactors(node);
    this.#automaton = new LineAutomaton(node);
    this.#options = options;
    this.#yielder = new EventLoopYielder({ everyMs: yieldEveryMs, signal: options.signal });
    this.#deadline = performance.now() + options.timeoutMs;
  }

  /** Searches the files of a chunk. Rejects with a SearchTimeoutError. */
  async search({ bytes, files }: ContentChunk): Promise<void> {
    const plain: ContentChunk["files"][number][] = [];
    for (const file of files) {
      const text = (bytes[file.start] ?? 0) >= 0xfe ? decodeUtf16(bytes.subarray(file.start, file.end)) : undefined;
      if (text) await this.#searchUtf8(text, [{ ...file, start: 0, end: text.length }]);
      else plain.push(file);
    }
    const all = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
    for (let at = 0; at < plain.length; at += maxFilesPerTurn) {
      await this.#searchUtf8(all, plain.slice(at, at + maxFilesPerTurn));
      if (this.#yielder.isDue) await this.#turn();
    }
  }

  async #searchUtf8(bytes: Buffer, files: ContentChunk["files"]): Promise<void> {
    const searched = searchedFiles(bytes, files);
    for (const file of searched) if (isSurelyBinary(bytes, file)) file.isBinary = true;
    const factor = this.#chooseFactor(bytes);
    if (factor)
      await this.#searchFactor(
        factor,
        bytes,
        searched.filter(({ isBinary }) => !isBinary),
      );
    else await this.#searchEveryLine(bytes, searched);

    for (const { end, textStart, paths, isBinary, count, ...lines } of searched) {
      if (isBinary) this.binaryPaths.push(...paths);
      if (count === 0 || isBinary) continue;
      const text = bytes.subarray(textStart, end);
      const lineStarts = lines.lineStarts.map((lineStart) => lineStart - textStart);
      const matchedAt = lines.matchedAt.map((at) => at - textStart);
      this.matches.push(...paths.map((path) => ({ path, text, count, lineStarts, matchedAt })));
    }
  }

  /** Returns the matches by path, in the order of the given paths. Sorting 100,000 matches would block the event loop. */
  async matchesByPath(paths: readonly string[]): Promise<Map<string, FileMatches>> {
    const found = new Map<string, FileMatches>();
    for (const match of this.matches) {
      found.set(match.path, match);
      if (this.#yielder.isDue) await this.#yielder.turn();
    }
    const ordered = new Map<string, FileMatches>();
    for (const path of paths) {
      const match = found.get(path);
      if (match) ordered.set(path, match);
      if (this.#yielder.isDue) await this.#yielder.turn();
    }
    return ordered;
  }

  /** Chooses the factor that is cheapest to search for in the first bytes. */
  #chooseFactor(bytes: Buffer): ChosenFactor | undefined {
    if (this.#chosen || this.#factors.length === 0) return this.#chosen;
    const sample = bytes.subarray(0, maxSampleBytes);
    const candidates = this.#factors.flatMap((factor) => prepareFactor(factor, sample));
    const costs = new Map(candidates.map((factor) => [factor, candidates.length > 1 ? costOf(factor, sample) : 0]));
    const chosen = candidates.reduce((best, next) => ((costs.get(next) ?? 0) < (costs.get(best) ?? 0) ? next : best));
    // A small chunk is not representative of later ones.
    if (sample.length > minSampleBytes) this.#chosen = chosen;
    return chosen;
  }

  async #searchFactor(factor: ChosenFactor, bytes: Buffer, files: SearchedFile[]): Promise<void> {
    let index = 0;
    /** The position up to which all lines are decided. */
    let decided = 0;
    const windowSize = factor.literals ? windowBytes : expressionWindowBytes;
    for (const { from, to } of windowsOf(bytes, files, windowSize)) {
      if (this.#yielder.isDue) await this.#turn();
      const { next, countLines } = finder(factor, bytes.subarray(from, to));
      const endsAtLineEnd = bytes[to - 1] === newline;
      for (let at = Math.max(decided - from, 0); at < to - from; at = decided - from) {
        const found = next(at);
        if (found === -1) break;

        // A factor has no line break, so this byte is in the line.
        const last = from + found - 1;
        while ((files[index]?.end ?? Number.POSITIVE_INFINITY) <= last) index++;
        const file = files[index];
        if (!file) return;
        if (last < file.textStart || hasNulByte(bytes, file)) {
          decided = last < file.textStart ? file.textStart : file.end;
          continue;
        }
        const lineEnd = Math.min(indexOfNewline(bytes, last), file.end);
        decided = lineEnd + 1;
        // A byte order mark before the line is not part of it, but may contain the factor.
        const isExact = factor.isExact && file.textStart === file.start;
        const isDecided = isExact && !this.#needsPosition(bytes, file, { last, factor });
        const scan = isDecided ? undefined : await this.#scan(bytes, startOfLine(bytes, last, file), lineEnd);
        if (!scan || scan.kind === "match") this.#add(bytes, file, scan?.at ?? last);
        if (this.#isFull(file)) decided = Math.max(decided, file.end);
        const end = Math.min(file.end, to);
        // Counting the rest of a file at once takes half the time.
        if (isExact && countLines && this.#isOnlyCounted(file) && decided < end && (endsAtLineEnd || end < to)) {
          file.count += countLines(decided - from, end - from);
          decided = end;
        }
        if (this.#isTimeCheckDue() && this.#yielder.isDue) await this.#turn();
      }
    }
  }

  async #searchEveryLine(bytes: Buffer, files: SearchedFile[]): Promise<void> {
    for (const file of files) {
      if (hasNulByte(bytes, file)) continue;
      for (let at = file.textStart; at < file.end; ) {
        const scan = this.#automaton.scan(bytes, at, file.end);
        const { kind, at: end }: Scan = scan.kind === "paused" ? await this.#resume(bytes, scan, file.end) : scan;
        if (kind === "match") this.#add(bytes, file, end);
        at = kind === "match" && !this.#isFull(file) ? indexOfNewline(bytes, end) + 1 : file.end;
        if (this.#isTimeCheckDue() && this.#yielder.isDue) await this.#turn();
      }
    }
  }

  #scan(bytes: Buffer, from: number, to: number): Scan | Promise<Scan> {
    const scan = this.#automaton.scan(bytes, from, to);
    return scan.kind === "paused" ? this.#resume(bytes, scan, to) : scan;
  }

  async #resume(bytes: Buffer, paused: Scan, to: number): Promise<Scan> {
    let scan = paused;
    while (scan.kind === "paused") {
      if (this.#yielder.isDue) await this.#turn();
      scan = this.#automaton.scan(bytes, scan.at, to, scan);
    }
    return scan;
  }

  /** True if a line will be shown in part, around its match. A factor's expression only finds the end of the line. */
  #needsPosition(bytes: Buffer, file: SearchedFile, { last, factor }: { last: number; factor: ChosenFactor }): boolean {
    if (factor.literals || this.#isOnlyCounted(file)) return false;
    return last - startOfLine(bytes, last, file) > maxShortLine;
  }

  /** Adds the line that contains the byte at this position. */
  #add(bytes: Buffer, file: SearchedFile, at: number): void {
    file.count++;
    if (file.lineStarts.length >= this.#options.maxLinesPerFile) return;
    file.lineStarts.push(startOfLine(bytes, at, file));
    file.matchedAt.push(at);
  }

  #isFull({ count }: SearchedFile): boolean {
    return this.#options.stopsAtMax === true && count >= this.#options.maxLinesPerFile;
  }

  /** True if it no longer matters where the further lines of a file start. */
  #isOnlyCounted({ lineStarts }: SearchedFile): boolean {
    return lineStarts.length >= this.#options.maxLinesPerFile;
  }

  #isTimeCheckDue(): boolean {
    this.#linesUntilTimeCheck--;
    if (this.#linesUntilTimeCheck > 0) return false;
    this.#linesUntilTimeCheck = linesPerTimeCheck;
    return true;
  }

  async #turn(): Promise<void> {
    if (performance.now() > this.#deadline) throw new SearchTimeoutError();
    await this.#yielder.turn();
  }
}

/** Merges the paths of files with equal content, and detects byte order marks. */
function searchedFiles(bytes: Buffer, files: ContentChunk["files"]): SearchedFile[] {
  const searched: SearchedFile[] = [];
  for (const { path, start, end } of files) {
    const last = searched.at(-1);
    if (last?.start === start && last.end === end) {
      last.paths.push(path);
      continue;
    }
    const hasMark = end - start >= 3 && bytes[start] === 0xef && bytes[start + 1] === 0xbb && bytes[start + 2] === 0xbf;
    const textStart = hasMark ? start + 3 : start;
    searched.push({
      start,
      end,
      textStart,
      paths: [path],
      isBinary: undefined,
      count: 0,
      lineStarts: [],
      matchedAt: [],
    });
  }
  return searched;
}

function hasNulByte(bytes: Buffer, file: SearchedFile): boolean {
  file.isBinary ??= bytes.subarray(file.start, file.end).includes(0);
  return file.isBinary;
}

/** True for a large file with a NUL byte near its start, which avoids scanning the rest. */
function isSurelyBinary(bytes: Buffer, { start, end }: SearchedFile): boolean {
  return end - start > largeFileBytes && bytes.subarray(start, start + headBytes).includes(0);
}

/** Yields the windows to search for a factor: many small files at once, and parts of a large file. */
function* windowsOf(
  bytes: Buffer,
  files: readonly SearchedFile[],
  size: number,
): Iterable<{ from: number; to: number }> {
  let from = 0;
  let to = 0;
  for (const { start, end } of files) {
    if (end - from > size || start - to > maxGapBytes) {
      yield* splitWindow(bytes, { from, to }, size);
      from = start;
    }
    to = end;
  }
  yield* splitWindow(bytes, { from, to }, size);
}

function* splitWindow(
  bytes: Buffer,
  { from: start, to }: { from: number; to: number },
  size: number,
): Iterable<{ from: number; to: number }> {
  let from = start;
  while (to - from > size) {
    const lineEnd = indexOfNewline(bytes.subarray(0, from + 2 * size), from + size);
    const isLineEnd = lineEnd < Math.min(to, from + 2 * size);
    const end = isLineEnd ? lineEnd + 1 : Math.min(to, from + size);
    yield { from, to: end };
    // A factor may span a cut in the middle of a line.
    from = isLineEnd || end === to ? end : end - maxFactorBytes;
  }
  if (to > from) yield { from, to };
}

/** A way to search for a factor: for each of its texts, or with an expression. */
interface ChosenFactor {
  /** The factor and the rest of its line. */
  expression: RegExp;
  literals: readonly AnchoredLiteral[] | undefined;
  isExact: boolean;
}

/** A text as bytes, with the part of it to search for. */
interface AnchoredLiteral {
  text: Buffer;
  anchor: Buffer;
  /** The position of the anchor in the text. */
  offset: number;
}

function prepareFactor({ literals, expression, isExact }: RequiredFactor, sample: Buffer): ChosenFactor[] {
  const line = new RegExp(`(?:${expression.source})[^\\n]*`, "g");
  const byExpression = { expression: line, literals: undefined, isExact };
  if (!literals) return [byExpression];
  const counts = new Uint32Array(256);
  for (const byte of sample.subarray(0, histogramBytes)) counts[byte] = (counts[byte] ?? 0) + 1;
  return [{ ...byExpression, literals: literals.map((literal) => anchorLiteral(literal, counts)) }, byExpression];
}

/**
 * Returns a few bytes of a text that start with its rarest byte. For up to six bytes, Buffer.indexOf searches for the
 * first byte with memchr, which is up to ten times as fast as for longer texts or frequent bytes.
 */
function anchorLiteral(literal: string, counts: Uint32Array): AnchoredLiteral {
  const text = Buffer.from(literal, "latin1");
  let offset = 0;
  for (let at = 1; at < text.length - 1; at++) {
    if ((counts[text[at] ?? 0] ?? 0) < (counts[text[offset] ?? 0] ?? 0)) offset = at;
  }
  return { text, anchor: text.subarray(offset, offset + maxAnchorBytes), offset };
}

interface Finder {
  /** Returns the position after some byte of the next line with the factor, or -1. */
  next(from: number): number;
  /** Counts the lines with the factor in whole lines. */
  countLines?(from: number, to: number): number;
}

function finder({ expression, literals }: ChosenFactor, bytes: Buffer): Finder {
  if (literals) return { next: literalFinder(literals, bytes) };
  const text = bytes.toString("latin1");
  return {
    next: (from) => {
      expression.lastIndex = from;
      return expression.test(text) ? expression.lastIndex : -1;
    },
    countLines: (from, to) => text.slice(from, to).match(expression)?.length ?? 0,
  };
}

/** Searches for each text separately: Buffer.indexOf is so fast that this takes less time than one RegExp for all. */
function literalFinder(literals: readonly AnchoredLiteral[], bytes: Buffer): (from: number) => number {
  const found = literals.map((literal) => ({ literal, at: -1 }));
  return (from) => {
    let end = -1;
    let start = Number.POSITIVE_INFINITY;
    for (const next of found) {
      if (next.at < from) next.at = indexOfLiteral(bytes, next.literal, from);
      if (next.at < start) {
        start = next.at;
        end = start + next.literal.text.length;
      }
    }
    return end;
  };
}

/** Returns the position of the next occurrence of a text, or Infinity if there is none. */
function indexOfLiteral(bytes: Buffer, { text, anchor, offset }: AnchoredLiteral, from: number): number {
  for (let at = from + offset; ; at++) {
    at = bytes.indexOf(anchor, at);
    if (at === -1) return Number.POSITIVE_INFINITY;
    const start = at - offset;
    if (anchor.length === text.length) return start;
    if (bytes.compare(text, 0, text.length, start, Math.min(start + text.length, bytes.length)) === 0) return start;
  }
}

/** Estimates the time to search a sample, in nanoseconds. */
function costOf(factor: ChosenFactor, sample: Buffer): number {
  const { next } = finder(factor, sample);
  let lines = 0;
  for (let at = next(0); at !== -1; at = next(indexOfNewline(sample, at))) lines++;
  const { literals } = factor;
  return literals ? lines * 300 + sample.length * 0.1 * literals.length : lines * 100 + sample.length * 0.8;
}

/** Returns the start of the line that contains `at`, which may be the position of its line break. */
function startOfLine(bytes: Buffer, at: number, { textStart }: SearchedFile): number {
  // A negative offset would count from the end.
  if (at === 0) return 0;
  for (let before = at - 1; before >= 0 && before >= at - nearbyBytes; before--)
    if (bytes[before] === newline) return Math.max(before + 1, textStart);
  return Math.max(bytes.lastIndexOf(newline, at - 1) + 1, textStart);
}

function indexOfNewline(bytes: Buffer, from: number): number {
  for (let at = from; at < from + nearbyBytes; at++) if (bytes[at] === newline) return at;
  const found = bytes.indexOf(newline, from);
  return found === -1 ? bytes.length : found;
}

/** Returns the text of a UTF-16 file as UTF-8; undefined for a file without a UTF-16 byte order mark. */
function decodeUtf16(bytes: Uint8Array): Buffer | undefined {
  const isLittle = bytes[0] === 0xff && bytes[1] === 0xfe;
  const isBig = bytes[0] === 0xfe && bytes[1] === 0xff;
  if (!isLittle && !isBig) return undefined;
  return Buffer.from(new TextDecoder(isLittle ? "utf-16le" : "utf-16be").decode(bytes));
}
