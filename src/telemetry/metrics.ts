import { type Attributes, type Counter, type Histogram, type Meter, ValueType } from "@opentelemetry/api";
import { emptyResource } from "@opentelemetry/resources";
import {
  AggregationTemporality,
  DataPointType,
  type MetricData,
  type MetricProducer,
} from "@opentelemetry/sdk-metrics";
import { OutageError } from "#domain/errors.ts";
import { PostponedError } from "#runtime/effects/effect-handler.ts";

/** The definition of a metric for Prometheus and OpenTelemetry. */
export interface MetricDefinition {
  /** `gauge` and `sum`: read when metrics are collected. The others count what happens in this process, from its start. */
  kind: "gauge" | "sum" | "counter" | "histogram";
  description: string;
  labels: readonly string[];
  /** Upper bounds of the buckets of a histogram. */
  buckets?: readonly number[];
}

const seconds = [1, 5, 15, 60, 300, 900, 3_600, 4 * 3_600, 24 * 3_600, 72 * 3_600];

export const metrics = {
  golem_forge_runs: {
    kind: "gauge",
    description:
      "Runs that have not ended, with those of called workers, by state: working, or what they wait for (awaitingApproval, awaitingAnswer, awaitingChild, awaitingBudget, idle, interrupted)",
    labels: ["state"],
  },
  golem_forge_effects: {
    kind: "gauge",
    description: "Effects in the store, by queue (work, thread, status) and status (waiting, performing, postponed)",
    labels: ["queue", "status"],
  },
  golem_forge_effects_oldest_waiting_seconds: {
    kind: "gauge",
    description: "Age of the oldest effect that could be performed and has not been started, by queue",
    labels: ["queue"],
  },
  golem_forge_deliveries_waiting: {
    kind: "gauge",
    description: "Webhook deliveries that are stored and not processed yet",
    labels: [],
  },
  golem_forge_deliveries_oldest_waiting_seconds: {
    kind: "gauge",
    description: "Age of the oldest delivery that is not processed yet; 0 without one",
    labels: [],
  },
  golem_forge_approvals_waiting: {
    kind: "gauge",
    description: "Requests for approval that wait for people",
    labels: [],
  },
  golem_forge_github_rate_limit_remaining: {
    kind: "gauge",
    description:
      "Requests left of GitHub's primary rate limit, by installation: the 50 installations with the fewest left, as this process knows it",
    labels: ["installation"],
  },
  golem_forge_github_requests_waiting: {
    kind: "gauge",
    description: "Requests to GitHub that wait for rate limits, by installation",
    labels: ["installation"],
  },
  golem_forge_cost_last_day_dollars: {
    kind: "gauge",
    description: "What runs have cost in the last 24 hours, for which `cost_per_day.total` is the limit",
    labels: [],
  },
  golem_forge_cost_limit_per_day_dollars: {
    kind: "gauge",
    description: "`cost_per_day.total` of the deployment's policy",
    labels: [],
  },
  golem_forge_event_loop_delay_seconds: {
    kind: "gauge",
    description: "Delay of the event loop in the last 10 seconds or more, by quantile (0.5, 0.99, 1)",
    labels: ["quantile"],
  },
  process_resident_memory_bytes: { kind: "gauge", description: "Memory of the process", labels: [] },
  process_cpu_seconds: { kind: "sum", description: "CPU time of the process since its start", labels: [] },

  golem_forge_runs_started: {
    kind: "counter",
    description: "Root runs that began, by worker and by what started them (command, event, schedule)",
    labels: ["worker", "trigger"],
  },
  golem_forge_runs_ended: {
    kind: "counter",
    description: "Root runs that ended, by worker and outcome (answered, failed, limited, cancelled)",
    labels: ["worker", "outcome"],
  },
  golem_forge_run_cost_dollars: {
    kind: "histogram",
    description: "Cost of each root run that ended, with those of called workers",
    labels: ["worker"],
    buckets: [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 20],
  },
  golem_forge_run_duration_seconds: {
    kind: "histogram",
    description: "Time from the start of each root run to its end, waiting included",
    labels: ["worker"],
    buckets: seconds,
  },
  golem_forge_steps: {
    kind: "counter",
    description: "Steps of runs: answers of a model that were stored, by worker",
    labels: ["worker"],
  },
  golem_forge_model_requests: {
    kind: "counter",
    description: "Requests to models, by model and outcome (answered, failed)",
    labels: ["model", "outcome"],
  },
  golem_forge_model_tokens: {
    kind: "counter",
    description:
      "Tokens, by model and type (input, output; cached_input is the part of input that was read from a cache)",
    labels: ["model", "type"],
  },
  golem_forge_model_cost_dollars: {
    kind: "counter",
    description: "Cost of answers whose price is known, by model and worker",
    labels: ["model", "worker"],
  },
  golem_forge_tool_calls: {
    kind: "counter",
    description:
      "Tool calls that ended, by tool and outcome: ok, or the code of the error in lower case, such as denied, blocked, expired, timeout",
    labels: ["tool", "outcome"],
  },
  golem_forge_tool_duration_seconds: {
    kind: "histogram",
    description: "Duration of each executed tool call, by tool",
    labels: ["tool"],
    buckets: [0.01, 0.05, 0.1, 0.5, 1, 5, 15, 60, 300],
  },
  golem_forge_effects_attempted: {
    kind: "counter",
    description: "Attempts at effects, by kind and outcome (done, failed, postponed, interrupted)",
    labels: ["kind", "outcome"],
  },
  golem_forge_approvals_requested: {
    kind: "counter",
    description: "Requests for approval, by tool",
    labels: ["tool"],
  },
  golem_forge_approvals_settled: {
    kind: "counter",
    description: "Requests for approval that were answered or expired, by outcome (approved, denied, expired)",
    labels: ["outcome"],
  },
  golem_forge_approval_answer_seconds: {
    kind: "histogram",
    description: "Time from a request for approval being shown to its answer",
    labels: ["outcome"],
    buckets: seconds,
  },
  golem_forge_approvals_per_run: {
    kind: "histogram",
    description: "Requests for approval of each root run that ended, with those of called workers",
    labels: ["worker"],
    buckets: [0, 1, 2, 3, 5, 8, 13, 21],
  },
  golem_forge_cost_warnings: {
    kind: "counter",
    description: "Warnings that a day's budget is almost used up, by scope (repository, total)",
    labels: ["scope"],
  },
} as const satisfies Record<string, MetricDefinition>;

export type MetricName = keyof typeof metrics;

/** The metrics of some kinds. */
export type MetricOf<Kind extends MetricDefinition["kind"]> = {
  [Name in MetricName]: (typeof metrics)[Name] extends { kind: Kind } ? Name : never;
}[MetricName];

export type LabelsOf<Name extends MetricName> = Record<(typeof metrics)[Name]["labels"][number], string>;

/** Returns the name under which Prometheus reads a metric; a histogram has `_bucket`, `_sum` and `_count` after it. */
export function exportedName(name: MetricName): string {
  const { kind } = metrics[name];
  return kind === "counter" || kind === "sum" ? `${name}_total` : name;
}

/** Reports the values of all metrics that are read when they are collected. */
export type ReadMetrics = (
  report: <Name extends MetricOf<"gauge" | "sum">>(name: Name, value: number, labels: LabelsOf<Name>) => void,
) => Promise<void>;

/** The metrics that count what happens in this process. */
export class Instruments {
  readonly #counters = new Map<MetricName, Counter>();
  readonly #histograms = new Map<MetricName, Histogram>();

  constructor(meter: Meter) {
    for (const [name, { kind, description, buckets = [] }] of definitions()) {
      const advice = { explicitBucketBoundaries: [...buckets] };
      if (kind === "counter") this.#counters.set(name, meter.createCounter(name, { description }));
      if (kind === "histogram") this.#histograms.set(name, meter.createHistogram(name, { description, advice }));
    }
  }

  add<Name extends MetricOf<"counter">>(name: Name, labels: LabelsOf<Name>, value = 1): void {
    this.#counters.get(name)?.add(value, labels);
  }

  record<Name extends MetricOf<"histogram">>(name: Name, labels: LabelsOf<Name>, value: number): void {
    this.#histograms.get(name)?.record(value, labels);
  }
}

/** Produces the metrics that are read. An observable instrument would keep reporting removed series. */
export function metricProducer(read: ReadMetrics): MetricProducer {
  const startedAt = toHrTime(Date.now());
  return {
    async collect() {
      const endTime = toHrTime(Date.now());
      const points = new Map<MetricName, { attributes: Attributes; value: number }[]>();
      await read((name, value, attributes) => {
        points.getOrInsert(name, []).push({ attributes, value });
      });
      const produced = definitions().flatMap(([name, { kind, description }]): MetricData[] => {
        const dataPoints = (points.get(name) ?? []).map((point) => ({ ...point, startTime: startedAt, endTime }));
        const descriptor = { name, description, unit: "", valueType: ValueType.DOUBLE };
        const data = { descriptor, dataPoints, aggregationTemporality: AggregationTemporality.CUMULATIVE };
        if (dataPoints.length === 0) return [];
        if (kind === "sum") return [{ ...data, dataPointType: DataPointType.SUM, isMonotonic: true }];
        return [{ ...data, dataPointType: DataPointType.GAUGE }];
      });
      const scopeMetrics = [{ scope: { name: "golem-forge" }, metrics: produced }];
      return { resourceMetrics: { resource: emptyResource(), scopeMetrics }, errors: [] };
    },
  };
}

function toHrTime(at: number): [number, number] {
  return [Math.floor(at / 1_000), (at % 1_000) * 1e6];
}

function definitions(): [MetricName, MetricDefinition][] {
  return (Object.keys(metrics) as MetricName[]).map((name) => [name, metrics[name]]);
}

/** Names the outcome of an attempt at an effect that threw. */
export function attemptOutcome(error: unknown, signal: AbortSignal): "interrupted" | "postponed" | "failed" {
  if (signal.aborted) return "interrupted";
  if (error instanceof PostponedError || (error instanceof OutageError && error.retryAt !== undefined))
    return "postponed";
  return "failed";
}
