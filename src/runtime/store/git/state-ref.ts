import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { gunzipSync, gzipSync } from "node:zlib";
import { withRetries } from "#domain/async-work.ts";
import { OutageError, UserError } from "#domain/errors.ts";
import { LeaseLostError, withLease } from "#domain/work-context.ts";
import {
  encodePack,
  encodeTree,
  type GitObject,
  hashObject,
  parseCommit,
  parseTree,
} from "#sandbox/git/git-objects.ts";
import { ObjectStore } from "#sandbox/git/object-store.ts";
import { connect, type Remote } from "#sandbox/git/remote.ts";

export interface StateRefOptions {
  /** The smart HTTP address of the repository, without credentials. */
  url: string;
  token: () => Promise<string>;
  /** `refs/golem-forge/state`. */
  ref: string;
}

export interface RefState {
  files: Map<string, Buffer>;
  message: string;
}

const retryPausesMs = [250, 1_000, 3_000, 8_000];
const author = "golem-forge <golem-forge@users.noreply.github.com>";

/**
 * A ref with one commit, whose files are replaced by compare-and-swap: the server moves the ref only from the commit
 * that this process saw last. The commits have no parents, so that the server can delete replaced data.
 */
export class StateRef {
  readonly #options: StateRefOptions;
  /** The commit that the ref had when it was last read or written. */
  #tip: string | undefined;
  /** The objects of files that the server does not have yet. */
  readonly #unsent = new Map<string, GitObject>();
  #files = new Map<string, string>();

  constructor(options: StateRefOptions) {
    this.#options = options;
  }

  /** Reads the ref. Resolves to its state, `unchanged` since the last read, or undefined if the ref does not exist. */
  async read(): Promise<RefState | undefined | "unchanged"> {
    const remote = this.#connect();
    const tip = await withRetries(() => this.#tipOf(remote), { delaysMs: retryPausesMs });
    if (tip !== undefined && tip === this.#tip) return "unchanged";
    this.#unsent.clear();
    this.#files = new Map();
    this.#tip = tip;
    if (tip === undefined) return undefined;

    const objects = new ObjectStore();
    const fetched = await withRetries(() => remote.fetch({ wants: [tip], depth: 1 }), { delaysMs: retryPausesMs });
    if (fetched.kind === "refused") throw new OutageError(`${this.#options.ref} cannot be fetched: ${fetched.reason}`);
    await objects.addPack(fetched.pack);
    const read = (oid: string) => objects.read(oid)?.data ?? Buffer.alloc(0);
    const { tree, message } = parseCommit(read(tip));
    const files = new Map<string, Buffer>();
    for (const { name, oid } of parseTree(read(tree))) {
      this.#files.set(name.toString(), oid);
      files.set(name.toString(), Buffer.from(read(oid)));
    }
    return { files, message };
  }

  /** Adds a file to the next commit. */
  add(name: string, data: Buffer): void {
    const blob: GitObject = { type: "blob", data };
    const oid = hashObject(blob);
    this.#unsent.set(oid, blob);
    this.#files.set(name, oid);
  }

  /** Removes every file from the next commit. */
  clear(): void {
    this.#unsent.clear();
    this.#files.clear();
  }

  /**
   * Moves the ref to a commit with the current files and this message. Throws a LeaseLostError if another process has
   * moved it, and an OutageError, after a few attempts, if the server does not respond. Unsent files are sent with the
   * next commit.
   */
  async commit(message: string, at: Date): Promise<void> {
    const tree = treeOf(this.#files);
    const commit = commitOf(hashObject(tree), message, at);
    const oid = hashObject(commit);
    const unsent = [...this.#unsent];
    const pack = encodePack([commit, tree, ...unsent.map(([, object]) => object)]);
    for (let retries = 0; ; retries += 1) {
      try {
        await this.#push(oid, pack);
        break;
      } catch (error) {
        const pauseMs = retryPausesMs[retries];
        if (!(error instanceof OutageError) || pauseMs === undefined) throw error;
        await pause(pauseMs);
      }
    }
    this.#tip = oid;
    for (const [sent] of unsent) this.#unsent.delete(sent);
  }

  async #push(to: string, pack: Buffer): Promise<void> {
    const remote = this.#connect();
    const { ref } = this.#options;
    // The pushed message contains the lease.
    const push = () =>
      withLease(
        async () => {},
        () => remote.push({ ref, from: this.#tip, to, pack }),
      );
    const answer = await push().catch((error: unknown) => ({ ok: false, error }));
    if (answer.ok) return;

    // It was refused, or the response was lost after the ref had moved.
    const tip = await this.#tipOf(remote);
    if (tip === to) return;
    if (tip !== this.#tip) throw new LeaseLostError();
    if ("error" in answer) throw answer.error;
    const reason = "reason" in answer ? answer.reason : "";
    // Another push held the lock of the ref, or the server refuses this ref.
    if (/lock|busy|try again/i.test(reason))
      throw new OutageError(`${ref} is being updated by another push: ${reason}`);
    throw new UserError(`${remote.name} refused to update ${ref}: ${reason}`);
  }

  async #tipOf(remote: Remote): Promise<string | undefined> {
    const { ref } = this.#options;
    return (await remote.refs([ref])).find(({ name }) => name === ref)?.oid;
  }

  #connect(): Remote {
    const { url, token } = this.#options;
    return connect({ tenant: "state", url, token }, undefined);
  }
}

function treeOf(files: ReadonlyMap<string, string>): GitObject {
  const items = [...files].map(([name, oid]) => ({ mode: "100644", name: Buffer.from(name), oid }));
  return { type: "tree", data: encodeTree(items) };
}

function commitOf(tree: string, message: string, at: Date): GitObject {
  const person = `${author} ${Math.floor(at.getTime() / 1_000)} +0000`;
  const text = `tree ${tree}\nauthor ${person}\ncommitter ${person}\n\n${message}`;
  return { type: "commit", data: Buffer.from(text) };
}

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
