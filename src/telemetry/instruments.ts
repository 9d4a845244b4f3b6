import { type Attributes, type Counter, type Histogram, type Meter, ValueType } from "@opentelemetry/api";
import { emptyResource } from "@opentelemetry/resources";
import {
  AggregationTemporality,
  DataPointType,
  type MetricData,
  type MetricProducer,
} from "@opentelemetry/sdk-metrics";
import { OutageError } from "#domain/errors.ts";
import { Postponed } from "#runtime/effects/effect-handler.ts";
import { type LabelsOf, type MetricDefinition, type MetricName, type MetricOf, metrics } from "./metrics.ts";

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
        points.set(name, [...(points.get(name) ?? []), { attributes, value }]);
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
  if (error instanceof Postponed || (error instanceof OutageError && error.retryAt !== undefined)) return "postponed";
  return "failed";
}
