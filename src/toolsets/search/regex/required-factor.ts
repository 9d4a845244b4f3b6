import type { CharClass } from "./char-class.ts";
import type { RegexNode } from "./parse-regex.ts";

/** A part that every match contains, as a RegExp over UTF-8 bytes read as Latin-1. Takes linear time. */
export interface RequiredFactor {
  expression: RegExp;
  /** The possible texts of the part, if there are only a few. */
  literals: readonly string[] | undefined;
  /** True if a line matches the pattern exactly when it contains the part. */
  isExact: boolean;
}

/** A piece of a factor. `choices` counts the ways to match it, which bounds the time. */
interface Piece {
  source: string;
  literals: readonly string[] | undefined;
  /** Its rarity in bits. */
  bits: number;
  choices: number;
  isExact: boolean;
}

const minBits = 5;
const maxFactors = 4;
const maxLiterals = 6;
const maxChoices = 64;
const maxPieces = 64;
/** The maximum number of bytes that a factor matches: each of its pieces is one character. */
export const maxFactorBytes = 4 * maxPieces;
const nothing: Piece = { source: "", literals: [""], bits: 0, choices: 1, isExact: true };

/** Finds the factors of a pattern, the one that is probably rarest first. Empty if the pattern requires nothing rare. */
export function findRequiredFactors(node: RegexNode): RequiredFactor[] {
  const { runs, isWhole } = splitAtOptional(node);
  return runs
    .filter(({ bits }) => bits >= minBits)
    .sort((a, b) => b.bits - a.bits)
    .slice(0, maxFactors)
    .map(({ source, literals, isExact }) => ({
      expression: new RegExp(source, "g"),
      literals,
      isExact: isWhole && isExact,
    }));
}

/** Returns the runs of pieces that every match contains, and whether the first run is the whole node. */
function splitAtOptional(node: RegexNode): { runs: Piece[]; isWhole: boolean } {
  const runs: Piece[] = [];
  let run = nothing;
  let isWhole = true;
  let visited = 0;

  function cut(): void {
    runs.push(run);
    run = nothing;
    isWhole = false;
  }

  function append(piece: Piece): void {
    if (run.choices * piece.choices > maxChoices) cut();
    run = join(run, piece);
  }

  function visit(item: RegexNode): void {
    visited++;
    if (visited > maxPieces) {
      cut();
      return;
    }
    switch (item.kind) {
      case "empty":
        return;
      case "assert":
        // Assertions are checked when the line is matched. Without them the factor finds more lines, never fewer.
        isWhole = false;
        return;
      case "class": {
        const piece = classPiece(item.class);
        if (piece) append(piece);
        else cut();
        return;
      }
      case "alternate": {
        const alternatives = alternatePiece(item.items);
        if (alternatives?.isWhole) append(alternatives.piece);
        else cut();
        if (alternatives && !alternatives.isWhole) runs.push(alternatives.piece);
        return;
      }
      case "concat":
        for (const part of item.items) visit(part);
        return;
      case "repeat":
        for (let count = 0; count < item.min && visited <= maxPieces; count++) visit(item.item);
        if (item.max !== item.min) cut();
    }
  }

  visit(node);
  const wasWhole = isWhole;
  cut();
  return { runs, isWhole: wasWhole };
}

/** Returns the texts, unless there are none or too many. */
function upTo(limit: number, texts: string[] | undefined): string[] | undefined {
  return texts && texts.length > 0 && texts.length <= limit ? texts : undefined;
}

function join(left: Piece, right: Piece): Piece {
  return {
    source: left.source + right.source,
    literals: upTo(
      maxLiterals,
      left.literals?.flatMap((start) => (right.literals ?? []).map((end) => start + end)),
    ),
    bits: left.bits + right.bits,
    choices: left.choices * right.choices,
    isExact: left.isExact && right.isExact,
  };
}

/** Returns a piece that matches any of the alternatives; undefined if one of them requires nothing. */
function alternatePiece(items: readonly RegexNode[]): { piece: Piece; isWhole: boolean } | undefined {
  const found = items.map((item) => {
    const { runs, isWhole } = splitAtOptional(item);
    return { piece: runs.reduce((best, next) => (next.bits > best.bits ? next : best)), isWhole };
  });
  const choices = found.reduce((sum, { piece }) => sum + piece.choices, 0);
  if (choices > maxChoices || found.some(({ piece }) => piece.source === "")) return undefined;

  const piece = {
    source: `(?:${found.map((alternative) => alternative.piece.source).join("|")})`,
    literals: found.every(({ piece }) => piece.literals)
      ? upTo(maxLiterals, [...new Set(found.flatMap(({ piece }) => piece.literals ?? []))])
      : undefined,
    bits: Math.min(...found.map((alternative) => alternative.piece.bits)) - Math.log2(items.length),
    choices,
    isExact: found.every((alternative) => alternative.piece.isExact),
  };
  return { piece, isWhole: found.every(({ isWhole }) => isWhole) };
}

function classPiece(set: CharClass): Piece | undefined {
  if (set.literal !== undefined && !set.ignoreCase) {
    const literal = Buffer.from(set.literal).toString("latin1");
    return {
      source: escapeLatin1(literal),
      literals: [literal],
      bits: 6.5 * literal.length,
      choices: 1,
      isExact: true,
    };
  }
  const members = set.ascii.flatMap((isMember, codePoint) => (isMember ? [codePoint] : []));
  const ascii =
    members.length > 0 ? [`[${members.map((member) => escapeLatin1(String.fromCharCode(member))).join("")}]`] : [];
  const other = set.mayHaveNonAscii ? ["[\\xc2-\\xf4][\\x80-\\xbf]{1,3}"] : [];
  const sources = [...ascii, ...other];
  if (sources.length === 0) return undefined;
  return {
    source: sources.length === 1 ? (sources[0] ?? "") : `(?:${sources.join("|")})`,
    literals: undefined,
    bits: Math.max(0, Math.log2(95 / Math.max(1, members.length))),
    choices: other.length > 0 ? 3 : 1,
    isExact: other.length === 0,
  };
}

function escapeLatin1(text: string): string {
  return text.replace(/[\s\S]/g, (character) =>
    /[0-9A-Za-z]/.test(character) ? character : `\\x${character.charCodeAt(0).toString(16).padStart(2, "0")}`,
  );
}
