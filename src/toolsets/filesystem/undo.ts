import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { Sandbox, StoredChange } from "#sandbox/sandbox.ts";
import type { FinishedCall } from "#toolsets/toolset.ts";
import { needsFileApproval } from "./file-approval.ts";
import { unifiedDiff } from "./file-diff.ts";
import type { FileToolOptions } from "./file-tool-options.ts";
import { isCallOf } from "./is-call-of.ts";
import { previewChanges, previewWrite } from "./preview-changes.ts";
import { decode, isBinaryContent } from "./text-file.ts";

const input = z.object({
  path: z.string().optional().describe("Undo the last change of this file; default the whole last step"),
});
type Input = z.infer<typeof input>;

const Undone = z.object({ undone: z.object({ step: z.string(), paths: z.array(z.string()) }) });

export interface UndoOptions extends FileToolOptions<Input> {
  history: () => readonly FinishedCall[];
}

/** One path as it is to be again, with what the step made of it. */
interface Reversal {
  path: string;
  before: StoredChange;
  after: StoredChange | undefined;
}

const tool = "undo";

/** Takes back the run's last change, of a file or of everything one call did, unless something changed it since. */
export function createUndoTool(
  { sandbox, workspace }: { sandbox: Pick<Sandbox, "history">; workspace: Workspace },
  options: UndoOptions,
): NamedTool<Input, ToolResult> {
  const plan = (args: Input) => planUndo(args, { sandbox, workspace, history: options.history() });
  const asksFor = ({ path, before }: Reversal) =>
    needsFileApproval({
      tool,
      workspace,
      operation: before.content ? "write" : "delete",
      path,
      otherwise: false,
      zones: options.zoneApprovalConfig,
    });
  return {
    name: tool,
    description:
      "Take back the last change of this run: of one file with path, otherwise everything the last step changed.",
    inputSchema: input,
    needsApproval: options.needsApproval ?? (async (args) => (await plan(args)).reversals.map(asksFor).includes(true)),
    manualExecution: { mode: "both", label: "Take back the last change", category: "Files" },
    approvalReason: () => "The worker wants to take back its last change.",
    preview: async (args) => {
      const files = (await plan(args)).reversals.map(({ path, before: { content, mode } }) =>
        previewWrite(workspace, path, content, { executable: mode === "100755" }),
      );
      return previewChanges(await Promise.all(files));
    },
    execute: async (args) => {
      const { step, reversals } = await plan(args);
      reversals.map(asksFor);
      const diff = reversals.map(describe).join("");
      for (const { path, before } of reversals) if (!before.content) await workspace.remove(path);
      for (const { path, before } of reversals) {
        const executable = before.mode === "100755";
        if (before.content) await workspace.write(path, before.content, { executable });
      }
      const paths = reversals.map(({ path }) => path);
      const summary = `Took back the last change of ${paths.join(", ")}`;
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

interface Known {
  sandbox: Pick<Sandbox, "history">;
  workspace: Workspace;
  history: readonly FinishedCall[];
}

async function planUndo({ path: given }: Input, { sandbox, workspace, history }: Known) {
  const path = given === undefined ? undefined : workspace.resolve(given);
  const undos = history.flatMap(({ result }) => {
    const parsed = Undone.safeParse("data" in result.value ? result.value.data : undefined);
    return parsed.success && result.value.kind === "filesystem.undo" ? [parsed.data.undone] : [];
  });
  const isUndone = (step: string, file: string) =>
    undos.some((undo) => undo.step === step && undo.paths.includes(file));
  // Steps of other runs, whose changes came with the sandbox, are not this run's to take back.
  const own = new Set(history.filter((call) => !isCallOf(call, tool)).map(({ step, callId }) => `${step}/${callId}`));

  for (const { step, before, after } of sandbox.history().toReversed()) {
    const reversals = before
      .filter((change) => own.has(step) && !isUndone(step, change.path) && (path ?? change.path) === change.path)
      .map((change) => ({
        path: change.path,
        before: change,
        after: after.find((candidate) => candidate.path === change.path),
      }));
    if (reversals.length === 0) continue;
    for (const reversal of reversals) await refuseChanged(workspace, reversal);
    return { step, reversals };
  }
  throw new ToolError(
    path === undefined ? "This run has changed nothing that could be undone." : `This run has not changed ${path}.`,
    {
      code: "NO_MATCH",
      suggestion: "git_status shows what differs from the base commit.",
    },
  );
}

async function refuseChanged(workspace: Workspace, { path, after }: Reversal): Promise<void> {
  const now = (await workspace.exists(path)) ? Buffer.from(await workspace.read(path)) : undefined;
  const made = after?.content && Buffer.from(after.content);
  if (now === undefined ? made === undefined : made !== undefined && now.equals(made)) return;
  throw new ToolError(`${path} has changed since, so it was left alone.`, {
    code: "STALE",
    suggestion: "Read it and change it with edit_file.",
  });
}

function describe({ path, before, after }: Reversal): string {
  const [from, to] = [textOf(after), textOf(before)];
  if (from === null || to === null) return `Binary file ${path}\n`;
  return unifiedDiff({ path, before: from, after: to });
}

function textOf(change: StoredChange | undefined): string | undefined | null {
  if (!change?.content) return undefined;
  return isBinaryContent(change.content) ? null : (decode(change.content) ?? null);
}
