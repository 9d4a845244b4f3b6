import { assign, setup } from "xstate";
import type { RunEvent, Verdict } from "#domain/events.ts";
import type { OpenCall, RunOutcome } from "#domain/run.ts";
import type { Limits } from "#domain/worker.ts";
import type { EffectRequest } from "./effects.ts";

/** How a run ended; the text of an answer is in the log. */
export type RunEnd = Exclude<RunOutcome, { kind: "answered" }> | { kind: "answered" };

/** What the machine remembers between events: counters and names, never texts. Stays under 2 KB. */
export interface WorkerContext {
  mode: "single" | "chat";
  limits: Limits;
  steps: number;
  tokens: number;
  /** US dollars, of the calls whose price is known. */
  cost: number;
  /** Failures of the model in a row. */
  consecutiveFailures: number;
  /** Sentences of people that the model has not seen yet. */
  unreadMessages: number;
  /** How many tool calls the last answer made. */
  requestedCalls: number;
  openCalls: OpenCall[];
  end: RunEnd | undefined;
}

type WorkerInput = Pick<WorkerContext, "mode" | "limits">;

const maxConsecutiveFailures = 5;
const firstRetryMs = 2_000;
/** A provider may ask for patience; past this the run fails and says so. */
const maxRetryDelayMs = 10 * 60_000;

type Answered = Extract<RunEvent, { type: "model.answered" }>;
type Failed = Extract<RunEvent, { type: "model.failed" }>;

const machineSetup = setup({
  types: {
    context: {} as WorkerContext,
    events: {} as RunEvent,
    input: {} as WorkerInput,
  },
  actions: {
    // The runtime carries these five out; under createActor they do nothing.
    requestEffects: (_, _params: { effects: EffectRequest[] }) => {},
    cancelEffects: () => {},
    withdrawApprovals: () => {},
    setTimer: (_, _params: { timer: "retry"; afterMs: number }) => {},
    clearTimer: (_, _params: { timer: "retry" }) => {},

    update: assign((_, patch: Partial<WorkerContext>) => patch),
  },
  guards: {
    hasCalls: ({ context }) => context.requestedCalls > 0,
    hasUnreadMessages: ({ context }) => context.unreadMessages > 0,
    isChat: ({ context }) => context.mode === "chat",
    isLimitReached: ({ context }) => spentLimit(context) !== undefined,
    canRetry: ({ context }, failure: Failed) =>
      failure.retryable &&
      context.consecutiveFailures + 1 < maxConsecutiveFailures &&
      (failure.retryAfterMs ?? 0) <= maxRetryDelayMs,
    // A machine that is over still hears its outermost transitions when driven by transition().
    isNotEnded: ({ context }) => context.end === undefined,
    isDueTimer: ({ context }, { due, timer }: { due: string; timer: string }) => due === timer && !context.end,
    isAwaitingApproval: ({ context }, { callId }: { callId: string }) => isOpen(context, callId, "awaitingApproval"),
    isRunning: ({ context }, { callId }: { callId: string }) => isOpen(context, callId, "running"),
    isRunningTools: ({ context }) =>
      context.openCalls.some((call) => call.status === "running" && call.answeredBy === "tool"),
    isAwaitingAnyApproval: ({ context }) => context.openCalls.some((call) => call.status === "awaitingApproval"),
    isAwaitingPerson: ({ context }) => context.openCalls.some((call) => call.answeredBy === "person"),
    isAwaitingChild: ({ context }) => context.openCalls.some((call) => call.answeredBy === "worker"),
  },
});

/**
 * One worker at work. Pure: it names what it wants done and what it waits for; the runtime does it. Every run ends in
 * `ended` with an outcome. `busy` marks the states whose time counts against the worker's minutes.
 */
export const workerMachine = machineSetup.createMachine({
  id: "worker",
  context: ({ input }) => ({
    ...input,
    steps: 0,
    tokens: 0,
    cost: 0,
    consecutiveFailures: 0,
    unreadMessages: 0,
    requestedCalls: 0,
    openCalls: [],
    end: undefined,
  }),
  initial: "preparing",
  on: {
    "message.received": { guard: "isNotEnded", actions: { type: "update", params: countMessage } },
    // Known from here on, and nothing to act on: the model reads of it when it is called next.
    "tool.invoked": { guard: "isNotEnded", actions: { type: "update", params: {} } },
    "run.stop": { guard: "isNotEnded", target: ".interrupted" },
    "run.cancel": {
      guard: "isNotEnded",
      target: ".ended",
      actions: { type: "update", params: ({ event }) => ({ end: { kind: "cancelled", by: event.by } }) },
    },
    "timer.due": {
      guard: { type: "isDueTimer", params: ({ event }) => ({ due: event.timer, timer: "deadline" }) },
      target: ".ended",
      actions: {
        type: "update",
        params: ({ context }) => ({ end: limitReached(`minutes: ${context.limits.minutes}`) }),
      },
    },
  },
  states: {
    preparing: {
      tags: "busy",
      entry: { type: "requestEffects", params: { effects: [{ kind: "sandbox.open" }] } },
      on: {
        "sandbox.opened": "callingModel",
        "sandbox.failed": {
          target: "ended",
          actions: { type: "update", params: ({ event }) => ({ end: { kind: "failed", reason: event.reason } }) },
        },
      },
    },

    callingModel: {
      tags: "busy",
      entry: [
        { type: "update", params: { unreadMessages: 0 } },
        { type: "requestEffects", params: { effects: [{ kind: "model.call" }] } },
      ],
      on: {
        "model.answered": {
          target: "evaluatingAnswer",
          actions: { type: "update", params: ({ context, event }) => answered(context, event) },
        },
        "model.failed": [
          {
            guard: { type: "canRetry", params: ({ event }) => event },
            target: "retrying",
            actions: [
              {
                type: "setTimer",
                params: ({ context, event }) => ({ timer: "retry", afterMs: retryDelay(context, event) }),
              },
              { type: "update", params: ({ context }) => ({ consecutiveFailures: context.consecutiveFailures + 1 }) },
            ],
          },
          {
            target: "ended",
            actions: { type: "update", params: ({ event }) => ({ end: { kind: "failed", reason: event.reason } }) },
          },
        ],
      },
    },

    retrying: {
      tags: "busy",
      on: {
        "timer.due": {
          guard: { type: "isDueTimer", params: ({ event }) => ({ due: event.timer, timer: "retry" }) },
          target: "callingModel",
        },
      },
      exit: { type: "clearTimer", params: { timer: "retry" } },
    },

    evaluatingAnswer: {
      tags: "busy",
      always: [
        { guard: "hasCalls", target: "reviewing" },
        { guard: "hasUnreadMessages", target: "checkingLimits" },
        { guard: "isChat", target: "idle" },
        { target: "ended", actions: { type: "update", params: { end: { kind: "answered" } } } },
      ],
    },

    reviewing: {
      tags: "busy",
      entry: { type: "requestEffects", params: { effects: [{ kind: "calls.review" }] } },
      on: {
        "calls.reviewed": {
          target: "handlingCalls",
          actions: [
            { type: "update", params: ({ event }) => ({ openCalls: event.verdicts.flatMap(openCall) }) },
            { type: "requestEffects", params: ({ event }) => ({ effects: event.verdicts.flatMap(firstEffect) }) },
          ],
        },
      },
    },

    handlingCalls: {
      initial: "evaluatingCalls",
      on: {
        "approval.granted": {
          guard: { type: "isAwaitingApproval", params: ({ event }) => event },
          target: ".evaluatingCalls",
          actions: [
            { type: "requestEffects", params: ({ context, event }) => ({ effects: approved(context, event) }) },
            { type: "update", params: ({ context, event }) => start(context, event.callId) },
          ],
        },
        "approval.denied": {
          guard: { type: "isAwaitingApproval", params: ({ event }) => event },
          target: ".evaluatingCalls",
          actions: [
            { type: "update", params: ({ context, event }) => close(context, event.callId) },
            { type: "requestEffects", params: ({ event }) => ({ effects: [showDecision(event)] }) },
          ],
        },
        "approval.expired": {
          guard: { type: "isAwaitingApproval", params: ({ event }) => event },
          target: ".evaluatingCalls",
          actions: [
            { type: "update", params: ({ context, event }) => close(context, event.callId) },
            { type: "requestEffects", params: ({ event }) => ({ effects: [showDecision(event)] }) },
          ],
        },
        "tool.finished": {
          guard: { type: "isRunning", params: ({ event }) => event },
          target: ".evaluatingCalls",
          actions: { type: "update", params: ({ context, event }) => close(context, event.callId) },
        },
        "question.answered": {
          guard: { type: "isRunning", params: ({ event }) => event },
          target: ".evaluatingCalls",
          actions: [
            { type: "update", params: ({ context, event }) => close(context, event.callId) },
            {
              type: "requestEffects",
              params: ({ event }) => ({ effects: [{ kind: "question.close", callId: event.callId }] }),
            },
          ],
        },
        "child.finished": {
          guard: { type: "isRunning", params: ({ event }) => event },
          target: ".evaluatingCalls",
          actions: [
            { type: "update", params: ({ context, event }) => close(context, event.callId) },
            {
              type: "update",
              params: ({ context, event }) => ({
                tokens: context.tokens + event.usage.inputTokens + event.usage.outputTokens,
                cost: context.cost + (event.cost ?? 0),
              }),
            },
          ],
        },
      },
      states: {
        evaluatingCalls: {
          always: [
            { guard: "isRunningTools", target: "executing" },
            { guard: "isAwaitingAnyApproval", target: "awaitingApproval" },
            { guard: "isAwaitingPerson", target: "awaitingAnswer" },
            { guard: "isAwaitingChild", target: "awaitingChild" },
            { target: "#worker.checkingLimits" },
          ],
        },
        executing: { tags: "busy" },
        awaitingApproval: {},
        awaitingAnswer: {},
        awaitingChild: {},
      },
    },

    /** Between two calls of the model: the place where limits stop a run. */
    checkingLimits: {
      tags: "busy",
      always: [
        {
          guard: "isLimitReached",
          target: "ended",
          actions: { type: "update", params: ({ context }) => ({ end: limitReached(spentLimit(context)) }) },
        },
        { target: "callingModel" },
      ],
    },

    idle: {
      on: { "message.received": { target: "checkingLimits", actions: { type: "update", params: countMessage } } },
    },

    interrupted: {
      entry: [
        "cancelEffects",
        "withdrawApprovals",
        { type: "requestEffects", params: ({ context }) => ({ effects: closeQuestions(context) }) },
        { type: "update", params: { openCalls: [], requestedCalls: 0 } },
        { type: "requestEffects", params: { effects: [{ kind: "children.stop" }, { kind: "approvals.close" }] } },
      ],
      on: {
        // Taken in, and nothing more: left in the mailbox, it would stop the run again when it goes on.
        "run.stop": { actions: { type: "update", params: {} } },
        "run.resume": "checkingLimits",
      },
    },

    ended: {
      type: "final",
      entry: [
        "cancelEffects",
        "withdrawApprovals",
        { type: "requestEffects", params: ({ context }) => ({ effects: closeQuestions(context) }) },
        { type: "update", params: { openCalls: [], requestedCalls: 0 } },
        {
          type: "requestEffects",
          params: { effects: [{ kind: "children.stop" }, { kind: "approvals.close" }, { kind: "outcome.report" }] },
        },
      ],
    },
  },
});

function countMessage({ context }: { context: WorkerContext }): Partial<WorkerContext> {
  return { unreadMessages: context.unreadMessages + 1 };
}

function answered(context: WorkerContext, { usage, cost, calls }: Answered): Partial<WorkerContext> {
  return {
    steps: context.steps + 1,
    tokens: context.tokens + usage.inputTokens + usage.outputTokens,
    cost: context.cost + (cost ?? 0),
    consecutiveFailures: 0,
    requestedCalls: calls.length,
  };
}

function isOpen(context: WorkerContext, callId: string, status: OpenCall["status"]): boolean {
  return context.openCalls.some((call) => call.callId === callId && call.status === status);
}

function start({ openCalls: open }: WorkerContext, callId: string): Partial<WorkerContext> {
  return { openCalls: open.map((call) => (call.callId === callId ? { ...call, status: "running" as const } : call)) };
}

function close({ openCalls: open }: WorkerContext, callId: string): Partial<WorkerContext> {
  return { openCalls: open.filter((call) => call.callId !== callId) };
}

function openCall(verdict: Verdict): OpenCall[] {
  if (verdict.kind === "refuse") return [];
  const { callId, tool, answeredBy } = verdict;
  return [{ callId, tool, answeredBy, status: verdict.kind === "ask" ? "awaitingApproval" : "running" }];
}

function firstEffect(verdict: Verdict): EffectRequest[] {
  switch (verdict.kind) {
    case "allow":
      return [beginCall(verdict)];
    case "ask":
      return [{ kind: "approval.post", approvalId: verdict.approvalId }];
    case "refuse":
      return [];
  }
}

function beginCall(
  { callId, answeredBy }: Pick<OpenCall, "callId" | "answeredBy">,
  approvalId?: string,
): EffectRequest {
  switch (answeredBy) {
    case "tool":
      return { kind: "tool.execute", callId, approvalId };
    case "person":
      return { kind: "question.post", callId };
    case "worker":
      return { kind: "child.spawn", callId, approvalId };
  }
}

function approved({ openCalls: open }: WorkerContext, event: { callId: string; approvalId: string }): EffectRequest[] {
  const calls = open.filter((call) => call.callId === event.callId);
  return [...calls.map((call) => beginCall(call, event.approvalId)), showDecision(event)];
}

function closeQuestions({ openCalls: open }: WorkerContext): EffectRequest[] {
  const asked = open.filter(({ answeredBy, status }) => answeredBy === "person" && status === "running");
  return asked.map(({ callId }) => ({ kind: "question.close", callId }));
}

function showDecision({ approvalId }: { approvalId: string }): EffectRequest {
  return { kind: "approval.post", approvalId };
}

function retryDelay({ consecutiveFailures: failures }: WorkerContext, failure: Failed): number {
  return failure.retryAfterMs ?? firstRetryMs * 2 ** failures;
}

function spentLimit({ steps, tokens, cost, limits }: WorkerContext): string | undefined {
  if (steps >= limits.steps) return `steps: ${limits.steps}`;
  if (tokens >= limits.tokens) return `tokens: ${limits.tokens}`;
  if (cost >= limits.cost) return `cost: $${limits.cost}`;
  return undefined;
}

function limitReached(limit = "unknown"): RunEnd {
  return { kind: "limited", limit, reason: `It reached its limit (${limit}) before it was done.` };
}
