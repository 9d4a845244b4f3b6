import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { untrustedText } from "#text/untrusted.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { issueData } from "./read-issue.ts";

const input = z.object({
  state: z.enum(["open", "closed", "all"]).optional().describe("Default: open"),
  labels: z.array(z.string().min(1).max(100)).max(10).optional().describe("Only issues with all of these labels"),
  limit: z.number().int().min(1).max(100).optional().describe("Maximum number of issues; default: 30"),
});
type Input = z.infer<typeof input>;

/** Lists the issues of the run's repository. */
export function createListIssuesTool({ github }: ToolServices): NamedTool<Input, ToolResult> {
  return {
    name: "list_issues",
    description: "List the issues of this repository by number, labels and title, newest first.",
    inputSchema: input,
    readOnly: true,
    needsApproval: false,
    execute: async ({ state = "open", labels, limit = 30 }) => {
      const issues = await github.listIssues({ state, limit, ...(labels ? { labels } : {}) });
      const lines = issues.map(({ number, title, labels: names }) => `#${number} [${names.join(", ")}] ${title}`);
      const summary = `${issues.length} ${issues.length === 1 ? "issue" : "issues"}`;
      return {
        llmContent:
          issues.length === 0 ? "No issues." : `${summary}.\n${untrustedText(lines.join("\n"), "issue titles")}`,
        value: {
          kind: "github.issues",
          data: { issues: issues.map(issueData) },
          summary,
          preview: lines.join("\n"),
          display: { preferredView: "table" },
        },
      };
    },
  };
}
