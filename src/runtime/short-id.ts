import { createHash } from "node:crypto";

const letters = "abcdefghjkmnpqrstvwxyz0123456789";

/** A short name that can be read aloud and typed on a phone, always the same for the same seed. No i, l, o or u. */
export function shortId(seed: string, length: number): string {
  const bytes = createHash("sha256").update(seed).digest();
  return Array.from(bytes.subarray(0, length), (byte) => letters[byte % letters.length]).join("");
}
