import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { filesAt } from "#toolsets/filesystem/file-changes.ts";
import { decodeText, splitLines } from "#toolsets/filesystem/text-file.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const input = z.object({
  path: z.string().optional().describe("The file or folder to search; default: every changed file"),
});
type Input = z.infer<typeof input>;

/** Finds unresolved conflict markers in files. */
export function createGitCheckConflictsTool({ workspace }: ToolServices): NamedTool<Input, ToolResult> {
  return {
    name: "git_check_conflicts",
    description: "Find unresolved merge conflict markers in the changed files.",
    inputSchema: input,
    readOnly: true,
    needsApproval: false,
    execute: async ({ path }) => {
      const paths = path === undefined ? await changedFiles(workspace) : await filesAt(workspace, path);
      const conflicts: { path: string; line: number }[] = [];
      for (const file of paths) conflicts.push(...(await conflictsIn(workspace, file)));
      const summary =
        conflicts.length === 0
          ? "No conflict markers"
          : `${conflicts.length} ${conflicts.length === 1 ? "conflict" : "conflicts"} left`;
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
  const text = type === "file" ? decodeText(await workspace.read(path))?.text : undefined;
  if (text === undefined) return [];

  const lines = splitLines(text);
  return lines.flatMap((line, index) => {
    if (!/^<{7}( |$)/.test(line)) return [];
    // A single marker may be ordinary text, such as an underlined heading.
    const rest = lines.slice(index);
    return rest.includes("=======") && rest.some((other) => /^>{7}( |$)/.test(other))
      ? [{ path, line: index + 1 }]
      : [];
  });
}
