import { isUtf8 } from "node:buffer";
import { InMemoryFs } from "just-bash";
import type { GuestChange } from "#executors/executor.ts";
import type { FilesRequest } from "./memory-executor.ts";

type Stat = Awaited<ReturnType<InMemoryFs["stat"]>>;
type Entries = Awaited<ReturnType<InMemoryFs["readdirWithFileTypes"]>>;

/**
 * The in-memory file system of just-bash with an index of its folders, using only public methods. just-bash scans all
 * paths to list one folder, so walking 2,000 files takes quadratic time: its `rg` took 9 s, ours 25 ms. Files that the
 * host wrote are read synchronously, since a promise per file takes longer than the read. Their contents may still be
 * with the host: only what reads one asks for it.
 */
export class IndexedFs extends InMemoryFs {
  /** Counts the changes, so that callers can tell if a script made one. */
  changes = 0;
  #index: Map<string, Entries> | undefined;
  /** Regular files that have not changed since the host wrote them. */
  readonly #loaded = new Map<string, LoadedFile>();
  /** True once a write to one path may change a loaded file at another path. */
  #hasLinks = false;
  readonly #diverted = new Map<string, (content: Uint8Array) => void>();

  /** Writes a file for the host, at a path without a folder. */
  load(path: string, content: Uint8Array, mode: number): void {
    this.#changed();
    if (this.#hasLinks) this.#loaded.clear();
    super.writeFileSync(path, content, undefined, { mode });
    this.#loaded.set(path, { file: { size: content.length, content }, mode, modified: new Date() });
  }

  /** Writes a file whose content the host still has. `read` resolves to it and keeps it in the file. */
  loadLater(path: string, file: HostContent, mode: number, read: () => Promise<Uint8Array>): void {
    this.#changed();
    if (this.#hasLinks) this.#loaded.clear();
    const modified = new Date();
    super.writeFileLazy(path, read, { mode, mtime: modified });
    this.#loaded.set(path, { file, mode, modified });
  }

  /** Passes everything written to a file to `take` instead of storing it. */
  divert(path: string, take: (content: Uint8Array) => void): void {
    super.writeFileSync(path, "");
    this.#diverted.set(path, take);
  }

  /** True for a file that the host wrote and no script has changed. */
  isLoaded(path: string): boolean {
    return this.#loaded.has(path);
  }

  /** Returns the content of a file that the host wrote and no script has changed, if it is here. */
  loaded(path: string): Uint8Array | undefined {
    return this.#loaded.get(path)?.file.content;
  }

  override async stat(path: string): Promise<Stat> {
    return this.#statOf(path) ?? super.stat(path);
  }

  override async lstat(path: string): Promise<Stat> {
    return this.#statOf(path) ?? super.lstat(path);
  }

  /** Returns the entries of a folder if the index exists. */
  indexed(folder: string): Entries | undefined {
    return this.#index?.get(folder);
  }

  override async readdirWithFileTypes(path: string): Promise<Entries> {
    if (!this.#index) await this.#buildIndex();
    const entries = this.indexed(this.resolvePath("/", path));
    // An empty folder, a link, a file or nothing: just-bash handles it or throws the right error.
    return entries?.slice() ?? super.readdirWithFileTypes(path);
  }

  override writeFileSync(...args: Parameters<InMemoryFs["writeFileSync"]>): void {
    this.#changed(args[0]);
    super.writeFileSync(...args);
  }

  override writeFileLazy(...args: Parameters<InMemoryFs["writeFileLazy"]>): void {
    this.#changed(args[0]);
    super.writeFileLazy(...args);
  }

  override mkdirSync(...args: Parameters<InMemoryFs["mkdirSync"]>): void {
    this.#changed();
    super.mkdirSync(...args);
  }

  override writeFile(...args: Parameters<InMemoryFs["writeFile"]>): Promise<void> {
    return this.#take(args) ?? this.#change(() => super.writeFile(...args), args[0]);
  }

  override appendFile(...args: Parameters<InMemoryFs["appendFile"]>): Promise<void> {
    return this.#take(args) ?? this.#change(() => super.appendFile(...args), args[0]);
  }

  override mkdir(...args: Parameters<InMemoryFs["mkdir"]>): Promise<void> {
    return this.#change(() => super.mkdir(...args));
  }

  override rm(...args: Parameters<InMemoryFs["rm"]>): Promise<void> {
    return this.#change(() => super.rm(...args), args[0]);
  }

  override cp(...args: Parameters<InMemoryFs["cp"]>): Promise<void> {
    return this.#change(() => super.cp(...args), args[1]);
  }

  override mv(...args: Parameters<InMemoryFs["mv"]>): Promise<void> {
    return this.#change(() => super.mv(...args), args[0], args[1]);
  }

  override symlink(...args: Parameters<InMemoryFs["symlink"]>): Promise<void> {
    const [target, path] = args;
    const resolved = this.resolvePath(this.resolvePath(path, ".."), target);
    // The links that every shell creates in /dev do not lead to loaded files.
    if (!/^\/(dev|proc|bin|usr)\//.test(resolved)) this.#hasLinks = true;
    return this.#change(() => super.symlink(...args), path);
  }

  override link(...args: Parameters<InMemoryFs["link"]>): Promise<void> {
    this.#hasLinks = true;
    return this.#change(() => super.link(...args), args[1]);
  }

  override chmod(...args: Parameters<InMemoryFs["chmod"]>): Promise<void> {
    this.changes += 1;
    this.#loaded.delete(this.resolvePath("/", args[0]));
    return super.chmod(...args);
  }

  override utimes(...args: Parameters<InMemoryFs["utimes"]>): Promise<void> {
    this.#loaded.delete(this.resolvePath("/", args[0]));
    return super.utimes(...args);
  }

  /** Describes a file whose content is not here. just-bash would read it for its size. */
  #statOf(path: string): Stat | undefined {
    const resolved = this.resolvePath("/", path);
    const found = this.#hasLinks ? undefined : this.#loaded.get(resolved);
    if (!found || found.file.content) return undefined;
    const { file, mode, modified } = found;
    // `mv` and `cp` refuse a file without an identity.
    const identity = `host:${resolved}`;
    return { ...plainFile, mode, size: file.size, mtime: modified, identity };
  }

  #take([path, content, options]: Parameters<InMemoryFs["appendFile"]>): Promise<void> | undefined {
    const take = this.#diverted.get(path);
    if (!take) return undefined;
    const encoding = typeof options === "string" ? options : options?.encoding;
    if (content.length > 0) take(typeof content === "string" ? encode(content, encoding) : content);
    return Promise.resolve();
  }

  async #change(change: () => Promise<void>, ...paths: string[]): Promise<void> {
    this.#changed(...paths);
    try {
      await change();
    } finally {
      // The index may have been built during the change, so it is out of date.
      this.#index = undefined;
    }
  }

  #changed(...paths: string[]): void {
    this.changes += 1;
    this.#index = undefined;
    for (const path of paths) this.#unload(this.resolvePath("/", path));
  }

  #unload(path: string): void {
    if (this.#loaded.delete(path)) return;
    if (path === "/" || this.#hasLinks) this.#loaded.clear();
    for (const name of this.#loaded.keys()) if (name.startsWith(`${path}/`)) this.#loaded.delete(name);
  }

  async #buildIndex(): Promise<void> {
    const index = new Map<string, Entries>();
    const folders = new Set(["/"]);
    const builtAt = this.changes;
    for (const path of this.getAllPaths()) {
      if (path === "/") continue;
      const slash = path.lastIndexOf("/");
      const folder = slash === 0 ? "/" : path.slice(0, slash);
      const isLoaded = this.#loaded.has(path);
      const stat = isLoaded ? plainFile : await this.lstat(path).catch(() => undefined);
      if (!stat) continue;
      const { isFile, isDirectory, isSymbolicLink } = stat;
      if (isDirectory) folders.add(path);
      const entry = { name: path.slice(slash + 1), isFile, isDirectory, isSymbolicLink };
      const others = index.get(folder);
      if (others) others.push(entry);
      else index.set(folder, [entry]);
    }
    // just-bash may keep paths below a path that has become a file.
    for (const folder of index.keys()) if (!folders.has(folder)) index.delete(folder);
    for (const entries of index.values()) entries.sort((a, b) => (a.name < b.name ? -1 : 1));
    if (this.changes === builtAt) this.#index = index;
  }
}

/** Returns the bytes of a string of just-bash, which has one character per byte for binary data (`cat file >&2`). */
function encode(text: string, encoding: string | null | undefined): Buffer {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the characters that stand for bytes
  if (/[^\u0000-\u00ff]/.test(text)) return Buffer.from(text);
  const bytes = Buffer.from(text, "latin1");
  const isBytes = encoding === "binary" || encoding === "latin1" ? !text.startsWith("bash: ") : false;
  return isBytes || isUtf8(bytes) ? bytes : Buffer.from(text);
}

/** The content of a file that the host gave; undefined while only the host has it. */
interface HostContent {
  size: number;
  content: Uint8Array | undefined;
}

interface LoadedFile {
  file: HostContent;
  mode: number;
  modified: Date;
}

const plainFile = { isFile: true, isDirectory: false, isSymbolicLink: false };

export const root = "/workspace";

export type LoadedTree = ReturnType<typeof loadedTree>;

interface GivenFile extends HostContent {
  executable: boolean;
}

/** The maximum that the host answers. */
const maxFilesPerRead = 256;

/** A file of the base, at its place in the host's list. */
interface BaseContent extends GivenFile {
  path: string;
  place: number;
}

/**
 * The host's tree in the shell's file system, with the changes that scripts made. `readBase` resolves to the contents of
 * the first of some files of the base, at least of one.
 */
export function loadedTree(fs: IndexedFs, readBase: (paths: string[]) => Promise<(Uint8Array | null)[]>) {
  const given = new Map<string, GivenFile>();
  let base: readonly BaseContent[] = [];
  /** The reads whose results just-bash has not stored yet. */
  const reads = new Set<Promise<unknown>>();
  /** The number of files that the next read asks for: the more a command reads, the more it is likely to read. */
  let filesPerRead = 1;
  /** The question that is being answered. The others wait for it, since it may answer theirs too. */
  let asking: Promise<void> | undefined;
  /** False before the host's first files, when no script can have written anything. */
  let hasFiles = false;
  let settledAt = fs.changes;

  function contentOf(file: GivenFile): Promise<Uint8Array> {
    const read = file.content ? Promise.resolve(file.content) : readBaseContent(file as BaseContent);
    reads.add(read);
    return read.finally(() => reads.delete(read));
  }

  async function readBaseContent(file: BaseContent): Promise<Uint8Array> {
    while (asking && !file.content) await asking.catch(() => undefined);
    if (!file.content) {
      asking = readAhead(file).finally(() => {
        asking = undefined;
      });
      await asking;
    }
    if (!file.content) throw new Error(`EIO: ${file.path} cannot be read`);
    return file.content;
  }

  async function readAhead(file: BaseContent): Promise<void> {
    const wanted: BaseContent[] = [];
    for (let at = file.place; at < base.length && wanted.length < filesPerRead; at += 1) {
      const next = base[at];
      if (next && !next.content) wanted.push(next);
    }
    filesPerRead = Math.min(2 * filesPerRead, maxFilesPerRead);
    const contents = await readBase(wanted.map(({ path }) => path));
    for (const [at, content] of contents.entries()) {
      const one = wanted[at];
      if (one && content) one.content ??= content;
    }
  }

  /** Returns the differences from the host's tree. Returns immediately if no script wrote anything. */
  async function differences() {
    // A command that was stopped at its deadline may still be reading.
    await Promise.allSettled(reads);
    const written: GuestChange[] = [];
    const special: string[] = [];
    const deleted: string[] = [];
    if (fs.changes === settledAt) return { written, deleted, special };

    const present = new Set<string>();
    for (const absolute of fs.getAllPaths()) {
      if (!absolute.startsWith(`${root}/`)) continue;
      const path = absolute.slice(root.length + 1);
      if (fs.isLoaded(absolute)) {
        present.add(path);
        continue;
      }
      // A path that was written through a link to a folder is not there: the link is, which is not applied.
      const entry = await fs.lstat(absolute).catch(() => undefined);
      if (!entry || entry.isDirectory) continue;
      present.add(path);
      if (!entry.isFile) {
        special.push(path);
        continue;
      }
      const executable = (entry.mode & 0o111) !== 0;
      const before = given.get(path);
      const content = await fs.readFileBuffer(absolute);
      const isSame =
        before?.executable === executable &&
        before.size === content.length &&
        Buffer.compare(await contentOf(before), content) === 0;
      if (!isSame) written.push({ path, content: new Uint8Array(content), executable });
    }
    for (const path of given.keys()) if (!present.has(path)) deleted.push(path);
    return { written, deleted, special };
  }

  return {
    async take({ write, remove, base: listed }: FilesRequest): Promise<void> {
      for (const path of remove) {
        given.delete(path);
        await fs.rm(`${root}/${path}`, { recursive: true, force: true });
      }
      for (const file of write) {
        const absolute = `${root}/${file.path}`;
        given.set(file.path, givenFile(file));
        // A script may have put a folder or a link in place of the file.
        const isThere = hasFiles ? await fs.lstat(absolute).catch(() => undefined) : undefined;
        if (isThere && !isThere.isFile) await fs.rm(absolute, { recursive: true, force: true });
        fs.load(absolute, file.content, file.executable ? 0o755 : 0o644);
      }
      // The list comes once, before any script.
      if (listed.length > 0) base = listed.map((file, place) => ({ ...file, place, content: undefined }));
      for (const file of listed.length > 0 ? base : []) {
        given.set(file.path, file);
        fs.loadLater(`${root}/${file.path}`, file, file.executable ? 0o755 : 0o644, () => contentOf(file));
      }
      hasFiles = true;
      settledAt = fs.changes;
    },
    differences,
    beginCommand(): void {
      filesPerRead = 1;
    },
    /** Makes the current state the host's tree, after the changes were reported. */
    settle({ written, deleted }: { written: GuestChange[]; deleted: string[] }): void {
      for (const file of written) given.set(file.path, givenFile(file));
      for (const path of deleted) given.delete(path);
      settledAt = fs.changes;
    },
  };
}

function givenFile({ content, executable }: GuestChange): GivenFile {
  return { size: content.length, content, executable };
}
