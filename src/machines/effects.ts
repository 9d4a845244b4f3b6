/**
 * What a run wants done outside itself, as the machine names it. The runtime gives each a key, writes it down with the
 * transition that asked for it, and carries it out.
 */
export type EffectRequest =
  /** Fix the base commit and gather what the thread says. Answered by `sandbox.opened` or `sandbox.failed`. */
  | { kind: "sandbox.open" }
  /** One call of the model over the transcript so far. Answered by `model.answered` or `model.failed`. */
  | { kind: "model.call" }
  /** Ask policy about the calls of the last answer. Answered by `calls.reviewed`. */
  | { kind: "calls.review" }
  /** Run one call that was allowed. Answered by `tool.finished`. */
  | { kind: "tool.execute"; callId: string; approvalId?: string }
  /** Show a request for approval, or what became of it. */
  | { kind: "approval.post"; approvalId: string }
  /** Say of every request of this run that nobody answered that it is not wanted any more. */
  | { kind: "approvals.close" }
  /** Ask a person the question of this call. */
  | { kind: "question.post"; callId: string }
  /** Show what became of that question: it is answered, or not asked any more. */
  | { kind: "question.close"; callId: string }
  /** Make the child run that answers this call. Answered by `child.finished`. */
  | { kind: "child.spawn"; callId: string; approvalId?: string }
  /** End every child that is still alive. */
  | { kind: "children.stop" }
  /** Say how it ended: in the thread, or to the parent. */
  | { kind: "outcome.report" };

/** Effects that `/stop` makes pointless; the rest still has to be said. */
export const interruptibleEffects: readonly EffectRequest["kind"][] = [
  "sandbox.open",
  "model.call",
  "calls.review",
  "tool.execute",
  "child.spawn",
];
