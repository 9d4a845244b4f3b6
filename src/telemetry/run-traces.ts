import { createHash } from "node:crypto";
import type { OpenTelemetryIdGenerator } from "@ai-sdk/otel";
import {
  type Attributes,
  type Context,
  context,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  type Tracer,
  trace,
} from "@opentelemetry/api";
import { type Sampler, SamplingDecision } from "@opentelemetry/sdk-trace";
import { messageOf } from "#domain/errors.ts";
import type { LoggedEvent } from "#domain/events.ts";
import type { RunSpec } from "#domain/run.ts";
import type { RunObserver, StoredTransition } from "#runtime/scheduler/run-observer.ts";
import type { Effect, EffectCompletion, Store } from "#runtime/store/store.ts";
import { attemptOutcome } from "./metrics.ts";

interface RunTracesOptions {
  tracer: Tracer;
  ids: OpenTelemetryIdGenerator;
  /** Decides which runs are traced. */
  sampler: Sampler;
  store: Pick<Store, "findApproval">;
  redact: (text: string) => string;
  onError: (error: unknown) => void;
}

/**
 * Traces runs: a trace for each root run, with spans for the runs in it, their effects and their approvals. The ids of the
 * trace and of the runs' spans are derived from the ids of the runs, so that a run is one trace even if several
 * processes execute it. The span of a run is exported when the run has ended.
 */
export class RunTraces implements RunObserver {
  readonly #options: RunTracesOptions;

  constructor(options: RunTracesOptions) {
    this.#options = options;
  }

  around: Required<RunObserver>["around"] = async (effect, spec, attempt, signal) => {
    const parent = this.#contextOf(spec);
    const { name, attributes } = describeEffect(effect);
    const span = this.#options.tracer.startSpan(name, { attributes: { ...attributes, ...describeRun(spec) } }, parent);
    try {
      const result = await context.with(trace.setSpan(parent, span), attempt);
      describeResult(span, result);
      return result;
    } catch (error) {
      const outcome = attemptOutcome(error, signal);
      span.setAttribute("golem_forge.outcome", outcome);
      if (outcome === "failed") this.#fail(span, error);
      throw error;
    } finally {
      span.end();
    }
  };

  transitionStored({ run, events, after }: StoredTransition): void {
    for (const event of events) this.#traceApproval(run.spec, event);
    if (after.status === "done" && run.status !== "done") this.#traceRun(run.spec, after);
  }

  #traceRun(spec: RunSpec, { snapshot: { context: ended } }: StoredTransition["after"]): void {
    const { tracer, ids } = this.#options;
    const parent = spec.parentId === undefined ? ROOT_CONTEXT : this.#contextOf({ ...spec, id: spec.parentId });
    const attributes = {
      ...describeRun(spec),
      "gen_ai.operation.name": "invoke_agent",
      "gen_ai.agent.name": spec.worker.name,
      "gen_ai.request.model": spec.model,
      "golem_forge.outcome": ended.outcome?.kind ?? "answered",
      "golem_forge.steps": ended.steps,
      "golem_forge.cost": ended.cost,
    };
    const options = { startTime: spec.createdAt, attributes, kind: SpanKind.INTERNAL };
    const span = ids.withIds({ traceId: traceIdOf(spec), spanId: spanIdOf(spec) }, () =>
      tracer.startSpan(`invoke_agent ${spec.worker.name}`, options, parent),
    );
    if (ended.outcome?.kind === "failed") this.#fail(span, new Error(ended.outcome.reason));
    span.end();
  }

  /** Adds a span from a request for approval being shown to its answer. */
  #traceApproval(spec: RunSpec, { event, at }: LoggedEvent): void {
    if (event.type !== "approval.granted" && event.type !== "approval.denied" && event.type !== "approval.expired")
      return;
    const { tracer, store, onError } = this.#options;
    const trace = async () => {
      const approval = await store.findApproval(event.approvalId);
      if (!approval) return;
      const { shownAt: startTime = approval.requestedAt, tool } = approval;
      const attributes = {
        ...describeRun(spec),
        "gen_ai.tool.name": tool,
        "gen_ai.tool.call.id": event.callId,
        "golem_forge.approval.id": event.approvalId,
        "golem_forge.outcome": event.type.replace("approval.", ""),
      };
      tracer.startSpan(`await_approval ${tool}`, { startTime, attributes }, this.#contextOf(spec)).end(at);
    };
    trace().catch(onError);
  }

  /** Returns the context of a run's span, which need not have been started in this process. */
  #contextOf(spec: Pick<RunSpec, "id" | "rootId" | "worker">): Context {
    const traceId = traceIdOf(spec);
    const name = `invoke_agent ${spec.worker.name}`;
    const { decision } = this.#options.sampler.shouldSample(ROOT_CONTEXT, traceId, name, SpanKind.INTERNAL, {}, []);
    const traceFlags = decision === SamplingDecision.RECORD_AND_SAMPLED ? TraceFlags.SAMPLED : TraceFlags.NONE;
    return trace.setSpanContext(ROOT_CONTEXT, { traceId, spanId: spanIdOf(spec), traceFlags, isRemote: true });
  }

  #fail(span: Span, error: unknown): void {
    const message = this.#options.redact(messageOf(error));
    span.setStatus({ code: SpanStatusCode.ERROR, message });
  }
}

function traceIdOf({ rootId }: Pick<RunSpec, "rootId">): string {
  return digest(`trace ${rootId}`).slice(0, 32);
}

function spanIdOf({ id }: Pick<RunSpec, "id">): string {
  return digest(`span ${id}`).slice(0, 16);
}

function digest(text: string): string {
  return createHash("sha256").update(`golem-forge ${text}`).digest("hex");
}

function describeRun({ id, rootId, worker, origin }: RunSpec): Attributes {
  return {
    "golem_forge.run.id": id,
    "golem_forge.root_run.id": rootId,
    "golem_forge.worker": worker.name,
    "golem_forge.repository": `${origin.owner}/${origin.repo}`,
    "golem_forge.thread": origin.thread,
  };
}

function describeEffect({ key, attempts, queue, request }: Effect): { name: string; attributes: Attributes } {
  const attributes = {
    "golem_forge.effect.kind": request.kind,
    "golem_forge.effect.key": key,
    "golem_forge.effect.queue": queue,
    "golem_forge.effect.attempt": attempts,
  };
  if (request.kind !== "tool.execute" && request.kind !== "tool.invoke") return { name: request.kind, attributes };
  return {
    name: "execute_tool",
    attributes: { ...attributes, "gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": request.callId },
  };
}

/** Adds the tool that was executed, and whether it failed. */
function describeResult(span: Span, { events = [] }: Omit<EffectCompletion, "runId" | "key">): void {
  span.setAttribute("golem_forge.outcome", "done");
  for (const { event } of events) {
    if (event.type === "model.failed") span.setStatus({ code: SpanStatusCode.ERROR });
    if (event.type !== "tool.finished" && event.type !== "tool.invoked") continue;
    span.updateName(`execute_tool ${event.tool}`);
    span.setAttribute("gen_ai.tool.name", event.tool);
    if (!event.result.error) continue;
    span.setAttribute("error.type", event.result.error.code);
    span.setStatus({ code: SpanStatusCode.ERROR });
  }
}
