import { createHash } from "node:crypto";

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
