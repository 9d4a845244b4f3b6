import { assign, setup } from "xstate";
import type { RunEvent } from "#domain/events.ts";
import type { EffectRequest } from "./effects.ts";
import {
  addUsage,
  beginApproved,
  canRetry,
  closeCall,
  closePullRequest,
  closeQuestions,
  countRepair,
  countUnread,
  endWithoutWork,
  failedAnswer,
  finishTool,
  firstEffect,
  isOnlyCostReached,
  isOpen,
  isOwnClosed,
  limitedBy,
  linkPullRequest,
  type ModelFailed,
  markRunning,
  maxMismatches,
  reachedLimit,
  recordAnswer,
  retryDelay,
  toOpenCall,
  updateRequest,
  type WorkerContext,
  withCostLimit,
} from "./worker-context.ts";

type WorkerInput = Pick<WorkerContext, "mode" | "limits"> & { isRoot?: boolean; pausesAtCostLimit?: boolean };

const machineSetup = setup({
  types: {
    context: {} as WorkerContext,
    events: {} as RunEvent,
    input: {} as WorkerInput,
  },
  actions: {
    // The runtime performs them, from the result of transition(). Under createActor they do nothing.
    requestEffects: (_, _params: { effects: EffectRequest[] }) => {},
    cancelEffects: () => {},
    withdrawApprovals: () => {},
    setTimer: (_, _params: { timer: "retry"; afterMs: number }) => {},
    clearTimer: (_, _params: { timer: "retry" }) => {},

    update: assign((_, patch: Partial<WorkerContext>) => patch),
  },
  guards: {
    hasBase: ({ context }) => context.hasBase,
    hasCalls: ({ context }) => context.requestedCalls > 0,
    mayAnswerAgain: ({ context }) => context.schemaProblem !== undefined && context.mismatches < maxMismatches,
    isMismatch: ({ context }) => context.schemaProblem !== undefined,
    hasUnreadMessages: ({ context }) => context.unreadMessages > 0,
    // A chat waits for the next message; a run with an open pull request waits for its review.
    staysIdle: ({ context }) => context.mode === "chat" || (context.isRoot && context.pullRequest !== undefined),
    requestsChanges: (_, { requestsChanges }: { requestsChanges: boolean }) => requestsChanges,
    canRepairChecks: ({ context }, { passed, failedOnBase }: { passed: boolean; failedOnBase: boolean }) =>
      !context.outcome && !passed && !failedOnBase && context.checkRepairs < context.limits.ci_repairs,
    isLimitReached: ({ context }) => reachedLimit(context) !== undefined,
    mayAskForBudget: ({ context }) => context.pausesAtCostLimit && isOnlyCostReached(context),
    canRetry: ({ context }, failure: ModelFailed) => canRetry(context.consecutiveFailures, failure),
    // transition() still takes the root transitions of a machine that has ended.
    isNotEnded: ({ context }) => context.outcome === undefined,
    isPullRequestClosed: ({ context }) => context.isPullRequestClosed,
    requestsChangesWhileClosed: ({ context }, { requestsChanges }: { requestsChanges: boolean }) =>
      context.isPullRequestClosed && requestsChanges,
    isOwnClosedPullRequest: ({ context }, { number }: { number: number }) => isOwnClosed(context, number),
    staysPaused: ({ context }, { number }: { number: number }) => isOwnClosed(context, number) && context.wasPaused,
    hasWorkInClosedPullRequest: ({ context }, { number }: { number: number }) =>
      isOwnClosed(context, number) && context.unreadMessages > 0 && reachedLimit(context) === undefined,
    isDueTimer: ({ context }, { due, timer }: { due: string; timer: string }) => due === timer && !context.outcome,
    isAwaitingApproval: ({ context }, { callId }: { callId: string }) => isOpen(context, callId, "awaitingApproval"),
    isRunning: ({ context }, { callId }: { callId: string }) => isOpen(context, callId, "running"),
    isAsking: ({ context }, { callId, step = context.steps }: { callId: string; step?: number }) =>
      step === context.steps && isOpen(context, callId, "running"),
    isRunningTools: ({ context }) =>
      context.openCalls.some((call) => call.status === "running" && call.answeredBy === "tool"),
    isAwaitingAnyApproval: ({ context }) => context.openCalls.some((call) => call.status === "awaitingApproval"),
    isAwaitingPerson: ({ context }) => context.openCalls.some((call) => call.answeredBy === "person"),
    isAwaitingChild: ({ context }) => context.openCalls.some((call) => call.answeredBy === "worker"),
  },
});

/** The transition of an event that changes nothing, but must not stay in the inbox. */
const consumed = { guard: "isNotEnded", actions: { type: "update", params: {} } } as const;

/** The transition of an event after which a run that has ended with its pull request does not continue when that is reopened. */
const staysEnded = {
  guard: "isPullRequestClosed",
  actions: { type: "update", params: { isPullRequestClosed: false, wasPaused: false } },
} as const;

/**
 * The life of one run. Pure: it requests effects and timers, and the runtime performs them. Every run reaches `ended`,
 * with an outcome. The tag `busy` marks the states whose time counts towards the worker's limit of minutes.
 */
export const workerMachine = machineSetup.createMachine({
  id: "worker",
  context: ({ input }) => ({
    isRoot: true,
    pausesAtCostLimit: false,
    isPullRequestClosed: false,
    wasPaused: false,
    ...input,
    hasBase: false,
    steps: 0,
    tokens: 0,
    cost: 0,
    consecutiveFailures: 0,
    unreadMessages: 0,
    requestedCalls: 0,
    openCalls: [],
    schemaProblem: undefined,
    mismatches: 0,
    checkRepairs: 0,
    outcome: undefined,
  }),
  initial: "preparing",
  on: {
    "message.received": [
      { guard: "isNotEnded", actions: { type: "update", params: countUnread } },
      // It may arrive before the event that reopens the pull request.
      { guard: "isPullRequestClosed", actions: { type: "update", params: countUnread } },
    ],
    // Consumed without a transition: the model reads it in the transcript of its next call.
    "tool.invoked": consumed,
    "pull_request.reviewed": [
      { guard: "isNotEnded", actions: { type: "update", params: countUnread } },
      {
        guard: { type: "requestsChangesWhileClosed", params: ({ event }) => event },
        actions: { type: "update", params: countUnread },
      },
    ],
    "guidance.read": consumed,
    "conversation.compacted": {
      guard: "isNotEnded",
      actions: { type: "update", params: ({ context, event }) => addUsage(context, event) },
    },
    // Consumed if nothing waits for them, such as after a stop: left in the inbox, they would answer later calls with the same ids,
    // which a provider may repeat.
    "calls.reviewed": consumed,
    "approval.granted": consumed,
    "approval.denied": consumed,
    "approval.expired": consumed,
    "question.answered": consumed,
    "tool.finished": {
      guard: "isNotEnded",
      actions: { type: "update", params: ({ event }) => linkPullRequest(event) },
    },
    // Nothing waits for a worker that was cancelled when this run was paused or had ended, but it has cost something.
    "child.finished": {
      actions: { type: "update", params: ({ context, event }) => addUsage(context, event) },
    },
    "checks.completed": [
      {
        guard: { type: "canRepairChecks", params: ({ event }) => event },
        // A run that is busy reads the result before it becomes idle.
        actions: {
          type: "update",
          params: ({ context }) => ({ ...countUnread({ context }), ...countRepair({ context }) }),
        },
      },
      consumed,
    ],
    "pull_request.closed": {
      guard: "isNotEnded",
      target: ".ended",
      actions: {
        type: "update",
        // The work that is cut off continues when the pull request is reopened.
        params: ({ context, event }) => ({ ...countUnread({ context }), ...closePullRequest(event) }),
      },
    },
    "pull_request.reopened": [
      {
        guard: { type: "staysPaused", params: ({ event }) => event },
        target: ".interrupted",
        actions: { type: "update", params: { outcome: undefined, isPullRequestClosed: false, wasPaused: false } },
      },
      {
        guard: { type: "hasWorkInClosedPullRequest", params: ({ event }) => event },
        // transition() takes no eventless transitions of a machine that has ended, so limits are checked by the guard.
        target: ".callingModel",
        actions: { type: "update", params: { outcome: undefined, isPullRequestClosed: false } },
      },
      {
        guard: { type: "isOwnClosedPullRequest", params: ({ event }) => event },
        target: ".idle",
        actions: { type: "update", params: { outcome: undefined, isPullRequestClosed: false } },
      },
      consumed,
    ],
    "model.changed": consumed,
    "conversation.cleared": consumed,
    "cost_limit.raised": {
      guard: "isNotEnded",
      actions: {
        type: "update",
        params: ({ context, event }) => withCostLimit(context, event.limit),
      },
    },
    // Consumed in a state that has nothing to resume or retry: left in the inbox, they would take effect much later.
    "run.resume": consumed,
    "retry.requested": consumed,
    "run.stop": [
      { guard: "isNotEnded", target: ".interrupted" },
      // The run would continue when its pull request is reopened.
      { guard: "isPullRequestClosed", actions: { type: "update", params: { wasPaused: true } } },
    ],
    "run.cancel": [
      {
        guard: "isNotEnded",
        target: ".ended",
        actions: {
          type: "update",
          params: ({ event: { by, reason } }) => ({ outcome: { kind: "cancelled", by, reason } }),
        },
      },
      staysEnded,
    ],
    "run.exit": [
      { guard: "isNotEnded", target: ".ended", actions: { type: "update", params: { outcome: { kind: "answered" } } } },
      staysEnded,
    ],
    "timer.due": {
      guard: { type: "isDueTimer", params: ({ event }) => ({ due: event.timer, timer: "deadline" }) },
      target: ".ended",
      actions: {
        type: "update",
        params: ({ context }) => ({ outcome: limitedBy(`minutes: ${context.limits.minutes}`) }),
      },
    },
  },
  states: {
    preparing: {
      tags: "busy",
      entry: { type: "requestEffects", params: { effects: [{ kind: "sandbox.open" }] } },
      on: {
        "sandbox.opened": { target: "callingModel", actions: { type: "update", params: { hasBase: true } } },
        "sandbox.failed": {
          target: "ended",
          actions: { type: "update", params: ({ event }) => ({ outcome: { kind: "failed", reason: event.reason } }) },
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
          actions: { type: "update", params: ({ context, event }) => recordAnswer(context, event) },
        },
        "model.failed": [
          {
            guard: { type: "canRetry", params: ({ event }) => event },
            target: "retrying",
            actions: [
              {
                type: "setTimer",
                params: ({ context, event }) => ({
                  timer: "retry",
                  afterMs: retryDelay(context.consecutiveFailures, event),
                }),
              },
              {
                type: "update",
                params: ({ context, event }) => ({
                  ...addUsage(context, event),
                  consecutiveFailures: context.consecutiveFailures + 1,
                }),
              },
            ],
          },
          {
            target: "ended",
            actions: {
              type: "update",
              params: ({ context, event }) => ({
                ...addUsage(context, event),
                outcome: { kind: "failed", reason: event.reason },
              }),
            },
          },
        ],
      },
    },

    retrying: {
      tags: "busy",
      on: {
        "timer.due": {
          guard: { type: "isDueTimer", params: ({ event }) => ({ due: event.timer, timer: "retry" }) },
          // An answer that could not be used has cost something.
          target: "checkingLimits",
        },
        "retry.requested": "checkingLimits",
      },
      exit: { type: "clearTimer", params: { timer: "retry" } },
    },

    evaluatingAnswer: {
      tags: "busy",
      always: [
        { guard: "hasCalls", target: "reviewing" },
        { guard: "hasUnreadMessages", target: "checkingLimits" },
        { guard: "mayAnswerAgain", target: "checkingLimits" },
        {
          guard: "isMismatch",
          target: "ended",
          actions: { type: "update", params: ({ context }) => ({ outcome: failedAnswer(context) }) },
        },
        {
          guard: "staysIdle",
          target: "idle",
          actions: {
            type: "requestEffects",
            params: ({ context }) => ({ effects: [{ kind: "answer.post", step: context.steps }] }),
          },
        },
        { target: "ended", actions: { type: "update", params: { outcome: { kind: "answered" } } } },
      ],
    },

    reviewing: {
      tags: "busy",
      entry: { type: "requestEffects", params: { effects: [{ kind: "calls.review" }] } },
      on: {
        "calls.reviewed": {
          target: "handlingCalls",
          actions: [
            { type: "update", params: ({ event }) => ({ openCalls: event.verdicts.flatMap(toOpenCall) }) },
            {
              type: "requestEffects",
              params: ({ context: { steps }, event }) => ({
                effects: event.verdicts.flatMap((verdict) => firstEffect(verdict, steps)),
              }),
            },
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
            { type: "requestEffects", params: ({ context, event }) => ({ effects: beginApproved(context, event) }) },
            { type: "update", params: ({ context, event }) => markRunning(context, event.callId) },
          ],
        },
        "approval.denied": {
          guard: { type: "isAwaitingApproval", params: ({ event }) => event },
          target: ".evaluatingCalls",
          actions: [
            { type: "update", params: ({ context, event }) => closeCall(context, event.callId) },
            { type: "requestEffects", params: ({ event }) => ({ effects: [updateRequest(event)] }) },
          ],
        },
        "approval.expired": {
          guard: { type: "isAwaitingApproval", params: ({ event }) => event },
          target: ".evaluatingCalls",
          actions: [
            { type: "update", params: ({ context, event }) => closeCall(context, event.callId) },
            { type: "requestEffects", params: ({ event }) => ({ effects: [updateRequest(event)] }) },
          ],
        },
        "tool.finished": {
          guard: { type: "isRunning", params: ({ event }) => event },
          target: ".evaluatingCalls",
          actions: { type: "update", params: ({ context, event }) => finishTool(context, event) },
        },
        "question.answered": {
          guard: { type: "isAsking", params: ({ event }) => event },
          target: ".evaluatingCalls",
          actions: [
            { type: "update", params: ({ context, event }) => closeCall(context, event.callId) },
            {
              type: "requestEffects",
              params: ({ context: { steps: step }, event: { callId } }) => ({
                effects: [{ kind: "question.close", callId, step }],
              }),
            },
          ],
        },
        "child.finished": {
          guard: { type: "isRunning", params: ({ event }) => event },
          target: ".evaluatingCalls",
          actions: [
            { type: "update", params: ({ context, event }) => closeCall(context, event.callId) },
            { type: "update", params: ({ context, event }) => addUsage(context, event) },
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

    /** Before each further model call: ends the run if it has reached one of its limits. */
    checkingLimits: {
      tags: "busy",
      always: [
        { guard: "mayAskForBudget", target: "awaitingBudget" },
        {
          guard: "isLimitReached",
          target: "ended",
          actions: { type: "update", params: ({ context }) => ({ outcome: limitedBy(reachedLimit(context)) }) },
        },
        { target: "callingModel" },
      ],
    },

    /** The cost limit is used up. A person can raise it, and the run continues where it was. */
    awaitingBudget: {
      entry: { type: "requestEffects", params: { effects: [{ kind: "budget.post" }] } },
      on: {
        "cost_limit.raised": {
          target: "checkingLimits",
          actions: {
            type: "update",
            params: ({ context, event }) => withCostLimit(context, event.limit),
          },
        },
      },
    },

    idle: {
      on: {
        "message.received": "checkingLimits",
        "pull_request.reviewed": [
          { guard: { type: "requestsChanges", params: ({ event }) => event }, target: "checkingLimits" },
          // Consumed without a transition: the model reads it when it works next.
          { actions: { type: "update", params: {} } },
        ],
        "pull_request.closed": { target: "ended", actions: { type: "update", params: endWithoutWork } },
        "checks.completed": {
          guard: { type: "canRepairChecks", params: ({ event }) => event },
          target: "checkingLimits",
          actions: { type: "update", params: countRepair },
        },
      },
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
        // Consumed without a transition: left in the inbox, it would stop the run again after a resume.
        "run.stop": { actions: { type: "update", params: {} } },
        "pull_request.closed": {
          target: "ended",
          actions: {
            type: "update",
            params: ({ event }) => ({ ...endWithoutWork({ event }), wasPaused: !event.merged }),
          },
        },
        // The sandbox was opened just before the stop.
        "sandbox.opened": { actions: { type: "update", params: { hasBase: true } } },
        // A resume tries to open it again.
        "sandbox.failed": { actions: { type: "update", params: {} } },
        "run.resume": [{ guard: "hasBase", target: "checkingLimits" }, { target: "preparing" }],
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
