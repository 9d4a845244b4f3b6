import type { Workspace } from "#domain/workspace.ts";
import { decodeText } from "#toolsets/filesystem/text-file.ts";
import { diffChanges } from "#toolsets/git/git-changes.ts";
import type { RuntimeUI } from "#ui/runtime-ui.ts";
import type { DiffFileSummary } from "#ui/ui-event-bus.ts";

const operations = { added: "create", modified: "update", deleted: "delete" } as const;

/** Summarizes the changes to the files the worker was given. */
export async function summarizeChanges(workspace: Workspace): Promise<DiffFileSummary[]> {
  const diffs = await diffChanges(workspace);
  return diffs.map(({ path, status, additions, deletions }) => ({
    path,
    operation: operations[status],
    additions,
    deletions,
  }));
}

/** Shows the change of one file. */
export async function showDiff(
  workspace: Workspace,
  ui: RuntimeUI,
  { requestId, path }: { requestId: string; path: string },
): Promise<void> {
  try {
    const before = await workspace.readBase(path);
    const after = (await workspace.exists(path)) ? await workspace.readBytes(path) : undefined;
    if (!before && !after) return ui.showStatus("error", `There is no ${path}.`);
    ui.showDiffContent(requestId, path, before && textOf(before), after ? textOf(after) : "", before === undefined);
  } catch (error) {
    ui.showStatus("error", `${path} cannot be shown: ${error instanceof Error ? error.message : error}`);
  }
}

function textOf(content: Uint8Array): string {
  return decodeText(content)?.text ?? `(binary, ${content.length} bytes)`;
}
