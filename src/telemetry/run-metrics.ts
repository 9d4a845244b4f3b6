import type { LoggedEvent, RunEvent } from "#domain/events.ts";
import { isScheduled, type RunSpec } from "#domain/run.ts";
import type { RunObserver, StoredTransition } from "#runtime/scheduler/run-observer.ts";
import type { Store } from "#runtime/store/store.ts";
import { attemptOutcome, type Instruments } from "./metrics.ts";

type ModelResponseEvent = Extract<RunEvent, { type: "model.answered" | "conversation.compacted" }>;

interface RunMetricsOptions {
  instruments: Instruments;
  store: Pick<Store, "findApproval" | "approvalsOf">;
  onError: (error: unknown) => void;
}

/** Counts the activity of runs in this process, from stored transitions. */
export class RunMetrics implements RunObserver {
  readonly #options: RunMetricsOptions;
  /** The model that each run called last. */
  readonly #models = new Map<string, string>();
  /** The runs whose model has been called and has not answered. */
  readonly #calling = new Set<string>();

  constructor(options: RunMetricsOptions) {
    this.#options = options;
  }

  around: Required<RunObserver>["around"] = async ({ request: { kind } }, _spec, attempt, signal) => {
    try {
      return await attempt();
    } catch (error) {
      this.#options.instruments.add("golem_forge_effects_attempted", { kind, outcome: attemptOutcome(error, signal) });
      throw error;
    }
  };

  effectCompleted({ request: { kind } }: Parameters<Required<RunObserver>["effectCompleted"]>[0]): void {
    this.#options.instruments.add("golem_forge_effects_attempted", { kind, outcome: "done" });
  }

  modelCalled({ id }: RunSpec, { model }: Parameters<Required<RunObserver>["modelCalled"]>[1]): void {
    this.#models.set(id, model);
    this.#calling.add(id);
  }

  transitionStored({ run, events, after }: StoredTransition): void {
    const { spec } = run;
    const isRoot = spec.parentId === undefined;
    if (isRoot && run.version === 0) {
      this.#options.instruments.add("golem_forge_runs_started", {
        worker: workerLabel(spec),
        trigger: triggerOf(spec),
      });
    }
    for (const event of events) this.#count(run, event);
    if (after.status !== "active") {
      this.#models.delete(spec.id);
      this.#calling.delete(spec.id);
    }
    if (!isRoot || after.status !== "done" || run.status === "done") return;

    const { outcome, cost } = after.snapshot.context;
    const worker = workerLabel(spec);
    this.#options.instruments.add("golem_forge_runs_ended", { worker, outcome: outcome?.kind ?? "answered" });
    this.#options.instruments.record("golem_forge_run_cost_dollars", { worker }, cost);
    this.#options.instruments.record(
      "golem_forge_run_duration_seconds",
      { worker },
      (Date.now() - spec.createdAt) / 1_000,
    );
    this.#inBackground(async () => {
      const { length } = await this.#options.store.approvalsOf(spec.id);
      this.#options.instruments.record("golem_forge_approvals_per_run", { worker }, length);
    });
  }

  #count(run: StoredTransition["run"], { event, at }: LoggedEvent): void {
    const instruments = this.#options.instruments;
    const { spec } = run;
    if (event.type === "model.answered") instruments.add("golem_forge_steps", { worker: workerLabel(spec) });
    if (event.type === "model.answered" || event.type === "conversation.compacted") this.#countAnswer(spec, event);
    // A step may fail before its model is called, because the worker's tools cannot be opened.
    if (event.type === "model.failed" && this.#calling.delete(spec.id)) {
      instruments.add("golem_forge_model_requests", { model: this.#modelOf(spec), outcome: "failed" });
      if (event.usage) this.#countUsage(spec, { usage: event.usage, cost: event.cost });
    }
    if (event.type === "calls.reviewed") {
      for (const verdict of event.verdicts) {
        if (verdict.kind === "ask") instruments.add("golem_forge_approvals_requested", { tool: verdict.tool });
        if (verdict.kind === "refuse") this.#countCall(verdict.tool, verdict.result);
      }
    }
    if (event.type === "tool.finished") this.#countCall(event.tool, event.result);
    if (event.type === "child.finished") {
      const tool = toolOf(run, event.callId);
      instruments.add("golem_forge_tool_calls", {
        tool,
        outcome: event.outcome.kind === "answered" ? "ok" : event.outcome.kind,
      });
    }
    if (event.type === "approval.granted") this.#countAnswered(event.approvalId, "approved", at);
    if (event.type === "approval.denied" || event.type === "approval.expired") {
      const outcome = event.type === "approval.denied" ? "denied" : "expired";
      instruments.add("golem_forge_tool_calls", { tool: toolOf(run, event.callId), outcome });
      if (outcome === "denied") this.#countAnswered(event.approvalId, outcome, at);
      else instruments.add("golem_forge_approvals_settled", { outcome });
    }
  }

  #countAnswer(spec: RunSpec, answer: ModelResponseEvent): void {
    this.#calling.delete(spec.id);
    this.#options.instruments.add("golem_forge_model_requests", { model: this.#modelOf(spec), outcome: "answered" });
    this.#countUsage(spec, answer);
  }

  #countUsage(spec: RunSpec, { usage, cost }: Pick<ModelResponseEvent, "usage" | "cost">): void {
    const model = this.#modelOf(spec);
    const instruments = this.#options.instruments;
    instruments.add("golem_forge_model_tokens", { model, type: "input" }, usage.inputTokens);
    instruments.add("golem_forge_model_tokens", { model, type: "output" }, usage.outputTokens);
    instruments.add("golem_forge_model_tokens", { model, type: "cached_input" }, usage.cachedInputTokens ?? 0);
    if (cost !== undefined) {
      instruments.add("golem_forge_model_cost_dollars", { model, worker: workerLabel(spec) }, cost);
    }
  }

  #countCall(name: string, { error, durationMs }: Extract<RunEvent, { type: "tool.finished" }>["result"]): void {
    // Models may invent tool names, which would be unbounded labels.
    const tool = error?.code === "UNKNOWN_TOOL" ? "unknown" : name;
    this.#options.instruments.add("golem_forge_tool_calls", { tool, outcome: error?.code.toLowerCase() ?? "ok" });
    if (durationMs !== undefined) {
      this.#options.instruments.record("golem_forge_tool_duration_seconds", { tool }, durationMs / 1_000);
    }
  }

  #countAnswered(approvalId: string, outcome: "approved" | "denied", at: number): void {
    this.#options.instruments.add("golem_forge_approvals_settled", { outcome });
    this.#inBackground(async () => {
      const approval = await this.#options.store.findApproval(approvalId);
      if (!approval) return;
      const { shownAt = approval.requestedAt } = approval;
      this.#options.instruments.record(
        "golem_forge_approval_answer_seconds",
        { outcome },
        Math.max(0, at - shownAt) / 1_000,
      );
    });
  }

  #modelOf({ id, model }: RunSpec): string {
    return this.#models.get(id) ?? model;
  }

  #inBackground(work: () => Promise<void>): void {
    work().catch(this.#options.onError);
  }
}

/** Hides the names of a repository's own workers, which are unbounded and may be private. */
function workerLabel({ worker, workerSource }: RunSpec): string {
  return workerSource === "deployment" ? worker.name : "(repository)";
}

function triggerOf({ origin }: RunSpec): string {
  if (origin.trigger === undefined) return "command";
  return isScheduled(origin) ? "schedule" : "event";
}

function toolOf(run: StoredTransition["run"], callId: string): string {
  return run.snapshot.context.openCalls.find((call) => call.callId === callId)?.tool ?? "unknown";
}
