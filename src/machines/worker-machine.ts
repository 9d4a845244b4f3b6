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
  failures: number;
  /** Sentences of people that the model has not seen yet. */
  heard: number;
  /** How many tool calls the last answer made. */
  asked: number;
  open: OpenCall[];
  end: RunEnd | undefined;
}

type WorkerInput = Pick<WorkerContext, "mode" | "limits">;

const maxFailures = 5;
const firstRetryMs = 2_000;
/** A provider may ask for patience; past this the run fails and says so. */
const longestRetryMs = 10 * 60_000;

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
    request: (_, _params: { effects: EffectRequest[] }) => {},
    abandon: () => {},
    withdraw: () => {},
    arm: (_, _params: { timer: "retry"; afterMs: number }) => {},
    disarm: (_, _params: { timer: "retry" }) => {},

    record: assign((_, patch: Partial<WorkerContext>) => patch),
  },
  guards: {
    hasCalls: ({ context }) => context.asked > 0,
    isHeard: ({ context }) => context.heard > 0,
    isChat: ({ context }) => context.mode === "chat",
    isSpent: ({ context }) => spentLimit(context) !== undefined,
    canRetry: ({ context }, failure: Failed) =>
      failure.retryable && context.failures + 1 < maxFailures && (failure.retryAfterMs ?? 0) <= longestRetryMs,
    // A machine that is over still hears its outermost transitions when driven by transition().
    isAlive: ({ context }) => context.end === undefined,
    isTimer: ({ context }, { due, timer }: { due: string; timer: string }) => due === timer && !context.end,
    isAsked: ({ context }, { callId }: { callId: string }) => isOpen(context, callId, "asked"),
    isRunning: ({ context }, { callId }: { callId: string }) => isOpen(context, callId, "running"),
    runsTools: ({ context }) => context.open.some((call) => call.status === "running" && call.as === "tool"),
    awaitsApproval: ({ context }) => context.open.some((call) => call.status === "asked"),
    awaitsPerson: ({ context }) => context.open.some((call) => call.as === "person"),
    awaitsWorker: ({ context }) => context.open.some((call) => call.as === "worker"),
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
    failures: 0,
    heard: 0,
    asked: 0,
    open: [],
    end: undefined,
  }),
  initial: "preparing",
  on: {
    "user.said": { guard: "isAlive", actions: { type: "record", params: hear } },
    // Known from here on, and nothing to act on: the model reads of it when it is called next.
    "tool.invoked": { guard: "isAlive", actions: { type: "record", params: {} } },
    "run.stop": { guard: "isAlive", target: ".interrupted" },
    "run.cancel": {
      guard: "isAlive",
      target: ".ended",
      actions: { type: "record", params: ({ event }) => ({ end: { kind: "cancelled", by: event.by } }) },
    },
    "timer.due": {
      guard: { type: "isTimer", params: ({ event }) => ({ due: event.timer, timer: "deadline" }) },
      target: ".ended",
      actions: {
        type: "record",
        params: ({ context }) => ({ end: limitReached(`minutes: ${context.limits.minutes}`) }),
      },
    },
  },
  states: {
    preparing: {
      tags: "busy",
      entry: { type: "request", params: { effects: [{ kind: "sandbox.open" }] } },
      on: {
        "sandbox.opened": "callingModel",
        "sandbox.failed": {
          target: "ended",
          actions: { type: "record", params: ({ event }) => ({ end: { kind: "failed", reason: event.reason } }) },
        },
      },
    },

    callingModel: {
      tags: "busy",
      entry: [
        { type: "record", params: { heard: 0 } },
        { type: "request", params: { effects: [{ kind: "model.call" }] } },
      ],
      on: {
        "model.answered": {
          target: "deciding",
          actions: { type: "record", params: ({ context, event }) => answered(context, event) },
        },
        "model.failed": [
          {
            guard: { type: "canRetry", params: ({ event }) => event },
            target: "retrying",
            actions: [
              {
                type: "arm",
                params: ({ context, event }) => ({ timer: "retry", afterMs: retryDelay(context, event) }),
              },
              { type: "record", params: ({ context }) => ({ failures: context.failures + 1 }) },
            ],
          },
          {
            target: "ended",
            actions: { type: "record", params: ({ event }) => ({ end: { kind: "failed", reason: event.reason } }) },
          },
        ],
      },
    },

    retrying: {
      tags: "busy",
      on: {
        "timer.due": {
          guard: { type: "isTimer", params: ({ event }) => ({ due: event.timer, timer: "retry" }) },
          target: "callingModel",
        },
      },
      exit: { type: "disarm", params: { timer: "retry" } },
    },

    deciding: {
      tags: "busy",
      always: [
        { guard: "hasCalls", target: "reviewing" },
        { guard: "isHeard", target: "pacing" },
        { guard: "isChat", target: "idle" },
        { target: "ended", actions: { type: "record", params: { end: { kind: "answered" } } } },
      ],
    },

    reviewing: {
      tags: "busy",
      entry: { type: "request", params: { effects: [{ kind: "calls.review" }] } },
      on: {
        "calls.reviewed": {
          target: "working",
          actions: [
            { type: "record", params: ({ event }) => ({ open: event.verdicts.flatMap(openCall) }) },
            { type: "request", params: ({ event }) => ({ effects: event.verdicts.flatMap(firstEffect) }) },
          ],
        },
      },
    },

    working: {
      initial: "sorting",
      on: {
        "approval.given": {
          guard: { type: "isAsked", params: ({ event }) => event },
          target: ".sorting",
          actions: [
            { type: "request", params: ({ context, event }) => ({ effects: approved(context, event) }) },
            { type: "record", params: ({ context, event }) => start(context, event.callId) },
          ],
        },
        "approval.denied": {
          guard: { type: "isAsked", params: ({ event }) => event },
          target: ".sorting",
          actions: [
            { type: "record", params: ({ context, event }) => close(context, event.callId) },
            { type: "request", params: ({ event }) => ({ effects: [showDecision(event)] }) },
          ],
        },
        "approval.expired": {
          guard: { type: "isAsked", params: ({ event }) => event },
          target: ".sorting",
          actions: [
            { type: "record", params: ({ context, event }) => close(context, event.callId) },
            { type: "request", params: ({ event }) => ({ effects: [showDecision(event)] }) },
          ],
        },
        "tool.finished": {
          guard: { type: "isRunning", params: ({ event }) => event },
          target: ".sorting",
          actions: { type: "record", params: ({ context, event }) => close(context, event.callId) },
        },
        "person.answered": {
          guard: { type: "isRunning", params: ({ event }) => event },
          target: ".sorting",
          actions: [
            { type: "record", params: ({ context, event }) => close(context, event.callId) },
            {
              type: "request",
              params: ({ event }) => ({ effects: [{ kind: "question.close", callId: event.callId }] }),
            },
          ],
        },
        "child.finished": {
          guard: { type: "isRunning", params: ({ event }) => event },
          target: ".sorting",
          actions: [
            { type: "record", params: ({ context, event }) => close(context, event.callId) },
            {
              type: "record",
              params: ({ context, event }) => ({
                tokens: context.tokens + event.usage.inputTokens + event.usage.outputTokens,
                cost: context.cost + (event.cost ?? 0),
              }),
            },
          ],
        },
      },
      states: {
        sorting: {
          always: [
            { guard: "runsTools", target: "executing" },
            { guard: "awaitsApproval", target: "awaitingApproval" },
            { guard: "awaitsPerson", target: "awaitingAnswer" },
            { guard: "awaitsWorker", target: "awaitingWorker" },
            { target: "#worker.pacing" },
          ],
        },
        executing: { tags: "busy" },
        awaitingApproval: {},
        awaitingAnswer: {},
        awaitingWorker: {},
      },
    },

    /** Between two calls of the model: the place where limits stop a run. */
    pacing: {
      tags: "busy",
      always: [
        {
          guard: "isSpent",
          target: "ended",
          actions: { type: "record", params: ({ context }) => ({ end: limitReached(spentLimit(context)) }) },
        },
        { target: "callingModel" },
      ],
    },

    idle: {
      on: { "user.said": { target: "pacing", actions: { type: "record", params: hear } } },
    },

    interrupted: {
      entry: [
        "abandon",
        "withdraw",
        { type: "request", params: ({ context }) => ({ effects: closeQuestions(context) }) },
        { type: "record", params: { open: [], asked: 0 } },
        { type: "request", params: { effects: [{ kind: "children.cancel" }, { kind: "approvals.close" }] } },
      ],
      on: {
        // Taken in, and nothing more: left in the mailbox, it would stop the run again when it goes on.
        "run.stop": { actions: { type: "record", params: {} } },
        "run.resume": "pacing",
      },
    },

    ended: {
      type: "final",
      entry: [
        "abandon",
        "withdraw",
        { type: "request", params: ({ context }) => ({ effects: closeQuestions(context) }) },
        { type: "record", params: { open: [], asked: 0 } },
        {
          type: "request",
          params: { effects: [{ kind: "children.cancel" }, { kind: "approvals.close" }, { kind: "outcome.report" }] },
        },
      ],
    },
  },
});

function hear({ context }: { context: WorkerContext }): Partial<WorkerContext> {
  return { heard: context.heard + 1 };
}

function answered(context: WorkerContext, { usage, cost, calls }: Answered): Partial<WorkerContext> {
  return {
    steps: context.steps + 1,
    tokens: context.tokens + usage.inputTokens + usage.outputTokens,
    cost: context.cost + (cost ?? 0),
    failures: 0,
    asked: calls.length,
  };
}

function isOpen(context: WorkerContext, callId: string, status: OpenCall["status"]): boolean {
  return context.open.some((call) => call.callId === callId && call.status === status);
}

function start({ open }: WorkerContext, callId: string): Partial<WorkerContext> {
  return { open: open.map((call) => (call.callId === callId ? { ...call, status: "running" as const } : call)) };
}

function close({ open }: WorkerContext, callId: string): Partial<WorkerContext> {
  return { open: open.filter((call) => call.callId !== callId) };
}

function openCall(verdict: Verdict): OpenCall[] {
  if (verdict.kind === "refuse") return [];
  const { callId, tool, as } = verdict;
  return [{ callId, tool, as, status: verdict.kind === "ask" ? "asked" : "running" }];
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

function beginCall({ callId, as }: Pick<OpenCall, "callId" | "as">, approvalId?: string): EffectRequest {
  switch (as) {
    case "tool":
      return { kind: "tool.execute", callId, approvalId };
    case "person":
      return { kind: "question.post", callId };
    case "worker":
      return { kind: "child.start", callId, approvalId };
  }
}

function approved({ open }: WorkerContext, event: { callId: string; approvalId: string }): EffectRequest[] {
  const calls = open.filter((call) => call.callId === event.callId);
  return [...calls.map((call) => beginCall(call, event.approvalId)), showDecision(event)];
}

function closeQuestions({ open }: WorkerContext): EffectRequest[] {
  const asked = open.filter(({ as, status }) => as === "person" && status === "running");
  return asked.map(({ callId }) => ({ kind: "question.close", callId }));
}

function showDecision({ approvalId }: { approvalId: string }): EffectRequest {
  return { kind: "approval.post", approvalId };
}

function retryDelay({ failures }: WorkerContext, failure: Failed): number {
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
