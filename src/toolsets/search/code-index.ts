import { type CodeSymbol, codeSymbols } from "./code-symbols.ts";
import { codeTerms } from "./code-terms.ts";

/** A file as the index has it: which terms it holds and how often, in order of their ids. */
export interface IndexedFile {
  terms: Uint32Array;
  counts: Uint16Array;
  /** Terms in all, repetitions included. */
  length: number;
  symbols: CodeSymbol[];
}

/** The files of one commit, indexed as they are asked for and kept for every run on it. */
export interface CodeIndex {
  /** The number that stands for a term; undefined when no file has it. */
  termId(term: string): number | undefined;
  file(path: string): IndexedFile | undefined;
  keep(path: string, file: IndexedFile): void;
  /** Indexes a text; what is not of the commit is not to be kept. */
  read(path: string, text: string): IndexedFile;
}

// A commit of a large repository takes a few megabytes.
const maxIndexes = 4;
const indexes = new Map<string, CodeIndex>();

/** The index of a commit, shared by all who name the same tenant and commit. The least recently used ones are dropped. */
export function codeIndexOf(key: string): CodeIndex {
  const index = indexes.get(key) ?? createCodeIndex();
  indexes.delete(key);
  indexes.set(key, index);
  for (const oldest of indexes.keys()) {
    if (indexes.size <= maxIndexes) break;
    indexes.delete(oldest);
  }
  return index;
}

function createCodeIndex(): CodeIndex {
  const ids = new Map<string, number>();
  const files = new Map<string, IndexedFile>();

  function idOf(term: string): number {
    const known = ids.get(term);
    if (known !== undefined) return known;
    ids.set(term, ids.size);
    return ids.size - 1;
  }

  return {
    termId: (term) => ids.get(term),
    file: (path) => files.get(path),
    keep: (path, file) => {
      files.set(path, file);
    },
    read: (path, text) => {
      const counts = new Map<number, number>();
      const terms = codeTerms(text);
      for (const term of terms) {
        const id = idOf(term);
        counts.set(id, (counts.get(id) ?? 0) + 1);
      }
      const sorted = [...counts].sort(([a], [b]) => a - b);
      return {
        terms: Uint32Array.from(sorted, ([id]) => id),
        counts: Uint16Array.from(sorted, ([, count]) => Math.min(count, 65_535)),
        length: terms.length,
        symbols: codeSymbols(text.split("\n"), path),
      };
    },
  };
}

/** How often a file has a term. */
export function countOf({ terms, counts }: IndexedFile, id: number): number {
  let [low, high] = [0, terms.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    const at = terms[middle] ?? 0;
    if (at === id) return counts[middle] ?? 0;
    if (at < id) low = middle + 1;
    else high = middle - 1;
  }
  return 0;
}
