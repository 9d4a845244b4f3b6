import { createHmac, hkdfSync } from "node:crypto";
import { isSameSecret } from "./is-same-secret.ts";

/** A key of its own for each use of the one secret a deployment has, so that none says anything about another. */
export function deriveKey(secret: string, use: string): Buffer {
  return Buffer.from(hkdfSync("sha256", secret, "", `golem-forge ${use}`, 32));
}

export interface RunLinks {
  /** The path of a root run's page. Whoever has it may watch, and nothing else. */
  pathOf(runId: string): string;
  /** Whether this is the key in the path of that run's page; takes the same time whatever is wrong. */
  isKey(runId: string, key: string): boolean;
}

/** Hexadecimal digits: 128 bits nobody guesses. */
const keyLength = 32;

/** The addresses of run pages. They hold as long as the webhook's secret does, on every replica. */
export function createRunLinks(secret: string): RunLinks {
  const signing = deriveKey(secret, "run page");
  const keyOf = (runId: string) => createHmac("sha256", signing).update(runId).digest("hex").slice(0, keyLength);
  return {
    pathOf: (runId) => `/runs/${runId}/${keyOf(runId)}`,
    isKey: (runId, key) => isSameSecret(key, keyOf(runId)),
  };
}
