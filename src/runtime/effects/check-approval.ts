import { findApproverProblem } from "#config/repository-settings.ts";
import type { Approval } from "#domain/approval.ts";
import type { ModelCall } from "#domain/events.ts";
import { canWrite } from "#domain/github.ts";
import type { ActiveRun } from "#runtime/active-run.ts";
import { confirmApproval, type Grant, notRun } from "#runtime/calls/confirm-approval.ts";
import { readBase } from "#runtime/read-log.ts";
import { readSettings } from "#runtime/read-settings.ts";
import type { Store } from "#runtime/store/store.ts";
import { callContext } from "./call-context.ts";

/**
 * Decides once more, at the moment of execution: the approval is unused and for this very call, what it would change is
 * still what was shown, policy allows it, and whoever approved may still do so. Throws a ToolError that says what is not.
 */
export async function checkApproval(
  { store, now }: { store: Store; now: () => number },
  desk: ActiveRun,
  { call, step, approvalId, signal }: { call: ModelCall; step: number; approvalId: string; signal: AbortSignal },
): Promise<Grant> {
  const approval = await store.findApproval(approvalId);
  if (!approval || !isValid(approval, { callId: call.callId, runId: desk.spec.id, now: now() })) {
    throw notRun("its approval is no longer valid");
  }

  const grant = await confirmApproval(approval, {
    spec: desk.spec,
    toolbox: await desk.tools(signal),
    call,
    context: callContext(desk, call, step, signal),
    baseCommit: readBase(await desk.log())?.commit ?? "",
  });

  const { decidedBy } = approval;
  if (!decidedBy || !canWrite(await desk.repository.confirmPermission(decidedBy, signal))) {
    throw notRun(`@${decidedBy} approved it, but GitHub does not confirm write access any more`);
  }
  const settings = await readSettings(desk.repository);
  const refusal = findApproverProblem(settings, { by: decidedBy, requestedBy: desk.spec.origin.requestedBy });
  if (refusal) throw notRun(refusal.replace(/\.$/, ""));

  return grant;
}

/** An approval is used once, by its own call; one for the session also by the calls that it covers, until it expires. */
function isValid(
  { status, runId, callId, remember, expiresAt }: Approval,
  current: { callId: string; runId: string; now: number },
): boolean {
  if (status === "approved" && callId === current.callId) return true;
  const isGiven = status === "approved" || status === "used";
  return isGiven && remember === "session" && runId === current.runId && current.now < expiresAt;
}
