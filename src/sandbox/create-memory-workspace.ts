import type { SandboxPolicy } from "#domain/worker.ts";
import type { Workspace } from "#domain/workspace.ts";
import { createBase } from "./base.ts";
import { encodeTree, type TreeItem } from "./git-objects.ts";
import { createObjectStore, type ObjectStore } from "./object-store.ts";
import { createOverlay } from "./overlay.ts";
import { parsePath } from "./paths.ts";
import type { Sandbox } from "./sandbox.ts";
import { isStagingFile } from "./staging.ts";
import { createWorkspaceView } from "./workspace-view.ts";
import { createZones, type Zones } from "./zones.ts";

/** A workspace of no repository, with the steps that `undo` needs. */
export interface MemoryWorkspace
  extends Workspace,
    Pick<Sandbox, "base" | "pendingChanges" | "markStored" | "rollback" | "history"> {
  /** The same files and changes, seen through a further policy. It can only narrow. */
  restricted(policy: SandboxPolicy | undefined): MemoryWorkspace;
}

/**
 * A workspace of these files by path, with the rules of a run's sandbox: paths are checked, zones decide, changes are
 * kept apart from what was there. Throws a ToolError for a path that no sandbox takes, a UserError for a wrong policy.
 */
export function createMemoryWorkspace(
  files: Readonly<Record<string, string | Uint8Array>> = {},
  policy: SandboxPolicy = {},
): MemoryWorkspace {
  const store = createObjectStore();
  const contents = Object.entries(files).map(([path, content]): [string[], Buffer] => [
    parsePath(path).split("/"),
    Buffer.from(content as string),
  ]);
  const base = createBase(store, addCommit(store, addTree(store, contents)));
  const overlay = createOverlay(base, [], isStagingFile);
  const { pendingChanges, markStored, rollback, history } = overlay;
  const steps = { base: { commit: base.commit, branch: "memory" }, pendingChanges, markStored, rollback, history };
  const seenThrough = (zones: Zones): MemoryWorkspace => ({
    ...createWorkspaceView(base, overlay, zones),
    ...steps,
    restricted: (narrower) => seenThrough(zones.narrow(narrower)),
  });
  return seenThrough(createZones(policy));
}

function addTree(store: ObjectStore, contents: readonly [path: string[], content: Buffer][]): string {
  const byName = Map.groupBy(contents, ([[name]]) => name ?? "");
  const lines = [...byName].map(([name, inside]): TreeItem => {
    const file = inside.find(([path]) => path.length === 1);
    const oid = file
      ? store.add({ type: "blob", data: file[1] })
      : addTree(
          store,
          inside.map(([path, content]) => [path.slice(1), content]),
        );
    return { mode: file ? "100644" : "40000", name: Buffer.from(name), oid };
  });
  return store.add({ type: "tree", data: encodeTree(lines) });
}

function addCommit(store: ObjectStore, tree: string): string {
  const person = "Golem Forge <golem-forge@localhost> 0 +0000";
  const text = `tree ${tree}\nauthor ${person}\ncommitter ${person}\n\nThe files as they were given\n`;
  return store.add({ type: "commit", data: Buffer.from(text) });
}
