import { z } from "zod";
import type { RunEvent, Verdict } from "#domain/events.ts";
import { isOpenQuestion, OpenCall, openedPullRequest, SnapshotOutcome } from "#domain/run.ts";
import { Limits } from "#domain/worker.ts";
import type { EffectRequest } from "./effects.ts";

/** Everything the machine remembers between events: counters and names, never texts. Stays under 2 KB. */
export const WorkerContext = z.strictObject({
  mode: z.enum(["single", "chat"]),
  limits: Limits,
  /** True once the base commit of the sandbox is pinned. A run without this flag finds the commit in its log. */
  hasBase: z.boolean().default(false),
  /** The number of model answers. */
  steps: z.number(),
  tokens: z.number(),
  /** US dollars, for the calls whose price is known. */
  cost: z.number(),
  /** The number of failed model calls since the last answer. */
  consecutiveFailures: z.number(),
  /** Messages from people that the model has not been shown yet. */
  unreadMessages: z.number(),
  /** The number of tool calls in the last answer. */
  requestedCalls: z.number(),
  openCalls: z.array(OpenCall),
  /** Why the last answer does not match the worker's output schema. */
  schemaProblem: z.string().optional(),
  /** The number of consecutive answers that did not match it. */
  mismatches: z.number().default(0),
  /** False for a run that answers its parent. */
  isRoot: z.boolean().default(true),
  /** True if the run waits at its cost limit until a person raises it. Otherwise it ends there. */
  pausesAtCostLimit: z.boolean().default(false),
  /** The pull request that this run opened: a root run stays with it until it is merged or closed. */
  pullRequest: z.number().optional(),
  /** The pull request was closed without merging, which ended the run. */
  isPullRequestClosed: z.boolean().default(false),
  /** The run was paused when its pull request was closed, or since, so it is paused when that is reopened. */
  wasPaused: z.boolean().default(false),
  /** The number of times that failed checks have woken the run. */
  checkRepairs: z.number().default(0),
  outcome: SnapshotOutcome.optional(),
});
export type WorkerContext = z.infer<typeof WorkerContext>;

/** An answer that does not match the output schema is asked for once more. */
export const maxMismatches = 2;
const maxConsecutiveFailures = 5;
const firstRetryMs = 2_000;
/** If a provider asks for a longer delay than this, the run fails and says so. */
const maxRetryDelayMs = 10 * 60_000;

type ModelAnswered = Extract<RunEvent, { type: "model.answered" }>;
type ToolFinished = Extract<RunEvent, { type: "tool.finished" }>;
export type ModelFailed = Extract<RunEvent, { type: "model.failed" }>;

export function countUnread({ context }: { context: WorkerContext }): Partial<WorkerContext> {
  return { unreadMessages: context.unreadMessages + 1 };
}

export function isOwnClosed({ isPullRequestClosed, pullRequest }: WorkerContext, number: number): boolean {
  return isPullRequestClosed && pullRequest === number;
}

export function closePullRequest({ merged }: { merged: boolean }): Partial<WorkerContext> {
  return { outcome: { kind: "answered" }, isPullRequestClosed: !merged };
}

/** The end of a run that has nothing to do: it does not continue by itself when its pull request is reopened. */
export function endWithoutWork({ event }: { event: { merged: boolean } }): Partial<WorkerContext> {
  return { ...closePullRequest(event), unreadMessages: 0 };
}

export function addUsage(
  context: WorkerContext,
  { usage, cost = 0 }: Pick<ModelFailed, "usage" | "cost">,
): Pick<WorkerContext, "tokens" | "cost"> {
  const { inputTokens = 0, outputTokens = 0 } = usage ?? {};
  return { tokens: context.tokens + inputTokens + outputTokens, cost: context.cost + cost };
}

export function countRepair({ context }: { context: WorkerContext }): Partial<WorkerContext> {
  return { checkRepairs: context.checkRepairs + 1 };
}

/** The snapshot stays small, and an answer's own text can be part of the problem. */
const maxProblemCharacters = 500;

export function recordAnswer(context: WorkerContext, answer: ModelAnswered): Partial<WorkerContext> {
  const { calls, schemaProblem } = answer;
  return {
    schemaProblem: schemaProblem?.slice(0, maxProblemCharacters),
    mismatches: schemaProblem !== undefined ? context.mismatches + 1 : calls.length > 0 ? context.mismatches : 0,
    ...addUsage(context, answer),
    steps: context.steps + 1,
    consecutiveFailures: 0,
    requestedCalls: calls.length,
  };
}

export function isOpen(context: WorkerContext, callId: string, status: OpenCall["status"]): boolean {
  return context.openCalls.some((call) => call.callId === callId && call.status === status);
}

export function markRunning({ openCalls }: WorkerContext, callId: string): Partial<WorkerContext> {
  return {
    openCalls: openCalls.map((call) => (call.callId === callId ? { ...call, status: "running" as const } : call)),
  };
}

export function closeCall({ openCalls }: WorkerContext, callId: string): Partial<WorkerContext> {
  return { openCalls: openCalls.filter((call) => call.callId !== callId) };
}

export function finishTool(context: WorkerContext, event: ToolFinished): Partial<WorkerContext> {
  return { ...closeCall(context, event.callId), ...linkPullRequest(event) };
}

export function linkPullRequest({ tool, result }: ToolFinished): Partial<WorkerContext> {
  const pullRequest = openedPullRequest(tool, result);
  return pullRequest === undefined ? {} : { pullRequest };
}

export function toOpenCall(verdict: Verdict): OpenCall[] {
  if (verdict.kind === "refuse") return [];
  const { callId, tool, answeredBy } = verdict;
  return [{ callId, tool, answeredBy, status: verdict.kind === "ask" ? "awaitingApproval" : "running" }];
}

export function firstEffect(verdict: Verdict, step: number): EffectRequest[] {
  switch (verdict.kind) {
    case "allow":
      return [beginCall(verdict, { step, approvalId: verdict.approvalId })];
    case "ask":
      return [{ kind: "approval.post", approvalId: verdict.approvalId }];
    case "refuse":
      return [];
  }
}

function beginCall(
  { callId, answeredBy }: Pick<OpenCall, "callId" | "answeredBy">,
  { step, approvalId }: { step: number; approvalId: string | undefined },
): EffectRequest {
  switch (answeredBy) {
    case "tool":
      return { kind: "tool.execute", callId, approvalId };
    case "person":
      return { kind: "question.post", callId, step };
    case "worker":
      return { kind: "child.spawn", callId, approvalId };
  }
}

export function beginApproved(
  { openCalls, steps: step }: WorkerContext,
  { callId, approvalId }: { callId: string; approvalId: string },
): EffectRequest[] {
  const calls = openCalls.filter((call) => call.callId === callId);
  return [...calls.map((call) => beginCall(call, { step, approvalId })), updateRequest({ approvalId })];
}

export function closeQuestions({ openCalls, steps: step }: WorkerContext): EffectRequest[] {
  return openCalls.filter(isOpenQuestion).map(({ callId }) => ({ kind: "question.close", callId, step }));
}

export function updateRequest({ approvalId }: { approvalId: string }): EffectRequest {
  return { kind: "approval.post", approvalId };
}

/** True if the model is called again after this failure. `failures`: how many came right before it. */
export function canRetry(failures: number, { retryable, retryAfterMs = 0 }: ModelFailed): boolean {
  return retryable && failures + 1 < maxConsecutiveFailures && retryAfterMs <= maxRetryDelayMs;
}

/** Of the retries of a model call, these wait as briefly as the provider asks. */
const maxBriefRetries = 2;

/** Returns the delay before the next model call. `failures`: how many came right before this one. */
export function retryDelay(failures: number, { retryAfterMs }: Pick<ModelFailed, "retryAfterMs">): number {
  const backoffMs = firstRetryMs * 2 ** failures;
  if (retryAfterMs === undefined) return backoffMs;
  // A provider may ask for no delay at all, or until a time that has passed on this clock: the run would fail within a second.
  return failures < maxBriefRetries ? retryAfterMs : Math.max(retryAfterMs, backoffMs);
}

/** Never lowers the limit: two people may raise it at once, and the lower amount may arrive last. */
export function withCostLimit({ limits }: WorkerContext, cost: number): Partial<WorkerContext> {
  return { limits: { ...limits, cost: Math.max(limits.cost, cost) } };
}

export function reachedLimit({ steps, tokens, cost, limits }: WorkerContext): string | undefined {
  if (steps >= limits.steps) return `steps: ${limits.steps}`;
  if (tokens >= limits.tokens) return `tokens: ${limits.tokens}`;
  if (cost >= limits.cost) return `cost: $${limits.cost}`;
  return undefined;
}

/** True if the cost limit is reached and no other one: a run that would end anyway does not ask for money. */
export function isOnlyCostReached(context: WorkerContext): boolean {
  const withoutCost = { ...context, cost: 0 };
  return reachedLimit(context) !== undefined && reachedLimit(withoutCost) === undefined;
}

export function failedAnswer({ schemaProblem }: WorkerContext): SnapshotOutcome {
  return { kind: "failed", reason: `The worker's answer does not match its output schema: ${schemaProblem}` };
}

export function limitedBy(limit = "unknown"): SnapshotOutcome {
  return { kind: "limited", limit, reason: `The run reached its limit (${limit}) before it was done.` };
}
