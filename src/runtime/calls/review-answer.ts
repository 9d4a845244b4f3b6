import { type Approval, approvalDigest } from "#domain/approval.ts";
import type { ModelCall, Verdict } from "#domain/events.ts";
import type { Preview } from "#domain/preview.ts";
import type { RunSpec } from "#domain/run.ts";
import { failedResult } from "#toolsets/failed-result.ts";
import type { CallContext } from "#toolsets/prepare-call.ts";
import type { Review } from "#toolsets/review-call.ts";
import type { Toolbox } from "#toolsets/toolbox.ts";
import { previewText } from "#ui/request-blocks.ts";

interface ReviewOptions {
  spec: RunSpec;
  toolbox: Pick<Toolbox, "review" | "find">;
  calls: readonly ModelCall[];
  contextOf(call: ModelCall): CallContext;
  /** The approvals for the session. */
  remembered: readonly Approval[];
  baseCommit: string;
  /** Returns false for a call that is too long to be shown completely. */
  canShow: (call: { args: unknown; preview: Preview | undefined }) => boolean;
  /** Returns the id, the approvers and the times of a new approval. */
  open(
    call: ModelCall,
    shown: Pick<Approval, "tool" | "toolName" | "workerPath" | "preview">,
  ): Promise<Pick<Approval, "id" | "approvers" | "quorums" | "accounts" | "requestedAt" | "expiresAt">>;
}

/** Checks every call of an answer against policy, in order. Returns a verdict for each and the approvals to request. */
export async function reviewAnswer({
  spec,
  toolbox,
  calls,
  contextOf,
  remembered,
  baseCommit,
  canShow,
  open,
}: ReviewOptions): Promise<{ verdicts: Verdict[]; approvals: Approval[] }> {
  const verdicts: Verdict[] = [];
  const approvals: Approval[] = [];
  for (const call of calls) {
    const reviewed = await toolbox.review(call, contextOf(call), remembered);
    const review = reviewed.kind === "ask" && !canShow(reviewed) ? tooLong(reviewed) : reviewed;
    const approval = review.kind === "ask" ? await ask(call, review) : undefined;
    if (approval) approvals.push(approval);
    verdicts.push(verdictOf(call, review, approval));
  }
  return { verdicts, approvals };

  async function ask(call: ModelCall, review: Extract<Review, { kind: "ask" }>): Promise<Approval> {
    const { id: runId, rootId, workerPath, origin } = spec;
    const { callId, tool } = call;
    const { args, preview, reason } = review;
    const subject = { runId, workerPath, callId, tool, args, baseCommit, preview };
    const toolName = toolbox.find(tool)?.name ?? tool;
    return {
      ...subject,
      toolName,
      rootId,
      ...(origin.repositoryId !== undefined && { repositoryId: origin.repositoryId }),
      digest: approvalDigest(subject),
      reason,
      status: "pending",
      ...(await open(call, { tool, toolName, workerPath, preview })),
    };
  }
}

/** Refuses a call that cannot be shown completely, because people must not approve what they have not seen. */
function tooLong({ args, preview }: Extract<Review, { kind: "ask" }>): Extract<Review, { kind: "refuse" }> {
  const characters = (JSON.stringify(args)?.length ?? 0) + (previewText(preview)?.length ?? 0);
  const message = `A person has to approve this, and it is too long to show: ${characters.toLocaleString("en-US")} characters.`;
  return { kind: "refuse", result: failedResult(message, { code: "TOO_LARGE", suggestion }) };
}

const suggestion = "Split it into several calls. A push contains only the files that git_stage names.";

function verdictOf({ callId, tool }: ModelCall, review: Review, approval: Approval | undefined): Verdict {
  if (review.kind === "refuse") return { kind: "refuse", callId, tool, result: review.result };
  if (approval) return { kind: "ask", callId, tool, answeredBy: review.answeredBy, approvalId: approval.id };
  if (review.kind === "ask") throw new Error(`The approval of ${callId} was not requested.`);
  const { answeredBy, approvalId } = review;
  return { kind: "allow", callId, tool, answeredBy, ...(approvalId !== undefined && { approvalId }) };
}
