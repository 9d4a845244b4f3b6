import { createHash } from "node:crypto";

/** Returns a hidden line that identifies a post, so that a retry finds the earlier post instead of posting twice. */
export function postMarker(idempotencyKey: string): string {
  return `<!-- golem-forge:post ${createHash("sha256").update(idempotencyKey).digest("hex").slice(0, 32)} -->`;
}
