import { findApproverProblem, type RepositorySettings } from "#config/repository-settings.ts";
import type { Approval } from "#domain/approval.ts";
import { UserError } from "#domain/errors.ts";
import type { ModelCall } from "#domain/events.ts";
import { canWrite } from "#domain/github.ts";
import type { ActiveRun } from "#runtime/active-run.ts";
import { confirmApproval, type Grant, notRun } from "#runtime/calls/confirm-approval.ts";
import { readBase } from "#runtime/read-log.ts";
import { readSettings } from "#runtime/read-settings.ts";
import { type EffectServices, Postponed } from "./effect-handler.ts";
import { callContext } from "./tool-call.ts";

/** How long to wait before GitHub is asked again for a permission. */
const askAgainMs = 30_000;

interface ApprovedCall {
  call: ModelCall;
  step: number;
  approvalId: string;
  signal: AbortSignal;
}

/**
 * Checks an approval again at the moment of execution: it is unused and for this call, the call would still change what
 * was shown, policy allows it, and the approver may still approve. Throws a ToolError with the reason when one of these
 * no longer holds, and `Postponed` while GitHub does not answer.
 */
export async function checkApproval(
  { store, now }: Pick<EffectServices, "store" | "now">,
  run: ActiveRun,
  { call, step, approvalId, signal }: ApprovedCall,
): Promise<Grant> {
  const approval = await store.findApproval(approvalId);
  if (!approval || !isValid(approval, { callId: call.callId, runId: run.spec.id, now: now() })) {
    throw notRun("its approval is no longer valid");
  }

  const { decidedBy } = approval;
  if (!decidedBy || !(await hasWriteAccess(run, decidedBy, { now, signal }))) {
    throw notRun(`@${decidedBy} approved it, but GitHub does not confirm write access any more`);
  }
  const settings = await readCurrentSettings(run, { now, signal });
  const problem = findApproverProblem(settings, { by: decidedBy, requestedBy: run.spec.origin.requestedBy });
  if (problem) throw notRun(problem.replace(/\.$/, ""));

  return confirmApproval(approval, {
    spec: run.spec,
    toolbox: await run.tools(signal),
    call,
    context: callContext(run, { callId: call.callId, step, signal }),
    baseCommit: readBase(await run.log())?.commit ?? "",
  });
}

/** An approval is used once, by its own call. One for the session is also used by the calls it covers, until it expires. */
function isValid(
  { status, runId, callId, remember, expiresAt }: Approval,
  current: { callId: string; runId: string; now: number },
): boolean {
  if (status === "approved" && callId === current.callId) return true;
  const isGranted = status === "approved" || status === "used";
  return isGranted && remember === "session" && runId === current.runId && current.now < expiresAt;
}

/** Asks GitHub for a person's permission. Throws `Postponed` when there is no answer, which is not a refusal. */
export async function hasWriteAccess(
  { repository }: Pick<ActiveRun, "repository">,
  login: string,
  { now, signal }: { now: () => number; signal: AbortSignal },
): Promise<boolean> {
  try {
    return canWrite(await repository.confirmPermission(login, signal));
  } catch (cause) {
    if (signal.aborted) throw cause;
    const reason = `GitHub did not answer whether @${login} has write access. Asking again.`;
    throw new Postponed(now() + askAgainMs, { reason, cause });
  }
}

async function readCurrentSettings(
  { repository }: ActiveRun,
  { now, signal }: { now: () => number; signal: AbortSignal },
): Promise<RepositorySettings> {
  try {
    return await readSettings(repository);
  } catch (cause) {
    // A file that cannot be used is an answer.
    if (signal.aborted || cause instanceof UserError) throw cause;
    const reason = "GitHub did not answer when the repository's settings were read. Asking again.";
    throw new Postponed(now() + askAgainMs, { reason, cause });
  }
}
