import type { IncomingMessage, ServerResponse } from "node:http";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setTimeout as pause } from "node:timers/promises";
import { OpenTelemetry, OpenTelemetryIdGenerator } from "@ai-sdk/otel";
import { context, type Meter, metrics, type Tracer, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { PrometheusExporter, PrometheusSerializer } from "@opentelemetry/exporter-prometheus";
import {
  defaultResource,
  detectResources,
  envDetector,
  type Resource,
  resourceFromAttributes,
} from "@opentelemetry/resources";
import { MeterProvider, type MetricReader, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  type Sampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import type { TelemetryConfig } from "#config/config.ts";
import { UserError } from "#domain/errors.ts";
import { dayMs } from "#domain/work-context.ts";
import type { ModelTelemetry } from "#models/models.ts";
import type { EffectQueue, Store } from "#runtime/store/store.ts";
import { equalSecrets } from "#text/equal-secrets.ts";
import { Instruments, metricProducer, type ReadMetrics } from "./metrics.ts";
import { RunMetrics } from "./run-metrics.ts";
import { RunTraces } from "./run-traces.ts";

/** GitHub's primary rate limit for one installation, as last reported. */
export interface RateLimitState {
  installationId: number;
  remaining: number;
  /** The number of requests waiting for the limits. */
  waiting: number;
}

export interface TelemetryOptions {
  config: TelemetryConfig;
  store: Store;
  rateLimits: () => readonly RateLimitState[];
  /** US dollars per day that the deployment's policy allows. */
  costPerDay: number;
  redact: (text: string) => string;
  onError: (error: unknown) => void;
}

/** Metrics and traces of this process. */
export type Telemetry = Awaited<ReturnType<typeof startTelemetry>>;

/** The maximum number of series per metric. The rest is added up under `otel_metric_overflow`. */
const maxSeries = 500;
const maxInstallations = 50;
/** The cache time of the day's costs, because computing them reads a row per run. */
const costAgeMs = 60_000;
const exportTimeoutMs = 5_000;

const queues: readonly EffectQueue[] = ["work", "thread", "status"];
/** The run states that are reported even if no run is in them. */
const countedStates = [
  "working",
  "awaitingApproval",
  "awaitingAnswer",
  "awaitingChild",
  "awaitingBudget",
  "idle",
  "interrupted",
];

/** Starts telemetry. Processes without telemetry do not load any other module of this folder. */
export async function startTelemetry(options: TelemetryOptions) {
  const { config, store, redact, onError } = options;
  const resource = defaultResource()
    .merge(resourceFromAttributes({ "service.name": "golem-forge" }))
    .merge(detectResources({ detectors: [envDetector] }));
  const { reader: scraped, readers } = await createReaders(options);
  const ids = new OpenTelemetryIdGenerator();
  const sampler = config.traces && samplerOf(config.traces);
  const meters = new MeterProvider({
    resource,
    readers,
    views: [{ instrumentName: "*", aggregationCardinalityLimit: maxSeries }],
  });
  const tracers =
    sampler &&
    config.traces &&
    (await createTracers(sampler, { ids, resource, intervalMs: config.traces.intervalMs, onError }));
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  metrics.setGlobalMeterProvider(meters);
  if (tracers) trace.setGlobalTracerProvider(tracers);

  const meter: Meter = meters.getMeter("golem-forge");
  const tracer: Tracer = trace.getTracer("golem-forge");
  const instruments = new Instruments(meter);
  // Prometheus sees no increase in a counter that begins at 1.
  for (const scope of ["repository", "total"]) instruments.add("golem_forge_cost_warnings", { scope }, 0);
  return {
    instruments,
    models: createModelTelemetry(tracer),
    observers: [
      new RunMetrics({ instruments, store, onError }),
      ...(sampler ? [new RunTraces({ tracer, ids, sampler, store, redact, onError })] : []),
    ],
    /** Answers a request for `/metrics`, if that is configured. Returns false for all others. */
    answer: (request: IncomingMessage, response: ServerResponse): boolean => {
      const [path] = (request.url ?? "").split("?", 1);
      if (!scraped || config.metricsToken === undefined || path !== "/metrics") return false;
      const scrape = { reader: scraped, token: config.metricsToken, onError };
      void answerScrape(request, scrape).then((answer) => send(response, answer));
      return true;
    },
    /** Exports all remaining data. */
    shutDown: async (): Promise<void> => {
      await Promise.allSettled([meters.shutdown({ timeoutMillis: exportTimeoutMs }), tracers?.shutdown()]);
    },
  };
}

async function createReaders(options: TelemetryOptions) {
  const { config, onError } = options;
  const { metricsToken, metrics } = config;
  // Each has its own, since reading the delay of the event loop begins its next period.
  const createProducers = () => [metricProducer(readerOf(options))];
  const readers: MetricReader[] = [];
  const reader =
    metricsToken === undefined
      ? undefined
      : new PrometheusExporter({ preventServerStart: true, metricProducers: createProducers() });
  if (reader) readers.push(reader);
  if (metrics) {
    const { OTLPMetricExporter } = await import("@opentelemetry/exporter-metrics-otlp-proto");
    const { intervalMs } = metrics;
    readers.push(
      new PeriodicExportingMetricReader({
        exporter: reportFailures(new OTLPMetricExporter(), { what: "Metrics", onError }),
        metricProducers: createProducers(),
        exportIntervalMillis: intervalMs,
        exportTimeoutMillis: Math.min(intervalMs, exportTimeoutMs),
      }),
    );
  }
  return { reader, readers };
}

async function createTracers(
  sampler: Sampler,
  {
    ids,
    resource,
    intervalMs,
    onError,
  }: { ids: OpenTelemetryIdGenerator; resource: Resource; intervalMs: number; onError: (error: unknown) => void },
): Promise<TracerProvider> {
  const { OTLPTraceExporter } = await import("@opentelemetry/exporter-trace-otlp-proto");
  const exporter = reportFailures(new OTLPTraceExporter(), { what: "Traces", onError });
  const processor = new BatchSpanProcessor({ exporter, scheduledDelayMillis: intervalMs });
  return new TracerProvider({ resource, sampler, idGenerator: ids, spanProcessors: [processor] });
}

interface Exporter<Data> {
  export(data: Data, done: (result: { code: number; error?: Error }) => void): void;
}

/** Reports the first of consecutive exports that fail. OpenTelemetry drops their data without a word. */
function reportFailures<Data, Type extends Exporter<Data>>(
  exporter: Type & Exporter<Data>,
  { what, onError }: { what: string; onError: (error: unknown) => void },
): Type {
  const send = exporter.export.bind(exporter);
  let isFailing = false;
  exporter.export = (data, done) =>
    send(data, (result) => {
      const { code, error } = result;
      if (code !== 0 && !isFailing) onError(new UserError(`${what} could not be exported: ${error?.message ?? code}`));
      isFailing = code !== 0;
      done(result);
    });
  return exporter;
}

function samplerOf({ sampler, ratio }: NonNullable<TelemetryConfig["traces"]>): Sampler {
  switch (sampler) {
    case "always_on":
      return new AlwaysOnSampler();
    case "always_off":
      return new AlwaysOffSampler();
    case "traceidratio":
      return new TraceIdRatioBasedSampler(ratio);
    case "parentbased_always_on":
      return new ParentBasedSampler({ root: new AlwaysOnSampler() });
    case "parentbased_always_off":
      return new ParentBasedSampler({ root: new AlwaysOffSampler() });
    case "parentbased_traceidratio":
      return new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) });
  }
}

/** Returns a function that reads the metrics of the store, of GitHub's rate limits and of the process. */
function readerOf({ store, rateLimits, costPerDay }: TelemetryOptions): ReadMetrics {
  const eventLoop = new EventLoopDelay();
  let cost = { dollars: 0, readAt: Number.NEGATIVE_INFINITY };
  return async (report) => {
    const now = Date.now();
    const backlog = await store.readBacklog(now);
    const ageOf = (at: number | undefined) => (at === undefined ? 0 : Math.max(0, now - at) / 1_000);
    if (now - cost.readAt > costAgeMs) cost = { dollars: await store.costSince({ since: now - dayMs }), readAt: now };

    const runs = new Map([
      ...countedStates.map((state) => [state, 0] as const),
      ...backlog.runs.map(({ state, count }) => [state, count] as const),
    ]);
    for (const [state, count] of runs) report("golem_forge_runs", count, { state });
    for (const queue of queues) {
      const {
        waiting = 0,
        performing = 0,
        postponed = 0,
        oldestWaitingAt,
      } = backlog.effects.find((counted) => counted.queue === queue) ?? {};
      for (const [status, count] of Object.entries({ waiting, performing, postponed })) {
        report("golem_forge_effects", count, { queue, status });
      }
      report("golem_forge_effects_oldest_waiting_seconds", ageOf(oldestWaitingAt), { queue });
    }
    report("golem_forge_deliveries_waiting", backlog.deliveries.waiting, {});
    report("golem_forge_deliveries_oldest_waiting_seconds", ageOf(backlog.deliveries.oldestAt), {});
    report("golem_forge_approvals_waiting", backlog.pendingApprovals, {});
    const scarcest = rateLimits().toSorted((a, b) => a.remaining - b.remaining);
    for (const { installationId, remaining, waiting } of scarcest.slice(0, maxInstallations)) {
      const labels = { installation: String(installationId) };
      report("golem_forge_github_rate_limit_remaining", remaining, labels);
      report("golem_forge_github_requests_waiting", waiting, labels);
    }
    report("golem_forge_cost_last_day_dollars", cost.dollars, {});
    report("golem_forge_cost_limit_per_day_dollars", costPerDay, {});
    for (const [quantile, value] of Object.entries(await eventLoop.read())) {
      report("golem_forge_event_loop_delay_seconds", value, { quantile });
    }
    report("process_resident_memory_bytes", process.memoryUsage.rss(), {});
    const { user, system } = process.cpuUsage();
    report("process_cpu_seconds", (user + system) / 1e6, {});
  };
}

/** Measures the delay of the event loop over at least ten seconds, regardless of how often it is read. */
class EventLoopDelay {
  readonly #resolutionMs = 20;
  /** Records the intervals between the calls of a timer, not only by how much they are too long. */
  readonly #histogram = monitorEventLoopDelay({ resolution: this.#resolutionMs });
  #since = performance.now();
  #last: Record<string, number> | undefined;

  constructor() {
    this.#histogram.enable();
  }

  /** Returns seconds by quantile. */
  async read(): Promise<Record<string, number>> {
    // A scrape may be the first request after a long delay, which the timer has not recorded yet.
    await pause(this.#resolutionMs);
    if (this.#last && performance.now() - this.#since < 10_000) return this.#last;
    const seconds = (nanoseconds: number) => Math.max(0, nanoseconds / 1e9 - this.#resolutionMs / 1_000);
    const at = (percentile: number) => seconds(this.#histogram.percentile(percentile));
    this.#last = { "0.5": at(50), "0.99": at(99), "1": seconds(this.#histogram.max) };
    this.#histogram.reset();
    this.#since = performance.now();
    return this.#last;
  }
}

type ScrapeResponse = [status: number, text: string, headers?: Record<string, string>];

async function answerScrape(
  request: IncomingMessage,
  { reader, token, onError }: { reader: MetricReader; token: string; onError: (error: unknown) => void },
): Promise<ScrapeResponse> {
  if (request.method !== "GET") return [405, "Use GET here.\n"];
  const [scheme = "", given = ""] = (request.headers.authorization ?? "").split(" ", 2);
  if (scheme.toLowerCase() !== "bearer" || !equalSecrets(given, token)) {
    const text = "Send the value of GOLEM_FORGE_METRICS_TOKEN as a bearer token.\n";
    return [401, text, { "www-authenticate": "Bearer" }];
  }
  try {
    const { resourceMetrics, errors } = await reader.collect();
    for (const error of errors) onError(error);
    const text = new PrometheusSerializer(undefined, false, undefined, true, true).serialize(resourceMetrics);
    return [200, text, { "content-type": "text/plain; version=0.0.4; charset=utf-8" }];
  } catch (error) {
    onError(error);
    return [500, "The metrics could not be collected.\n"];
  }
}

function send(response: ServerResponse, [status, text, headers]: ScrapeResponse): void {
  // A body that was not read must not be taken for the next request.
  const closing = status >= 400 ? { connection: "close" } : {};
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8", ...closing, ...headers }).end(text);
}

/**
 * Follows model calls with the AI SDK's OpenTelemetry integration: a `chat` span for each call, and the metric
 * `gen_ai.client.inference.duration`. Prompts and answers are never recorded.
 *
 * The runtime replaces the SDK's agent loop, and the integration traces a single call only as a step of a durable workflow.
 * It would then place the span below the workflow's; here the parent is the active span, which is the effect's.
 */
function createModelTelemetry(tracer: Tracer): ModelTelemetry {
  const integration = new OpenTelemetry({
    durable: new OpenTelemetryIdGenerator(),
    tracer: {
      startSpan: (name, options) => tracer.startSpan(name, options, context.active()),
      startActiveSpan: tracer.startActiveSpan.bind(tracer),
    },
  });
  const privacy = { recordInputs: false, recordOutputs: false };
  const run = { traceId: "", rootSpanId: "", traceFlags: 0, samplingDecision: 2 as const };
  const durableContext = { run, stepNumber: 0, phase: "live" as const };
  return {
    onLanguageModelCallStart: (event) => integration.onLanguageModelCallStart({ ...event, ...privacy, durableContext }),
    onLanguageModelCallEnd: (event) => integration.onLanguageModelCallEnd(event),
    executeLanguageModelCall: (call) => integration.executeLanguageModelCall(call),
    onError: (event) => integration.onError(event),
  };
}
