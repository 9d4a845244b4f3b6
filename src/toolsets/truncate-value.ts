import type { ResultValue } from "#domain/result.ts";
import { truncateText } from "#text/truncate.ts";

/** Characters of JSON that are kept of one result for people: it is stored for ever, and drawn again with every status. */
const longest = 400_000;

/** Tried in turn: how long a text and how long a list may be. */
const steps = [
  { characters: 100_000, items: 5_000 },
  { characters: 10_000, items: 500 },
  { characters: 1_000, items: 50 },
];

/** The value, or where it is too long to be kept the same with its texts cut in the middle and its lists at their end. */
export function truncateValue(value: ResultValue): ResultValue {
  if (sizeOf(value) <= longest) return value;
  for (const step of steps) {
    const shorter = shorten(value, step) as ResultValue;
    if (sizeOf(shorter) <= longest) return shorter;
  }
  const content = `The result is too large to be kept: ${sizeOf(value).toLocaleString("en-US")} characters.`;
  return { kind: "text", content };
}

function sizeOf(value: unknown): number {
  return JSON.stringify(value).length;
}

function shorten(value: unknown, step: (typeof steps)[number]): unknown {
  if (typeof value === "string") return truncateText(value, step.characters);
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.slice(0, step.items).map((item) => shorten(item, step));
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, shorten(member, step)]));
}
