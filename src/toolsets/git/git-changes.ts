import { z } from "zod";
import { EventLoopYielder } from "#domain/async-work.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Change } from "#domain/workspace.ts";
import { modeLines, modeOf } from "#sandbox/diff-file.ts";
import { isWithin } from "#sandbox/paths.ts";
import type { FileVersions } from "#sandbox/preview-files.ts";
import { pluralize } from "#text/pluralize.ts";
import { quoted } from "#text/visible-text.ts";
import { compareTexts, previewChanges, unifiedDiff } from "#toolsets/filesystem/file-changes.ts";
import { decodeText } from "#toolsets/filesystem/text-file.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const letters: Record<Change["status"], string> = { added: "A", modified: "M", deleted: "D" };

/** Lists the files that differ from the base commit. */
export function createGitStatusTool({ workspace, sandbox, branch }: ToolServices): NamedTool<object, ToolResult> {
  return {
    name: "git_status",
    description: "List the files that this run has added, modified or deleted.",
    inputSchema: z.object({}),
    readOnly: true,
    needsApproval: false,
    manualExecution: { mode: "both", label: "Show changed files", category: "Git" },
    execute: async () => {
      const changes = await workspace.changes();
      const pathsOf = (status: Change["status"]) =>
        changes.filter((change) => change.status === status).map(({ path }) => path);
      const [added, modified, deleted] = [pathsOf("added"), pathsOf("modified"), pathsOf("deleted")];
      const isClean = changes.length === 0;
      const summary = isClean
        ? "No changes"
        : `${added.length} added, ${modified.length} modified, ${deleted.length} deleted`;
      const { staged } = await sandbox.staged();
      const lines = changes.map(
        ({ path, status }) => `${letters[status]} ${path}${staged.includes(path) ? " (staged)" : ""}`,
      );
      return {
        llmContent: [
          `On ${branch}, from ${sandbox.base.branch} at ${sandbox.base.commit.slice(0, 7)}. ${summary}.`,
          ...lines,
        ].join("\n"),
        value: {
          kind: "git.status",
          data: { branch, base: sandbox.base, added, modified, deleted, staged, isClean },
          summary,
          preview: lines.join("\n"),
          display: { preferredView: "tree", collapsed: isClean },
        },
      };
    },
  };
}

const stageInput = z.object({
  paths: z.array(z.string().min(1)).min(1).max(200).describe("Changed files, or folders for every change below them"),
  unstage: z.boolean().optional().describe("Remove the files from the staged set"),
});
type StageInput = z.infer<typeof stageInput>;

/** Selects the files that the next push includes. */
export function createGitStageTool({ sandbox }: ToolServices): NamedTool<StageInput, ToolResult> {
  return {
    name: "git_stage",
    description:
      "Select the changed files for the pull request. With no files staged, the pull request includes every change; otherwise only the staged files.",
    inputSchema: stageInput,
    needsApproval: false,
    execute: async ({ paths, unstage = false }) => {
      const changed = unstage ? await sandbox.unstage(paths) : await sandbox.stage(paths);
      const status = await sandbox.staged();
      const summary = `${unstage ? "Unstaged" : "Staged"} ${pluralize(changed.length, "file")}`;
      const lines = [
        ...status.staged.map((path) => `staged   ${path}`),
        ...status.unstaged.map((path) => `unstaged ${path}`),
      ];
      return {
        llmContent: [`${summary}.`, ...lines].join("\n"),
        value: { kind: "git.staged", data: status, summary, preview: lines.join("\n") },
      };
    },
  };
}

const discardInput = z.object({
  paths: z.array(z.string().min(1)).min(1).max(200).describe("Changed files, or folders for every change below them"),
});
type DiscardInput = z.infer<typeof discardInput>;

/** Restores files to their content in the base commit. The approval shows the changes that would be lost. */
export function createGitDiscardTool({ sandbox, workspace }: ToolServices): NamedTool<DiscardInput, ToolResult> {
  return {
    name: "git_discard",
    description: "Discard this run's changes to some files and restore their content from the base commit.",
    inputSchema: discardInput,
    needsApproval: true,
    approvalReason: ({ paths }) => `The worker wants to discard its changes to ${paths.map(quoted).join(", ")}.`,
    preview: async ({ paths }) => {
      const folders = paths.map((path) => workspace.resolve(path));
      const lost = (await sandbox.changedFiles()).filter(({ path }) =>
        folders.some((folder) => isWithin(path, folder)),
      );
      return previewChanges(lost.map(({ path, before, after }) => ({ path, before: after, after: before })));
    },
    execute: async ({ paths }) => {
      const discarded = await sandbox.discard(paths.map((path) => workspace.resolve(path)));
      const summary = `Discarded the changes to ${discarded.join(", ")}`;
      return { llmContent: `${summary}.`, value: { kind: "git.discarded", data: { discarded }, summary } };
    },
  };
}

const gitDiffInput = z.object({
  path: z.string().optional().describe("Only this file or folder; default: every change"),
});
type GitDiffInput = z.infer<typeof gitDiffInput>;

/** Shows the run's changes as a unified diff against the base commit. */
export function createGitDiffTool({ sandbox, workspace }: ToolServices): NamedTool<GitDiffInput, ToolResult> {
  return {
    name: "git_diff",
    description: "Show the changes of this run as a unified diff against the base commit.",
    inputSchema: gitDiffInput,
    readOnly: true,
    needsApproval: false,
    manualExecution: { mode: "both", label: "Show the changes", category: "Git" },
    execute: async ({ path }) => {
      const root = workspace.resolve(path ?? "");
      const diffs = await diffChanges((await sandbox.changedFiles()).filter((file) => isWithin(file.path, root)));
      const diff = diffs.map((file) => file.diff).join("");
      const summary = diffs.length === 0 ? "No changes" : summarizeDiffs(diffs);
      const files = diffs.map(({ path, status, additions, deletions }) => ({ path, status, additions, deletions }));
      return {
        llmContent: diffs.length === 0 ? `${summary}.` : `${summary}\n${withShortLines(diff)}`,
        value: {
          kind: "git.diff",
          data: { files, diff },
          summary,
          preview: diff,
          display: { preferredView: "code", language: "diff" },
        },
      };
    },
  };
}

const maxLineLength = 2_000;

/** Shortens the very long lines of a diff, such as those of minified code, to the part where two versions begin to differ. */
export function withShortLines(diff: string): string {
  if (diff.length <= maxLineLength) return diff;
  const lines = diff.split("\n");
  const shown = lines.map((line, at) => {
    if (line.length <= maxLineLength) return line;
    const other = line.startsWith("-") ? lines[at + 1] : lines[at - 1];
    const isPair = other !== undefined && /^(?:-\+|\+-)$/.test(`${line[0]}${other[0]}`);
    let start = 1;
    while (isPair && start < line.length && line[start] === other[start]) start++;
    const from = Math.max(1, start - maxLineLength / 4);
    const part = line.slice(from, from + maxLineLength / 2).toWellFormed();
    return `${line[0]}${from > 1 ? "…" : ""}${part}… [${line.length - 1} characters]`;
  });
  return shown.join("\n");
}

export interface ChangeDiff extends Change {
  additions: number;
  deletions: number;
  /** A unified diff, or a sentence for a binary file. */
  diff: string;
}

export async function diffChanges(files: readonly FileVersions[]): Promise<ChangeDiff[]> {
  const yielder = new EventLoopYielder();
  return Array.fromAsync(files, async (file) => {
    if (yielder.isDue) await yielder.turn();
    return diffChange(file);
  });
}

async function diffChange({ path, before, after }: FileVersions): Promise<ChangeDiff> {
  const change: Change = { path, status: before ? (after ? "modified" : "deleted") : "added" };
  const [old, text] = [before && decodeText(before.content)?.text, after && decodeText(after.content)?.text];
  const header = modeHeader({ path, before, after });
  if ((before && old === undefined) || (after && text === undefined)) {
    const diff = `${header}Binary file ${path}: ${after?.content.length ?? 0} bytes\n`;
    return { ...change, additions: 0, deletions: 0, diff };
  }
  const compared = await compareTexts({ path, before: old, after: text });
  const { additions, deletions } = compared;
  return { ...change, additions, deletions, diff: header + unifiedDiff(compared) };
}

/** Returns the header of a diff in git's format if the file is or was anything else than an ordinary file, otherwise `""`. */
function modeHeader({ path, before, after }: FileVersions): string {
  if ([before, after].every((version) => !version || modeOf(version) === "100644")) return "";
  const lines = modeLines(before, after);
  return lines.length === 0 ? "" : [`diff --git a/${path} b/${path}`, ...lines, ""].join("\n");
}

/** `2 files changed, +3 −1`. */
export function summarizeDiffs(diffs: readonly ChangeDiff[]): string {
  const additions = diffs.reduce((sum, diff) => sum + diff.additions, 0);
  const deletions = diffs.reduce((sum, diff) => sum + diff.deletions, 0);
  return `${pluralize(diffs.length, "file")} changed, +${additions} −${deletions}`;
}
