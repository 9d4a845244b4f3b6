import { messageOf } from "#domain/errors.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { FileVersions } from "#sandbox/preview-files.ts";
import type { GitSandbox } from "#sandbox/sandbox.ts";
import { versionOf } from "#toolsets/filesystem/file-changes.ts";
import { decodeText } from "#toolsets/filesystem/text-file.ts";
import { diffChanges } from "#toolsets/git/git-changes.ts";
import type { RuntimeUI } from "#ui/runtime-ui.ts";
import type { DiffFileSummary } from "#ui/ui-event-bus.ts";

const operations = { added: "create", modified: "update", deleted: "delete" } as const;

/** Summarizes the changes to the files the worker was given. */
export async function summarizeChanges(workspace: Workspace): Promise<DiffFileSummary[]> {
  const diffs = await diffChanges(await changedFiles(workspace));
  return diffs.map(({ path, status, additions, deletions }) => ({
    path,
    operation: operations[status],
    additions,
    deletions,
  }));
}

/** Lists the changed files of any workspace. Only that of a repository has links and submodules. */
async function changedFiles(workspace: Workspace): Promise<FileVersions[]> {
  if ("changedFiles" in workspace) return (workspace as GitSandbox).changedFiles();
  const changes = await workspace.changes();
  return Promise.all(
    changes.map(async ({ path }) => {
      const content = await workspace.readBase(path);
      return { path, before: content && { content, executable: false }, after: await versionOf(workspace, path) };
    }),
  );
}

export async function showDiff(
  workspace: Workspace,
  ui: RuntimeUI,
  { requestId, path }: { requestId: string; path: string },
): Promise<void> {
  try {
    const before = await workspace.readBase(path);
    const after = (await workspace.exists(path)) ? await workspace.readBytes(path) : undefined;
    if (!before && !after) return ui.showStatus("error", `${path} does not exist.`);
    ui.showDiffContent(
      requestId,
      path,
      before && decodeForDisplay(before),
      after ? decodeForDisplay(after) : "",
      before === undefined,
    );
  } catch (error) {
    ui.showStatus("error", `${path} cannot be shown: ${messageOf(error)}`);
  }
}

function decodeForDisplay(content: Uint8Array): string {
  return decodeText(content)?.text ?? `(binary, ${content.length} bytes)`;
}
