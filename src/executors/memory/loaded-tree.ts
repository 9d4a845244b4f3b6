import type { InMemoryFs } from "just-bash";
import type { FileChange } from "#executors/executor.ts";
import type { DirectFiles } from "./direct-files.ts";

export const root = "/workspace";

const mutators = ["writeFile", "appendFile", "rm", "mv", "cp", "chmod", "symlink", "link", "mkdir"] as const;

/** The tree as the host gave it, inside the shell's file system, and what scripts made of it. */
export interface LoadedTree {
  take(write: readonly FileChange[], remove: readonly string[]): Promise<void>;
  /** What differs from what the host gave; empty without a look when no script wrote anything. */
  differences(): Promise<{ written: FileChange[]; deleted: string[]; special: string[] }>;
  /** From now on what scripts made counts as given: the host has been told. */
  settle(changes: { written: FileChange[]; deleted: string[] }): void;
}

export function loadedTree(fs: InMemoryFs, direct: DirectFiles): LoadedTree {
  const given = new Map<string, FileChange>();
  let touched = false;
  for (const name of mutators) {
    const original = fs[name].bind(fs) as (...args: unknown[]) => Promise<void>;
    Object.defineProperty(fs, name, {
      configurable: true,
      writable: true,
      value: (...args: unknown[]) => {
        touched = true;
        return original(...args);
      },
    });
  }

  async function differences() {
    const written: FileChange[] = [];
    const special: string[] = [];
    const deleted: string[] = [];
    if (!touched) return { written, deleted, special };

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
      const content = await fs.readFileBuffer(absolute);
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
        // A script may have put a folder or a link where the file belongs.
        const there = direct.typeOf(absolute);
        if (there !== undefined && there !== "file") await fs.rm(absolute, { recursive: true, force: true });
        fs.writeFileSync(absolute, file.content, undefined, { mode: file.executable ? 0o755 : 0o644 });
      }
      touched = false;
    },
    differences,
    settle({ written, deleted }) {
      for (const file of written) given.set(file.path, file);
      for (const path of deleted) given.delete(path);
      touched = false;
    },
  };
}
