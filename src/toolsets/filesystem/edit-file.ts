import { z } from "zod";
import { EventLoopYielder } from "#domain/async-work.ts";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { quoted } from "#text/visible-text.ts";
import {
  compareTexts,
  diffResult,
  FileRules,
  type FileToolOptions,
  previewChanges,
  previewWrite,
  showChangedLines,
} from "./file-changes.ts";
import { applyReplacements, type EditMatch, matchEdit, type Replacement } from "./match-edit.ts";
import { countLineEndings, encodeText, readForEdit, requireSeen, seenLines, type TextContent } from "./text-file.ts";

const input = z.object({
  path: z.string().min(1).describe("Relative to the root of the repository"),
  old_text: z
    .string()
    .optional()
    .describe("The text to replace, exactly as in the file, with enough lines around it to be unique"),
  new_text: z.string().optional().describe("The text to put in its place"),
  replace_all: z.boolean().optional().describe("Replace every occurrence instead of the only one"),
  edits: z
    .array(z.object({ old_text: z.string(), new_text: z.string(), replace_all: z.boolean().optional() }))
    .min(1)
    .max(100)
    .optional()
    .describe("Several edits in one call, in order; all or none"),
});
type Input = z.infer<typeof input>;

const tool = "edit_file";

/** Replaces text in a file. Refuses text that matches nowhere or in several places. */
export function createEditFileTool(
  workspace: Workspace,
  options: FileToolOptions<Input> = {},
): NamedTool<Input, ToolResult> {
  const rules = new FileRules(tool, workspace, options);
  return {
    name: tool,
    description: "Change a part of a text file that you have read: old_text is replaced by new_text.",
    inputSchema: input,
    needsApproval: options.needsApproval ?? (({ path }) => rules.needsApproval("write", path, true)),
    approvalReason: ({ path }) => `The worker wants to change ${quoted(path)}.`,
    preview: async (args) => {
      const { path, after, encoding } = await prepare(args, workspace, options);
      const content = encodeText({ text: after, encoding }, path);
      await workspace.checkWrite?.(path, content.length);
      return previewChanges([await previewWrite(workspace, path, content)]);
    },
    execute: async (args) => {
      const { path, before, after, encoding, by } = await prepare(args, workspace, options);
      rules.check("write", path);
      await workspace.write(path, encodeText({ text: after, encoding }, path));

      const diff = await compareTexts({ path, before, after });
      const value = diffResult(diff);
      const note = by.size > 0 ? ` The text did not match exactly; it was matched by ${[...by].join(", ")}.` : "";
      return { llmContent: `${value.summary}.${note}\n${showChangedLines(diff)}`, value };
    },
  };
}

interface PreparedEdit {
  path: string;
  before: string;
  after: string;
  encoding: TextContent["encoding"];
  /** The differences that were ignored to find inexact matches. */
  by: Set<string>;
}

async function prepare(args: Input, workspace: Workspace, { history }: FileToolOptions<Input>): Promise<PreparedEdit> {
  const edits = editsOf(args);
  const path = workspace.resolve(args.path);
  const { text: before, encoding } = await readForEdit(workspace, path);
  let seen = seenLines(history?.(), path, before);
  const by = new Set<string>();
  const loop = new EventLoopYielder();
  let after = before;
  for (const [at, edit] of edits.entries()) {
    if (loop.isDue) await loop.turn();
    const match = matchEdit(after, { oldText: edit.old_text, newText: edit.new_text, all: edit.replace_all });
    if (match.kind !== "found") {
      const where = edits.length > 1 ? `Edit ${at + 1} of ${edits.length} cannot be made, so none was: ` : "";
      throw refusal(match, { path, oldText: edit.old_text, where });
    }
    if (match.by !== "exact text") by.add(match.by);
    seen = seenAfter(seen, path, { content: after, replacements: match.replacements });
    after = applyReplacements(after, match.replacements);
  }
  if (after === before) {
    throw new ToolError(`The edit changes nothing in ${path}: old_text and new_text are equal.`, {
      code: "INVALID_ARGUMENTS",
      suggestion: "Put the changed text into new_text.",
    });
  }
  return { path, before, after, encoding, by };
}

function editsOf({ old_text, new_text, replace_all, edits = [] }: Input) {
  const single = old_text !== undefined && new_text !== undefined ? [{ old_text, new_text, replace_all }] : [];
  const all = [...single, ...edits];
  const isIncomplete = (old_text === undefined) !== (new_text === undefined);
  if (all.length === 0 || isIncomplete) {
    throw new ToolError("edit_file needs old_text and new_text, or edits.", {
      code: "INVALID_ARGUMENTS",
      suggestion: 'Example: edit_file(path="src/a.ts", old_text="let a", new_text="const a")',
    });
  }
  if (all.some((edit) => edit.old_text === "")) {
    throw new ToolError("old_text is empty, so there is nothing to find.", {
      code: "INVALID_ARGUMENTS",
      suggestion: "Give the line before the new text as old_text, or use write_file for a whole file.",
    });
  }
  return all;
}

/** Requires that replaced lines have been read, and returns the known lines of the new content. Linear time. */
function seenAfter(
  seen: readonly boolean[],
  path: string,
  { content, replacements }: { content: string; replacements: readonly Replacement[] },
): boolean[] {
  const result: boolean[] = [];
  /** Lines before this index are done; `line` is the number, from 1, of the line at `position`. */
  let done = 0;
  let line = 1;
  let position = 0;
  const lineNumberAt = (index: number) => {
    for (let at = content.indexOf("\n", position); at !== -1 && at < index; at = content.indexOf("\n", at + 1)) {
      line++;
      position = at + 1;
    }
    return line;
  };

  for (const { start, end, text } of replacements) {
    const endsAtLineStart = end > start && content[end - 1] === "\n";
    const first = lineNumberAt(start);
    const last = lineNumberAt(end) - (endsAtLineStart ? 1 : 0);
    requireSeen(seen, path, { first, last });

    for (let index = done; index < first - 1; index++) result.push(seen[index] ?? false);
    // A replacement may start on the last line of the previous one.
    const shared = first - 1 < done ? 1 : 0;
    const lines = Math.max(1, countLineEndings(text) + (endsAtLineStart ? 0 : 1));
    for (let count = shared; count < lines; count++) result.push(true);
    done = Math.max(done, last);
  }
  for (let index = done; index < seen.length; index++) result.push(seen[index] ?? false);
  return result;
}

/** Explains why the text of an edit was not found. `where` names the edit, if there are several. */
function refusal(
  match: Exclude<EditMatch, { kind: "found" }>,
  { path, oldText, where }: Record<"path" | "oldText" | "where", string>,
): ToolError {
  const lines = match.lines.join(", ");
  if (match.kind === "ambiguous") {
    return new ToolError(`${where}old_text matches several places in ${path}: lines ${lines}.`, {
      code: "AMBIGUOUS_MATCH",
      suggestion: "Include more lines around it, or set replace_all to change every place.",
      details: { lines: match.lines },
    });
  }
  const first = oldText.trim().split("\n")[0]?.trim() ?? "";
  const near = lines ? ` Line ${lines} equals its first line, but what follows differs.` : "";
  return new ToolError(
    `${where}${path} does not contain old_text, which begins with ${JSON.stringify(first.slice(0, 200))}.${near}`,
    {
      code: "NO_MATCH",
      suggestion: `Call read_file with ${JSON.stringify({ path })} and copy the lines as they are now.`,
      details: { lines: match.lines },
    },
  );
}
