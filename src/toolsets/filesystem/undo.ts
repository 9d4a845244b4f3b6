import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { Sandbox, StoredChange } from "#sandbox/sandbox.ts";
import type { FinishedCall } from "#toolsets/toolset.ts";
import {
  applyFileChanges,
  compareTexts,
  FileRules,
  type FileToolOptions,
  previewChanges,
  previewWrite,
  unifiedDiff,
} from "./file-changes.ts";
import { decodeText, isCallOf } from "./text-file.ts";

const input = z.object({
  path: z.string().optional().describe("Undo the last change of this file; default: everything the last step changed"),
});
type Input = z.infer<typeof input>;

const Undone = z.object({ undone: z.object({ step: z.string(), paths: z.array(z.string()) }) });

export interface UndoOptions extends FileToolOptions<Input> {
  history: () => readonly FinishedCall[];
}

/** The state to restore for a path, and the state in which the step left it. */
interface Reversal {
  path: string;
  before: StoredChange;
  after: StoredChange | undefined;
}

const tool = "undo";

/** Undoes the run's last change, of one file or of everything one call changed, unless the files have changed since. */
export function createUndoTool(
  { sandbox, workspace }: { sandbox: Pick<Sandbox, "history">; workspace: Workspace },
  options: UndoOptions,
): NamedTool<Input, ToolResult> {
  const plan = (args: Input) => planUndo(args, { sandbox, workspace, history: options.history() });
  const rules = new FileRules(tool, workspace, options);
  const needsApproval = ({ path, before }: Reversal) =>
    rules.needsApproval(before.content ? "write" : "delete", path, false);
  return {
    name: tool,
    description: "Undo the last change of this run: of one file with path, otherwise everything the last step changed.",
    inputSchema: input,
    needsApproval:
      options.needsApproval ?? (async (args) => (await plan(args)).reversals.map(needsApproval).includes(true)),
    manualExecution: { mode: "both", label: "Undo the last change", category: "Files" },
    approvalReason: () => "The worker wants to undo its last change.",
    preview: async (args) => {
      const files = (await plan(args)).reversals.map(({ path, before: { content, mode } }) =>
        previewWrite(workspace, path, content, { executable: mode === "100755" }),
      );
      return previewChanges(await Promise.all(files));
    },
    execute: async (args) => {
      const { step, reversals } = await plan(args);
      // The rules of a zone may have changed since the call was approved.
      for (const reversal of reversals) needsApproval(reversal);
      const diff = (await Promise.all(reversals.map(diffOfReversal))).join("");
      await applyFileChanges(
        workspace,
        reversals.map(({ path, before }) => ({
          path,
          content: before.content,
          executable: before.mode === "100755",
        })),
      );
      const paths = reversals.map(({ path }) => path);
      const summary = `Undid the last change of ${paths.join(", ")}`;
      return {
        llmContent: `${summary}. Read before you edit again.\n${diff}`,
        value: {
          kind: "filesystem.undo",
          data: { undone: { step, paths }, diff },
          summary,
          preview: diff,
          display: { preferredView: "code", language: "diff" },
        },
      };
    },
  };
}

interface RunState {
  sandbox: Pick<Sandbox, "history">;
  workspace: Workspace;
  history: readonly FinishedCall[];
}

async function planUndo(
  { path: given }: Input,
  { sandbox, workspace, history }: RunState,
): Promise<{ step: string; reversals: Reversal[] }> {
  const path = given === undefined ? undefined : workspace.resolve(given);
  const undone = history.flatMap(({ result }) => {
    const parsed = Undone.safeParse("data" in result.value ? result.value.data : undefined);
    return parsed.success && result.value.kind === "filesystem.undo" ? [parsed.data.undone] : [];
  });
  const isUndone = (step: string, file: string) =>
    undone.some((undo) => undo.step === step && undo.paths.includes(file));
  // Changes of other runs in the same sandbox are not undone.
  const own = new Set(history.filter((call) => !isCallOf(call, tool)).map(({ step, callId }) => `${step}/${callId}`));

  for (const { step, before, after } of (await sandbox.history()).toReversed()) {
    if (!own.has(step)) continue;
    const all = before
      .filter((change) => !isUndone(step, change.path))
      .map((change): Reversal => {
        const made = after.find((candidate) => candidate.path === change.path);
        return { path: change.path, before: change, after: made };
      });
    const reversals = path === undefined ? all : withMovedFiles(all, path);
    if (reversals.length === 0) continue;
    for (const reversal of reversals) {
      await refuseLinks(workspace, reversal);
      await refuseChanged(workspace, reversal);
    }
    return { step, reversals };
  }
  throw new ToolError(
    path === undefined ? "This run has made no change that can be undone." : `This run has not changed ${path}.`,
    {
      code: "NO_MATCH",
      suggestion: "Call git_status to see what differs from the base commit.",
    },
  );
}

/**
 * Returns the reversal of one path, with the other side of a move: deleting only the new file would delete the only
 * copy. If a moved file was also changed, every file that the step deleted is restored.
 */
function withMovedFiles(all: readonly Reversal[], path: string): Reversal[] {
  const [wanted] = all.filter((reversal) => reversal.path === path);
  if (!wanted) return [];

  const deleted = all.filter(({ before, after }) => before.content && !after?.content);
  const created = all.filter(({ before, after }) => !before.content && after?.content);
  const others = created.includes(wanted) ? deleted : deleted.includes(wanted) ? created : [];
  const content = wanted.after?.content ?? wanted.before.content;
  const same = others.filter(({ before, after }) => hasContent(before.content ?? after?.content, content));
  if (same.length > 0) return [wanted, ...same];
  return created.includes(wanted) ? [wanted, ...deleted] : [wanted];
}

function hasContent(content: Uint8Array | undefined, other: Uint8Array | undefined): boolean {
  return content !== undefined && other !== undefined && Buffer.from(content).equals(other);
}

/** Throws for a link or submodule that a merge changed: a workspace can only restore the links of the base. */
async function refuseLinks(workspace: Workspace, { path, before, after }: Reversal): Promise<void> {
  const isPlain = (change: StoredChange | undefined) => change?.mode !== "120000" && change?.mode !== "160000";
  const isBaseLink = async () => before.mode === "120000" && hasContent(before.content, await workspace.readBase(path));
  if (isPlain(after) && (isPlain(before) || (await isBaseLink()))) return;
  throw new ToolError(`${path} is a link or submodule that a merge changed, which undo cannot restore.`, {
    code: "NOT_A_FILE",
    suggestion: "Restore it to the base commit with git_discard, and undo other files one by one, with path.",
  });
}

async function refuseChanged(workspace: Workspace, { path, after }: Reversal): Promise<void> {
  const now = (await workspace.exists(path)) ? await workspace.readBytes(path) : undefined;
  const made = after?.content;
  if (now === undefined ? made === undefined : hasContent(made, now)) return;
  throw new ToolError(`${path} has changed since then, so it was not restored.`, {
    code: "STALE",
    suggestion: "Read it and change it with edit_file.",
  });
}

async function diffOfReversal({ path, before, after }: Reversal): Promise<string> {
  const [from, to] = [decodeStored(after), decodeStored(before)];
  if (from === null || to === null) return `Binary file ${path}\n`;
  return unifiedDiff(await compareTexts({ path, before: from, after: to }));
}

/** Returns undefined if there is no file, null for a binary one. */
function decodeStored(change: StoredChange | undefined): string | undefined | null {
  if (!change?.content) return undefined;
  return decodeText(change.content)?.text ?? null;
}
