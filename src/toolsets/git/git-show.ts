import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { CommittedFile, ShownCommit } from "#sandbox/sandbox.ts";
import { pluralize } from "#text/pluralize.ts";
import { truncateText } from "#text/truncate.ts";
import { wrapUntrusted } from "#text/untrusted.ts";
import { decodeText } from "#toolsets/filesystem/text-file.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { type ChangeDiff, diffChanges, summarizeDiffs, withShortLines } from "./git-changes.ts";

const inputSchema = z.object({
  revision: z
    .string()
    .max(500)
    .describe("A commit, branch, tag or HEAD~2; with :path, such as HEAD~2:src/a.ts, the file as it was"),
  path: z.string().optional().describe("Only the changes of this file or folder"),
});
type GitShowInput = z.infer<typeof inputSchema>;

const maxDiffCharacters = 30_000;
const maxListedFiles = 200;

/** Shows what an earlier commit changed, or a file as it was in it. */
export function createGitShowTool({ sandbox, workspace }: ToolServices): NamedTool<GitShowInput, ToolResult> {
  return {
    name: "git_show",
    description: "Show a commit with its changes, or a file as it was in a commit.",
    inputSchema,
    readOnly: true,
    needsApproval: false,
    execute: async ({ revision, path }, { abortSignal: signal }) => {
      const colon = revision.indexOf(":");
      if (colon !== -1) {
        const file = workspace.resolve(revision.slice(colon + 1));
        const { commit, content } = await sandbox.readAt(revision.slice(0, colon), file, signal);
        return showFile(file, commit, content);
      }
      const within = path === undefined ? {} : { path: workspace.resolve(path) };
      return showCommit(await sandbox.show(revision, { signal, ...within }), path);
    },
  };
}

function showFile(path: string, commit: string, content: Uint8Array): ToolResult {
  const text = decodeText(content)?.text;
  const name = `${path} at ${commit.slice(0, 7)}`;
  if (text === undefined) {
    throw new ToolError(`${name} is a binary file of ${content.length} bytes.`, { code: "INVALID_ARGUMENTS" });
  }
  const shown = truncateText(text, maxDiffCharacters);
  return {
    llmContent: wrapUntrusted(shown, name),
    value: { kind: "git.file", data: { commit, path, content: shown }, summary: name, preview: shown },
  };
}

async function showCommit({ files, omitted, ...commit }: ShownCommit, path: string | undefined): Promise<ToolResult> {
  const diffs = (await diffChanges(files)).map((change) => ({ ...change, diff: withShortLines(change.diff) }));
  const { shown, left } = withinLimit(diffs);
  const listed = diffs.map((diff, at) => describeFile(diff, files[at]?.oldPath));
  const more = listed.length - maxListedFiles + omitted.length;
  const changes = diffs.length === 0 ? `No changes${path === undefined ? "" : ` of ${path}`}` : summarizeDiffs(diffs);
  const header = [
    `commit ${commit.commit}`,
    ...(commit.parents.length > 1 ? [`Merge of ${commit.parents.map((oid) => oid.slice(0, 7)).join(" ")}`] : []),
    `Author: ${commit.author} <${commit.email}>`,
    `Date: ${commit.date.toISOString()}`,
    "",
    commit.message,
    "",
    changes + (commit.parents.length > 1 ? ", against the first parent" : ""),
    ...listed.slice(0, maxListedFiles),
    ...(more > 0 ? [`… and ${pluralize(more, "more file")}`] : []),
  ].join("\n");
  const note = left > 0 ? [`The diffs of ${pluralize(left, "file")} are left out: show them with \`path\`.`] : [];
  return {
    // Anyone whose commit was merged has written the message and the files.
    llmContent: [wrapUntrusted(`${header}\n\n${shown}`.trimEnd(), "a commit"), ...note].join("\n"),
    value: {
      kind: "git.show",
      data: {
        ...commit,
        date: commit.date.toISOString(),
        files: diffs.map(({ diff: _, ...file }, at) => ({ ...file, oldPath: files[at]?.oldPath })),
        diff: shown,
      },
      summary: `${commit.commit.slice(0, 7)}: ${changes}`,
      preview: `${header}\n\n${shown}`,
      display: { preferredView: "code", language: "diff" },
    },
  };
}

/** Joins diffs up to the limit. A single diff above it loses its middle. */
function withinLimit(diffs: readonly ChangeDiff[]): { shown: string; left: number } {
  const [only] = diffs;
  if (only && diffs.length === 1) return { shown: truncateText(only.diff, maxDiffCharacters), left: 0 };
  const shown: string[] = [];
  let room = maxDiffCharacters;
  for (const { diff } of diffs) {
    if (diff.length > room) continue;
    room -= diff.length;
    shown.push(diff);
  }
  return { shown: shown.join(""), left: diffs.length - shown.length };
}

const letters: Record<ChangeDiff["status"], string> = { added: "A", modified: "M", deleted: "D" };

function describeFile({ path, status, additions, deletions }: ChangeDiff, oldPath: CommittedFile["oldPath"]): string {
  const name = oldPath === undefined ? `${letters[status]} ${path}` : `R ${oldPath} → ${path}`;
  return `${name} +${additions} −${deletions}`;
}
