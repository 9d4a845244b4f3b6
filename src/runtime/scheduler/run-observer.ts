import type { DeploymentPolicy } from "#config/deployment-policy.ts";
import type { LoggedEvent } from "#domain/events.ts";
import type { RunSpec } from "#domain/run.ts";
import { dayMs, logFieldsOf } from "#domain/work-context.ts";
import type { ModelRequest } from "#models/models.ts";
import type { Advance, Effect, EffectCompletion, RunRow, Store } from "#runtime/store/store.ts";

export interface StoredTransition {
  /** The run before the events. */
  run: RunRow;
  /** The events that were applied. */
  events: readonly LoggedEvent[];
  after: Pick<Advance, "snapshot" | "status" | "usage">;
}

/** Follows the runs of this process, for terminals, programs, metrics, traces and logs. Only `around` may throw. */
export interface RunObserver {
  effectStarted?(effect: Effect, spec: RunSpec): void;
  /** Performs an attempt at an effect by calling `attempt` once, and returns its result or throws its error. */
  around?<Result extends Omit<EffectCompletion, "runId" | "key">>(
    effect: Effect,
    spec: RunSpec,
    attempt: () => Promise<Result>,
    signal: AbortSignal,
  ): Promise<Result>;
  /** The result of the effect has been stored. */
  effectCompleted?(effect: Effect, result: Omit<EffectCompletion, "runId" | "key">): void;
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

/** A budget of 24 hours is almost used up. */
export interface CostWarning {
  scope: "repository" | "total";
  /** `owner/repo`, for the budget of a repository. */
  repository?: string;
  /** US dollars. */
  spent: number;
  limit: number;
}

interface CostWatchOptions {
  store: Pick<Store, "costSince" | "ingest">;
  policy: DeploymentPolicy;
  onWarning: (warning: CostWarning) => void;
  onError: (error: unknown) => void;
  /** The minimum time between two checks of a repository. Default: a minute. */
  intervalMs?: number;
}

/** Warns once a day, on one replica, when the budget of a repository or of the deployment is almost used up. */
export class CostWatch implements RunObserver {
  readonly #options: CostWatchOptions;
  readonly #checks = new Map<string, { lastAt: number; isPlanned: boolean }>();

  constructor(options: CostWatchOptions) {
    this.#options = options;
  }

  transitionStored({ run, after }: StoredTransition): void {
    if (!after.usage || after.usage.cost === 0) return;
    const { origin } = run.spec;
    const key = String(origin.repositoryId ?? `${origin.owner}/${origin.repo}`);
    const check = this.#checks.getOrInsertComputed(key, () => ({ lastAt: 0, isPlanned: false }));
    if (check.isPlanned) return;
    check.isPlanned = true;
    const { intervalMs = 60_000, onError } = this.#options;
    setTimeout(
      () => {
        check.isPlanned = false;
        check.lastAt = Date.now();
        this.#check(origin).catch(onError);
      },
      Math.max(0, check.lastAt + intervalMs - Date.now()),
    ).unref();
  }

  async #check(origin: RunSpec["origin"]): Promise<void> {
    const { store, policy } = this.#options;
    const since = Date.now() - dayMs;
    const { repositoryId } = origin;
    await this.#warn({ scope: "total", spent: await store.costSince({ since }), limit: policy.cost_per_day.total });
    if (repositoryId === undefined) return;
    await this.#warn({
      scope: "repository",
      repository: `${origin.owner}/${origin.repo}`,
      spent: await store.costSince({ repositoryId, since }),
      limit: policy.cost_per_day.repository,
    });
  }

  async #warn(warning: CostWarning): Promise<void> {
    const { store, policy, onWarning } = this.#options;
    const { scope, repository = "", spent, limit } = warning;
    if (spent < (limit * policy.cost_warning_percent) / 100) return;
    const day = new Date().toISOString().slice(0, 10);
    const isFirst = await store.ingest({ deliveryId: `cost warning ${day} ${scope} ${repository}`, events: [] });
    if (isFirst) onWarning(warning);
  }
}
