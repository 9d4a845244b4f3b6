import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import { compileGlob, globFilter, listPathsBelow } from "./select-files.ts";

const input = z.object({
  pattern: z.string().min(1).describe("A glob such as src/**/*.ts, relative to path; ** matches any number of folders"),
  path: z.string().optional().describe("The folder to search; default: the whole repository"),
  exclude: z.array(z.string()).max(20).optional().describe("Globs of files to exclude"),
  limit: z.number().int().min(1).max(2_000).optional().describe("Maximum number of paths to show; default 200"),
});
type Input = z.infer<typeof input>;

/** Finds files by name. */
export function createGlobTool(workspace: Workspace): NamedTool<Input, ToolResult> {
  return {
    name: "glob",
    description: "Find files by a name pattern such as **/*.test.ts.",
    inputSchema: input,
    readOnly: true,
    needsApproval: false,
    execute: async ({ pattern, path = "", exclude = [], limit = 200 }) => {
      const matches = compileGlob(pattern);
      const excluded = exclude.map(globFilter);
      const { root, paths } = await listPathsBelow(workspace, path);
      const from = root === "" ? 0 : root.length + 1;
      const found = paths.filter(
        (file) => matches(file.slice(from)) && !excluded.some((excludes) => excludes(file.slice(from))),
      );

      const shown = found.slice(0, limit);
      const summary = `${found.length} ${found.length === 1 ? "file matches" : "files match"} ${pattern}`;
      const more = found.length > limit ? [`… and ${found.length - limit} more; narrow the pattern.`] : [];
      const hint = found.length === 0 && !pattern.includes("/") ? [`Use **/${pattern} to search all folders.`] : [];
      return {
        llmContent: [`${summary}${shown.length > 0 ? ":" : "."}`, ...shown, ...more, ...hint].join("\n"),
        value: { kind: "file_list", path: root === "" ? "/" : root, files: shown, count: found.length, summary },
      };
    },
  };
}
