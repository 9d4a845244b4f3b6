import { chownSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import type { TreeSource } from "#executors/executor.ts";
import { createTreeMirror, type TreeMirror } from "#executors/tree-mirror.ts";
import { GuestFolder, removeTree } from "./guest-folder.ts";
import type { SandboxUser } from "./launch.ts";

/** The unchanged files of a base commit on disk, which no command has accessed. */
export interface SpareTree {
  guest: GuestFolder;
  mirror: TreeMirror;
}

interface SpareTreesOptions {
  /** The folder for the copies. */
  directory: string;
  user: SandboxUser;
}

export const treeLimits = { files: 200_000, bytes: 1_000_000_000 };

const maxSpares = 2;
/** Smaller trees are written faster than a command starts. */
const minFiles = 500;

/**
 * Copies of base trees that are written in advance, so that the first command of the next run on the same commit does not
 * wait for them. Each is used by one session. A commit id is a hash of its contents, so a run that has the commit may use
 * the files.
 */
export class SpareTrees {
  readonly #options: SpareTreesOptions;
  /** By commit. Undefined while the files are being written. The most recently prepared one is last. */
  readonly #spares = new Map<string, SpareTree | undefined>();
  #writing: Promise<void> = Promise.resolve();
  #count = 0;

  constructor(options: SpareTreesOptions) {
    this.#options = options;
  }

  /** Returns the copy for a commit, if there is one. The caller has to remove it. */
  take(commit: string): SpareTree | undefined {
    const spare = this.#spares.get(commit);
    if (spare) this.#spares.delete(commit);
    return spare;
  }

  /** Writes a copy for a commit, the base of this tree, unless there is one. Never rejects: a copy is not needed. */
  async prepare(commit: string, tree: TreeSource): Promise<void> {
    if (this.#spares.has(commit)) return;
    this.#spares.set(commit, undefined);
    this.#writing = this.#writing.then(() => this.#write(commit, tree)).catch(() => void this.#spares.delete(commit));
    await this.#writing;
  }

  /** Resolves when all writes have finished. */
  async idle(): Promise<void> {
    await this.#writing;
  }

  async #write(commit: string, tree: TreeSource): Promise<void> {
    const { directory, user } = this.#options;
    const mirror = createTreeMirror(treeLimits, { keepLinks: true });
    const files = await mirror.baseFiles(tree);
    if (files.write.length < minFiles) return void this.#spares.delete(commit);
    this.#count += 1;
    const folder = join(directory, `spare-${this.#count}`);
    mkdirSync(folder, { mode: 0o700 });
    if (user) chownSync(folder, user.uid, user.gid);
    const guest = new GuestFolder(folder, user);
    try {
      await guest.write(files);
    } catch (error) {
      await removeTree(folder);
      throw error;
    }
    this.#spares.set(commit, { guest, mirror });
    const ready = [...this.#spares].filter(([, spare]) => spare !== undefined);
    for (const [name, spare] of ready.slice(0, -maxSpares)) {
      this.#spares.delete(name);
      await spare?.guest.remove();
    }
  }
}
