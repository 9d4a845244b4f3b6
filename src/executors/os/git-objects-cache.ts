import { mkdirSync, renameSync } from "node:fs";
import { open, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { GitFolder } from "#domain/workspace.ts";
import { removeTree } from "./guest-folder.ts";

const maxUnused = 4;

/**
 * The git objects of base commits on disk. Sessions with the same commit share them: a commit id is a hash of its
 * contents, so a run that has the commit may read them. They are read-only in the sandbox.
 */
export class GitObjectsCache {
  readonly #parent: string;
  /** The most recently used one is last. */
  readonly #cached = new Map<string, { directory: Promise<string>; users: number }>();

  constructor(parent: string) {
    this.#parent = parent;
  }

  /** Resolves to a folder that can be the `objects` folder of a `.git`. Call `release` when it is no longer used. */
  async use({ commit, pack }: GitFolder): Promise<string> {
    if (!/^[0-9a-f]{40}$/.test(commit)) throw new Error(`${commit} is not a commit`);
    const cached = this.#cached.get(commit) ?? { directory: this.#write(commit, pack), users: 0 };
    this.#cached.delete(commit);
    this.#cached.set(commit, cached);
    cached.users += 1;
    try {
      return await cached.directory;
    } catch (error) {
      this.#cached.delete(commit);
      throw error;
    }
  }

  async release(commit: string): Promise<void> {
    const cached = this.#cached.get(commit);
    if (cached) cached.users -= 1;
    const unused = [...this.#cached].filter(([, { users }]) => users === 0);
    for (const [name, { directory }] of unused.slice(0, Math.max(0, unused.length - maxUnused))) {
      this.#cached.delete(name);
      await removeTree(await directory);
    }
  }

  async #write(commit: string, pack: GitFolder["pack"]): Promise<string> {
    const directory = join(this.#parent, `objects-${commit}`);
    const unfinished = `${directory}.unfinished`;
    await removeTree(unfinished);
    const folder = join(unfinished, "pack");
    mkdirSync(folder, { recursive: true, mode: 0o755 });
    const pieces = pack();
    const file = await open(join(folder, `pack-${commit}.pack`), "wx", 0o444);
    try {
      for (;;) {
        const piece = await pieces.next();
        if (piece.done) {
          await writeFile(join(folder, `pack-${commit}.idx`), piece.value, { mode: 0o444 });
          break;
        }
        await file.writeFile(piece.value);
      }
    } finally {
      await file.close();
    }
    renameSync(unfinished, directory);
    return directory;
  }
}
