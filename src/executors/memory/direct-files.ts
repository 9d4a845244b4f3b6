import type { InMemoryFs } from "just-bash";

type Entries = Awaited<ReturnType<InMemoryFs["readdirWithFileTypes"]>>;

/** Looks into the shell's file system at once. Undefined: ask the file system itself. */
export interface DirectFiles {
  /** What lies directly in a folder, sorted by name. */
  entries(folder: string): Entries | undefined;
  content(path: string): Uint8Array | undefined;
  /** Nothing is followed; undefined where nothing is. */
  typeOf(path: string): "file" | "directory" | "symlink" | undefined;
}

/** What just-bash 3.4.2 keeps of a path. Its version is pinned, and the tests notice another form. */
type Held = { type: "file" | "directory" | "symlink"; content?: unknown };

/** What changes the file system, and what makes it change no name: a write to a file that is there. */
const mutators: Record<string, Held["type"] | undefined> = {
  ...{ writeFile: "file", writeFileSync: "file", writeFileLazy: "file", appendFile: "file" },
  ...{ mkdir: "directory", mkdirSync: "directory" },
  ...{ rm: undefined, mv: undefined, cp: undefined, symlink: undefined, link: undefined },
};

/**
 * Makes listing a folder cost what is in it, for every command of the shell: just-bash goes through all of its flat map
 * of paths for each folder, so that walking thousands of files takes the square of them. What comes back reads without a
 * promise for each file, which takes longer than the reading.
 */
export function directFiles(fs: InMemoryFs): DirectFiles {
  const held: ReadonlyMap<string, Held> = (fs as unknown as { data: Map<string, Held> }).data;
  let index: Map<string, Entries> | undefined;
  const forget = () => {
    index = undefined;
  };

  for (const [name, harmless] of Object.entries(mutators)) {
    const original = (fs as unknown as Record<string, (...args: unknown[]) => unknown>)[name];
    define(fs, name, (...args: unknown[]) => {
      const isThere = harmless !== undefined && held.get(String(args[0]))?.type === harmless;
      if (isThere) return original?.apply(fs, args);
      forget();
      const done = original?.apply(fs, args);
      // Whoever lists in the middle of it must not be remembered when it is over.
      return done instanceof Promise ? done.finally(forget) : done;
    });
  }

  function entries(path: string): Entries | undefined {
    const folder = fs.resolvePath("/", path);
    if (held.get(folder)?.type !== "directory") return undefined;
    index ??= entriesByFolder(held);
    return index.get(folder);
  }

  const listByAll = fs.readdirWithFileTypes.bind(fs);
  // Empty, a link, no folder or not there: all rare, and all answered by the file system itself.
  define(fs, "readdirWithFileTypes", async (path: string) => entries(path)?.slice() ?? listByAll(path));

  return {
    entries,
    typeOf: (path) => held.get(path)?.type,
    content(path) {
      const content = held.get(path)?.content;
      return content instanceof Uint8Array ? content : undefined;
    },
  };
}

function define(fs: InMemoryFs, name: string, value: unknown): void {
  Object.defineProperty(fs, name, { configurable: true, writable: true, value });
}

/** The entries of each folder that has any, sorted. */
function entriesByFolder(held: ReadonlyMap<string, Held>): Map<string, Entries> {
  const index = new Map<string, Entries>();
  for (const [path, { type }] of held) {
    if (path === "/") continue;
    const slash = path.lastIndexOf("/");
    const folder = slash === 0 ? "/" : path.slice(0, slash);
    const name = path.slice(slash + 1);
    const entry = {
      name,
      isFile: type === "file",
      isDirectory: type === "directory",
      isSymbolicLink: type === "symlink",
    };
    const others = index.get(folder);
    if (others) others.push(entry);
    else index.set(folder, [entry]);
  }
  for (const entries of index.values()) entries.sort((a, b) => (a.name < b.name ? -1 : 1));
  return index;
}
