import { createHash } from "node:crypto";
import { splitFences } from "./markdown-code.ts";

/** The hidden last line that identifies a comment of the App. */
export function markerOf(name: string): string {
  return `<!-- golem-forge:${encodeURIComponent(name.toWellFormed()).replaceAll("--", "%2D%2D")} -->`;
}

/** True when the last line of a comment is the marker of this name; anywhere else it is just text. */
export function hasMarker(body: string, name: string): boolean {
  return body.trimEnd().split("\n").at(-1)?.trim() === markerOf(name);
}

/** Returns a hidden line that identifies a post, so that a retry finds the earlier post instead of posting twice. */
export function postMarker(idempotencyKey: string): string {
  return `<!-- golem-forge:post ${createHash("sha256").update(idempotencyKey).digest("hex").slice(0, 32)} -->`;
}

/** True for a comment that a deployment of this app has posted. */
export function hasAnyMarker(body: string): boolean {
  return /^<!-- golem-forge:\S[^<>]{0,1000} -->$/.test(body.trimEnd().split("\n").at(-1)?.trim() ?? "");
}

/** Follows a line that only looks like one of the app. */
const ofWorker = "(written by the worker)";
/** The titles of the app's sections in the description of a pull request. */
const sectionTitles = new Set(["approvals", "what was run"]);

/** The commands that answer a request. */
const answer = /(?<![\w./-])\/(?:approve|deny|revoke)\b/;

/** Lowercase letters of other scripts, each followed by the letter that it looks like. */
const lookalikes = new Map(
  "аa αa ɑa ԁd еe ɡg һh іi ιi ӏl κk кk мm пn ոn оo οo օo рp ρp ԛq ѕs тt τt υu νv ѵv ԝw хx χx уy γy"
    .split(" ")
    .map(([letter = "", plain = ""]) => [letter, plain]),
);

/** Returns a text as people read it: in lowercase letters, without accents, and plain where letters only look so. */
function asRead(text: string): string {
  const letters = text.normalize("NFKD").toLowerCase().replace(/\p{M}/gu, "");
  return letters.replace(
    /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}ɑɡ]/gu,
    (letter) => lookalikes.get(letter) ?? letter,
  );
}

/**
 * Removes the app's markers from a text that a model wrote, and marks lines that look like the app's own headings or contain
 * a command that answers a request, so that nobody takes them for a request for approval or for a section that is made from
 * the log.
 */
export function markImitations(text: string): string {
  const unmarked = text.replace(/<!-- \/?golem-forge: (?:approvals|evidence) -->/g, "");
  return splitFences(unmarked)
    .map(({ text: part, code }) => (code ? part : markLines(part.split("\n")).join("\n")))
    .join("");
}

const underline = /^[ >]{0,9}(?:=+|-+)[ \t]*$/;

function markLines(lines: readonly string[]): string[] {
  return lines.map((line, at) => {
    const isUnderlined = underline.test(lines[at + 1] ?? "");
    return isImitation(line, isUnderlined) ? markLine(line) : line;
  });
}

/** Adds the mark, before a line break. In a row of a table, it is in the last cell: further cells would not be shown. */
function markLine(line: string): string {
  const text = withoutEnd(line);
  const end = line.slice(text.length);
  return `${text} ${ofWorker}${end.trim() === "|" ? " |" : /^(?: {2,}|\\)$/.test(end) ? end : ""}`;
}

/** Returns a line without the end of a row of a table, or its line break. */
function withoutEnd(line: string): string {
  const text = line.trimEnd();
  return text.endsWith("|") || /(?<!\\)(?:\\\\)*\\$/.test(line) ? text.slice(0, -1).trimEnd() : text;
}

const markup = /<[^<>]{0,200}>|[#*_~>:=]/g;

/** Returns a line with the characters that GitHub shows for numeric entities and `&sol;`, a slash. */
function withoutEntities(line: string): string {
  return line.replace(/&(?:#(\d{1,7})|#x([\da-f]{1,6})|sol);/gi, (entity, decimal = "47", hexadecimal = undefined) => {
    const code = hexadecimal === undefined ? Number(decimal) : Number.parseInt(hexadecimal, 16);
    return code <= 0x10ffff ? String.fromCodePoint(code) : entity;
  });
}

function isImitation(line: string, isUnderlined: boolean): boolean {
  if (withoutEnd(line).endsWith(ofWorker)) return false;
  const text = withoutEntities(line);
  const title = asRead(text.replace(markup, " ")).trim();
  // An HTML heading may have begun on a line above, so that the sign of a request counts anywhere.
  if (sectionTitles.has(title) || title.startsWith("🔐") || answer.test(title)) return true;
  // Markup within a word is not shown.
  if (answer.test(asRead(text.replace(markup, "")))) return true;
  const isHeading = isUnderlined || /^[ >]{0,9}(?:#|\*\*|__|<[hbs])/i.test(line);
  return isHeading && /\basks for approval\b|\bneeds your confirmation\b/.test(title);
}
