import type { RepositorySettings } from "#config/repository-settings.ts";
import type { Approval } from "#domain/approval.ts";
import type { Verdict } from "#domain/events.ts";
import type { RunSpec } from "#domain/run.ts";
import { describeRequirement, requirementsOf, resolveAccounts } from "#runtime/approval-rules.ts";
import { reviewAnswer } from "#runtime/calls/review-answer.ts";
import { lastAnswer, readBase } from "#runtime/read-log.ts";
import { readSettings } from "#runtime/read-settings.ts";
import type { EffectOf } from "#runtime/runtime-effect.ts";
import { shortId } from "#runtime/short-id.ts";
import type { Store } from "#runtime/store/store.ts";
import type { EffectHandler, EffectServices } from "./effect-handler.ts";
import { callContext } from "./tool-call.ts";

type ReviewServices = Pick<EffectServices, "store" | "frontEnd" | "now" | "approvalMs">;

/** Checks every call of the last answer against policy, and creates the approvals people have to give. */
export function reviewCalls({
  store,
  frontEnd,
  now,
  approvalMs,
}: ReviewServices): EffectHandler<EffectOf<"calls.review">> {
  return {
    maxAttempts: 3,
    async perform({ runId }, run, signal) {
      const [log, toolbox] = await Promise.all([run.log(), run.tools(signal)]);
      const last = lastAnswer(log);
      if (!last) throw new Error(`Run ${runId} has no answer to review`);

      const { step } = last;
      // Read only when an approval is needed: most answers need none.
      let settings: Promise<RepositorySettings> | undefined;
      const { verdicts, approvals } = await reviewAnswer({
        spec: run.spec,
        toolbox,
        calls: last.answer.calls,
        contextOf: ({ callId }) => callContext(run, { callId, step, signal }),
        remembered: await sessionApprovals(store, run.spec, now()),
        baseCommit: readBase(log)?.commit ?? "",
        canShow: frontEnd.canShow,
        open: async ({ callId }, shown) => {
          settings ??= readSettings(run.repository);
          const requirements = await requirementsOf(shown, await settings, run.repository);
          const { requestedBy } = run.spec.origin;
          const quorums = requirements.map((requirement) => ({
            who: describeRequirement({ ...requirement, required: 1 }, requestedBy),
            required: requirement.required,
            by: [],
          }));
          const accounts = await resolveAccounts(requirements, run.repository);
          return {
            id: await unusedId(store, `${runId}/${step}/${callId}`),
            approvers: requirements.map((requirement) => describeRequirement(requirement, requestedBy)).join("; "),
            quorums,
            ...(Object.keys(accounts).length > 0 && { accounts }),
            requestedAt: now(),
            expiresAt: now() + approvalMs,
          };
        },
      });
      signal.throwIfAborted();
      return { events: [{ runId, event: { type: "calls.reviewed", verdicts } }], approvals };
    },
    async onFailure({ runId }, run, error) {
      const calls = lastAnswer(await run.log())?.answer.calls ?? [];
      const message = `This call could not be reviewed: ${error instanceof Error ? error.message : "unknown reason"}`;
      const result = {
        llmContent: message,
        value: { kind: "text" as const, content: message },
        error: { type: "system_error" as const, code: "UNAVAILABLE" as const, message },
      };
      const verdicts = calls.map(({ callId, tool }): Verdict => ({ kind: "refuse", callId, tool, result }));
      return { events: [{ runId, event: { type: "calls.reviewed", verdicts } }] };
    },
  };
}

/** Returns the approvals that cover more calls of this run. They do not count for its parent or its children. */
async function sessionApprovals(store: Store, { id, rootId }: RunSpec, now: number): Promise<Approval[]> {
  const approvals = await store.approvalsOf(rootId);
  return approvals.filter(
    ({ runId, remember, status, expiresAt }) =>
      runId === id && remember === "session" && (status === "approved" || status === "used") && now < expiresAt,
  );
}

/** Returns an approval id that is not in use. Four letters are usually enough. */
async function unusedId(store: Store, seed: string): Promise<string> {
  for (let length = 4; length < 16; length += 1) {
    const id = shortId(seed, length);
    if (!(await store.findApproval(id))) return id;
  }
  throw new Error("No short id is free");
}
