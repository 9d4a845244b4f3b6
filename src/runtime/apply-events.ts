import { initialTransition, transition } from "xstate";
import type { LoggedEvent } from "#domain/events.ts";
import type { RunSpec, RunState } from "#domain/run.ts";
import { type EffectRequest, interruptibleEffects } from "#machines/effects.ts";
import { type WorkerContext, workerMachine } from "#machines/worker-machine.ts";
import type { Advance, EffectQueue, NewEffect, NewRun, RunRow, RunStatus } from "#runtime/store/store.ts";

/** What the store keeps of a machine between events, and the clock that its minutes are counted by. */
export interface Snapshot {
  value: ReturnType<typeof workerMachine.resolveState>["value"];
  context: WorkerContext;
  /** Milliseconds of work so far, without the stretch that is going on. */
  workedMs: number;
  /** Since when it is at work; undefined while it waits. */
  busySince: number | undefined;
}

export interface AppliedEvents {
  advance: Advance;
  /** The work under way is no longer wanted. */
  interrupted: boolean;
  /** A child handed over its changes: the tree in memory is an old one. */
  sandboxChanged: boolean;
}

type State = ReturnType<typeof workerMachine.resolveState>;
type Actions = ReturnType<typeof transition<typeof workerMachine>>[1];

/** The first state of a run and what it wants first. */
export function initialRun(spec: RunSpec): NewRun {
  const { mode, limits } = spec.worker;
  const [state, actions] = initialTransition(workerMachine, { mode, limits });
  const snapshot = snapshotOf(state, { workedMs: 0, busySince: spec.createdAt });
  const requests = requestsOf(actions).map((request, index) => effectOf(spec, request, `0/${index}`));
  return { spec, snapshot, effects: [...requests, statusEffect(spec)] };
}

/**
 * Takes as many events of the mailbox into the machine as it accepts, in order; those it cannot take now stay parked
 * and are tried again after every other one. Undefined when the mailbox is empty.
 */
export function applyEvents(row: RunRow, inbox: readonly LoggedEvent[], now: number): AppliedEvents | undefined {
  const before = row.snapshot as Snapshot;
  let state = workerMachine.resolveState({ value: before.value, context: before.context });
  let parked = [...inbox];
  const consumed: number[] = [];
  const effects: NewEffect[] = [];
  const outcome: Pick<Advance, "timers" | "withdrawApprovals"> = {};
  let abandoned = false;

  for (let next = takeable(state, parked); next; next = takeable(state, parked)) {
    const [after, actions] = transition(workerMachine, state, next.event);
    const requests = requestsOf(actions);
    if (actions.some((action) => action.type === "cancelEffects")) {
      abandoned = true;
      removeInterruptible(effects);
    }
    effects.push(...requests.map((request, index) => effectOf(row.spec, request, `${next.id}/${index}`)));
    if (actions.some((action) => action.type === "withdrawApprovals")) outcome.withdrawApprovals = true;
    setRetryTimer(outcome, actions, now);
    consumed.push(next.id);
    parked = parked.filter((event) => event !== next);
    state = after;
  }
  if (inbox.length === 0) return undefined;

  const clock = keepTime(before, state, now);
  setDeadline(outcome, row.spec, clock, state, now);
  return {
    interrupted: abandoned,
    sandboxChanged: inbox.some(({ id, event }) => event.type === "child.finished" && consumed.includes(id)),
    advance: {
      runId: row.spec.id,
      version: row.version,
      consumed,
      seen: Math.max(...inbox.map(({ id }) => id)),
      snapshot: snapshotOf(state, clock),
      status: statusOf(state),
      effects: consumed.length > 0 ? [...effects, statusEffect(row.spec)] : [],
      ...(abandoned ? { cancelEffects: { kinds: [...interruptibleEffects] } } : {}),
      ...outcome,
    },
  };
}

/** The machine's state as people may read it: `callingModel`, `awaitingApproval`. */
export function stateName({ value }: Snapshot): RunState {
  return typeof value === "string" ? value : value.handlingCalls;
}

function takeable(state: State, events: LoggedEvent[]): LoggedEvent | undefined {
  // What reaches a run that is over is taken in and changes nothing.
  if (state.status === "done") return events[0];
  return events.find(({ event }) => state.can(event));
}

function requestsOf(actions: Actions): EffectRequest[] {
  return actions.flatMap((action) =>
    action.type === "requestEffects" ? (action.params as { effects: EffectRequest[] }).effects : [],
  );
}

function removeInterruptible(effects: NewEffect[]): void {
  const kept = effects.filter(({ kind }) => !interruptibleEffects.includes(kind as EffectRequest["kind"]));
  effects.splice(0, effects.length, ...kept);
}

function effectOf(spec: RunSpec, request: EffectRequest, suffix: string): NewEffect {
  const { kind, ...input } = request;
  return { key: `${spec.id}/${suffix}`, runId: spec.id, queue: queueOf(kind, spec), kind, input };
}

function queueOf(kind: EffectRequest["kind"], spec: RunSpec): EffectQueue {
  switch (kind) {
    case "approval.post":
    case "approvals.close":
    case "question.post":
    case "question.close":
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

/** What was said of a run while nobody could be told: how it stands, and which requests are not wanted any more. */
export function redisplayEffects(spec: RunSpec): NewEffect[] {
  return [effectOf(spec, { kind: "approvals.close" }, "shown-again"), statusEffect(spec)];
}

/** One row however often it is asked for: drawing the status once shows everything that happened until then. */
function statusEffect({ rootId }: RunSpec): NewEffect {
  return { key: `${rootId}/status`, runId: rootId, queue: "status", kind: "status.show", input: {} };
}

function snapshotOf(state: State, clock: Pick<Snapshot, "workedMs" | "busySince">): Snapshot {
  return { value: state.value, context: state.context, ...clock };
}

function statusOf(state: State): RunStatus {
  if (state.status === "done") return "done";
  return state.hasTag("busy") ? "active" : "waiting";
}

function keepTime(before: Snapshot, state: State, now: number): Pick<Snapshot, "workedMs" | "busySince"> {
  const stretch = before.busySince === undefined ? 0 : Math.max(0, now - before.busySince);
  return { workedMs: before.workedMs + stretch, busySince: state.hasTag("busy") ? now : undefined };
}

function setRetryTimer(outcome: Pick<Advance, "timers">, actions: Actions, now: number): void {
  for (const action of actions) {
    if (action.type === "clearTimer") outcome.timers = { clear: ["retry"] };
    if (action.type === "setTimer") {
      const { afterMs } = action.params as { afterMs: number };
      outcome.timers = { set: [{ timer: "retry", dueAt: now + afterMs }] };
    }
  }
}

/** Minutes run only while the worker works, so the deadline moves with every wait. */
function setDeadline(
  outcome: Pick<Advance, "timers">,
  { worker }: RunSpec,
  { workedMs }: Pick<Snapshot, "workedMs">,
  state: State,
  now: number,
): void {
  const timers = outcome.timers ?? {};
  if (!state.hasTag("busy")) {
    outcome.timers = { ...timers, clear: [...(timers.clear ?? []), "deadline"] };
    return;
  }
  const dueAt = now + Math.max(0, worker.limits.minutes * 60_000 - workedMs);
  outcome.timers = { ...timers, set: [...(timers.set ?? []), { timer: "deadline", dueAt }] };
}
