import { GitHubRefusal, type NewCheckRun } from "#domain/github.ts";
import type { ToolContext } from "#domain/tool.ts";
import { withRetries } from "#domain/with-retries.ts";
import { postMarker } from "#text/comment-marker.ts";
import type { ToolServices } from "#toolsets/toolset.ts";

/** The parts of a review finding that a check run shows. */
interface CheckedFinding {
  key: string;
  path: string;
  line: number;
  start_line?: number | undefined;
  side: "LEFT" | "RIGHT";
  text: string;
}

/**
 * Creates a check run with the findings as annotations, if the repository's settings request it. Findings on removed
 * lines are not annotated, since annotations refer to the files after the change. Returns a note for the model, empty
 * if there is nothing to say. If the installation lacks the permission, people are told once.
 */
export async function reportCheckRun(
  services: ToolServices,
  context: ToolContext,
  review: { commit: string; summary: string; findings: readonly CheckedFinding[]; blocks: boolean },
): Promise<string> {
  const { github, spec, sanitize, usesCheckRun, reportMissingPermission } = services;
  if (!(await usesCheckRun?.())) return "";
  const { commit, summary, findings, blocks } = review;
  const run: NewCheckRun = {
    commit,
    name: `golem-forge: ${spec.worker.name}`,
    key: postMarker(context.idempotencyKey),
    conclusion: findings.length === 0 ? "success" : blocks ? "failure" : "neutral",
    title: findings.length === 1 ? "1 finding" : `${findings.length} findings`,
    summary: sanitize(summary),
    annotations: findings
      .filter(({ side }) => side === "RIGHT")
      .map(({ key, path, line, start_line: startLine = line, text }) => {
        return { path, startLine, line, title: key, message: sanitize(text, "plain") };
      }),
  };
  try {
    await withRetries(() => github.createCheckRun(run), { signal: context.abortSignal });
    return `A check run shows ${run.title} on ${commit.slice(0, 7)}.`;
  } catch (error) {
    if (!(error instanceof GitHubRefusal) || error.status !== 403) throw error;
    await reportMissingPermission?.("checks: write");
    return "No check run was created: the app lacks the permission checks: write.";
  }
}
