import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { untrustedText } from "#text/untrusted.ts";
import { lastPushed } from "#toolsets/pull-request/push-changes.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const maxSummaryChars = 4_000;

/** Reads the CI results of the commit that the run pushed last, or of the base commit. */
export function createReadChecksTool({ github, sandbox, history }: ToolServices): NamedTool<object, ToolResult> {
  return {
    name: "read_checks",
    description: "Read the CI results for the last commit this run pushed, or for the commit it started from.",
    inputSchema: z.object({}),
    needsApproval: false,
    execute: async () => {
      const commit = lastPushed(history())?.commit ?? sandbox.base.commit;
      const checks = await github.listChecks(commit);
      const open = checks.filter(({ status }) => status !== "completed").length;
      const failed = checks.filter(({ conclusion }) => conclusion === "failure" || conclusion === "timed_out").length;
      const summary = `${checks.length} checks on ${commit.slice(0, 7)}: ${failed} failed, ${open} not finished`;
      const lines = checks.map(({ name, status, conclusion, summary: text }) => {
        const head = `${name}: ${conclusion ?? status}`;
        return text && conclusion !== "success" ? `${head}\n${text.slice(0, maxSummaryChars)}` : head;
      });
      return {
        // Workflows choose the names, and the summaries may contain output of the tested code.
        llmContent: checks.length === 0 ? `${summary}.` : `${summary}.\n${untrustedText(lines.join("\n"), "CI")}`,
        value: { kind: "github.checks", data: { commit, checks }, summary, display: { preferredView: "table" } },
      };
    },
  };
}
