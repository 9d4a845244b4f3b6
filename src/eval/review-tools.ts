import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import { ReviewInput } from "#toolsets/reviews/create-review.ts";
import { parseHunks, renderHunks } from "#toolsets/reviews/review-diff.ts";
import type { EvalResult } from "./eval-results.ts";
import type { EvalTask } from "./eval-task.ts";

type Finding = z.output<typeof ReviewInput>["findings"][number];

/** Creates the tools of a review without a pull request: one shows the change, the other collects the findings. */
export function createReviewTools(patch: string, findings: Finding[]): NamedTool[] {
  const files = patch.split(/^diff --git /m).slice(1);
  const diff = files.map((file) => `${/^\+\+\+ b\/(.*)$/m.exec(file)?.[1] ?? ""}\n${renderHunks(parseHunks(file))}`);
  const text = (content: string): ToolResult => ({ llmContent: content, value: { kind: "text", content } });
  const readDiff: NamedTool<object, ToolResult> = {
    name: "read_pull_request_diff",
    description: "Read the diff of the change under review with line numbers before and after the change.",
    inputSchema: z.object({}),
    readOnly: true,
    needsApproval: false,
    execute: async () => text(diff.join("\n\n")),
  };
  const createReview: NamedTool<z.output<typeof ReviewInput>, ToolResult> = {
    name: "create_review",
    description: "Review the change: one summary, and findings on lines of its diff.",
    inputSchema: ReviewInput,
    needsApproval: false,
    execute: async (review) => {
      findings.push(...review.findings);
      return text(`The review was posted with ${review.findings.length} findings.`);
    },
  };
  return [readDiff, createReview];
}

/** Compares the findings of a review with the planted faults. */
export function judgeFindings(
  findings: readonly Finding[],
  faults: NonNullable<EvalTask["review"]>["faults"],
): NonNullable<EvalResult["review"]> {
  const matches = (finding: Finding, { path, lines: [first, last], about }: (typeof faults)[number]) =>
    finding.path === path &&
    finding.line >= first - 1 &&
    (finding.start_line ?? finding.line) <= last + 1 &&
    (about === undefined || new RegExp(about, "im").test(`${finding.key} ${finding.text}`));
  return {
    findings: findings.length,
    matched: findings.filter((finding) => faults.some((fault) => matches(finding, fault))).length,
    faults: faults.length,
    found: faults.filter((fault) => findings.some((finding) => matches(finding, fault))).length,
  };
}
