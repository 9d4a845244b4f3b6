import type { LoggedEvent } from "#domain/events.ts";
import { logFieldsOf } from "#domain/log-context.ts";
import type { RunSpec } from "#domain/run.ts";
import type { ModelRequest } from "#models/models.ts";
import type { Advance, Effect, EffectCompletion, RunRow } from "./store/store.ts";

/** A transition of a run that has been stored. */
export interface StoredTransition {
  /** The run before the events. */
  run: RunRow;
  /** The events that were applied. */
  events: readonly LoggedEvent[];
  /** The run after them. */
  after: Pick<Advance, "snapshot" | "status" | "usage">;
}

/**
 * Follows the runs of this process step by step: for a terminal, an embedding program, metrics, traces and logs. Only
 * `around` may throw.
 */
export interface RunObserver {
  effectStarted?(effect: Effect, spec: RunSpec): void;
  /** Performs an attempt at an effect by calling `attempt` once, and returns its result or throws its error. */
  around?<Result extends Omit<EffectCompletion, "key">>(
    effect: Effect,
    spec: RunSpec,
    attempt: () => Promise<Result>,
    signal: AbortSignal,
  ): Promise<Result>;
  /** The result of the effect has been stored. */
  effectCompleted?(effect: Effect, result: Omit<EffectCompletion, "key">): void;
  modelCalled?(spec: RunSpec, request: Pick<ModelRequest, "model" | "instructions" | "messages" | "tools">): void;
  transitionStored?(transition: StoredTransition): void;
}

/** Returns an observer that calls each of these in order; the first `around` is the outermost. */
export function combineObservers(observers: readonly RunObserver[]): Required<RunObserver> {
  return {
    effectStarted: (effect, spec) => {
      for (const observer of observers) observer.effectStarted?.(effect, spec);
    },
    around: (effect, spec, attempt, signal) => {
      let perform = attempt;
      for (const observer of observers.toReversed()) {
        const around = observer.around?.bind(observer);
        const inner = perform;
        if (around) perform = () => around(effect, spec, inner, signal);
      }
      return perform();
    },
    effectCompleted: (effect, result) => {
      for (const observer of observers) observer.effectCompleted?.(effect, result);
    },
    modelCalled: (spec, request) => {
      for (const observer of observers) observer.modelCalled?.(spec, request);
    },
    transitionStored: (transition) => {
      for (const observer of observers) observer.transitionStored?.(transition);
    },
  };
}

type Log = (fields: object, message: string) => void;

/** Logs the start and the end of each run, the requests for approval with their answers, and failed model calls. */
export class RunLog implements RunObserver {
  readonly #info: Log;

  constructor(info: Log) {
    this.#info = info;
  }

  transitionStored({ run, events, after }: StoredTransition): void {
    const fields = logFieldsOf(run.spec);
    const { model, origin } = run.spec;
    if (run.version === 0) this.#info({ ...fields, model, thread: origin.thread }, "The run has started.");
    for (const { event } of events) {
      if (event.type === "model.failed") {
        // The reason may quote the prompt. It is shown in the thread and on the run's page.
        this.#info({ ...fields, model, retryable: event.retryable }, "A step has failed.");
      }
      if (event.type === "approval.granted" || event.type === "approval.denied" || event.type === "approval.expired") {
        const outcome = event.type.replace("approval.", "");
        this.#info({ ...fields, approval: event.approvalId, outcome }, "A request for approval was settled.");
      }
      if (event.type !== "calls.reviewed") continue;
      for (const verdict of event.verdicts) {
        if (verdict.kind !== "ask") continue;
        this.#info({ ...fields, approval: verdict.approvalId, tool: verdict.tool }, "An approval is requested.");
      }
    }
    if (after.status !== "done" || run.status === "done") return;
    const { outcome, steps, tokens, cost } = after.snapshot.context;
    this.#info({ ...fields, outcome: outcome?.kind, steps, tokens, cost }, "The run has ended.");
  }
}
