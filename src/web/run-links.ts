import { createHmac, hkdfSync } from "node:crypto";
import { equalSecrets } from "#text/equal-secrets.ts";

export type RunLinks = ReturnType<typeof createRunLinks>;

/** Hexadecimal digits: 128 bits. */
const keyLength = 32;

/** Creates the addresses of run pages. They are valid on every replica until the webhook secret changes. */
export function createRunLinks(secret: string) {
  const signingKey = deriveKey(secret, "run page");
  const keyOf = (runId: string) => createHmac("sha256", signingKey).update(runId).digest("hex").slice(0, keyLength);
  return {
    /** The path of a root run's page. The path alone allows reading, nothing else. */
    pathOf: (runId: string) => `/runs/${runId}/${keyOf(runId)}`,
    /** Verifies the key in the path of a run's page, in constant time. */
    isKey: (runId: string, key: string) => equalSecrets(key, keyOf(runId)),
  };
}

/** Returns true for `/`, `/favicon.ico`, `/costs`, `/costs.csv`, and `/runs` with everything below it. */
export function isPagePath(url = ""): boolean {
  const [path = ""] = url.split("?", 1);
  return /^\/(?:$|favicon\.ico$|costs$|costs\.csv$|runs$|runs\/)/.test(path);
}

/** Derives the key for one use from the deployment's secret. One derived key reveals nothing about another. */
export function deriveKey(secret: string, use: string): Buffer {
  return Buffer.from(hkdfSync("sha256", secret, "", `golem-forge ${use}`, 32));
}
