import { type AnyActorScope, createActor, type ExecutableActionObject, initialTransition } from "xstate";
import type { LoggedEvent, RunEvent } from "#domain/events.ts";
import type { RunSpec, RunState } from "#domain/run.ts";
import { hourMs } from "#domain/work-context.ts";
import { Limits } from "#domain/worker.ts";
import { type EffectRequest, interruptibleEffects } from "#machines/effects.ts";
import { workerMachine } from "#machines/worker-machine.ts";
import { snapshotVersion, type WorkerSnapshot } from "#machines/worker-snapshot.ts";
import type { RuntimeEffect } from "./runtime-effect.ts";
import type { Advance, EffectQueue, NewEffect, NewRun, RunRow, RunStatus } from "./store/store.ts";

export interface AppliedEvents {
  run: RunRow;
  /** The events that were applied. */
  events: LoggedEvent[];
  advance: Advance;
  /** The run was stopped or has ended: interruptible effects in progress have to be aborted. */
  interrupted: boolean;
  /** A child handed over its changes, so an open sandbox is out of date. */
  sandboxChanged: boolean;
}

/** A deadline that is due earlier than this comes from a clock that was set forward, and is set again. */
const deadlineToleranceMs = 1_000;

/** The events that answer an effect: one that is requested and answered by events of the same inbox is not performed. */
const answeringEvents: { [Kind in RuntimeEffect["kind"]]?: readonly RunEvent["type"][] } = {
  "model.call": ["model.answered", "model.failed"],
  "calls.review": ["calls.reviewed"],
};

type State = ReturnType<typeof workerMachine.resolveState>;
type Actions = readonly Pick<ExecutableActionObject, "type" | "params">[];
type Clock = Pick<WorkerSnapshot, "workedMs" | "busySince">;

/** Creates a run in its initial state, with its first effects. */
export function initialRun(spec: RunSpec, { pausesAtCostLimit = false } = {}): NewRun {
  const { mode, limits } = spec.worker;
  const input = { mode, limits, isRoot: spec.parentId === undefined, pausesAtCostLimit };
  const [state, actions] = initialTransition(workerMachine, input);
  const snapshot = toSnapshot(state, { workedMs: 0, busySince: spec.createdAt });
  const effects = requestsOf(actions).map((request, index) => toEffect(spec, request, `0/${index}`));
  return { spec, snapshot, effects: [...effects, statusEffect(spec.rootId)] };
}

/**
 * Applies the events of the inbox to the machine, in order. An event that the machine cannot handle in its current
 * state stays in the inbox, and is retried after each applied event. Returns undefined if the inbox is empty.
 * `elapsedMs` is the time that this process has worked on the run since the events before, measured without the system
 * clock, which may have been set.
 */
export function applyEvents(
  row: RunRow,
  inbox: readonly LoggedEvent[],
  { now, elapsedMs }: { now: number; elapsedMs: number },
): AppliedEvents | undefined {
  if (inbox.length === 0) return undefined;

  const { spec, snapshot } = row;
  const workedMs = snapshot.workedMs + (snapshot.busySince === undefined ? 0 : elapsedMs);
  const isEarly = spec.worker.limits.minutes * 60_000 - workedMs > deadlineToleranceMs;
  const early = inbox.filter(({ event }) => isEarly && event.type === "timer.due" && event.timer === "deadline");
  let state = resolve(snapshot);
  let remaining = inbox.filter((event) => !early.includes(event));
  let effects: NewEffect[] = [];
  let interrupted = false;
  const consumed = early.map(({ id }) => id);
  const changes: Pick<Advance, "timers" | "withdrawApprovals"> = {};

  for (let next = nextTransition(state, remaining); next; next = nextTransition(state, remaining)) {
    const { id, event, after, actions } = next;
    effects = effects.filter(({ request: { kind } }) => !answeringEvents[kind]?.includes(event.type));
    if (actions.some(({ type }) => type === "cancelEffects")) {
      interrupted = true;
      effects = effects.filter(({ request }) => !isInterruptible(request.kind));
    }
    effects.push(...requestsOf(actions).map((request, index) => toEffect(spec, request, `${id}/${index}`)));
    if (actions.some(({ type }) => type === "withdrawApprovals")) changes.withdrawApprovals = true;
    setRetryTimer(changes, actions, now);
    consumed.push(id);
    remaining = remaining.filter((event) => event.id !== id);
    // Resolved again, because a run that has ended continues when its pull request is reopened.
    state = after.status === "done" ? resolve(after) : after;
  }

  const events = inbox.filter(({ id }) => consumed.includes(id));
  const clock = { workedMs, busySince: state.hasTag("busy") ? now : undefined };
  const hasDeadline = row.version > 0 && snapshot.busySince !== undefined && early.length === 0;
  if (!state.hasTag("busy")) clearDeadline(changes);
  else if (!hasDeadline) setDeadline(changes, { spec, clock, now });
  return {
    run: row,
    events,
    interrupted,
    sandboxChanged: events.some(({ event }) => event.type === "child.finished"),
    advance: {
      runId: row.id,
      version: row.version,
      consumed,
      seen: Math.max(...inbox.map(({ id }) => id)),
      snapshot: toSnapshot(state, clock),
      status: statusOf(state),
      effects: consumed.length > 0 ? [...effects, statusEffect(spec.rootId)] : [],
      ...(interrupted ? { cancelEffects: { kinds: [...interruptibleEffects] } } : {}),
      ...usageOf(spec, events, now),
      ...changes,
    },
  };
}

/** True if a run works, or will when it has applied its inbox: not if it is being stopped, or only has something to post. */
export function hasWork(row: RunRow, inbox: readonly LoggedEvent[]): boolean {
  const applied = applyEvents(row, inbox, { now: Date.now(), elapsedMs: 0 });
  return (applied?.advance.status ?? row.status) === "active";
}

/** Adds up the model calls among these events. */
function usageOf({ rootId, worker, origin }: RunSpec, events: LoggedEvent[], now: number): Pick<Advance, "usage"> {
  const calls = events.flatMap(({ event }) => {
    const isCall =
      event.type === "model.answered" || event.type === "model.failed" || event.type === "conversation.compacted";
    return isCall && event.usage ? [{ usage: event.usage, cost: event.cost }] : [];
  });
  if (calls.length === 0) return {};
  const sum = (of: (call: (typeof calls)[number]) => number | undefined) =>
    calls.reduce((total, call) => total + (of(call) ?? 0), 0);
  const { repositoryId, installationId, owner, repo } = origin;
  return {
    usage: {
      rootId,
      worker: worker.name,
      origin: { repositoryId, installationId, owner, repo },
      hour: Math.floor(now / hourMs),
      modelCalls: calls.length,
      inputTokens: sum(({ usage }) => usage.inputTokens),
      outputTokens: sum(({ usage }) => usage.outputTokens),
      cachedInputTokens: sum(({ usage }) => usage.cachedInputTokens),
      cost: sum(({ cost }) => cost),
    },
  };
}

export function isInterruptible(kind: string): boolean {
  return interruptibleEffects.some((interruptible) => interruptible === kind);
}

export function stateName({ value }: Pick<WorkerSnapshot, "value">): RunState {
  return typeof value === "string" ? value : value.handlingCalls;
}

/** Returns the effects that show a live run again after a period in which nothing could be posted. */
export function redisplayEffects(spec: RunSpec): NewEffect[] {
  return [toEffect(spec, { kind: "approvals.close" }, "redisplay"), statusEffect(spec.rootId)];
}

/** Returns the status update of a root run. It has one key, since one update shows everything that happened before it. */
export function statusEffect(rootId: string): NewEffect {
  return { key: `${rootId}/status`, runId: rootId, queue: "status", request: { kind: "status.show" } };
}

function resolve({ value, context }: Pick<WorkerSnapshot, "value" | "context">): State {
  return workerMachine.resolveState({ value, context });
}

/**
 * Returns the next state with its actions. XState's `transition` does the same, but creates an actor in its initial state for
 * every call, which is half of the time. This machine spawns no actors, so that one that is never started serves all calls.
 */
function transitionOf(state: State, event: RunEvent): [State, Actions] {
  const actions: ExecutableActionObject[] = [];
  const scope = { ...inertScope, actionExecutor: (action: ExecutableActionObject) => void actions.push(action) };
  return [workerMachine.transition(state, event, scope as AnyActorScope), actions];
}

const inertActor = createActor(workerMachine, {
  input: { mode: "single", limits: Limits.parse({}), isRoot: true, pausesAtCostLimit: false },
});
const nothing = () => undefined;
const inertScope = {
  self: inertActor,
  system: inertActor.system,
  id: "",
  sessionId: "",
  logger: nothing,
  defer: nothing,
  stopChild: nothing,
  emit: nothing,
};

/** Applies the first event that the machine can handle in this state. One that it cannot handle leaves the state as it is. */
function nextTransition(state: State, events: LoggedEvent[]) {
  for (const { id, event } of events) {
    const [after, actions] = transitionOf(state, event);
    // Events of a run that has ended are consumed without effect.
    if (after !== state || actions.length > 0 || state.status === "done") return { id, event, after, actions };
  }
  return undefined;
}

// XState does not type the parameters of a transition's actions.
function requestsOf(actions: Actions): EffectRequest[] {
  return actions.flatMap(({ type, params }) =>
    type === "requestEffects" ? (params as { effects: EffectRequest[] }).effects : [],
  );
}

function toEffect(spec: RunSpec, request: EffectRequest, suffix: string): NewEffect {
  return { key: `${spec.id}/${suffix}`, runId: spec.id, queue: queueOf(request.kind, spec), request };
}

function queueOf(kind: EffectRequest["kind"], spec: RunSpec): EffectQueue {
  switch (kind) {
    case "approval.post":
    case "approvals.close":
    case "question.post":
    case "question.close":
    case "answer.post":
    case "budget.post":
      return "thread";
    case "outcome.report":
      return spec.parentId ? "work" : "thread";
    case "sandbox.open":
    case "model.call":
    case "calls.review":
    case "tool.execute":
    case "child.spawn":
    case "children.stop":
      return "work";
  }
}

function toSnapshot(state: State, clock: Clock): WorkerSnapshot {
  return { version: snapshotVersion, value: state.value, context: state.context, ...clock };
}

function statusOf(state: State): RunStatus {
  if (state.status === "done") return "done";
  return state.hasTag("busy") ? "active" : "waiting";
}

function setRetryTimer(changes: Pick<Advance, "timers">, actions: Actions, now: number): void {
  for (const action of actions) {
    if (action.type === "clearTimer") changes.timers = { clear: ["retry"] };
    if (action.type === "setTimer") {
      const { afterMs } = action.params as { afterMs: number };
      changes.timers = { set: [{ timer: "retry", dueAt: now + afterMs }] };
    }
  }
}

function clearDeadline(changes: Pick<Advance, "timers">): void {
  const { set = [], clear = [] } = changes.timers ?? {};
  changes.timers = { set, clear: [...clear, "deadline"] };
}

/** Only minutes in busy states count, so the deadline is set when one is entered, and cleared when the run waits. */
function setDeadline(
  changes: Pick<Advance, "timers">,
  { spec, clock, now }: { spec: RunSpec; clock: Clock; now: number },
): void {
  const { set = [], clear = [] } = changes.timers ?? {};
  const dueAt = now + Math.max(0, spec.worker.limits.minutes * 60_000 - clock.workedMs);
  changes.timers = { set: [...set, { timer: "deadline", dueAt }], clear };
}
