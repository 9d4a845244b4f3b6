import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { needsFileApproval, refuseBlocked } from "./file-approval.ts";
import { diffResult } from "./file-diff.ts";
import type { FileToolOptions } from "./file-tool-options.ts";
import { requireSeen, seenLines } from "./known-lines.ts";
import { applyReplacements, type EditMatch, lineAt, matchEdit, type Replacement } from "./match-edit.ts";
import { previewChanges, previewWrite } from "./preview-changes.ts";
import { showChangedLines } from "./show-changed-lines.ts";
import { readForEdit, splitLines } from "./text-file.ts";

const oldText = z
  .string()
  .describe("The text to replace, as the file has it, with enough lines around it to be unique");
const newText = z.string().describe("What to put there");
const replaceAll = z.boolean().optional().describe("Replace every place instead of the only one");

const input = z.object({
  path: z.string().min(1).describe("The file to change, relative to the root of the repository"),
  old_text: oldText.optional(),
  new_text: newText.optional(),
  replace_all: replaceAll,
  edits: z
    .array(z.object({ old_text: oldText, new_text: newText, replace_all: replaceAll }))
    .min(1)
    .max(100)
    .optional()
    .describe("Several edits, made one after the other; all or none"),
});
type Input = z.infer<typeof input>;

const tool = "edit_file";

/** Replaces text in a file where it was meant, or refuses; never chooses among several places. */
export function createEditFileTool(
  workspace: Workspace,
  options: FileToolOptions<Input> = {},
): NamedTool<Input, ToolResult> {
  const question = (path: string) =>
    ({ tool, workspace, operation: "write", path, zones: options.zoneApprovalConfig }) as const;
  return {
    name: tool,
    description:
      "Change a part of a text file that you have read: old_text is replaced by new_text. Several edits in one call with edits.",
    inputSchema: input,
    needsApproval: options.needsApproval ?? (({ path }) => needsFileApproval({ ...question(path), otherwise: true })),
    approvalReason: ({ path }) => `The worker wants to change ${path}.`,
    preview: async (args) => {
      const { path, after } = await prepare(args, workspace, options);
      return previewChanges([await previewWrite(workspace, path, after)]);
    },
    execute: async (args) => {
      const { path, before, after, by } = await prepare(args, workspace, options);
      refuseBlocked(question(path));
      await workspace.write(path, after);

      const loosely = by.size > 0 ? ` The place was recognised by ${[...by].join(", ")}.` : "";
      const value = diffResult({ path, before, after });
      return { llmContent: `${value.summary}.${loosely}\n${showChangedLines(path, before, after)}`, value };
    },
  };
}

interface Prepared {
  path: string;
  before: string;
  after: string;
  /** How places were recognised, where it was not exactly. */
  by: Set<string>;
}

async function prepare(args: Input, workspace: Workspace, { history }: FileToolOptions<Input>): Promise<Prepared> {
  const edits = editsOf(args);
  const path = workspace.resolve(args.path);
  const before = await readForEdit(workspace, path);
  const seen = seenLines(history?.(), path, before);
  const by = new Set<string>();
  let after = before;
  for (const edit of edits) {
    const match = matchEdit(after, { oldText: edit.old_text, newText: edit.new_text, all: edit.replace_all });
    if (match.kind !== "found") throw refusal(match, path, edit.old_text);
    if (match.by !== "exact text") by.add(match.by);
    // From the last to the first, so that the lines before stay where they are.
    for (const replacement of match.replacements.toReversed()) noteEdit(seen, path, { content: after, replacement });
    after = applyReplacements(after, match.replacements);
  }
  if (after === before) {
    throw new ToolError(`The edit changes nothing in ${path}: old_text and new_text come to the same.`, {
      code: "INVALID_ARGUMENTS",
    });
  }
  return { path, before, after, by };
}

function editsOf({ old_text, new_text, replace_all, edits = [] }: Input) {
  const single = old_text !== undefined && new_text !== undefined ? [{ old_text, new_text, replace_all }] : [];
  const all = [...single, ...edits];
  const half = (old_text === undefined) !== (new_text === undefined);
  if (all.length === 0 || half) {
    throw new ToolError("edit_file needs old_text and new_text, or edits.", {
      code: "INVALID_ARGUMENTS",
      suggestion: 'Example: edit_file({"path": "src/a.ts", "old_text": "let a", "new_text": "const a"})',
    });
  }
  if (all.some((edit) => edit.old_text === "")) {
    throw new ToolError("old_text is empty, so there is no place to find.", {
      code: "INVALID_ARGUMENTS",
      suggestion: "Give the line before the new text as old_text, or use write_file for a whole file.",
    });
  }
  return all;
}

/** Holds that the replaced lines were read, and moves what is known about the lines after them. */
function noteEdit(
  seen: boolean[],
  path: string,
  { content, replacement }: { content: string; replacement: Replacement },
): void {
  const { start, end, text } = replacement;
  const first = lineAt(content, start);
  const endsAtLineStart = end > start && content[end - 1] === "\n";
  const last = lineAt(content, end) - (endsAtLineStart ? 1 : 0);
  requireSeen(seen, path, { first, last });

  const linesAfter = Math.max(1, splitLines(`${text}${endsAtLineStart ? "" : "."}`).length);
  seen.splice(first - 1, last - first + 1, ...Array<boolean>(linesAfter).fill(true));
}

function refusal(match: Exclude<EditMatch, { kind: "found" }>, path: string, oldText: string): ToolError {
  const lines = match.lines.join(", ");
  if (match.kind === "ambiguous") {
    return new ToolError(`old_text stands at several places in ${path}: lines ${lines}.`, {
      code: "AMBIGUOUS_MATCH",
      suggestion: "Give more lines around the one you mean, or set replace_all to change every place.",
      details: { lines: match.lines },
    });
  }
  const first = oldText.trim().split("\n")[0]?.trim() ?? "";
  const near = lines ? ` Its first line stands at line ${lines}, but what follows differs.` : "";
  return new ToolError(`${path} has no text like old_text, which begins with ${JSON.stringify(first)}.${near}`, {
    code: "NO_MATCH",
    suggestion: `Call read_file with ${JSON.stringify({ path })} and copy the lines as they are now.`,
    details: { lines: match.lines },
  });
}
