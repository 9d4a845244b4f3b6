import { createPrivateKey } from "node:crypto";
import { readFileSync } from "node:fs";

/** Reads the App's private key from PRIVATE_KEY or from the file PRIVATE_KEY_PATH. Returns a problem if there is no valid key. */
export function readPrivateKey(env: Record<string, string | undefined>): { pem: string; problem?: string } {
  if (env.PRIVATE_KEY) return checkPem(env.PRIVATE_KEY, "PRIVATE_KEY");
  if (!env.PRIVATE_KEY_PATH) {
    return {
      pem: "",
      problem: "PRIVATE_KEY or PRIVATE_KEY_PATH is not set: download a key on your GitHub App's settings page",
    };
  }
  try {
    return checkPem(readFileSync(env.PRIVATE_KEY_PATH, "utf8"), "PRIVATE_KEY_PATH");
  } catch {
    return { pem: "", problem: `The file in PRIVATE_KEY_PATH cannot be read: ${env.PRIVATE_KEY_PATH}` };
  }
}

function checkPem(text: string, name: string): { pem: string; problem?: string } {
  const plain = text.includes("-----BEGIN") ? text : Buffer.from(text, "base64").toString("utf8");
  const pem = plain.replaceAll("\\n", "\n").trim();
  // A stale OpenSSL error of an earlier operation can make the first attempt fail.
  if (isKey(pem) || isKey(pem)) return { pem };
  return { pem: "", problem: `${name} is not a valid private key: expected PEM, as it is or in base64` };
}

function isKey(pem: string): boolean {
  try {
    createPrivateKey(pem);
    return true;
  } catch {
    return false;
  }
}
