import { ToolError } from "#domain/errors.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { TreeChanges } from "#executors/executor.ts";
import { isProtectedPath } from "#toolsets/filesystem/protected-paths.ts";

/** What reached the workspace, and what did not. */
export interface AppliedChanges {
  written: string[];
  deleted: string[];
  rejected: TreeChanges["rejected"];
}

/**
 * Puts what a command changed into the workspace, by the zones of the worker. What is always asked (a zone that says
 * so, files that steer CI, dependencies or agents) is only taken over where a person agreed to it.
 */
export async function applyChanges(
  { written, deleted, rejected }: TreeChanges,
  workspace: Workspace,
  { isAgreed }: { isAgreed(path: string): boolean },
): Promise<AppliedChanges> {
  const taken: AppliedChanges = { written: [], deleted: [], rejected: [...rejected] };

  // Deletions first, so that a folder can become a file.
  for (const path of deleted) {
    const problem = forbidden(workspace, path, "delete", isAgreed) ?? (await attempt(() => workspace.remove(path)));
    if (problem) taken.rejected.push({ path, reason: problem });
    else taken.deleted.push(path);
  }
  for (const { path, content, executable } of written) {
    const problem =
      forbidden(workspace, path, "write", isAgreed) ??
      (await attempt(() => workspace.write(path, content, { executable })));
    if (problem) taken.rejected.push({ path, reason: problem });
    else taken.written.push(path);
  }
  return taken;
}

function forbidden(
  workspace: Workspace,
  path: string,
  what: "write" | "delete",
  isAgreed: (path: string) => boolean,
): string | undefined {
  const rule = workspace.ruleFor(path);
  if (rule.mode === "ro") return "lies where this worker may only read";
  if (rule[what] === "blocked") return `lies where this worker may not ${what}`;
  const isAsked = rule[what] === "ask" || isProtectedPath(path);
  if (isAsked && !isAgreed(path)) return `lies where a person is asked first: use the file tools to ${what} it`;
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
