import { hash } from "node:crypto";
import ignorePackage from "ignore";
import { EventLoopYielder } from "#domain/async-work.ts";
import { ToolError } from "#domain/errors.ts";
import type { Entry } from "#domain/workspace.ts";
import type { TreeFile, TreeSource } from "./executor.ts";

/** The changes to apply to a session's copy of the tree before the next command. */
export interface TreeDelta {
  write: TreeFile[];
  remove: string[];
  /** New files without their contents, sorted by path. Only with `leavesBase`. */
  base: BaseFile[];
}

/** A file that is as in the base: the session reads its content with `readBase` when it needs it. */
export interface BaseFile {
  path: string;
  size: number;
  executable: boolean;
}

interface MirroredFile extends TreeFile {
  /** True if it differs from the base. */
  isModified: boolean;
}

interface Delta {
  write: MirroredFile[];
  remove: string[];
  base?: BaseFile[];
  /** The links of the tree, if all of it was read. */
  links?: readonly string[];
}

/** Tracks the contents of a session's copy of the tree, so that only differences are copied. */
export type TreeMirror = ReturnType<typeof createTreeMirror>;

export interface TreeLimits {
  files: number;
  bytes: number;
}

/** The longest time that reading a tree may block the event loop. */
const maxTurnMs = 8;

function contentDigest(content: Uint8Array): string {
  return hash("sha1", content, "hex");
}

interface MirrorOptions {
  /** With `all`, `digest` knows every path; otherwise only those that differ from the base, which is all `nextDelta` needs. */
  digests?: "own" | "all";
  /** Keeps links of the base that stay in the tree. Otherwise they are copies of the files they lead to. */
  keepLinks?: boolean;
  /** Lists the files that are as in the base without their contents. */
  leavesBase?: boolean;
}

interface KnownFile {
  digest: string | undefined;
  executable: boolean;
  isLink: boolean;
}

export function createTreeMirror(
  limits: TreeLimits,
  { digests = "own", keepLinks = false, leavesBase = false }: MirrorOptions = {},
) {
  const files = new Map<string, KnownFile>();
  const paths = new Set<string>();
  /** Paths to compare on each delta: files that a run wrote, in the repository or with the run, and links. */
  const modified = new Set<string>();
  /** The links of the base, which `paths` of a tree does not return. */
  const links = new Set<string>();
  const rules = new Map<string, string>();
  const stale = new Set<string>();
  let matcher = ignoredFiles(rules);
  let started = false;

  function add({ path, content, executable, isLink = false, isModified: isOwn }: MirroredFile): void {
    files.set(path, { digest: isOwn || digests === "all" ? contentDigest(content) : undefined, executable, isLink });
    paths.add(path);
    if (isOwn) modified.add(path);
    else modified.delete(path);
    if (isLink) return;
    if (isIgnoreFile(path)) rules.set(path, Buffer.from(content).toString("utf8"));
  }

  function remove(path: string): void {
    files.delete(path);
    paths.delete(path);
    modified.delete(path);
    rules.delete(path);
  }

  async function differences(tree: TreeSource): Promise<Delta> {
    const present = new Set(await tree.paths());
    for (const path of links) if (await isLink(tree, path)) present.add(path);
    const candidates = new Set([...modified, ...stale]);
    for (const { path } of await tree.changes()) candidates.add(path);
    for (const path of present) if (!files.has(path)) candidates.add(path);
    for (const path of paths) if (!present.has(path)) candidates.add(path);

    const baseTime = await baseTimeOf(tree);
    const delta: Delta = { write: [], remove: [] };
    const yielder = new EventLoopYielder({ everyMs: maxTurnMs });
    for (const path of candidates) {
      if (yielder.isDue) await yielder.turn();
      if (!present.has(path)) {
        if (files.has(path) || stale.has(path)) delta.remove.push(path);
        continue;
      }
      const file = await readFile(tree, await tree.stat(path), { keepLinks, baseTime });
      if (!file) {
        if (files.has(path)) delta.remove.push(path);
        continue;
      }
      if (!isKnown(file, files.get(path)) || stale.has(path)) delta.write.push(file);
    }
    return delta;
  }

  async function apply(delta: Delta): Promise<TreeDelta> {
    started = true;
    stale.clear();
    for (const path of delta.links ?? []) links.add(path);
    for (const path of delta.remove) remove(path);
    for (const { path, executable } of delta.base ?? []) {
      files.set(path, { digest: undefined, executable, isLink: false });
      paths.add(path);
    }
    const yielder = new EventLoopYielder({ everyMs: maxTurnMs });
    for (const file of delta.write) {
      if (yielder.isDue) await yielder.turn();
      add(file);
    }
    matcher = ignoredFiles(rules);
    const write = delta.write.map(({ isModified: _, ...file }) => file);
    return { write, remove: delta.remove, base: delta.base ?? [] };
  }

  return {
    /** Returns everything the first time, and differences afterwards. Assumes that the result is applied. */
    async nextDelta(tree: TreeSource): Promise<TreeDelta> {
      if (started) return apply(await differences(tree));
      const baseTime = await baseTimeOf(tree);
      const changed = new Set((await tree.changes()).map(({ path }) => path));
      const isLeft = (entry: Entry) =>
        leavesBase && !isModified(entry, baseTime) && !changed.has(entry.path) && !isIgnoreFile(entry.path);
      return apply(await allFiles(tree, limits, (entry) => readFile(tree, entry, { keepLinks, baseTime }), isLeft));
    },
    /** The same as the first `nextDelta`, without the files that differ from the base: the next delta contains those. */
    async baseFiles(tree: TreeSource): Promise<TreeDelta> {
      const baseTime = await baseTimeOf(tree);
      return apply(await allFiles(tree, limits, (entry) => readBaseFile(tree, entry, baseTime)));
    },
    /** Marks paths that were changed in the session, so that the next delta compares their contents. */
    markStale(touched: Iterable<string>): void {
      for (const path of touched) stale.add(path);
    },
    /** The copy is lost: the next delta contains everything. */
    reset(): void {
      started = false;
      for (const kept of [files, paths, modified, links, rules, stale]) kept.clear();
    },
    paths: paths as ReadonlySet<string>,
    /** The hash of the content that was last copied to a path. */
    digest: (path: string) => files.get(path)?.digest,
    isIgnored: (path: string) => matcher(path),
  };
}

function isKnown({ content, executable, isLink = false }: MirroredFile, known: KnownFile | undefined): boolean {
  return known?.digest === contentDigest(content) && known.executable === executable && known.isLink === isLink;
}

/** Reads a file of the base, since a tool may change it after it was listed. Returns undefined for a file that is not in the base. */
async function readBaseFile(tree: TreeSource, entry: Entry, baseTime: number): Promise<MirroredFile | undefined> {
  const { path, executable } = entry;
  const content = isModified(entry, baseTime) ? undefined : await tree.readBase(path);
  return content && { path, content, executable, isModified: false };
}

/**
 * Reads all files of a tree, yielding to the event loop. Leaves out those for which `read` resolves to undefined, and
 * only lists those of the base that `isLeft` selects.
 */
async function allFiles(
  tree: TreeSource,
  limits: TreeLimits,
  read: (entry: Entry) => Promise<MirroredFile | undefined>,
  isLeft: (entry: Entry) => boolean = () => false,
): Promise<Delta> {
  const files = (await tree.list("", { recursive: true })).filter(({ type }) => type === "file" || type === "symlink");
  checkSize(files.length, limits.files, "files");
  const write: MirroredFile[] = [];
  const base: BaseFile[] = [];
  let bytes = 0;
  const yielder = new EventLoopYielder({ everyMs: maxTurnMs });
  for (const entry of files) {
    if (yielder.isDue) await yielder.turn();
    if (isLeft(entry)) {
      const { path, size, executable } = entry;
      bytes += size;
      checkSize(bytes, limits.bytes, "bytes");
      base.push({ path, size, executable });
      continue;
    }
    const file = await read(entry);
    if (!file) continue;
    bytes += file.content.length;
    checkSize(bytes, limits.bytes, "bytes");
    write.push(file);
  }
  return { write, remove: [], base, links: files.filter(({ type }) => type === "symlink").map(({ path }) => path) };
}

/** True for a path that differs from the base, and for links, whose targets may differ. */
function isModified({ type, modified }: Entry, baseTime: number): boolean {
  return type === "symlink" || modified.getTime() !== baseTime;
}

function isIgnoreFile(path: string): boolean {
  return path === ".gitignore" || path.endsWith("/.gitignore");
}

async function isLink(tree: TreeSource, path: string): Promise<boolean> {
  try {
    return (await tree.stat(path)).type === "symlink";
  } catch (error) {
    if (error instanceof ToolError) return false;
    throw error;
  }
}

/** Returns the modification time of unchanged files: that of the root. */
async function baseTimeOf(tree: Pick<TreeSource, "stat">): Promise<number> {
  return (await tree.stat("")).modified.getTime();
}

const maxTargetBytes = 4_000;

/**
 * Reads a file. A link is a link or the file it leads to; undefined for one that leaves the tree or the worker's view of
 * it, and for a copy of what is not a file.
 */
async function readFile(
  tree: Pick<TreeSource, "readBytes" | "readBase">,
  entry: Entry,
  { keepLinks, baseTime }: { keepLinks: boolean; baseTime: number },
): Promise<MirroredFile | undefined> {
  const { path, type, executable, modified } = entry;
  const content = await readLinked(tree, path);
  if (content === "outside") return undefined;
  // The workspace has the target of a link only as it was in the base.
  if (keepLinks && type === "symlink" && modified.getTime() === baseTime) {
    const target = await tree.readBase(path);
    if (target && target.length <= maxTargetBytes)
      return { path, content: target, executable: false, isLink: true, isModified: true };
  }
  return content && { path, content, executable, isModified: isModified(entry, baseTime) };
}

/** Reads a file, with links resolved by the workspace. Resolves to undefined if there is no file. */
async function readLinked(
  tree: Pick<TreeSource, "readBytes">,
  path: string,
): Promise<Uint8Array | "outside" | undefined> {
  try {
    return await tree.readBytes(path);
  } catch (error) {
    if (error instanceof ToolError) return error.code === "INVALID_PATH" ? "outside" : undefined;
    throw error;
  }
}

/** Returns the links of a tree that stay in it and that the run has not changed. */
export async function readLinks(
  tree: Pick<TreeSource, "list" | "stat" | "readBytes" | "readBase">,
): Promise<TreeFile[]> {
  const baseTime = await baseTimeOf(tree);
  const links: TreeFile[] = [];
  for (const entry of (await tree.list("", { recursive: true })).filter(({ type }) => type === "symlink")) {
    const file = await readFile(tree, entry, { keepLinks: true, baseTime });
    if (file?.isLink) links.push(file);
  }
  return links;
}

function checkSize(size: number, limit: number, unit: string): void {
  if (size <= limit) return;
  throw new ToolError(
    `This repository is too large to run commands in: more than ${limit.toLocaleString("en-US")} ${unit}.`,
    { code: "UNAVAILABLE", suggestion: "A worker whose sandbox has `restrict: /folder` copies only that folder." },
  );
}

// The types describe the CommonJS module, which has the function under `default`.
const ignore = ignorePackage.default;

/** Build artifacts that are ignored in every repository, even if its .gitignore does not list them. */
const buildArtifacts = [
  "node_modules/",
  "__pycache__/",
  "*.pyc",
  ".pytest_cache/",
  ".mypy_cache/",
  ".ruff_cache/",
  ".venv/",
  ".cache/",
  ".nyc_output/",
  "*.tsbuildinfo",
];

/**
 * Returns a function that checks if a path is ignored by the repository's own rules. Ignored files stay in the session
 * and are never committed. `rules` are the tree's .gitignore files, by path.
 */
export function ignoredFiles(rules: ReadonlyMap<string, string>): (path: string) => boolean {
  const everywhere = ignore().add(buildArtifacts);
  const perFolder = [...rules].map(([path, text]) => ({
    folder: path.slice(0, -".gitignore".length),
    matcher: ignore().add(text),
  }));

  return (path) => {
    if (!ignore.isPathValid(path)) return false;
    if (everywhere.ignores(path)) return true;
    return perFolder.some(
      ({ folder, matcher }) =>
        path.startsWith(folder) && path.length > folder.length && matcher.ignores(path.slice(folder.length)),
    );
  };
}
