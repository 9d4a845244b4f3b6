import { z } from "zod";

/** The format of stored effects. Raise it when the meaning of a stored effect changes. */
export const effectVersion = 1;

/**
 * The effects that the worker machine requests. The runtime stores each one under an idempotency key, in the same
 * transaction as the transition that requested it, and then performs it.
 */
export const EffectRequest = z.discriminatedUnion("kind", [
  /** Pins the base commit and collects the thread's messages. Answered by `sandbox.opened` or `sandbox.failed`. */
  z.strictObject({ kind: z.literal("sandbox.open") }),
  /** Calls the model once with the transcript so far. Answered by `model.answered` or `model.failed`. */
  z.strictObject({ kind: z.literal("model.call") }),
  /** Checks the tool calls of the last answer against policy. Answered by `calls.reviewed`. */
  z.strictObject({ kind: z.literal("calls.review") }),
  /** Executes one allowed tool call. Answered by `tool.finished`. */
  z.strictObject({ kind: z.literal("tool.execute"), callId: z.string(), approvalId: z.string().optional() }),
  /** Posts an approval request, or updates it with the decision. `replaces`: its comment that somebody edited. */
  z.strictObject({ kind: z.literal("approval.post"), approvalId: z.string(), replaces: z.number().optional() }),
  /** Marks every unanswered approval request of this run as withdrawn. */
  z.strictObject({ kind: z.literal("approvals.close") }),
  /**
   * Posts the question of an ask_user call of this step: a provider may reuse the ids of calls. Default, for effects of earlier
   * releases: the last call with this id.
   */
  z.strictObject({ kind: z.literal("question.post"), callId: z.string(), step: z.number().optional() }),
  /** Marks that question as answered or withdrawn. */
  z.strictObject({ kind: z.literal("question.close"), callId: z.string(), step: z.number().optional() }),
  /** Posts that the run has used up its cost limit, and how to raise it. */
  z.strictObject({ kind: z.literal("budget.post") }),
  /** Spawns the child run that answers this call. Answered by `child.finished`. */
  z.strictObject({ kind: z.literal("child.spawn"), callId: z.string(), approvalId: z.string().optional() }),
  /** Stops every child that has not ended. */
  z.strictObject({ kind: z.literal("children.stop") }),
  /** Posts the answer of a run that stays idle. Default of `step`, for effects of earlier releases: the last answer. */
  z.strictObject({ kind: z.literal("answer.post"), step: z.number().optional() }),
  /** Reports the outcome: to the thread, or to the parent run. */
  z.strictObject({ kind: z.literal("outcome.report") }),
]);
export type EffectRequest = z.infer<typeof EffectRequest>;

/** Effects that a stop cancels. The others still have to be performed, so that people see the current state. */
export const interruptibleEffects: readonly EffectRequest["kind"][] = [
  "sandbox.open",
  "model.call",
  "calls.review",
  "tool.execute",
  "child.spawn",
];
