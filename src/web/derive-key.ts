import { hkdfSync } from "node:crypto";

/** Derives the key for one use from the deployment's secret. One derived key reveals nothing about another. */
export function deriveKey(secret: string, use: string): Buffer {
  return Buffer.from(hkdfSync("sha256", secret, "", `golem-forge ${use}`, 32));
}
