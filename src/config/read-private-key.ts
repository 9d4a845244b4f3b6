import { createPrivateKey } from "node:crypto";
import { readFileSync } from "node:fs";

/** The App's private key as PEM, from the environment or the file it names; a sentence where there is none. */
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
    return { pem: "", problem: `PRIVATE_KEY_PATH names a file that cannot be read: ${env.PRIVATE_KEY_PATH}` };
  }
}

function checkPem(text: string, name: string): { pem: string; problem?: string } {
  const plain = text.includes("-----BEGIN") ? text : Buffer.from(text, "base64").toString("utf8");
  const pem = plain.replaceAll("\\n", "\n").trim();
  // Node may blame a right key for an error that something else left behind in OpenSSL; the second look is at the key.
  if (isKey(pem) || isKey(pem)) return { pem };
  return { pem: "", problem: `${name} is no private key that can be read: a PEM file, as it is or in base64` };
}

function isKey(pem: string): boolean {
  try {
    createPrivateKey(pem);
    return true;
  } catch {
    return false;
  }
}
