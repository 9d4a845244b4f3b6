import type { GuestChange } from "#executors/executor.ts";
import type { IndexedFs } from "./indexed-fs.ts";

export const root = "/workspace";

/** The host's tree in the shell's file system, with the changes that scripts made. */
export interface LoadedTree {
  take(write: readonly GuestChange[], remove: readonly string[]): Promise<void>;
  /** Returns the differences from the host's tree. Returns immediately if no script wrote anything. */
  differences(): Promise<{ written: GuestChange[]; deleted: string[]; special: string[] }>;
  /** Makes the current state the host's tree, after the changes were reported. */
  settle(changes: { written: GuestChange[]; deleted: string[] }): void;
}

export function loadedTree(fs: IndexedFs): LoadedTree {
  const given = new Map<string, GuestChange>();
  let settledAt = fs.changes;

  async function differences() {
    const written: GuestChange[] = [];
    const special: string[] = [];
    const deleted: string[] = [];
    if (fs.changes === settledAt) return { written, deleted, special };

    const present = new Set<string>();
    for (const absolute of fs.getAllPaths()) {
      if (!absolute.startsWith(`${root}/`)) continue;
      const path = absolute.slice(root.length + 1);
      const entry = await fs.lstat(absolute);
      if (entry.isDirectory) continue;
      present.add(path);
      if (!entry.isFile) {
        special.push(path);
        continue;
      }
      const executable = (entry.mode & 0o111) !== 0;
      const before = given.get(path);
      const content = fs.loaded(absolute) ?? (await fs.readFileBuffer(absolute));
      const same = before?.executable === executable && Buffer.compare(before.content, content) === 0;
      if (!same) written.push({ path, content: new Uint8Array(content), executable });
    }
    for (const path of given.keys()) if (!present.has(path)) deleted.push(path);
    return { written, deleted, special };
  }

  return {
    async take(write, remove) {
      for (const path of remove) {
        given.delete(path);
        await fs.rm(`${root}/${path}`, { recursive: true, force: true });
      }
      for (const file of write) {
        const absolute = `${root}/${file.path}`;
        given.set(file.path, file);
        // A script may have put a folder or a link in place of the file.
        const isThere = await fs.lstat(absolute).catch(() => undefined);
        if (isThere && !isThere.isFile) await fs.rm(absolute, { recursive: true, force: true });
        fs.load(absolute, file.content, file.executable ? 0o755 : 0o644);
      }
      settledAt = fs.changes;
    },
    differences,
    settle({ written, deleted }) {
      for (const file of written) given.set(file.path, file);
      for (const path of deleted) given.delete(path);
      settledAt = fs.changes;
    },
  };
}
