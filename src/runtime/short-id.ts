import { createHash } from "node:crypto";

const alphabet = "abcdefghjkmnpqrstvwxyz0123456789";

/** Returns an id that is easy to read aloud and to type, without i, l, o and u. The same seed gives the same id. */
export function shortId(seed: string, length: number): string {
  const bytes = createHash("sha256").update(seed).digest();
  return Array.from(bytes.subarray(0, length), (byte) => alphabet[byte % alphabet.length]).join("");
}
