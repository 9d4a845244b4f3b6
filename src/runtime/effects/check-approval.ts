import type { RepositorySettings } from "#config/repository-settings.ts";
import type { Approval } from "#domain/approval.ts";
import { UserError } from "#domain/errors.ts";
import type { ModelCall } from "#domain/events.ts";
import { type Account, canWrite, type Permission } from "#domain/github.ts";
import type { ActiveRun } from "#runtime/active-run.ts";
import {
  type ApproverFacts,
  approversOf,
  countApprovals,
  factsAbout,
  requirementsOf,
} from "#runtime/approval-rules.ts";
import { confirmApproval, type Grant, notRun } from "#runtime/calls/confirm-approval.ts";
import { readBase } from "#runtime/read-log.ts";
import { readSettings } from "#runtime/read-settings.ts";
import { applyExecution } from "#runtime/store/apply-decision.ts";
import { requireRun } from "#runtime/store/store.ts";
import { type EffectServices, Postponed } from "./effect-handler.ts";
import { callContext } from "./tool-call.ts";

/** How long to wait before GitHub is asked again for a permission. */
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
 * Checks an approval again at the moment of execution, and marks it as used: it was not used or revoked before and is for
 * this call, the call would still change what was shown, policy allows it, and the approvers may still approve. Throws a
 * NotRunError with the reason when one of these no longer holds, and `Postponed` while GitHub does not answer.
 */
export async function checkApproval(
  { store, now }: Pick<EffectServices, "store" | "now">,
  run: ActiveRun,
  { call, step, approvalId, effectKey, signal }: ApprovedCall,
): Promise<Grant> {
  const execution = { approvalId, callId: call.callId, runId: run.spec.id, effectKey, now: now() };
  const approval = await store.findApproval(approvalId);
  if (!approval || !applyExecution(approval, execution)) throw notRun(whyNotValid(approval));
  await checkApprovers(approval, run, { store, now, signal });
  const grant = await confirmApproval(approval, {
    spec: run.spec,
    toolbox: await run.tools(signal),
    call,
    context: callContext(run, { callId: call.callId, step, signal }),
    baseCommit: readBase(await run.log())?.commit ?? "",
  });

  // It may have been revoked while it was checked.
  if (await store.beginExecution({ ...execution, now: now() })) return grant;
  throw notRun(whyNotValid(await store.findApproval(approvalId)));
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
  const permissions = new Map<string, Permission>();
  for (const person of people) {
    const permission = await askPermission(run, person, { now, signal });
    permissions.set(person.login, permission);
    if (canWrite(permission)) continue;
    throw notRun(`@${person.login} approved it, but GitHub does not confirm write access any more`);
  }
  const root = await requireRun(store, run.spec.rootId);
  const counted = await answered(
    async () => {
      const requirements = await requirementsOf(approval, await readSettings(repository), repository);
      const answers: ApproverFacts["repository"] = {
        getPermission: async (login) => permissions.get(login) ?? "none",
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
  throw notRun(problem?.replace(/\.$/, "") ?? `it has ${by.length} of ${required} approvals by ${who}`);
}

/** Asks GitHub for a person's permission. Throws `Postponed` when there is no answer, which is not a refusal. */
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

/** Returns the settings. Throws `Postponed` when GitHub does not answer. */
export function readCurrentSettings(
  { repository }: Pick<ActiveRun, "repository">,
  { now, signal }: { now: () => number; signal: AbortSignal },
): Promise<RepositorySettings> {
  return answered(() => readSettings(repository), { about: "what its settings are", now, signal });
}

/** Resolves to GitHub's answer. Throws `Postponed` when there is none. A file that cannot be used is an answer. */
async function answered<T>(
  ask: () => Promise<T>,
  { about, now, signal }: { about: string; now: () => number; signal: AbortSignal },
): Promise<T> {
  try {
    return await ask();
  } catch (cause) {
    if (signal.aborted || cause instanceof UserError) throw cause;
    throw new Postponed(now() + askAgainMs, { reason: `GitHub did not answer ${about}. Asking again.`, cause });
  }
}
