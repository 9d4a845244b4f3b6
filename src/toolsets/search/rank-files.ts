import { EventLoopYielder } from "#sandbox/event-loop.ts";

/** A file with the lines that contain a term of the query. */
export interface CandidateFile {
  path: string;
  /** Bytes of the whole file. */
  size: number;
  lines: readonly string[];
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

/**
 * Ranks files by relevance, best first, among `total` files. Files that match no term are left out. Yields to the event
 * loop.
 */
export async function rankFiles(
  candidates: readonly CandidateFile[],
  terms: readonly string[],
  { total, signal }: { total: number; signal: AbortSignal },
): Promise<RankedFile[]> {
  const counter = new TermCounter(terms);
  const yielder = new EventLoopYielder({ signal });
  const counted: { file: CandidateFile; counts: ReadonlyMap<string, number> }[] = [];
  for (const file of candidates) {
    if (yielder.isDue) await yielder.turn();
    counted.push({ file, counts: counter.count(file.lines) });
  }
  const averageSize = candidates.reduce((sum, { size }) => sum + size, 0) / Math.max(1, candidates.length);
  const weighted = terms.map((term): Weighted => {
    const files = counted.filter(({ counts }) => counts.has(term)).length;
    return { term, weight: Math.log(1 + (total - files + 0.5) / (files + 0.5)) };
  });
  const ranked: RankedFile[] = [];
  const symbolScores = new Map<string, number>();
  for (const { file, counts } of counted) {
    if (yielder.isDue) await yielder.turn();
    const { path, size, lines } = file;
    const inPath = new Set(codeTerms(path));
    const symbols = rankSymbols(codeSymbols(lines, path), weighted, symbolScores);
    const uses = weighted.reduce((sum, { term, weight }) => {
      const inText = saturated(counts.get(term) ?? 0, size / Math.max(1, averageSize));
      return sum + weight * (inText + (inPath.has(term) ? pathWeight : 0));
    }, 0);
    ranked.push({ path, score: uses + (symbols[0]?.score ?? 0), symbols: symbols.map(({ symbol }) => symbol) });
  }
  return ranked.filter(({ score }) => score > 0).sort((a, b) => b.score - a.score || (a.path < b.path ? -1 : 1));
}

const maxKnownWords = 100_000;
const asciiLine = /^\p{ASCII}*$/u;
const asciiWordPart = /[A-Za-z0-9_$]/;

/** Counts the terms of a query in lines of code. Splits only the words that contain a term, and each of them once. */
export class TermCounter {
  readonly #wanted: ReadonlySet<string>;
  /** Any of the terms. */
  readonly #occurrence: RegExp;
  readonly #termsByWord = new Map<string, readonly string[]>();

  constructor(terms: readonly string[]) {
    this.#wanted = new Set(terms);
    this.#occurrence = new RegExp(terms.map((term) => term.replaceAll("$", "\\$")).join("|"), "gi");
  }

  /** Returns how often each term occurs in the lines. */
  count(lines: readonly string[]): Map<string, number> {
    const counts = new Map<string, number>();
    for (const line of lines) {
      for (const word of this.#wordsOf(line)) {
        for (const term of this.#termsOf(word)) counts.set(term, (counts.get(term) ?? 0) + 1);
      }
    }
    return counts;
  }

  /** Returns the words of a line that may contain a term. */
  #wordsOf(line: string): readonly string[] {
    // In other scripts, lower-casing may change the length, or follow other rules than RegExp's.
    if (!asciiLine.test(line)) return line.match(identifier) ?? [];
    const words: string[] = [];
    const occurrence = this.#occurrence;
    occurrence.lastIndex = 0;
    for (let found = occurrence.exec(line); found; found = occurrence.exec(line)) {
      let start = found.index;
      let end = occurrence.lastIndex;
      while (start > 0 && asciiWordPart.test(line.charAt(start - 1))) start--;
      while (end < line.length && asciiWordPart.test(line.charAt(end))) end++;
      words.push(...(line.slice(start, end).match(identifier) ?? []));
      occurrence.lastIndex = end;
    }
    return words;
  }

  #termsOf(word: string): readonly string[] {
    const known = this.#termsByWord.get(word);
    if (known) return known;
    const terms = termsOfWord(word).filter((term) => this.#wanted.has(term));
    if (this.#termsByWord.size >= maxKnownWords) this.#termsByWord.clear();
    this.#termsByWord.set(word, terms);
    return terms;
  }
}

function saturated(count: number, relativeLength: number): number {
  const slowed = saturation * (1 - lengthWeight + lengthWeight * relativeLength);
  return (count * (saturation + 1)) / (count + slowed);
}

/** Returns the matching symbols, best first. `scores` caches the score of each name. */
function rankSymbols(symbols: readonly CodeSymbol[], weighted: readonly Weighted[], scores: Map<string, number>) {
  const scored = symbols.map((symbol) => {
    const score = scores.get(symbol.name) ?? scoreOf(symbol.name, weighted);
    scores.set(symbol.name, score);
    return { symbol, score };
  });
  return scored.filter(({ score }) => score > 0).sort((a, b) => b.score - a.score);
}

function scoreOf(name: string, weighted: readonly Weighted[]): number {
  const whole = name.toLowerCase();
  const parts = splitIdentifier(name);
  return weighted.reduce((sum, { term, weight }) => {
    if (term === whole) return sum + wholeSymbolWeight * weight;
    // The more parts a name has, the less each of them counts.
    return parts.includes(term) ? sum + (partSymbolWeight * weight) / Math.sqrt(parts.length) : sum;
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
const modifier =
  "export|default|declare|public|private|protected|internal|abstract|final|sealed|static|async|override|readonly|pub|unsafe|extern|partial|virtual|inline|open|data|suspend|get|set";
// Each alternative in a loop ends in white space, so there is only one way to match a line (no backtracking).
const declaration = new RegExp(
  `^\\s*(?:(?:${modifier})\\s+)*(?:${keyword})\\s*\\*?\\s+(?:\\([^()]*\\)\\s*)?${namePart}`,
  "u",
);
const method = new RegExp(`^\\s+(?:(?:${modifier})\\s+)*[*#]?${namePart}\\s*\\([^;{}]*\\)[^;=]*\\{\\s*$`, "u");
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

/** Finds definitions in common languages line by line, and headings in Markdown. */
export function codeSymbols(lines: readonly string[], path: string): CodeSymbol[] {
  const isProse = /\.(md|mdx|markdown|rst|txt)$/i.test(path);
  return lines.flatMap((text, index) => {
    if (text.length > maxSymbolLineLength) return [];
    const found = isProse ? heading.exec(text)?.[1] : (declaration.exec(text)?.[1] ?? method.exec(text)?.[1]);
    return found === undefined || controlKeywords.has(found) ? [] : [{ name: found, line: index + 1 }];
  });
}
