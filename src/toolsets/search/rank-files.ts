import { EventLoopYielder } from "#domain/async-work.ts";

/** A file that has a term of the query in a line or in its path. */
export interface CandidateFile {
  path: string;
  /** Bytes of the whole file. */
  size: number;
  /** The lines that contain a term. Lines between them change nothing. */
  text: string;
  /** True if the text is known to be ASCII, which makes counting faster. */
  isAscii?: boolean;
}

export interface RankedFile {
  path: string;
  score: number;
  /** Definitions whose names match the query, best first. */
  symbols: Pick<CodeSymbol, "name">[];
}

// BM25 with its usual constants. A matching definition or file name outweighs any number of uses.
const saturation = 1.2;
const lengthWeight = 0.75;
const wholeSymbolWeight = 8;
const partSymbolWeight = 3;
const pathWeight = 2;

const stopWords = new Set(
  "a an and are as at be by do does for from how in is it of on or that the there this to used uses what when where which who why with".split(
    " ",
  ),
);

/** Returns the terms of a query without stop words, unless it contains nothing else. */
export function queryTerms(query: string): string[] {
  const terms = [...new Set(codeTerms(query))];
  const specific = terms.filter((term) => !stopWords.has(term));
  return specific.length > 0 ? specific : terms;
}

interface Weighted {
  term: string;
  /** The rarer the term, the more it counts. */
  weight: number;
}

/** A file with what its rank depends on, which takes much less memory than its text. */
interface CountedFile {
  path: string;
  size: number;
  /** The number of occurrences of each term in the lines, by its position in the query. */
  counts: readonly number[];
  /** The same for the path. */
  inPath: readonly number[];
  /** The names of definitions that match the query. */
  names: readonly string[];
}

/** More than the best files are kept until there are this many, since sorting takes long. */
const maxUnsorted = 1_000;

/**
 * Ranks files by relevance among `total` files. Returns the best ones, best first, and the number of those that match a
 * term. Yields to the event loop. The text of each candidate is needed only until the next one is asked for.
 */
export async function rankFiles(
  candidates: Iterable<CandidateFile>,
  terms: readonly string[],
  { total, limit, signal }: { total: number; limit: number; signal: AbortSignal },
): Promise<{ best: RankedFile[]; count: number }> {
  const counter = new TermCounter(terms);
  const yielder = new EventLoopYielder({ signal });
  const counted: CountedFile[] = [];
  /** The number of files that have each term in their lines. */
  const filesWith = terms.map(() => 0);
  let bytes = 0;
  for (const { path, size, text, isAscii } of candidates) {
    if (yielder.isDue) await yielder.turn();
    const counts = terms.map(() => 0);
    const names: string[] = [];
    for (const part of partsOf(text)) {
      if (yielder.isDue) await yielder.turn();
      const found = counter.scan(part, path, isAscii);
      for (const [at, count] of found.counts.entries()) counts[at] = (counts[at] ?? 0) + count;
      names.push(...found.names);
    }
    counted.push({ path, size, inPath: counter.count(path), counts, names });
    for (const [at, count] of counts.entries()) if (count > 0) filesWith[at] = (filesWith[at] ?? 0) + 1;
    bytes += size;
  }
  const averageSize = bytes / Math.max(1, counted.length);
  // The rarer the term, the more it counts.
  const weights = filesWith.map((files) => Math.log(1 + (total - files + 0.5) / (files + 0.5)));
  const weighted = terms.map((term, at): Weighted => ({ term, weight: weights[at] ?? 0 }));
  const best: RankedFile[] = [];
  const keepBest = () => best.sort((a, b) => b.score - a.score || (a.path < b.path ? -1 : 1)).splice(limit);
  let count = 0;
  const symbolScores = new Map<string, number>();
  for (const { path, size, counts, inPath, names } of counted) {
    if (yielder.isDue) await yielder.turn();
    const symbols = rankSymbols(names, weighted, symbolScores);
    const uses = weights.reduce((sum, weight, at) => {
      const inText = saturated(counts[at] ?? 0, size / Math.max(1, averageSize));
      return sum + weight * (inText + (inPath[at] ? pathWeight : 0));
    }, 0);
    const score = uses + (symbols[0]?.score ?? 0);
    if (score <= 0) continue;
    count++;
    if (best.push({ path, score, symbols }) > maxUnsorted) keepBest();
  }
  keepBest();
  return { best, count };
}

const maxKnownWords = 100_000;
const asciiText = /^\p{ASCII}*$/u;
const isAsciiWordPart = Uint8Array.from({ length: 128 }, (_, code) =>
  /[A-Za-z0-9_$]/.test(String.fromCharCode(code)) ? 1 : 0,
);

/** The number of occurrences of each term of a query in a text, by its position in the query, and the names of matching definitions. */
type Found = Pick<CountedFile, "counts" | "names"> & { counts: number[]; names: string[] };

const partLength = 100_000;

/** Splits a text at line ends, into parts that take milliseconds to scan unless their lines are longer. */
function* partsOf(text: string): Generator<string> {
  for (let start = 0; start < text.length; ) {
    const end = lineEndAfter(text, start + partLength);
    yield text.slice(start, end);
    start = end + 1;
  }
}

/** Counts the terms of a query in code. Splits only the words that contain a term, and each of them once. */
export class TermCounter {
  readonly #terms: readonly string[];
  /** Any of the terms. */
  readonly #occurrence: RegExp;
  readonly #termsByWord = new Map<string, readonly number[]>();
  /** The terms in each term, for words that are one: looking these up in the map would take twice the time. */
  readonly #termsInTerms: readonly (readonly number[])[];
  readonly #names = new Map<string, boolean>();

  constructor(terms: readonly string[]) {
    this.#terms = terms;
    this.#occurrence = new RegExp(terms.map((term) => term.replaceAll("$", "\\$")).join("|"), "gi");
    this.#termsInTerms = terms.map((term) => this.#termsIn(term));
  }

  /** Returns how often each term occurs in a text. */
  count(text: string): readonly number[] {
    return this.scan(text, "").counts;
  }

  /** Counts the terms in whole lines of a file, and finds the definitions whose name is a term or has one as a part. */
  scan(text: string, path: string, isAscii = asciiText.test(text)): Found {
    const found: Found = { counts: this.#terms.map(() => 0), names: [] };
    if (isAscii) {
      this.#scanAscii(text, path, found);
      return found;
    }
    for (const line of text.split("\n")) {
      if (asciiText.test(line)) this.#scanAscii(line, path, found);
      else {
        // In other scripts, lower-casing may change the length, or follow other rules than RegExp's.
        for (const word of line.match(identifier) ?? [])
          for (const position of this.#termsIn(word)) found.counts[position] = (found.counts[position] ?? 0) + 1;
        this.#addNames(line, path, found);
      }
    }
    return found;
  }

  #scanAscii(text: string, path: string, found: Found): void {
    const occurrence = this.#occurrence;
    const terms = this.#terms;
    const { counts } = found;
    const isProse = prosePath.test(path);
    /** The end of the last line whose definitions were read. */
    let readTo = -1;
    occurrence.lastIndex = 0;
    while (occurrence.test(text)) {
      let end = occurrence.lastIndex;
      // The occurrence has no other characters, so its last one is in the word.
      let start = end - 1;
      while (start > 0 && isAsciiWordPart[text.charCodeAt(start - 1)]) start--;
      while (end < text.length && isAsciiWordPart[text.charCodeAt(end)]) end++;
      let term = 0;
      while (term < terms.length && !(terms[term]?.length === end - start && text.startsWith(terms[term] ?? "", start)))
        term++;
      for (const position of this.#termsInTerms[term] ?? this.#termsIn(text.slice(start, end)))
        counts[position] = (counts[position] ?? 0) + 1;
      occurrence.lastIndex = end;
      if (end <= readTo || !(isProse || mayBeDeclared(text, start, end))) continue;
      readTo = lineEndAfter(text, end);
      this.#addNames(text.slice(text.lastIndexOf("\n", start) + 1, readTo), path, found);
    }
  }

  #addNames(line: string, path: string, { names }: Found): void {
    const name = definedName(line, prosePath.test(path));
    if (name !== undefined && this.#matchesName(name)) names.push(name);
  }

  /** True if the name of a definition is a term, or one of its parts is. */
  #matchesName(name: string): boolean {
    let matches = this.#names.get(name);
    if (matches === undefined) {
      const parts = [name.toLowerCase(), ...splitIdentifier(name)];
      matches = this.#terms.some((term) => parts.includes(term));
      if (this.#names.size >= maxKnownWords) this.#names.clear();
      this.#names.set(name, matches);
    }
    return matches;
  }

  /** Returns the positions of the terms in a word. */
  #termsIn(word: string): readonly number[] {
    let found = this.#termsByWord.get(word);
    if (!found) {
      found = codeTerms(word).flatMap((term) => (this.#terms.includes(term) ? [this.#terms.indexOf(term)] : []));
      if (this.#termsByWord.size >= maxKnownWords) this.#termsByWord.clear();
      this.#termsByWord.set(word, found);
    }
    return found;
  }
}

/** A fast check that leaves out nearly all uses of a word: false if no definition in its line has this word as its name. */
function mayBeDeclared(text: string, start: number, end: number): boolean {
  let before = start - 1;
  while (before >= 0 && isBlank(text.charCodeAt(before))) before--;
  const previous = text.charCodeAt(before);
  if (previous === closingParenthesis || previous === asterisk) return true;
  const wordEnd = before + 1;
  while (before >= 0 && isAsciiKeywordPart(text.charCodeAt(before))) before--;
  const isWord = before < 0 || text.charCodeAt(before) === newline || isBlank(text.charCodeAt(before));
  if (isWord && wordEnd - before > 2 && keywords.has(text.slice(before + 1, wordEnd))) return true;

  let next = end;
  while (isBlank(text.charCodeAt(next))) next++;
  if (text.charCodeAt(next) !== openingParenthesis) return false;
  let last = lineEndAfter(text, next) - 1;
  while (isBlank(text.charCodeAt(last))) last--;
  return text.charCodeAt(last) === openingBrace;
}

const [newline, openingParenthesis, closingParenthesis, asterisk, openingBrace] = [0x0a, 0x28, 0x29, 0x2a, 0x7b];

function lineEndAfter(text: string, at: number): number {
  const end = text.indexOf("\n", at);
  return end === -1 ? text.length : end;
}

/** White space that can be within a line. */
function isBlank(code: number): boolean {
  return code === 0x20 || (code >= 0x09 && code <= 0x0d && code !== 0x0a);
}

function isAsciiKeywordPart(code: number): boolean {
  return (code >= 0x61 && code <= 0x7a) || code === 0x5f || code === 0x21;
}

function saturated(count: number, relativeLength: number): number {
  const slowed = saturation * (1 - lengthWeight + lengthWeight * relativeLength);
  return (count * (saturation + 1)) / (count + slowed);
}

/** Returns the symbols, best first. `scores` caches the score of each name. */
function rankSymbols(names: readonly string[], weighted: readonly Weighted[], scores: Map<string, number>) {
  const scored = names.map((name) => {
    const score = scores.get(name) ?? scoreOf(name, weighted);
    scores.set(name, score);
    return { name, score };
  });
  return scored.sort((a, b) => b.score - a.score);
}

function scoreOf(name: string, weighted: readonly Weighted[]): number {
  const whole = name.toLowerCase();
  const parts = splitIdentifier(name);
  // The more parts a name has, the less each of them counts, unless the query has them all.
  const isWhole = parts.every((part) => weighted.some(({ term }) => term === part));
  const partWeight = isWhole ? wholeSymbolWeight : partSymbolWeight / Math.sqrt(parts.length);
  return weighted.reduce((sum, { term, weight }) => {
    if (term === whole) return sum + wholeSymbolWeight * weight;
    return parts.includes(term) ? sum + partWeight * weight : sum;
  }, 0);
}

const identifier = /[\p{L}_$][\p{L}\p{N}_$]*/gu;
const maxTermLength = 64;

/** Splits a text into lower-case terms: each identifier, and the parts of camelCase and snake_case identifiers. */
export function codeTerms(text: string): string[] {
  return (text.match(identifier) ?? []).flatMap(termsOfWord);
}

function termsOfWord(word: string): string[] {
  if (word.length > maxTermLength) return [];
  const whole = word.toLowerCase();
  const parts = splitIdentifier(word);
  return parts.length > 1 || parts[0] !== whole ? [whole, ...parts] : [whole];
}

/** Splits `parseHTTPRequest_v2` into parse, http, request and v2. */
export function splitIdentifier(word: string): string[] {
  return word
    .replace(/([\p{Ll}\p{N}])(\p{Lu})/gu, "$1 $2")
    .replace(/(\p{Lu})(\p{Lu}\p{Ll})/gu, "$1 $2")
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((part) => part.length > 1);
}

export interface CodeSymbol {
  name: string;
  /** The line number, from 1. */
  line: number;
}

const maxSymbolLineLength = 400;
const namePart = "([\\p{L}_$][\\p{L}\\p{N}_$]*)";
const keyword =
  "function|class|interface|type|enum|struct|trait|impl|union|record|protocol|namespace|module|mod|object|def|fn|fun|func|sub|proc|const|let|var|val|static|macro_rules!";
const keywords = new Set(keyword.split("|"));
const modifier =
  "export|default|declare|public|private|protected|internal|abstract|final|sealed|static|async|override|readonly|pub|unsafe|extern|partial|virtual|inline|open|data|suspend|get|set";
// Each alternative in a loop ends in white space, so there is only one way to match a line (no backtracking).
const declaration = new RegExp(
  `^\\s*(?:(?:${modifier})\\s+)*(?:${keyword})\\s*\\*?\\s+(?:\\([^()]*\\)\\s*)?${namePart}`,
  "uy",
);
const method = new RegExp(`^\\s+(?:(?:${modifier})\\s+)*[*#]?${namePart}\\s*\\([^;{}]*\\)[^;=]*\\{\\s*$`, "u");
// `struct entry *find(int key) {` defines find.
const isResultType = /\b(?:struct|enum|union)\s+\w+[\s*&]+\w+\s*\(/;
const prosePath = /\.(md|mdx|markdown|rst|txt)$/i;
const heading = /^#{1,6}\s+(.{1,120})$/;
const controlKeywords = new Set([
  "if",
  "for",
  "while",
  "switch",
  "catch",
  "function",
  "return",
  "with",
  "else",
  "do",
  "match",
]);
// With the type of the result before the name, as in C, C++, C# and Java.
const typedFunction = new RegExp(
  `^\\s*(?!(?:${[...controlKeywords].join("|")}|new|await|throw|yield|case|assert|go|defer|guard)\\b)(?:[\\w:<>,[\\]&*]+\\s+)+[*&]*(?:\\w+::)*${namePart}\\s*\\([^;{}]*\\)[^;={}]*\\{\\s*$`,
  "u",
);

/** Finds definitions in common languages line by line, and headings in Markdown. */
export function codeSymbols(lines: readonly string[], path: string): CodeSymbol[] {
  const isProse = prosePath.test(path);
  const symbols: CodeSymbol[] = [];
  for (const [index, line] of lines.entries()) {
    const name = definedName(line, isProse);
    if (name !== undefined) symbols.push({ name, line: index + 1 });
  }
  return symbols;
}

/** Returns the name that a line defines; undefined if it defines none. */
function definedName(line: string, isProse: boolean): string | undefined {
  if (line.length > maxSymbolLineLength) return undefined;
  const name = isProse ? heading.exec(line)?.[1] : (declaredName(line) ?? blockName(line));
  return name !== undefined && !controlKeywords.has(name) ? name : undefined;
}

function blockName(line: string): string | undefined {
  if (!line.trimEnd().endsWith("{")) return undefined;
  return method.exec(line)?.[1] ?? typedFunction.exec(line)?.[1];
}

/** Returns the name that `declaration` finds in a line. Does not let RegExp create the array of a match for each line. */
function declaredName(line: string): string | undefined {
  declaration.lastIndex = 0;
  if (!declaration.test(line) || isResultType.test(line)) return undefined;
  const end = declaration.lastIndex;
  let start = end;
  while (start > 0 && isAsciiWordPart[line.charCodeAt(start - 1)]) start--;
  if (line.charCodeAt(start - 1) < 128) return line.slice(start, end);
  declaration.lastIndex = 0;
  return declaration.exec(line)?.[1];
}
