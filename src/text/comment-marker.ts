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

/**
 * Removes the app's markers from a text that a model wrote, and marks lines that look like the app's own headings, so that
 * nobody takes them for a request for approval or for a section that is made from the log.
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
    return isImitation(line, isUnderlined) ? `${line.trimEnd()} ${ofWorker}` : line;
  });
}

function isImitation(line: string, isUnderlined: boolean): boolean {
  if (line.trimEnd().endsWith(ofWorker)) return false;
  const title = line
    .replace(/<[^<>]{0,200}>|[#*_~>:=]/g, " ")
    .trim()
    .toLowerCase();
  // An HTML heading may have begun on a line above, so that the sign of a request counts anywhere.
  if (sectionTitles.has(title) || title.startsWith("🔐")) return true;
  const isHeading = isUnderlined || /^[ >]{0,9}(?:#|\*\*|__|<[hbs])/i.test(line);
  return isHeading && /\basks for approval\b|\bneeds your confirmation\b/.test(title);
}
