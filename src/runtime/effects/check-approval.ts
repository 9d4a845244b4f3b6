import type { RepositorySettings } from "#config/repository-settings.ts";
import { type Approval, approvalDigest, coversCall } from "#domain/approval.ts";
import { isTemporary } from "#domain/async-work.ts";
import { OutageError, ToolError, UserError } from "#domain/errors.ts";
import type { ModelCall } from "#domain/events.ts";
import { type Account, canWrite, GitHubRefusalError, type Permission } from "#domain/github.ts";
import type { Preview } from "#domain/preview.ts";
import type { RunSpec } from "#domain/run.ts";
import {
  type ApproverFacts,
  approversOf,
  countApprovals,
  factsAbout,
  requirementsOf,
} from "#runtime/approval-rules.ts";
import { readBaseCommit } from "#runtime/read-log.ts";
import { readSettings } from "#runtime/run-environment.ts";
import type { ActiveRun } from "#runtime/scheduler/active-run.ts";
import { applyExecution } from "#runtime/store/apply-decision.ts";
import { requireRun } from "#runtime/store/store.ts";
import { pluralize } from "#text/pluralize.ts";
import type { CallContext } from "#toolsets/review-call.ts";
import type { Toolbox } from "#toolsets/toolbox.ts";
import { type EffectServices, PostponedError } from "./effect-handler.ts";

export interface Grant {
  /** The approved arguments, with which the tool runs. */
  args: unknown;
  /** Additional notes for the model: that a person changed the arguments, or the approver's note. */
  notes: string[];
  /** The approved preview, computed again now. */
  approved?: Preview | undefined;
  /** The approval under which the call runs. */
  approval?: Approval;
}

/** The delay before GitHub is asked again for a permission. */
const askAgainMs = 30_000;

interface ApprovedCall {
  call: ModelCall;
  step: number;
  approvalId: string;
  /** The key of the effect that executes the call. */
  effectKey: string;
  signal: AbortSignal;
}

/**
 * Checks an approval again right before execution, and marks it as used: it is for this call and was neither used nor
 * revoked, the call would still change what was shown, policy allows it, and the approvers may still approve. Throws a
 * NotRunError with the reason if one of these no longer holds, and `PostponedError` while GitHub does not respond.
 */
export async function checkApproval(
  { store, now }: Pick<EffectServices, "store" | "now">,
  run: ActiveRun,
  { call, step, approvalId, effectKey, signal }: ApprovedCall,
): Promise<Grant> {
  const execution = { approvalId, callId: call.callId, runId: run.spec.id, effectKey, now: now() };
  const approval = await store.findApproval(approvalId);
  if (!approval || !applyExecution(approval, execution)) throw new NotRunError(whyNotValid(approval));
  await checkApprovers(approval, run, { store, now, signal });
  const grant = await confirmApproval(approval, {
    spec: run.spec,
    toolbox: await run.tools(signal),
    call,
    context: run.callContext({ callId: call.callId, step, signal }),
    baseCommit: readBaseCommit(await run.log())?.commit ?? "",
  });

  // It may have been revoked while it was checked.
  if (await store.beginExecution({ ...execution, now: now() })) return grant;
  throw new NotRunError(whyNotValid(await store.findApproval(approvalId)));
}

function whyNotValid(approval: Approval | undefined): string {
  const revoked = approval?.revoked;
  if (!revoked) return "its approval is no longer valid";
  return `@${revoked.by} revoked its approval${revoked.note ? `: ${revoked.note}` : ""}`;
}

/** Checks that the people who approved may still do so under the repository's current settings. */
async function checkApprovers(
  approval: Approval,
  run: ActiveRun,
  { store, now, signal }: Pick<EffectServices, "store" | "now"> & { signal: AbortSignal },
): Promise<void> {
  const { repository } = run;
  const people = approversOf(approval);
  // The login of an earlier approver may belong to someone else now.
  const keyOf = ({ login, id }: Account) => `${id ?? login}`;
  const permissions = new Map<string, Permission>();
  for (const person of people) {
    const permission = await askPermission(run, person, { now, signal });
    permissions.set(keyOf(person), permission);
    if (canWrite(permission)) continue;
    throw new NotRunError(`@${person.login} approved it, but GitHub no longer confirms write access`);
  }
  const root = await requireRun(store, run.spec.rootId);
  const counted = await answered(
    async () => {
      const requirements = await requirementsOf(approval, await readSettings(repository), repository);
      const answers: ApproverFacts["repository"] = {
        getPermission: async (login, id) => permissions.get(keyOf({ login, id })) ?? "none",
        findAccount: (login) => repository.findAccount(login),
        isTeamMember: (team, person) => repository.isTeamMember(team, person),
      };
      return countApprovals(requirements, people, factsAbout(approval, root.spec, { store, repository: answers }));
    },
    { about: "who may approve this", now, signal },
  );
  const missing = counted.find(({ by, required }) => by.length < required);
  if (!missing) return;
  const { problem, who, required, by } = missing;
  throw new NotRunError(
    problem?.replace(/\.$/, "") ?? `it has ${by.length} of ${pluralize(required, "approval")} by ${who}`,
  );
}

/** Asks GitHub for a person's permission. Throws `PostponedError` if GitHub does not respond, which is not a refusal. */
export function askPermission(
  { repository }: Pick<ActiveRun, "repository">,
  { login, id }: Account,
  { now, signal }: { now: () => number; signal: AbortSignal },
): Promise<Permission> {
  return answered(() => repository.confirmPermission(login, signal, id), {
    about: `whether @${login} has write access`,
    now,
    signal,
  });
}

/** Returns the settings. Throws `PostponedError` if GitHub does not respond. */
export function readCurrentSettings(
  { repository }: Pick<ActiveRun, "repository">,
  { now, signal }: { now: () => number; signal: AbortSignal },
): Promise<RepositorySettings> {
  return answered(() => readSettings(repository), { about: "what its settings are", now, signal });
}

/** Resolves to GitHub's response. Throws `PostponedError` for none and for 403. An invalid file is a response. */
async function answered<T>(
  ask: () => Promise<T>,
  { about, now, signal }: { about: string; now: () => number; signal: AbortSignal },
): Promise<T> {
  try {
    return await ask();
  } catch (cause) {
    // GitHub refuses the app and not the person: it has not answered the question.
    const isRefused = cause instanceof GitHubRefusalError && cause.status === 403;
    if (signal.aborted || (cause instanceof UserError && !isRefused)) throw cause;
    const reason = isRefused ? `${cause.message} Asking again.` : `GitHub did not say ${about}. Asking again.`;
    throw new PostponedError(nextTry(cause, now()), { reason, cause });
  }
}

/** Executes a call, whose own failures are results. Throws `PostponedError` if an outage keeps it from beginning. */
export async function postponeDuringOutage<T>(
  execute: () => Promise<T>,
  { now, signal }: { now: () => number; signal: AbortSignal },
): Promise<T> {
  try {
    return await execute();
  } catch (cause) {
    if (signal.aborted || !isTemporary(cause)) throw cause;
    const isLimited = cause instanceof OutageError && cause.retryAt !== undefined;
    const reason = isLimited ? cause.message : "GitHub does not respond. The call is executed when it does.";
    throw new PostponedError(nextTry(cause, now()), { reason, cause });
  }
}

function nextTry(cause: unknown, now: number): number {
  const retryAt = cause instanceof OutageError ? cause.retryAt : undefined;
  return Math.max(now + askAgainMs, retryAt ?? 0);
}

interface CurrentCall {
  spec: Pick<RunSpec, "id" | "workerPath">;
  toolbox: Pick<Toolbox, "review">;
  call: ModelCall;
  context: CallContext;
  baseCommit: string;
}

/** Throws a NotRunError if a call no longer does what a person approved, or if policy no longer allows it. */
async function confirmApproval(
  approval: Approval,
  { spec, toolbox, call, context, baseCommit }: CurrentCall,
): Promise<Grant> {
  const changed = approval.changedArgs !== undefined;
  const args = changed ? approval.changedArgs : approval.args;
  const review = await toolbox.review({ ...call, args }, context, []);
  if (review.kind === "refuse")
    throw new NotRunError(`it is refused: ${review.result.error?.message ?? "policy forbids it"}`);

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
  if (!isSame) throw effectChanged();

  const notes = [
    ...(changed ? [`A person changed the arguments before approving; this ran: ${JSON.stringify(args)}`] : []),
    ...(approval.note ? [`@${approval.decidedBy} approved it and said: ${approval.note}`] : []),
  ];
  return { args, notes, approved: preview, approval };
}

export function effectChanged(): NotRunError {
  return new NotRunError("its effect has changed since it was approved; call it again to request a new approval");
}

/** The error of a call whose approval no longer applies. `reason` is a clause. */
export class NotRunError extends ToolError {
  readonly reason: string;

  constructor(reason: string) {
    super(`This was not run: ${reason}.`, { code: "DENIED" });
    this.reason = reason;
  }
}
