import { approvalDigest } from "#approval.ts";
import { ToolError } from "#errors.ts";
import type { ModelCall } from "#events.ts";
import { canWrite } from "#github.ts";
import { parseRepositorySettings, refuseApprover, settingsPath } from "#repository-settings.ts";
import type { Desk } from "#runtime/desk.ts";
import { readBase } from "#runtime/read-log.ts";
import type { Store } from "#runtime/store/store.ts";
import { callContext } from "./call-context.ts";

export interface Grant {
  /** What was approved, which is what runs. */
  args: unknown;
  /** What the model has to be told besides the result: that a person changed the arguments, or what they said. */
  notes: string[];
}

/**
 * Decides once more, at the moment of execution: the approval is unused and for this very call, what it would change is
 * still what was shown, policy allows it, and whoever approved may still do so. Throws a ToolError that says what is not.
 */
export async function checkApproval(
  store: Store,
  desk: Desk,
  { call, step, approvalId, signal }: { call: ModelCall; step: number; approvalId: string; signal: AbortSignal },
): Promise<Grant> {
  const approval = await store.approval(approvalId);
  if (approval?.status !== "approved") throw notRun("its approval is not valid any more");

  const changed = approval.changedArgs !== undefined;
  const args = changed ? approval.changedArgs : approval.args;
  const belt = await desk.tools(signal);
  const review = await belt.review({ ...call, args }, callContext(desk, call, step, signal), []);
  if (review.kind === "refuse") throw notRun(`it is refused: ${review.result.error?.message ?? "policy forbids it"}`);

  const preview = changed ? undefined : review.kind === "ask" ? review.preview : approval.preview;
  const { id: runId, workerPath } = desk.spec;
  const baseCommit = readBase(await desk.log())?.commit ?? "";
  const digest = approvalDigest({ runId, workerPath, callId: call.callId, tool: call.tool, args, baseCommit, preview });
  if (digest !== approval.digest)
    throw notRun("what it would do has changed since it was approved; call it again to ask anew");

  const { decidedBy } = approval;
  if (!decidedBy || !canWrite(await desk.github.permissionOf(decidedBy))) {
    throw notRun(`@${decidedBy} approved it, but GitHub does not confirm write access any more`);
  }
  const settings = parseRepositorySettings(await desk.github.readFile(settingsPath));
  const refusal = refuseApprover(settings, { by: decidedBy, requestedBy: desk.spec.origin.requestedBy });
  if (refusal) throw notRun(refusal.replace(/\.$/, ""));

  const notes = [
    ...(changed ? [`A person changed the arguments before approving; this ran: ${JSON.stringify(args)}`] : []),
    ...(approval.note ? [`@${decidedBy} approved it and said: ${approval.note}`] : []),
  ];
  return { args, notes };
}

function notRun(reason: string): ToolError {
  return new ToolError(`This was not run: ${reason}.`, { code: "DENIED" });
}
