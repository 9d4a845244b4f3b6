import { randomBytes } from "node:crypto";
import {
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { foldersOf, isRealFolder, removeTree } from "./guest-folder.ts";

/** Prepared dependencies: folders in `tree` and `home`, by their paths there. */
export interface PreparedSetup {
  directory: string;
  tree: string[];
  home: string[];
}

const Manifest = z.object({ tree: z.array(z.string()), home: z.array(z.string()) });

/** The folders of the home folder that contain dependencies. Caches are left out, since programs write to them. */
export const homeFolders = [
  ".local",
  ".bundle",
  ".gem",
  ".m2/repository",
  ".cargo/bin",
  ".cargo/git",
  ".cargo/registry",
  "go/bin",
  "go/pkg/mod",
];
/** The folders in node_modules that programs write to. */
export const writableFolders = [".cache", ".vite", ".vite-temp", ".vitest"];
const maxSetups = 40;
const maxTreeFolders = 200;
const minUnusedMs = 24 * 60 * 60_000;

/** The folders in which a command prepared dependencies. No process can access them now. */
export interface SetupFiles {
  tree: string;
  home: string;
  /** The repository's files in `tree`. A folder that contains one of them is not a dependency. */
  known: ReadonlySet<string>;
  isIgnored(path: string): boolean;
}

/**
 * The dependencies that setups of default branches prepared on this machine. Keys contain the repository and its
 * lockfiles. They are mounted read-only, so commands cannot change them. An entry is renamed to its final name when it
 * is complete.
 */
export class SetupCache {
  readonly #directory: string;

  /** `directory` must be accessible to this process's user only. It is created if it does not exist. */
  constructor(directory: string) {
    this.#directory = directory;
  }

  find(key: string): PreparedSetup | undefined {
    const directory = this.#folderOf(key);
    try {
      const { tree, home } = Manifest.parse(JSON.parse(readFileSync(join(directory, "setup.json"), "utf8")));
      const now = new Date();
      utimesSync(directory, now, now);
      return { directory, tree, home };
    } catch {
      return undefined;
    }
  }

  /** True if a person approved the setup with this key, even if it failed. */
  isApproved(key: string): boolean {
    return existsSync(`${this.#folderOf(key)}.approved`);
  }

  approve(key: string): void {
    this.#create();
    writeFileSync(`${this.#folderOf(key)}.approved`, "");
  }

  /** Moves dependencies into the cache, unless they are there already. */
  async save(key: string, files: SetupFiles): Promise<void> {
    this.#create();
    const unfinished = join(this.#directory, `unfinished-${process.pid}-${randomBytes(8).toString("hex")}`);
    const tree = dependencyFolders(files);
    const home = homeFolders.filter((path) => isFolderBelow(files.home, path));
    try {
      for (const [name, from, paths] of [
        ["tree", files.tree, tree],
        ["home", files.home, home],
      ] as const) {
        mkdirSync(join(unfinished, name), { recursive: true, mode: 0o755 });
        for (const path of paths) {
          mkdirSync(dirname(join(unfinished, name, path)), { recursive: true, mode: 0o755 });
          renameSync(join(from, path), join(unfinished, name, path));
        }
      }
      // Writable folders are mounted over these later, and cannot be created in a read-only folder.
      for (const path of tree.filter(isNodeModules)) {
        const folder = join(unfinished, "tree", path);
        const { uid, gid } = lstatSync(folder);
        for (const name of writableFolders.filter((one) => !lstatSync(join(folder, one), { throwIfNoEntry: false }))) {
          mkdirSync(join(folder, name));
          chownSync(join(folder, name), uid, gid);
        }
      }
      writeFileSync(join(unfinished, "setup.json"), JSON.stringify({ tree, home } satisfies z.infer<typeof Manifest>));
      if (!existsSync(this.#folderOf(key))) renameSync(unfinished, this.#folderOf(key));
    } finally {
      await removeTree(unfinished);
    }
    await this.#evict();
  }

  #folderOf(key: string): string {
    if (!/^[0-9a-f]{64}$/.test(key)) throw new Error(`${key} is not the key of a setup`);
    return join(this.#directory, key);
  }

  #create(): void {
    mkdirSync(this.#directory, { recursive: true, mode: 0o711 });
    const { uid, mode } = lstatSync(this.#directory);
    if (!isRealFolder(this.#directory) || uid !== process.getuid?.() || (mode & 0o022) !== 0) {
      throw new Error(`${this.#directory} does not belong to this program alone, so no dependencies are kept in it`);
    }
  }

  /** Removes the least recently used setups, and the incomplete ones that killed processes left behind. */
  async #evict(): Promise<void> {
    const usedAt = (name: string) => statSync(join(this.#directory, name), { throwIfNoEntry: false })?.mtimeMs ?? 0;
    const names = readdirSync(this.#directory);
    const setups = names
      .filter((name) => /^[0-9a-f]{64}$/.test(name))
      .map((name) => ({ name, usedAt: usedAt(name) }))
      .sort((a, b) => b.usedAt - a.usedAt);
    const unused = setups.slice(maxSetups).filter((setup) => Date.now() - setup.usedAt > minUnusedMs);
    const abandoned = names.filter((name) => {
      const pid = /^unfinished-(\d+)-/.exec(name)?.[1];
      return pid !== undefined && !existsSync(`/proc/${pid}`);
    });
    for (const name of [...unused.map(({ name }) => name), ...abandoned]) await removeTree(join(this.#directory, name));
  }
}

export function isNodeModules(path: string): boolean {
  return path === "node_modules" || path.endsWith("/node_modules");
}

/** Returns the outermost ignored folders of a tree that contain no file of the repository. Does not follow links. */
export function dependencyFolders({ tree, known, isIgnored }: Omit<SetupFiles, "home">): string[] {
  const knownFolders = foldersOf(known);
  const found: string[] = [];
  const open = [""];
  for (let folder = open.shift(); folder !== undefined && found.length < maxTreeFolders; folder = open.shift()) {
    for (const name of readdirSync(join(tree, folder))) {
      const path = folder === "" ? name : `${folder}/${name}`;
      if (name === ".git" || !isRealFolder(join(tree, path))) continue;
      if (!knownFolders.has(path) && isIgnored(`${path}/`)) found.push(path);
      else open.push(path);
    }
  }
  return found;
}

/** False if the folder or one of its parents is a link, which could lead out of the sandbox. */
function isFolderBelow(parent: string, path: string): boolean {
  const names = path.split("/");
  return names.every((_, at) => isRealFolder(join(parent, ...names.slice(0, at + 1))));
}
