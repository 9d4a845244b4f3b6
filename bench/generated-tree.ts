import type { TreeSource } from "../src/executors/executor.ts";
import { createMemoryWorkspace, type MemoryWorkspace } from "../src/sandbox/create-memory-workspace.ts";
import { workspaceTree } from "../src/toolsets/run-command.ts";

/** Creates a workspace of these files, and the tree that commands run on. */
export function generatedTree(files: Record<string, string>): { workspace: MemoryWorkspace; tree: TreeSource } {
  const workspace = createMemoryWorkspace(files);
  const tree = workspaceTree(workspace, {
    base: { commit: "0".repeat(40), branch: "main" },
    log: async () => ({ commits: [], isComplete: true }),
  });
  return { workspace, tree };
}
