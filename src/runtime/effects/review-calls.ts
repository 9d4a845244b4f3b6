import { describeApprovers, type RepositorySettings } from "#config/repository-settings.ts";
import type { Approval } from "#domain/approval.ts";
import type { Verdict } from "#domain/events.ts";
import type { ActiveRun } from "#runtime/active-run.ts";
import { reviewAnswer } from "#runtime/calls/review-answer.ts";
import type { EffectHandler } from "#runtime/effects/effect-handler.ts";
import { lastAnswer, readBase } from "#runtime/read-log.ts";
import { readSettings } from "#runtime/read-settings.ts";
import { shortId } from "#runtime/short-id.ts";
import type { Store } from "#runtime/store/store.ts";
import { callContext } from "./call-context.ts";
import type { EffectServices } from "./effect-services.ts";

/** Asks policy about every call of the last answer, and writes down what people have to be asked. */
export function reviewCalls({ store, frontEnd, now, approvalMs }: EffectServices): EffectHandler {
  return {
    maxAttempts: 3,
    async perform(effect, desk, signal) {
      const [log, toolbox] = await Promise.all([desk.log(), desk.tools(signal)]);
      const last = lastAnswer(log);
      if (!last) throw new Error(`Run ${effect.runId} has no answer to review`);

      const remembered = await rememberedApprovals(store, desk, now());
      // GitHub is asked once, and only where somebody is: most answers need no approval.
      let settings: Promise<RepositorySettings> | undefined;
      const { verdicts, approvals } = await reviewAnswer({
        spec: desk.spec,
        toolbox,
        calls: last.answer.calls,
        contextOf: (call) => callContext(desk, call, last.step, signal),
        remembered,
        baseCommit: readBase(log)?.commit ?? "",
        canShow: frontEnd.canShow,
        open: async ({ callId }) => {
          settings ??= readSettings(desk.repository);
          return {
            id: await freeId(store, `${effect.runId}/${last.step}/${callId}`),
            approvers: describeApprovers(await settings, desk.spec.origin.requestedBy),
            requestedAt: now(),
            expiresAt: now() + approvalMs,
          };
        },
      });
      signal.throwIfAborted();
      return { events: [{ runId: effect.runId, event: { type: "calls.reviewed", verdicts } }], approvals };
    },
    async onFailure(effect, desk, error) {
      const calls = lastAnswer(await desk.log())?.answer.calls ?? [];
      const message = `This call could not be reviewed: ${error instanceof Error ? error.message : "unknown reason"}`;
      const result = {
        llmContent: message,
        value: { kind: "text" as const, content: message },
        error: { type: "system_error" as const, code: "UNAVAILABLE" as const, message },
      };
      const verdicts = calls.map(({ callId, tool }): Verdict => ({ kind: "refuse", callId, tool, result }));
      return { events: [{ runId: effect.runId, event: { type: "calls.reviewed", verdicts } }] };
    },
  };
}

/** Approvals for the session cover calls of this run alone: never its parent's or children's, and not after they expire. */
async function rememberedApprovals(store: Store, { spec }: ActiveRun, now: number): Promise<Approval[]> {
  const approvals = await store.approvalsOf(spec.rootId);
  return approvals.filter(
    ({ runId, remember, status, expiresAt }) =>
      runId === spec.id && remember === "session" && (status === "approved" || status === "used") && now < expiresAt,
  );
}

/** Four letters are enough for a thread; two approvals never share them, so a clash takes one more. */
async function freeId(store: Store, seed: string): Promise<string> {
  for (let length = 4; length < 16; length += 1) {
    const id = shortId(seed, length);
    if (!(await store.findApproval(id))) return id;
  }
  throw new Error("No short id is free");
}
