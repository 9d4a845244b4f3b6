import { createHash } from "node:crypto";

/** A hidden line that names a post for ever, so that it is found again before it is posted twice. */
export function postMarker(idempotencyKey: string): string {
  return `<!-- golem-forge:post ${createHash("sha256").update(idempotencyKey).digest("hex").slice(0, 32)} -->`;
}
