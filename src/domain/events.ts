import { z } from "zod";
import { Channel } from "./approval.ts";
import { ToolResult } from "./result.ts";
import { OpenCall, RunOutcome, TokenUsage } from "./run.ts";

/** A file with guidance of the repository's maintainers. */
export const GuidanceFile = z.object({ path: z.string(), text: z.string() });
export type GuidanceFile = z.infer<typeof GuidanceFile>;

/** The result of reviewing a tool call before execution. */
export const Verdict = z.discriminatedUnion("kind", [
  /** Policy allows it, or the run itself answers it. */
  z.object({
    kind: z.literal("allow"),
    callId: z.string(),
    tool: z.string(),
    answeredBy: OpenCall.shape.answeredBy,
    /** The approval for the session that covers this call; it is checked again when the call runs. */
    approvalId: z.string().optional(),
  }),
  /** A person must approve it first. */
  z.object({
    kind: z.literal("ask"),
    callId: z.string(),
    tool: z.string(),
    answeredBy: OpenCall.shape.answeredBy,
    approvalId: z.string(),
  }),
  /** It is not executed. The result tells the model why. */
  z.object({ kind: z.literal("refuse"), callId: z.string(), tool: z.string(), result: ToolResult }),
]);
export type Verdict = z.infer<typeof Verdict>;

/** A file attached to a message. */
export const Attachment = z.object({
  name: z.string(),
  /** Such as `image/png`. */
  mediaType: z.string(),
  /** Plain text for text media types, base64 for others. */
  data: z.string(),
});
export type Attachment = z.infer<typeof Attachment>;

/** True for media types that are passed to the model as text. */
export function isTextMediaType(mediaType: string): boolean {
  return /^text\/|[/+](json|xml|yaml)\b/i.test(mediaType);
}

/** A tool call as the model requested it. */
export const ModelCall = z.object({
  callId: z.string(),
  tool: z.string(),
  args: z.unknown(),
  /** The reason why the arguments are not valid JSON; undefined if they are valid. */
  parseError: z.string().optional(),
});
export type ModelCall = z.infer<typeof ModelCall>;

/**
 * Everything that can happen to a run. The ordered log of these events is both its inbox and its transcript: the state,
 * the messages for the model and the views for people are all derived from it.
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
    byId: z.number().optional(),
    /** Everyone who wrote a part of a `context` text. */
    authors: z.array(z.object({ login: z.string(), id: z.number().optional() })).optional(),
    /** The issue or pull request it was written in. Default: the one the run was started in. */
    thread: z.number().optional(),
    attachments: z.array(Attachment).optional(),
    via: Channel.optional(),
  }),
  z.object({ type: z.literal("sandbox.opened"), commit: z.string(), branch: z.string() }),
  /** The guidance of the default branch that the run starts with. */
  z.object({ type: z.literal("guidance.read"), files: z.array(GuidanceFile) }),
  z.object({ type: z.literal("sandbox.failed"), reason: z.string() }),
  z.object({
    type: z.literal("model.answered"),
    text: z.string(),
    /** Valid and invalid calls, in the model's order. */
    calls: z.array(ModelCall),
    /** The AI SDK's response messages, sent back verbatim with the next request. */
    messages: z.array(z.unknown()),
    /** The provider's own web searches: a query or a URL each. */
    searches: z.array(z.string()).optional(),
    usage: TokenUsage,
    /** US dollars; undefined if the price is unknown. */
    cost: z.number().optional(),
    finishReason: z.string(),
    /** The mismatches between the text and the worker's output schema, as sentences. Undefined if the text matches. */
    schemaProblem: z.string().optional(),
    /** The id of the last event included in the request. Later messages have not been read by the model. */
    lastSeenId: z.number(),
  }),
  /** The model summarized the conversation so far. The log keeps every event; the model reads the summary instead. */
  z.object({
    type: z.literal("conversation.compacted"),
    /** The id of the last event in the summary. The model still reads messages of people verbatim. */
    throughId: z.number(),
    summary: z.string(),
    usage: TokenUsage,
    /** US dollars; undefined if the price is unknown. */
    cost: z.number().optional(),
  }),
  /** A step ended without an answer of the model: it failed, its tools could not be opened, or the run is stuck. */
  z.object({
    type: z.literal("model.failed"),
    /** A sentence for people. */
    reason: z.string(),
    retryable: z.boolean(),
    retryAfterMs: z.number().optional(),
    /** The usage of an answer that could not be used, such as an empty one. */
    usage: TokenUsage.optional(),
    /** US dollars; undefined if the price is unknown. */
    cost: z.number().optional(),
  }),
  z.object({ type: z.literal("calls.reviewed"), verdicts: z.array(Verdict) }),
  z.object({
    type: z.literal("approval.granted"),
    approvalId: z.string(),
    callId: z.string(),
    by: z.string(),
    byId: z.number().optional(),
    /** Present if the approver edited the arguments. Already validated. */
    args: z.unknown().optional(),
    via: Channel.optional(),
  }),
  z.object({
    type: z.literal("approval.denied"),
    approvalId: z.string(),
    callId: z.string(),
    by: z.string(),
    byId: z.number().optional(),
    reason: z.string().optional(),
    via: Channel.optional(),
  }),
  z.object({ type: z.literal("approval.expired"), approvalId: z.string(), callId: z.string() }),
  z.object({
    type: z.literal("question.answered"),
    callId: z.string(),
    /** The number of the model's answer that asked. Undefined in events of earlier releases. */
    step: z.number().optional(),
    text: z.string(),
    by: z.string(),
    byId: z.number().optional(),
    via: Channel.optional(),
  }),
  z.object({ type: z.literal("tool.finished"), callId: z.string(), tool: z.string(), result: ToolResult }),
  /** Someone with write access reviewed the run's pull request. */
  z.object({
    type: z.literal("pull_request.reviewed"),
    by: z.string(),
    byId: z.number().optional(),
    /** True for a review that resumes a waiting run: it requests changes, mentions the App, or replies to it. */
    requestsChanges: z.boolean(),
    /** The review and its comments, without hidden text. */
    text: z.string(),
  }),
  /** All checks on the last commit that the run pushed have completed. */
  z.object({
    type: z.literal("checks.completed"),
    commit: z.string(),
    passed: z.boolean(),
    /** True if every failed check fails on the base branch, too: the run does not repair it. */
    failedOnBase: z.boolean().default(false),
    /** The failed checks, already marked as untrusted. */
    text: z.string(),
    /** Identifies the checks and their results; undefined in events of earlier releases. */
    digest: z.string().optional(),
  }),
  /** The run's pull request was merged or closed, which ends the run. */
  z.object({
    type: z.literal("pull_request.closed"),
    number: z.number(),
    merged: z.boolean(),
    by: z.string(),
    /** The commit as read back from GitHub: the one on the base branch if it was merged, or else the last one proposed. */
    commit: z.string().optional(),
  }),
  /** The run's pull request was opened again after it was closed without merging, which continues the run. */
  z.object({ type: z.literal("pull_request.reopened"), number: z.number(), by: z.string() }),
  /** A person ran a tool with a command. Answers no tool call; the model reads about it in its next request. */
  z.object({
    type: z.literal("tool.invoked"),
    callId: z.string(),
    tool: z.string(),
    by: z.string(),
    byId: z.number().optional(),
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
    /** The reason for stopping the run, as a sentence, if no person asked for it. */
    reason: z.string().optional(),
  }),
  z.object({ type: z.literal("run.resume"), by: z.string(), via: Channel.optional() }),
  z.object({
    type: z.literal("run.cancel"),
    by: z.string(),
    via: Channel.optional(),
    /** The reason for ending the run, as a sentence, if no command asked for it. */
    reason: z.string().optional(),
  }),
  /** A person ended the run. Unlike a cancelled run, it has done its work. */
  z.object({ type: z.literal("run.exit"), by: z.string(), via: Channel.optional() }),
  /** A person asked to call the model again without waiting for the retry timer. */
  z.object({ type: z.literal("retry.requested"), by: z.string(), via: Channel.optional() }),
  /** A person dropped the conversation so far. The files of the run stay as they are. */
  z.object({ type: z.literal("conversation.cleared"), by: z.string(), via: Channel.optional() }),
  /** A person chose another model for the next calls. */
  z.object({ type: z.literal("model.changed"), model: z.string(), by: z.string(), via: Channel.optional() }),
  /** A person raised the run's cost limit to this many US dollars. */
  z.object({ type: z.literal("cost_limit.raised"), limit: z.number(), by: z.string(), via: Channel.optional() }),
  z.object({ type: z.literal("timer.due"), timer: z.enum(["retry", "deadline"]) }),
]);
export type RunEvent = z.infer<typeof RunEvent>;

/** An event with its position in the log. */
export interface LoggedEvent {
  /** Increases over the whole store. */
  id: number;
  runId: string;
  at: number;
  event: RunEvent;
}
