import { type CodeIndex, countOf, type IndexedFile } from "./code-index.ts";
import type { CodeSymbol } from "./code-symbols.ts";
import { codeTerms, splitIdentifier } from "./code-terms.ts";

export interface RankedFile {
  path: string;
  score: number;
  /** Definitions whose names match the query, best first. */
  symbols: CodeSymbol[];
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

/** The terms of a query without stop words, unless it has only stop words. */
export function queryTerms(query: string): string[] {
  const terms = [...new Set(codeTerms(query))];
  const specific = terms.filter((term) => !stopWords.has(term));
  return specific.length > 0 ? specific : terms;
}

/** Ranks files by relevance, best first. Files that match no term are left out. */
export function rankFiles(
  files: ReadonlyMap<string, IndexedFile>,
  terms: readonly string[],
  index: CodeIndex,
): RankedFile[] {
  const weighted = terms.map((term) => ({ term, id: index.termId(term), weight: 0 }));
  const averageLength = [...files.values()].reduce((sum, { length }) => sum + length, 0) / Math.max(1, files.size);
  for (const entry of weighted) {
    const { id } = entry;
    const having = id === undefined ? 0 : [...files.values()].filter((file) => countOf(file, id) > 0).length;
    entry.weight = Math.log(1 + (files.size - having + 0.5) / (having + 0.5));
  }
  const ranked = [...files].map(([path, file]) => {
    const inPath = new Set(codeTerms(path));
    const named = symbolScores(file.symbols, weighted);
    let score = named[0]?.score ?? 0;
    for (const { term, id, weight } of weighted) {
      if (inPath.has(term)) score += pathWeight * weight;
      if (id !== undefined) score += weight * saturated(countOf(file, id), file.length / Math.max(1, averageLength));
    }
    return { path, score, symbols: named.map(({ symbol }) => symbol) };
  });
  return ranked.filter(({ score }) => score > 0).sort((a, b) => b.score - a.score || (a.path < b.path ? -1 : 1));
}

function saturated(count: number, relativeLength: number): number {
  const slowed = saturation * (1 - lengthWeight + lengthWeight * relativeLength);
  return (count * (saturation + 1)) / (count + slowed);
}

function symbolScores(symbols: readonly CodeSymbol[], weighted: readonly { term: string; weight: number }[]) {
  const scores = symbols.map((symbol) => {
    const whole = symbol.name.toLowerCase();
    const parts = splitIdentifier(symbol.name);
    const score = weighted.reduce((sum, { term, weight }) => {
      if (term === whole) return sum + wholeSymbolWeight * weight;
      // The more parts a name has, the less each one counts.
      return parts.includes(term) ? sum + (partSymbolWeight * weight) / Math.sqrt(parts.length) : sum;
    }, 0);
    return { symbol, score };
  });
  return scores.filter(({ score }) => score > 0).sort((a, b) => b.score - a.score);
}
