import { type Approval, approvalDigest, coversCall } from "#domain/approval.ts";
import { ToolError } from "#domain/errors.ts";
import type { ModelCall } from "#domain/events.ts";
import type { Preview } from "#domain/preview.ts";
import type { RunSpec } from "#domain/run.ts";
import type { CallContext } from "#toolsets/prepare-call.ts";
import type { Toolbox } from "#toolsets/toolbox.ts";

export interface Grant {
  /** The approved arguments, with which the tool runs. */
  args: unknown;
  /** Notes for the model besides the result: that a person changed the arguments, or the approver's note. */
  notes: string[];
  /** The preview the person approved, as it is now. */
  approved?: Preview | undefined;
  /** The approval under which the call runs. */
  approval?: Approval;
}

interface ApprovedCall {
  spec: Pick<RunSpec, "id" | "workerPath">;
  toolbox: Pick<Toolbox, "review">;
  call: ModelCall;
  context: CallContext;
  baseCommit: string;
}

/**
 * Checks that a call still does what a person approved and that policy still allows it. Throws a NotRunError with the
 * reason when it does not.
 */
export async function confirmApproval(
  approval: Approval,
  { spec, toolbox, call, context, baseCommit }: ApprovedCall,
): Promise<Grant> {
  const changed = approval.changedArgs !== undefined;
  const args = changed ? approval.changedArgs : approval.args;
  const review = await toolbox.review({ ...call, args }, context, []);
  if (review.kind === "refuse") throw notRun(`it is refused: ${review.result.error?.message ?? "policy forbids it"}`);

  const preview = review.kind === "ask" ? review.preview : approval.preview;
  const { id: runId, workerPath } = spec;
  const digest = approvalDigest({
    runId,
    workerPath,
    callId: call.callId,
    tool: call.tool,
    args,
    baseCommit,
    preview,
    argsChanged: changed,
  });
  const isSame = digest === approval.digest || coversCall(approval, { tool: call.tool, args, preview });
  if (!isSame) throw notRun("what it would do has changed since it was approved; call it again to ask again");

  const notes = [
    ...(changed ? [`A person changed the arguments before approving; this ran: ${JSON.stringify(args)}`] : []),
    ...(approval.note ? [`@${approval.decidedBy} approved it and said: ${approval.note}`] : []),
  ];
  return { args, notes, approved: preview, approval };
}

/** Returns the error the model reads when a call that was approved does not run. */
export function notRun(reason: string): NotRunError {
  return new NotRunError(`This was not run: ${reason}.`, { code: "DENIED" });
}

/** A call whose approval no longer applies. */
export class NotRunError extends ToolError {}
