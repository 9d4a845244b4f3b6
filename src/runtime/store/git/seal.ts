import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import { gunzipSync, gzipSync } from "node:zlib";
import { UserError } from "#domain/errors.ts";

const algorithm = "aes-256-gcm";
const nonceBytes = 12;
const tagBytes = 16;

/** Encrypts files so that they can be read or created only with the secret. */
export class Seal {
  readonly #key: Buffer;
  readonly #scope: string;

  /** `scope` identifies the owner: a file cannot be moved to another scope or renamed. */
  constructor({ secret, salt, scope }: { secret: string; salt: string; scope: string }) {
    this.#key = Buffer.from(hkdfSync("sha256", secret, salt, `golem-forge state ${scope}`, 32));
    this.#scope = `${scope} ${salt}`;
  }

  /** Compresses and encrypts with AES-256-GCM. */
  close(name: string, content: Uint8Array): Buffer {
    const nonce = randomBytes(nonceBytes);
    const cipher = createCipheriv(algorithm, this.#key, nonce);
    cipher.setAAD(Buffer.from(`${this.#scope} ${name}`));
    const encrypted = Buffer.concat([cipher.update(gzipSync(content)), cipher.final()]);
    return Buffer.concat([nonce, cipher.getAuthTag(), encrypted]);
  }

  /** Throws a UserError for content that was sealed with another secret, or was modified. */
  open(name: string, sealed: Buffer): Buffer {
    try {
      const decipher = createDecipheriv(algorithm, this.#key, sealed.subarray(0, nonceBytes), {
        authTagLength: tagBytes,
      });
      decipher.setAAD(Buffer.from(`${this.#scope} ${name}`));
      decipher.setAuthTag(sealed.subarray(nonceBytes, nonceBytes + tagBytes));
      const content = Buffer.concat([decipher.update(sealed.subarray(nonceBytes + tagBytes)), decipher.final()]);
      return gunzipSync(content);
    } catch (error) {
      throw new UserError(
        "The saved runs cannot be decrypted: they were saved with another secret. Set GOLEM_FORGE_STATE_SECRET to the secret they were saved with (by default the model's key), or delete the ref to start without them.",
        { cause: error },
      );
    }
  }
}
