import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { MergeResult } from "#sandbox/sandbox.ts";
import { pluralize } from "#text/pluralize.ts";
import { quoted } from "#text/visible-text.ts";
import { filesAt, previewChanges } from "#toolsets/filesystem/file-changes.ts";
import { decodeText, splitLines } from "#toolsets/filesystem/text-file.ts";
import { mergeStart, previewPush, pushChanges } from "#toolsets/pull-request/push-changes.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const mergeInput = z.object({
  branch: z.string().min(1).describe("The branch to merge into the working files"),
  with_conflicts: z.boolean().optional().describe("Write files with conflict markers instead of changing nothing"),
});
type MergeInput = z.infer<typeof mergeInput>;

const pullInput = z.object({ with_conflicts: mergeInput.shape.with_conflicts });
type PullInput = z.infer<typeof pullInput>;

/**
 * Merges a branch of the repository into the run's files. Needs approval, because anyone who can push may have written the
 * branch, unless it is the branch the run started from.
 */
export function createGitMergeTool(services: ToolServices): NamedTool<MergeInput, ToolResult> {
  const { sandbox } = services;
  return {
    name: "git_merge",
    description: "Merge a branch into the files of this run. If there are conflicts, nothing is changed.",
    inputSchema: mergeInput,
    needsApproval: ({ branch }) => branch !== sandbox.base.branch,
    approvalReason: ({ branch }) => `The worker wants to merge the branch ${quoted(branch)} into its files.`,
    preview: async ({ branch, with_conflicts }, { abortSignal }) => {
      const options = { withConflicts: with_conflicts, ...mergeStart(services, branch), signal: abortSignal };
      const { commit, files } = await sandbox.previewMerge(branch, options);
      return { ...(await previewChanges(files)), bindings: { [commitOf(branch)]: commit } };
    },
    execute: async ({ branch, with_conflicts }, { abortSignal, approved }) => {
      const commit = approved?.bindings?.[commitOf(branch)];
      const options = { withConflicts: with_conflicts, commit, ...mergeStart(services, branch), signal: abortSignal };
      return mergeResult(branch, await sandbox.mergeBranch(branch, options));
    },
  };
}

const commitOf = (branch: string) => `commit of ${branch}`;

/** Merges new commits of the branch that the run started from. */
export function createGitPullTool(services: ToolServices): NamedTool<PullInput, ToolResult> {
  const { sandbox } = services;
  return {
    name: "git_pull",
    description: "Merge new commits of the branch this run started from. If there are conflicts, nothing is changed.",
    inputSchema: pullInput,
    needsApproval: false,
    execute: async ({ with_conflicts }, { abortSignal }) => {
      const { branch } = sandbox.base;
      const options = { withConflicts: with_conflicts, ...mergeStart(services, branch), signal: abortSignal };
      return mergeResult(branch, await sandbox.mergeBranch(branch, options));
    },
  };
}

function mergeResult(name: string, { commit, mergeBases, merged, conflicts, applied }: MergeResult): ToolResult {
  const data = {
    branch: name,
    commit,
    mergeBase: mergeBases.at(-1),
    ...(mergeBases.length > 1 && { mergeBases }),
    merged,
    conflicts: conflicts.map(({ path, kind }) => ({ path, kind })),
    applied,
  };
  const summary = summarize(name, { merged: merged.length, conflicts: conflicts.length, applied });
  const lines = [
    ...(applied ? merged.map((path) => `merged   ${path}`) : []),
    ...conflicts.map(({ path, kind }) => `conflict ${path} (${kind})`),
  ];
  const kinds = new Set(applied ? conflicts.map(({ kind }) => kind) : []);
  const next = [
    applied || conflicts.length === 0
      ? ""
      : "Nothing was changed. Call the tool again with with_conflicts: true to get the files with conflict markers.",
    kinds.has("content")
      ? "Resolve the conflict markers in the files marked (content), then call git_check_conflicts."
      : "",
    kinds.has("deleted")
      ? "Files marked (deleted) were changed on one side and deleted on the other. They are here as changed: keep or delete them."
      : "",
    kinds.has("folder")
      ? "Files marked (folder) were moved to a folder that was renamed. Check that they belong there."
      : "",
    kinds.has("other")
      ? `Files marked (other) cannot have markers, and keep the version of this run. Compare them with those of ${name}.`
      : "",
  ].filter(Boolean);
  return {
    llmContent: [`${summary}.`, ...lines, ...next].join("\n"),
    value: { kind: "git.merge", data, summary, preview: lines.join("\n") },
  };
}

function summarize(name: string, count: { merged: number; conflicts: number; applied: boolean }): string {
  if (count.conflicts > 0) {
    return `${count.applied ? "Merged" : "Could not merge"} ${name}: ${pluralize(count.conflicts, "conflict")}`;
  }
  return count.merged === 0
    ? `${name} has no new commits`
    : `Merged ${name}: ${pluralize(count.merged, "file")} changed`;
}

const conflictsInput = z.object({
  path: z.string().optional().describe("The file or folder to search; default: every changed file"),
});
type ConflictsInput = z.infer<typeof conflictsInput>;

export function createGitCheckConflictsTool({ workspace }: ToolServices): NamedTool<ConflictsInput, ToolResult> {
  return {
    name: "git_check_conflicts",
    description: "Find unresolved merge conflict markers in the changed files.",
    inputSchema: conflictsInput,
    readOnly: true,
    needsApproval: false,
    execute: async ({ path }) => {
      const paths = path === undefined ? await changedFiles(workspace) : await filesAt(workspace, path);
      const conflicts = (await Array.fromAsync(paths, (file) => conflictsIn(workspace, file))).flat();
      const summary =
        conflicts.length === 0 ? "No conflict markers" : `${pluralize(conflicts.length, "conflict")} left`;
      const lines = conflicts.map(({ path, line }) => `${path}:${line}`);
      return {
        llmContent: [`${summary}.`, ...lines].join("\n"),
        value: { kind: "git.conflicts", data: { conflicts }, summary, preview: lines.join("\n") },
      };
    },
  };
}

async function changedFiles(workspace: Workspace): Promise<string[]> {
  return (await workspace.changes()).filter(({ status }) => status !== "deleted").map(({ path }) => path);
}

async function conflictsIn(workspace: Workspace, path: string): Promise<{ path: string; line: number }[]> {
  const { type } = await workspace.stat(path);
  const text = type === "file" ? decodeText(await workspace.readBytes(path))?.text : undefined;
  if (text === undefined) return [];

  const lines = splitLines(text);
  // A single marker may be ordinary text, such as an underlined heading.
  const last = Math.min(
    lines.lastIndexOf("======="),
    lines.findLastIndex((line) => /^>{7}( |$)/.test(line)),
  );
  return lines.flatMap((line, index) => (index < last && /^<{7}( |$)/.test(line) ? [{ path, line: index + 1 }] : []));
}

const input = z.object({
  message: z.string().min(1).max(5_000).optional().describe("Commit message"),
  branch: z.string().optional().describe("Must be the run's own branch, which is the default"),
  remote: z.literal("origin").default("origin").describe("The remote; only origin"),
  force: z.boolean().default(false).describe("Must be false: history is never rewritten"),
});
type Input = z.infer<typeof input>;

/** Pushes the run's changes to its own branch. People run it; the model is never offered it. */
export function createGitPushTool(services: ToolServices): NamedTool<Input, ToolResult> {
  const { branch: own, spec } = services;
  const subjectOf = (message: string | undefined) =>
    message ?? `Changes by ${spec.worker.name} for #${spec.origin.thread}`;
  const assertAllowed = ({ branch = own, force }: Input) => {
    if (branch !== own) {
      throw new ToolError(`This run can only push to its own branch, ${own}.`, {
        code: "PERMISSION_DENIED",
        suggestion: `Omit branch, and merge ${own} through a pull request.`,
      });
    }
    if (force) {
      throw new ToolError("Force pushes are not supported.", {
        code: "PERMISSION_DENIED",
        suggestion: "Omit force; the push adds a new commit.",
      });
    }
  };
  return {
    name: "git_push",
    description: "Commit the run's changes and push them to its own branch.",
    inputSchema: input,
    needsApproval: true,
    approvalReason: () => `Push the changes of this run to ${own}.`,
    postsWithoutSecrets: true,
    preview: (args, { abortSignal }) => {
      assertAllowed(args);
      const message = services.sanitize(subjectOf(args.message), "plain");
      return previewPush(services, { "Commit message": message }, abortSignal);
    },
    manualExecution: { mode: "manual", label: "Push to Remote", category: "Git" },
    execute: async (args, context) => {
      assertAllowed(args);
      const pushed = await pushChanges({ services, context, message: subjectOf(args.message) });
      const summary = `Pushed ${pushed.commit.slice(0, 7)} to ${own}`;
      const display = { preferredView: "hidden" as const };
      return {
        llmContent: `${summary}.`,
        value: { kind: "git.push", data: { branch: own, pushed }, summary, display },
      };
    },
  };
}
