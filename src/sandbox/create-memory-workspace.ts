import type { SandboxPolicy } from "#domain/worker.ts";
import type { Workspace } from "#domain/workspace.ts";
import { encodeTree, type TreeItem } from "./git/git-objects.ts";
import { ObjectStore } from "./git/object-store.ts";
import { readBaseSync } from "./git/read-base.ts";
import { createOverlay } from "./overlay.ts";
import { parsePath } from "./paths.ts";
import type { Sandbox } from "./sandbox.ts";
import { isStagingFile } from "./working-changes.ts";
import { createWorkspaceView } from "./workspace-view.ts";
import { createZones, type Zones } from "./zones.ts";

/** A workspace without a repository, with the step history that `undo` needs. */
export interface MemoryWorkspace
  extends Workspace,
    Pick<Sandbox, "base" | "pendingChanges" | "markStored" | "rollback" | "history"> {
  /** A view of the same files and changes, narrowed by another policy. */
  restricted(policy: SandboxPolicy | undefined): MemoryWorkspace;
}

/**
 * Creates a workspace with the given files, and with the path checks, zones and change tracking of a run's sandbox.
 * Throws a ToolError for an invalid path and a UserError for an invalid policy.
 */
export function createMemoryWorkspace(
  files: Readonly<Record<string, string | Uint8Array>> = {},
  policy: SandboxPolicy = {},
): MemoryWorkspace {
  const store = new ObjectStore();
  const contents = Object.entries(files).map(([path, content]): [string[], Buffer] => [
    parsePath(path).split("/"),
    Buffer.from(content as string),
  ]);
  const base = readBaseSync(store, addCommit(store, addTree(store, contents)));
  const overlay = createOverlay(base, isStagingFile);
  const { pendingChanges, markStored, rollback } = overlay;
  const steps = {
    base: { commit: base.commit, branch: "memory" },
    pendingChanges,
    markStored,
    rollback,
    history: async () => overlay.history(),
  };
  const viewFor = (zones: Zones): MemoryWorkspace => ({
    ...createWorkspaceView(base, overlay, { zones }),
    ...steps,
    restricted: (narrower) => viewFor(zones.narrow(narrower)),
  });
  return viewFor(createZones(policy));
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
  const person = `Golem Forge <golem-forge@localhost> ${Math.floor(Date.now() / 1_000)} +0000`;
  const text = `tree ${tree}\nauthor ${person}\ncommitter ${person}\n\nInitial files\n`;
  return store.add({ type: "commit", data: Buffer.from(text) });
}
