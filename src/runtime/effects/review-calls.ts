import { type Approval, approvalDigest } from "#approval.ts";
import type { ModelCall, Verdict } from "#events.ts";
import {
  describeApprovers,
  parseRepositorySettings,
  type RepositorySettings,
  settingsPath,
} from "#repository-settings.ts";
import type { Desk } from "#runtime/desk.ts";
import type { EffectHandler } from "#runtime/drive.ts";
import { lastAnswer, readBase } from "#runtime/read-log.ts";
import { shortId } from "#runtime/short-id.ts";
import type { Store } from "#runtime/store/store.ts";
import type { Review } from "#toolsets/tool-belt.ts";
import { callContext } from "./call-context.ts";
import type { EffectServices } from "./effect-services.ts";

/** Asks policy about every call of the last answer, and writes down what people have to be asked. */
export function reviewCalls({ store, now, approvalMs }: EffectServices): EffectHandler {
  return {
    attempts: 3,
    async perform(effect, desk, signal) {
      const [log, belt] = await Promise.all([desk.log(), desk.tools(signal)]);
      const last = lastAnswer(log);
      if (!last) throw new Error(`Run ${effect.runId} has no answer to review`);

      const [remembered, settings] = await Promise.all([rememberedCalls(store, desk), readSettings(desk)]);
      const verdicts: Verdict[] = [];
      const approvals: Approval[] = [];
      for (const call of last.answer.calls) {
        const review = await belt.review(call, callContext(desk, call, last.step, signal), remembered);
        const approval = review.kind === "ask" ? await ask(call, review, last.step) : undefined;
        if (approval) approvals.push(approval);
        verdicts.push(verdictOf(call, review, approval));
      }
      signal.throwIfAborted();
      return { events: [{ runId: effect.runId, event: { type: "calls.reviewed", verdicts } }], approvals };

      async function ask(call: ModelCall, review: Extract<Review, { kind: "ask" }>, step: number): Promise<Approval> {
        const { id: runId, rootId, workerPath } = desk.spec;
        const { callId, tool } = call;
        const { args, preview } = review;
        const subject = { runId, workerPath, callId, tool, args, baseCommit: readBase(log)?.commit ?? "", preview };
        return {
          ...subject,
          id: await freeId(store, `${runId}/${step}/${callId}`),
          rootId,
          digest: approvalDigest(subject),
          reason: review.reason,
          approvers: describeApprovers(settings, desk.spec.origin.requestedBy),
          status: "pending",
          requestedAt: now(),
          expiresAt: now() + approvalMs,
        };
      }
    },
    async giveUp(effect, desk, error) {
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

function verdictOf({ callId, tool }: ModelCall, review: Review, approval: Approval | undefined): Verdict {
  if (review.kind === "refuse") return { kind: "refuse", callId, tool, result: review.result };
  if (approval) return { kind: "ask", callId, tool, as: review.as, approvalId: approval.id };
  return { kind: "allow", callId, tool, as: review.as };
}

/** Approvals given for the session count for this run alone: never for its parent's or children's calls. */
async function rememberedCalls(store: Store, { spec }: Desk): Promise<{ tool: string; args: unknown }[]> {
  const approvals = await store.approvalsOf(spec.rootId);
  return approvals
    .filter(
      ({ runId, remember, status }) =>
        runId === spec.id && remember === "session" && (status === "approved" || status === "used"),
    )
    .map(({ tool, args, changedArgs }) => ({ tool, args: changedArgs ?? args }));
}

async function readSettings({ github }: Desk): Promise<RepositorySettings> {
  return parseRepositorySettings(await github.readFile(settingsPath));
}

/** Four letters are enough for a thread; two approvals never share them, so a clash takes one more. */
async function freeId(store: Store, seed: string): Promise<string> {
  for (let length = 4; length < 16; length += 1) {
    const id = shortId(seed, length);
    if (!(await store.approval(id))) return id;
  }
  throw new Error("No short id is free");
}
