import type { GitSandbox } from "#sandbox/git-sandbox.ts";
import type { Change } from "#workspace.ts";

/** The changes that the next push takes: the staged ones, or all when none is staged. */
export async function outgoingChanges(sandbox: GitSandbox): Promise<Change[]> {
  const [changes, { staged }] = [await sandbox.changes(), await sandbox.staged()];
  return staged.length === 0 ? changes : changes.filter(({ path }) => staged.includes(path));
}
