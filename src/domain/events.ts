import { z } from "zod";
import { Channel } from "./channel.ts";
import { ToolResult } from "./result.ts";
import { OpenCall, RunOutcome, TokenUsage } from "./run.ts";

/** What the review of a tool call came to, before anything runs. */
export const Verdict = z.discriminatedUnion("kind", [
  /** Policy lets it run, or the run itself answers it. */
  z.object({ kind: z.literal("allow"), callId: z.string(), tool: z.string(), answeredBy: OpenCall.shape.answeredBy }),
  /** A person must agree first. */
  z.object({
    kind: z.literal("ask"),
    callId: z.string(),
    tool: z.string(),
    answeredBy: OpenCall.shape.answeredBy,
    approvalId: z.string(),
  }),
  /** It will not run; the result says why, to the model. */
  z.object({ kind: z.literal("refuse"), callId: z.string(), tool: z.string(), result: ToolResult }),
]);
export type Verdict = z.infer<typeof Verdict>;

/** A file that came with a person's words. */
export const Attachment = z.object({
  name: z.string(),
  /** As in `image/png`. */
  mediaType: z.string(),
  /** Text for what is text, otherwise base64. */
  data: z.string(),
});
export type Attachment = z.infer<typeof Attachment>;

/** True for what a model reads as words. */
export function isTextMediaType(mediaType: string): boolean {
  return /^text\/|[/+](json|xml|yaml)\b/i.test(mediaType);
}

/** A tool call as the model made it. */
export const ModelCall = z.object({
  callId: z.string(),
  tool: z.string(),
  args: z.unknown(),
  /** Why the arguments could not even be read: they were no JSON. */
  parseError: z.string().optional(),
});
export type ModelCall = z.infer<typeof ModelCall>;

/**
 * Everything that can happen to a run. The log of these, in order, is its mailbox and its transcript: state, messages
 * for the model and what people see are all derived from it.
 */
export const RunEvent = z.discriminatedUnion("type", [
  /** A message for the worker, without hidden text. Everything but `context` comes from someone who may command the run. */
  z.object({
    type: z.literal("message.received"),
    /**
     * `request`: the task of the command that started the run, which may be empty. `comment`: a later message from a
     * person. `prompt`: input from a program, a terminal or the parent run, passed to the model as it is. `context`:
     * text from the thread, already marked as untrusted.
     */
    kind: z.enum(["request", "comment", "prompt", "context"]),
    text: z.string(),
    by: z.string(),
    attachments: z.array(Attachment).optional(),
    via: Channel.optional(),
  }),
  z.object({ type: z.literal("sandbox.opened"), commit: z.string(), branch: z.string() }),
  z.object({ type: z.literal("sandbox.failed"), reason: z.string() }),
  z.object({
    type: z.literal("model.answered"),
    text: z.string(),
    /** Valid and invalid calls alike, in the model's order. */
    calls: z.array(ModelCall),
    /** The AI SDK's response messages, to be sent back verbatim. */
    messages: z.array(z.unknown()),
    /** What the provider looked up by itself, a query or an address each. */
    searches: z.array(z.string()).optional(),
    usage: TokenUsage,
    /** US dollars; undefined where the price is not known. */
    cost: z.number().optional(),
    finishReason: z.string(),
    /** The last event the model was shown; what people said after it is still news. */
    lastSeenId: z.number(),
  }),
  z.object({
    type: z.literal("model.failed"),
    /** A sentence for people. */
    reason: z.string(),
    retryable: z.boolean(),
    retryAfterMs: z.number().optional(),
  }),
  z.object({ type: z.literal("calls.reviewed"), verdicts: z.array(Verdict) }),
  z.object({
    type: z.literal("approval.granted"),
    approvalId: z.string(),
    callId: z.string(),
    by: z.string(),
    /** Present when the person changed the arguments; already validated. */
    args: z.unknown().optional(),
    via: Channel.optional(),
  }),
  z.object({
    type: z.literal("approval.denied"),
    approvalId: z.string(),
    callId: z.string(),
    by: z.string(),
    reason: z.string().optional(),
    via: Channel.optional(),
  }),
  z.object({ type: z.literal("approval.expired"), approvalId: z.string(), callId: z.string() }),
  z.object({
    type: z.literal("question.answered"),
    callId: z.string(),
    text: z.string(),
    by: z.string(),
    via: Channel.optional(),
  }),
  z.object({ type: z.literal("tool.finished"), callId: z.string(), tool: z.string(), result: ToolResult }),
  /** A person ran a manual tool. It answers no call of the model, and is news to it. */
  z.object({
    type: z.literal("tool.invoked"),
    callId: z.string(),
    tool: z.string(),
    by: z.string(),
    args: z.unknown(),
    result: ToolResult,
  }),
  z.object({
    type: z.literal("child.finished"),
    callId: z.string(),
    childId: z.string(),
    outcome: RunOutcome,
    usage: TokenUsage,
    cost: z.number().optional(),
  }),
  z.object({
    type: z.literal("run.stop"),
    by: z.string(),
    via: Channel.optional(),
    /** Why, where no person asked for it; a sentence. */
    reason: z.string().optional(),
  }),
  z.object({ type: z.literal("run.resume"), by: z.string(), via: Channel.optional() }),
  z.object({ type: z.literal("run.cancel"), by: z.string(), via: Channel.optional() }),
  z.object({ type: z.literal("timer.due"), timer: z.enum(["retry", "deadline"]) }),
]);
export type RunEvent = z.infer<typeof RunEvent>;

/** An event with its place in the log. */
export interface LoggedEvent {
  /** Grows over the whole store. */
  id: number;
  runId: string;
  at: number;
  event: RunEvent;
}
