import { ToolError } from "#domain/errors.ts";
import type { Change } from "#domain/workspace.ts";
import type { GitSandbox } from "#sandbox/git-sandbox.ts";

/** The changes that the next push takes: the staged ones, or all when none is staged. */
export async function outgoingChanges(sandbox: GitSandbox): Promise<Change[]> {
  const [changes, { staged }] = [await sandbox.changes(), await sandbox.staged()];
  return staged.length === 0 ? changes : changes.filter(({ path }) => staged.includes(path));
}

/** The same, for a proposal. Throws the ToolError that says there is none, so that nobody is asked to approve nothing. */
export async function proposedChanges(sandbox: GitSandbox): Promise<Change[]> {
  const changes = await outgoingChanges(sandbox);
  if (changes.length > 0) return changes;
  throw new ToolError("Nothing has changed, so there is nothing to propose.", {
    code: "CONFLICT",
    suggestion: "Make the changes first; git_status shows them.",
  });
}
