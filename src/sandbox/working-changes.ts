import { EventLoopYielder, runInTurns } from "#domain/async-work.ts";
import { ToolError } from "#domain/errors.ts";
import type { Workspace } from "#domain/workspace.ts";
import { DiffBudget, diffFile, type FileVersion, submoduleVersion } from "./diff-file.ts";
import { type Base, readEntry } from "./git/base.ts";
import type { Layer } from "./layer.ts";
import type { Overlay } from "./overlay.ts";
import { isWithin } from "./paths.ts";
import type { FileVersions } from "./preview-files.ts";
import type { GitSandbox } from "./sandbox.ts";

export type WorkingChanges = Pick<
  GitSandbox,
  "diffAgainstBase" | "stage" | "unstage" | "staged" | "changedFiles" | "allChanges" | "outgoing" | "discard"
>;

/** Diffs, stages and discards the changes that a worker can see. */
export function workingChanges({
  base,
  overlay,
  view,
  staging,
  loadContents = async () => {},
}: {
  base: Base;
  overlay: Overlay;
  view: Workspace;
  staging: ReturnType<typeof createStaging>;
  loadContents?: () => Promise<void>;
}): WorkingChanges {
  async function resolveChanged(paths: readonly string[]): Promise<string[]> {
    const wanted = paths.map((path) => view.resolve(path));
    const changed = (await view.changes()).map(({ path }) => path);
    const unchanged = wanted.find((path) => !changed.some((change) => isWithin(change, path)));
    if (unchanged !== undefined) {
      throw new ToolError(`There are no changes at ${unchanged || "the root"}.`, { code: "FILE_NOT_FOUND" });
    }
    return changed.filter((path) => wanted.some((folder) => isWithin(path, folder)));
  }

  async function versionsOf(paths: readonly string[]): Promise<FileVersions[]> {
    await loadContents();
    return paths.map((path) => ({ path, before: versionBefore(base, path), after: versionNow(overlay, path) }));
  }

  async function staged() {
    const names = new Set(staging.paths());
    const changed = (await view.changes()).map(({ path }) => path);
    return {
      staged: changed.filter((path) => names.has(path)),
      unstaged: changed.filter((path) => !names.has(path)),
    };
  }

  return {
    diffAgainstBase: async (path) => {
      const within = view.resolve(path ?? "");
      const changed = (await view.changes()).map((change) => change.path).filter((path) => isWithin(path, within));
      const budget = new DiffBudget();
      const loop = new EventLoopYielder();
      const diffs = await Array.fromAsync(await versionsOf(changed), ({ path, ...versions }) =>
        runInTurns(diffFile(path, versions, budget), loop),
      );
      return diffs.join("");
    },

    stage: async (paths) => staging.add(await resolveChanged(paths)),
    unstage: async (paths) => {
      const wanted = paths.map((path) => view.resolve(path));
      return staging.remove(staging.paths().filter((path) => wanted.some((folder) => isWithin(path, folder))));
    },
    staged,
    changedFiles: async () => versionsOf((await view.changes()).map(({ path }) => path)),
    allChanges: async () => {
      const changed = await versionsOf((await view.changes()).map(({ path }) => path));
      const { run } = overlay.layers;
      const files = run.files().filter((path) => !isStagingFile(path));
      if (files.length === 0) return changed;
      const seen = new Set(await view.paths());
      const stored = files.filter((path) => seen.has(path));
      return [...changed, ...stored.map((path) => ({ path, before: undefined, after: versionIn(run, path) }))];
    },
    outgoing: async () => {
      const changes = await staged();
      const paths = changes.staged.length > 0 ? changes.staged : changes.unstaged;
      return versionsOf(paths);
    },
    discard: async (paths) => {
      const changed = await resolveChanged(paths);
      for (const path of changed) assertWritable(view, path);
      for (const path of changed) overlay.reset(path);
      return changed;
    },
  };
}

/** Returns a file, link or submodule in the base; undefined if there is none. */
export function versionBefore(base: Base, path: string): FileVersion | undefined {
  const entry = base.entries.get(path);
  if (entry?.type === "submodule") return submoduleVersion(entry.oid);
  const content = entry && readEntry(base, entry);
  return (
    content && {
      content,
      executable: entry.executable,
      oid: entry.oid,
      ...(entry.type === "symlink" && { isLink: true }),
    }
  );
}

/** Returns a file, link or submodule with the run's changes; undefined if there is none. */
export function versionNow({ layers }: Overlay, path: string): FileVersion | undefined {
  return versionIn(layers.repository, path);
}

function versionIn(layer: Layer, path: string): FileVersion | undefined {
  const node = layer.node(path);
  if (node?.type === "submodule") return submoduleVersion(layer.treeEntry(path)?.oid ?? "");
  const content = node && node.type !== "directory" ? layer.read(path) : undefined;
  return (
    content && { content, executable: node?.executable ?? false, ...(node?.type === "symlink" && { isLink: true }) }
  );
}

/** Throws a ToolError `READ_ONLY` for a path that is read-only in the worker's zones. */
export function assertWritable(view: Pick<Workspace, "resolve" | "ruleFor">, path: string): void {
  const rule = view.ruleFor(view.resolve(path));
  if (rule.mode === "rw" && rule.write !== "blocked") return;
  throw new ToolError(`${path} would change, and it is read-only for this worker.`, { code: "READ_ONLY" });
}

// Stored with the run's changes, under a path that no tool accepts.
const stagingFile = ".git/golem-staged";

export function isStagingFile(path: string): boolean {
  return path === stagingFile;
}

/** The paths selected for the next push. */
export function createStaging(overlay: Overlay) {
  const paths = (): string[] => {
    const content = overlay.layers.run.read(stagingFile);
    return content ? JSON.parse(content.toString("utf8")) : [];
  };
  function keep(next: readonly string[]): void {
    if (next.length === 0) overlay.remove("run", stagingFile);
    else overlay.write("run", stagingFile, Buffer.from(JSON.stringify([...next].sort())));
  }
  return {
    paths,
    /** Returns the paths that were not staged before. */
    add: (added: readonly string[]) => {
      const known = new Set(paths());
      const fresh = added.filter((path) => !known.has(path));
      if (fresh.length > 0) keep([...known, ...fresh]);
      return fresh;
    },
    /** Returns the paths that were staged before. */
    remove: (removed: readonly string[]) => {
      const known = paths();
      const kept = known.filter((path) => !removed.includes(path));
      if (kept.length < known.length) keep(kept);
      return known.filter((path) => removed.includes(path));
    },
  };
}
