import { ToolError } from "#domain/errors.ts";
import type { SandboxPolicy } from "#domain/worker.ts";
import type { FileVersion } from "#sandbox/diff-file.ts";
import type { GitSandbox } from "#sandbox/git-sandbox.ts";
import { createOverlay } from "#sandbox/overlay.ts";
import type { LogEntry } from "#sandbox/sandbox.ts";
import { createStaging, isStagingFile } from "#sandbox/staging.ts";
import { versionBefore, versionNow, workingChanges } from "#sandbox/working-changes.ts";
import { createWorkspaceView } from "#sandbox/workspace-view.ts";
import { createZones, type Zones } from "#sandbox/zones.ts";
import { findRoot } from "./find-root.ts";
import { readWorkingTree } from "./read-working-tree.ts";
import { runGit } from "./run-git.ts";

/** What a worker sees of a checkout: its files, and as much of git as works without a remote. */
export interface CheckoutTree
  extends Omit<GitSandbox, "restricted" | "push" | "mergeBranch" | "fetchBranch" | "readAt"> {
  /** The same files and changes, seen through a further policy. It can only narrow. */
  restricted(policy: SandboxPolicy | undefined): CheckoutTree;
}

/** One path a worker changed. */
export interface CheckoutChange {
  path: string;
  /** What the change stands on; undefined for a new file. */
  before: FileVersion | undefined;
  /** Undefined for a file that is gone. */
  after: FileVersion | undefined;
  /** The file was written on disk before the worker looked into it, so that what it stood on is not known. */
  isStale: boolean;
}

/** A git checkout on this machine, with a worker's changes over it in memory. */
export interface Checkout {
  /** Its top folder, with links resolved. */
  readonly root: string;
  readonly tree: CheckoutTree;
  readonly branch: string;
  /** The commit it stands on; undefined before the first one. */
  readonly head: string | undefined;
  /** How many files it has. */
  readonly fileCount: number;
  /** What differs from the files as they were, sorted by path. */
  changes(): CheckoutChange[];
  /** The changed paths that the worker staged. */
  staged(): string[];
}

/**
 * Opens the checkout that a folder lies in, as far as this policy lets its first worker. Rejects with a UserError where it
 * lies in none. Writes nothing, ever.
 */
export async function openCheckout(folder: string, policy?: SandboxPolicy): Promise<Checkout> {
  const root = await findRoot(folder);
  const { base, branch, head, isStale } = await readWorkingTree(root);
  const overlay = createOverlay(base, [], isStagingFile);
  const staging = createStaging(overlay);
  const { pendingChanges, markStored, rollback, history } = overlay;

  const seenThrough = (zones: Zones): CheckoutTree => {
    const view = createWorkspaceView(base, overlay, zones);
    return {
      ...view,
      ...workingChanges({ base, overlay, view, staging }),
      base: { commit: base.commit, branch },
      pendingChanges,
      markStored,
      rollback,
      history,
      log: async ({ limit, path }) => readLog(root, limit, path === undefined ? undefined : view.resolve(path)),
      branches: (signal) => readBranches(root, signal),
      restricted: (narrower) => seenThrough(zones.narrow(narrower)),
    };
  };

  const changedPaths = () => overlay.layers.repository.changed();
  return {
    root,
    tree: seenThrough(createZones(policy)),
    branch,
    head,
    fileCount: base.files.length,
    changes: () =>
      changedPaths().map((path) => {
        const isUnknown = base.entries.has(path) && isStale(path);
        return {
          path,
          before: isUnknown ? undefined : knownBefore(() => versionBefore(base, path)),
          after: versionNow(overlay, path),
          isStale: isUnknown,
        };
      }),
    staged: () => {
      const changed = new Set(changedPaths());
      return staging.paths().filter((path) => changed.has(path));
    },
  };
}

/** A file that was deleted on disk before anybody looked has no content any more. */
function knownBefore(read: () => FileVersion | undefined): FileVersion | undefined {
  try {
    return read();
  } catch (error) {
    if (error instanceof ToolError) return undefined;
    throw error;
  }
}

async function readLog(root: string, limit: number, path: string | undefined): Promise<LogEntry[]> {
  const format = "--format=%H%x00%an%x00%ae%x00%at%x00%P%x00%B%x00";
  const only = path === undefined || path === "" ? [] : ["--", path];
  const said = await runGit(["log", `-${limit}`, "--no-show-signature", format, "HEAD", ...only], { cwd: root });
  const fields = said.toString("utf8").split("\0");
  const entries: LogEntry[] = [];
  for (let at = 0; at + 6 < fields.length; at += 6) {
    const [commit = "", author = "", email = "", seconds = "", parents = "", message = ""] = fields.slice(at, at + 6);
    entries.push({
      commit: commit.trim(),
      author,
      email,
      date: new Date(Number(seconds) * 1_000),
      parents: parents.split(" ").filter(Boolean),
      message,
    });
  }
  return entries;
}

async function readBranches(root: string, signal: AbortSignal | undefined) {
  const said = await runGit(["for-each-ref", "--sort=refname", "--format=%(objectname) %(refname)", "refs/heads"], {
    cwd: root,
    signal,
  });
  return said
    .toString("utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => line.split(" refs/heads/"))
    .map(([commit = "", name = ""]) => ({ commit, name }));
}
