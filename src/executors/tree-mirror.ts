import { hash } from "node:crypto";
import { ToolError } from "#errors.ts";
import type { FileChange, TreeSource } from "./executor.ts";
import { keptAside } from "./kept-aside.ts";

/** What has to be done to a session's copy of the tree before the next command. */
export interface TreeDelta {
  write: FileChange[];
  remove: string[];
}

/** Remembers what a session's copy of the tree holds, so that only differences have to move. */
export interface TreeMirror {
  /** The first time everything; later what differs. Counts as done once it returns. */
  next(tree: TreeSource): Promise<TreeDelta>;
  /** These paths were touched inside: compare them by content the next time. */
  doubt(paths: Iterable<string>): void;
  /** The copy is lost: the next time everything moves again. */
  forget(): void;
  readonly paths: ReadonlySet<string>;
  /** The content hash of a path as it was brought in. */
  digest(path: string): string | undefined;
  isKeptAside(path: string): boolean;
}

export interface TreeLimits {
  files: number;
  bytes: number;
}

/** The name of some content. */
function contentDigest(content: Uint8Array): string {
  return hash("sha1", content, "hex");
}

export function treeMirror(limits: TreeLimits): TreeMirror {
  const held = new Map<string, { digest: string; executable: boolean; size: number }>();
  const paths = new Set<string>();
  const rules = new Map<string, string>();
  const doubted = new Set<string>();
  let previouslyChanged = new Set<string>();
  let matcher = keptAside(rules);
  let started = false;

  function hold({ path, content, executable }: FileChange): void {
    held.set(path, { digest: contentDigest(content), executable, size: content.length });
    paths.add(path);
    if (path === ".gitignore" || path.endsWith("/.gitignore")) rules.set(path, Buffer.from(content).toString("utf8"));
  }

  function drop(path: string): void {
    held.delete(path);
    paths.delete(path);
    rules.delete(path);
  }

  async function everything(tree: TreeSource): Promise<TreeDelta> {
    const files = (await tree.list("", { recursive: true })).filter(
      ({ type }) => type === "file" || type === "symlink",
    );
    checkSize(files.length, limits.files, "files");
    const write: FileChange[] = [];
    let bytes = 0;
    for (const { path, executable, type } of files) {
      const content = type === "file" ? await tree.read(path) : await readLinked(tree, path);
      if (!content) continue;
      bytes += content.length;
      checkSize(bytes, limits.bytes, "bytes");
      write.push({ path, content, executable });
    }
    return { write, remove: [] };
  }

  async function differences(tree: TreeSource): Promise<TreeDelta> {
    const present = new Set(await tree.paths());
    const changed = new Set((await tree.changes()).map(({ path }) => path));
    const candidates = new Set([...changed, ...previouslyChanged, ...doubted]);
    for (const path of present) if (!held.has(path)) candidates.add(path);
    for (const path of paths) if (!present.has(path)) candidates.add(path);
    previouslyChanged = changed;

    const delta: TreeDelta = { write: [], remove: [] };
    for (const path of candidates) {
      if (!present.has(path)) {
        if (held.has(path) || doubted.has(path)) delta.remove.push(path);
        continue;
      }
      const content = await readLinked(tree, path);
      if (!content) continue;
      const { executable } = await tree.stat(path);
      const known = held.get(path);
      const same = known?.digest === contentDigest(content) && known.executable === executable;
      if (!same || doubted.has(path)) delta.write.push({ path, content, executable });
    }
    return delta;
  }

  return {
    async next(tree) {
      const delta = started ? await differences(tree) : await everything(tree);
      if (!started) previouslyChanged = new Set((await tree.changes()).map(({ path }) => path));
      started = true;
      doubted.clear();
      for (const path of delta.remove) drop(path);
      for (const file of delta.write) hold(file);
      matcher = keptAside(rules);
      return delta;
    },
    doubt(touched) {
      for (const path of touched) doubted.add(path);
    },
    forget() {
      started = false;
      held.clear();
      paths.clear();
      rules.clear();
      doubted.clear();
    },
    paths,
    digest: (path) => held.get(path)?.digest,
    isKeptAside: (path) => matcher(path),
  };
}

/** The content behind a path, links followed by the workspace; undefined for a link that leads nowhere or to a folder. */
async function readLinked(tree: TreeSource, path: string): Promise<Uint8Array | undefined> {
  try {
    return await tree.read(path);
  } catch (error) {
    if (error instanceof ToolError) return undefined;
    throw error;
  }
}

function checkSize(size: number, limit: number, unit: string): void {
  if (size <= limit) return;
  throw new ToolError(
    `This repository is too large to run commands in: more than ${limit.toLocaleString("en-US")} ${unit}.`,
    { code: "UNAVAILABLE", suggestion: "A worker whose sandbox has `restrict: /folder` carries only that folder." },
  );
}
