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

/** The terms of a query without stop words, unless it has only stop words. */
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

/** Ranks files by relevance, best first, among `total` files. Files that match no term are left out. */
export function rankFiles(
  candidates: readonly CandidateFile[],
  terms: readonly string[],
  { total }: { total: number },
): RankedFile[] {
  const wanted = new Set(terms);
  const counted = candidates.map((file) => ({ file, counts: countTerms(file.lines, wanted) }));
  const averageSize = candidates.reduce((sum, { size }) => sum + size, 0) / Math.max(1, candidates.length);
  const weighted = terms.map((term): Weighted => {
    const files = counted.filter(({ counts }) => counts.has(term)).length;
    return { term, weight: Math.log(1 + (total - files + 0.5) / (files + 0.5)) };
  });
  const ranked = counted.map(({ file: { path, size, lines }, counts }) => {
    const inPath = new Set(codeTerms(path));
    const symbols = rankSymbols(codeSymbols(lines, path), weighted);
    const uses = weighted.reduce((sum, { term, weight }) => {
      const inText = saturated(counts.get(term) ?? 0, size / Math.max(1, averageSize));
      return sum + weight * (inText + (inPath.has(term) ? pathWeight : 0));
    }, 0);
    return { path, score: uses + (symbols[0]?.score ?? 0), symbols: symbols.map(({ symbol }) => symbol) };
  });
  return ranked.filter(({ score }) => score > 0).sort((a, b) => b.score - a.score || (a.path < b.path ? -1 : 1));
}

function countTerms(lines: readonly string[], wanted: ReadonlySet<string>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const line of lines) {
    for (const term of codeTerms(line)) if (wanted.has(term)) counts.set(term, (counts.get(term) ?? 0) + 1);
  }
  return counts;
}

function saturated(count: number, relativeLength: number): number {
  const slowed = saturation * (1 - lengthWeight + lengthWeight * relativeLength);
  return (count * (saturation + 1)) / (count + slowed);
}

function rankSymbols(symbols: readonly CodeSymbol[], weighted: readonly Weighted[]) {
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

const identifier = /[\p{L}_$][\p{L}\p{N}_$]*/gu;
const maxTermLength = 64;

/** Splits a text into lower-case terms: each identifier, and the parts of camelCase and snake_case identifiers. */
export function codeTerms(text: string): string[] {
  const terms: string[] = [];
  for (const [word] of text.matchAll(identifier)) {
    if (word.length > maxTermLength) continue;
    const whole = word.toLowerCase();
    const parts = splitIdentifier(word);
    terms.push(whole);
    if (parts.length > 1 || parts[0] !== whole) terms.push(...parts);
  }
  return terms;
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
  /** From 1. */
  line: number;
}

const maxSymbolLineLength = 400;
const namePart = "([\\p{L}_$][\\p{L}\\p{N}_$]*)";
const keyword =
  "function|class|interface|type|enum|struct|trait|impl|union|record|protocol|namespace|module|mod|object|def|fn|fun|func|sub|proc|const|let|var|val|static|macro_rules!";
const modifier =
  "export|default|declare|public|private|protected|internal|abstract|final|sealed|static|async|override|readonly|pub|unsafe|extern|partial|virtual|inline|open|data|suspend|get|set";
// Each alternative in a loop ends in white space, so that there is only one way to match a line (no backtracking).
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

/** Finds definitions in common languages by single lines, and headings in Markdown. */
export function codeSymbols(lines: readonly string[], path: string): CodeSymbol[] {
  const isProse = /\.(md|mdx|markdown|rst|txt)$/i.test(path);
  return lines.flatMap((text, index) => {
    if (text.length > maxSymbolLineLength) return [];
    const found = isProse ? heading.exec(text)?.[1] : (declaration.exec(text)?.[1] ?? method.exec(text)?.[1]);
    return found === undefined || controlKeywords.has(found) ? [] : [{ name: found, line: index + 1 }];
  });
}
