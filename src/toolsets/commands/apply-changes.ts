import { ToolError } from "#domain/errors.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { TreeChanges } from "#executors/executor.ts";
import { isProtectedPath } from "#toolsets/filesystem/protected-paths.ts";

/** The changes of a command that reached the workspace, and those that did not. */
export interface AppliedChanges {
  written: string[];
  deleted: string[];
  rejected: TreeChanges["rejected"];
}

/**
 * Applies the changes of a command to the workspace by the zones of the worker. A change that needs approval, by its zone
 * or because the file is protected, is applied only if `isApproved`.
 */
export async function applyChanges(
  { written, deleted, rejected }: TreeChanges,
  workspace: Workspace,
  { isApproved }: { isApproved(path: string): boolean },
): Promise<AppliedChanges> {
  const applied: AppliedChanges = { written: [], deleted: [], rejected: [...rejected] };

  // Deletions first, so that a file can replace a folder.
  for (const path of deleted) {
    const problem = problemOf(workspace, path, "delete", isApproved) ?? (await attempt(() => workspace.remove(path)));
    if (problem) applied.rejected.push({ path, reason: problem });
    else applied.deleted.push(path);
  }
  for (const { path, content, executable } of written) {
    const problem =
      problemOf(workspace, path, "write", isApproved) ??
      (await attempt(() => workspace.write(path, content, { executable })));
    if (problem) applied.rejected.push({ path, reason: problem });
    else applied.written.push(path);
  }
  return applied;
}

function problemOf(
  workspace: Workspace,
  path: string,
  operation: "write" | "delete",
  isApproved: (path: string) => boolean,
): string | undefined {
  const rule = workspace.ruleFor(path);
  if (rule.mode === "ro") return "is read-only for this worker";
  if (rule[operation] === "blocked") return `is in a zone where this worker may not ${operation}`;
  const needsApproval = rule[operation] === "ask" || isProtectedPath(path);
  if (needsApproval && !isApproved(path)) return `needs approval: use the file tools to ${operation} it`;
  return undefined;
}

async function attempt(change: () => Promise<unknown>): Promise<string | undefined> {
  try {
    await change();
    return undefined;
  } catch (error) {
    if (error instanceof ToolError && error.code === "FILE_NOT_FOUND") return undefined;
    if (error instanceof ToolError) return `was refused: ${error.message}`;
    throw error;
  }
}
