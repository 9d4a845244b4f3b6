import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { lastPushed } from "#toolsets/pull-request/push-changes.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { outsideText } from "./outside-text.ts";

const shownSummary = 4_000;

/** What CI says of the commit this run pushed, or of the one it works on. */
export function createReadChecksTool({ github, sandbox, history }: ToolServices): NamedTool<object, ToolResult> {
  return {
    name: "read_checks",
    description: "Read the results of CI for what this run pushed, or for the commit it started from.",
    inputSchema: z.object({}),
    needsApproval: false,
    execute: async () => {
      const commit = lastPushed(history())?.commit ?? sandbox.base.commit;
      const checks = await github.listChecks(commit);
      const open = checks.filter(({ status }) => status !== "completed").length;
      const failed = checks.filter(({ conclusion }) => conclusion === "failure" || conclusion === "timed_out").length;
      const summary = `${checks.length} checks at ${commit.slice(0, 7)}: ${failed} failed, ${open} not finished`;
      const lines = checks.map(({ name, status, conclusion, summary: text }) => {
        const head = `${name}: ${conclusion ?? status}`;
        return text && conclusion !== "success" ? `${head}\n${text.slice(0, shownSummary)}` : head;
      });
      return {
        // Names are a workflow's, and logs hold whatever the tested code printed.
        llmContent: checks.length === 0 ? `${summary}.` : `${summary}.\n${outsideText(lines.join("\n"), "CI")}`,
        value: { kind: "github.checks", data: { commit, checks }, summary, display: { preferredView: "table" } },
      };
    },
  };
}
