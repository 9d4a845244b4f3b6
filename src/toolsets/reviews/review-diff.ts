import type { DiffSide } from "#domain/github.ts";

interface DiffLine {
  text: string;
  /** The number of the line before the change; undefined for an added line. */
  left: number | undefined;
  right: number | undefined;
}

/** The lines of a file that a review can comment on, by hunk. */
export type DiffHunks = DiffLine[][];

export function parseHunks(patch: string): DiffHunks {
  const hunks: DiffHunks = [];
  let [left, right] = [0, 0];
  for (const text of patch.split("\n")) {
    const header = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(text);
    if (header) {
      [left, right] = [Number(header[1]), Number(header[2])];
      hunks.push([]);
    } else if (/^[ +-]/.test(text)) {
      const line = {
        text: text.slice(1),
        left: text.startsWith("+") ? undefined : left++,
        right: text.startsWith("-") ? undefined : right++,
      };
      hunks.at(-1)?.push(line);
    }
  }
  return hunks;
}

export interface LineRange {
  startLine: number;
  line: number;
  side: DiffSide;
}

/** Returns the lines of a range, which must be in one hunk; undefined if they are not. */
export function linesOf(hunks: DiffHunks, { startLine, line, side }: LineRange): string[] | undefined {
  const numberOf = ({ left, right }: DiffLine) => (side === "LEFT" ? left : right);
  for (const hunk of hunks) {
    const numbers = hunk.map(numberOf);
    if (!numbers.includes(startLine) || !numbers.includes(line)) continue;
    return hunk.filter((one) => isBetween(numberOf(one), startLine, line)).map(({ text }) => text);
  }
  return undefined;
}

function isBetween(number: number | undefined, first: number, last: number): boolean {
  return number !== undefined && number >= first && number <= last;
}

/** Describes the lines that a review can comment on, such as `1-7, 20-31`. */
export function describeHunks(hunks: DiffHunks, side: DiffSide): string {
  const ranges = hunks.flatMap((hunk) => {
    const numbers = hunk.flatMap(({ left, right }) => (side === "LEFT" ? left : right) ?? []);
    return numbers.length === 0 ? [] : [`${numbers[0]}-${numbers.at(-1)}`];
  });
  return ranges.join(", ") || "none";
}

/** Renders a diff with the line numbers that a review comment takes: before and after the change. */
export function renderHunks(hunks: DiffHunks): string {
  return hunks.map((hunk) => hunk.map(renderLine).join("\n")).join("\n...\n");
}

function renderLine({ text, left, right }: DiffLine): string {
  const sign = left === undefined ? "+" : right === undefined ? "-" : " ";
  return `${String(left ?? "").padStart(5)} ${String(right ?? "").padStart(5)} ${sign}${text}`;
}
