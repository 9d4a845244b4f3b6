import { z } from "zod";
import { type Check, type GitHub, GitHubRefusal } from "#domain/github.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { untrustedText } from "#text/untrusted.ts";
import { lastPushed } from "#toolsets/pull-request/push-changes.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

const maxSummaryChars = 4_000;
const maxDetailedChecks = 5;
const maxAnnotations = 20;
const maxLogLines = 120;
const maxLogChars = 8_000;

/** Reads the CI results of the commit that the run pushed last, or of the commit it started from. */
export function createReadChecksTool({ github, sandbox, history }: ToolServices): NamedTool<object, ToolResult> {
  return {
    name: "read_checks",
    description:
      "Read the CI results for the last commit this run pushed, or for the commit it started from: each check, and the annotations and the end of the log of those that failed.",
    inputSchema: z.object({}),
    needsApproval: false,
    execute: async () => {
      const commit = lastPushed(history())?.commit ?? sandbox.base.commit;
      const { checks, unfinished, missingPermissions } = await github.readChecks(commit);
      const failed = checks.filter(isFailed);
      const others = checks
        .filter((check) => !isFailed(check))
        .map(({ name, status, conclusion }) => `${name}: ${conclusion ?? status}`);
      const details = await describeFailedChecks(github, failed);
      const summary = `${checks.length} checks on ${commit.slice(0, 7)}: ${failed.length} failed, ${unfinished.length} not finished`;
      const missing = [...missingPermissions, ...details.missingPermissions].map(
        (permission) => `The app lacks the permission ${permission}, so what needs it is not shown.`,
      );
      return {
        // Workflows choose the names, and the summaries and logs contain output of the tested code.
        llmContent: [
          `${summary}.`,
          ...(checks.length === 0 ? [] : [untrustedText([details.text, ...others].filter(Boolean).join("\n"), "CI")]),
          ...missing,
        ].join("\n"),
        value: { kind: "github.checks", data: { commit, checks }, summary, display: { preferredView: "table" } },
      };
    },
  };
}

export function isFailed({ conclusion }: Check): boolean {
  return ["failure", "timed_out", "action_required", "startup_failure"].includes(conclusion ?? "");
}

/** Describes failed checks with their annotations and the ends of their logs. The text is not marked as untrusted yet. */
export async function describeFailedChecks(
  github: GitHub,
  failed: readonly Check[],
): Promise<{ text: string; missingPermissions: string[] }> {
  const missing = new Set<string>();
  const texts: string[] = [];
  for (const check of failed.slice(0, maxDetailedChecks)) {
    const { name, conclusion, summary, url } = check;
    const log = await readLog(github, check).catch((error) => {
      if (!(error instanceof GitHubRefusal) || error.status !== 403) throw error;
      missing.add("actions: read");
      return undefined;
    });
    texts.push(
      [
        `${name}: ${conclusion}${url ? ` (${url})` : ""}`,
        summary?.slice(0, maxSummaryChars),
        ...(await annotationsOf(github, check)),
        log && `The end of its log:\n\`\`\`\n${log}\n\`\`\``,
      ]
        .filter(Boolean)
        .join("\n"),
    );
  }
  const rest = failed.slice(maxDetailedChecks).map(({ name, conclusion }) => `${name}: ${conclusion}`);
  return { text: [...texts, ...rest].join("\n\n"), missingPermissions: [...missing] };
}

async function annotationsOf(github: GitHub, { id, annotations }: Check): Promise<string[]> {
  if (id === undefined || annotations === 0) return [];
  const all = await github.listAnnotations(id);
  const lines = all.slice(0, maxAnnotations).map(({ path, line, level, message }) => {
    return `${path}:${line}: ${level}: ${message.slice(0, 1_000)}`;
  });
  const left = annotations - lines.length;
  return ["Annotations:", ...lines, ...(left > 0 ? [`(${left} more)`] : [])];
}

async function readLog(github: GitHub, { id, app }: Check): Promise<string | undefined> {
  if (id === undefined || app !== "github-actions") return undefined;
  const log = await github.readJobLog(id);
  return log && endOfLog(log);
}

/** Returns the last lines of a job's log up to its last error, without timestamps and colors. */
function endOfLog(log: string): string {
  const lines = log
    // biome-ignore lint/suspicious/noControlCharactersInRegex: colors begin with the escape character
    .replace(/\u001b\[[0-9;]*[A-Za-z]/g, "")
    .split(/\r?\n/)
    .map((line) => line.replace(/^\uFEFF?\d{4}-\d\d-\d\dT[\d:.]+Z ?/, ""));
  const lastError = lines.findLastIndex((line) => line.startsWith("##[error]"));
  const relevant = lastError === -1 ? lines : lines.slice(0, lastError + 1);
  // The log must not be able to close the block it is shown in.
  return relevant.slice(-maxLogLines).join("\n").trim().slice(-maxLogChars).replaceAll("```", "'''");
}
