import type { Meter } from "@opentelemetry/api";
import { expect, test } from "vitest";
import type { StoredTransition } from "#runtime/scheduler/run-observer.ts";
import { Instruments } from "#telemetry/metrics.ts";
import { RunMetrics } from "#telemetry/run-metrics.ts";
import { runSpec } from "../support/toolset-world.ts";

test("a step that fails before its model is called is no failed request", () => {
  const counted: unknown[] = [];
  const createCounter = (name: string) => ({ add: (_: number, labels: object) => counted.push({ name, ...labels }) });
  const instruments = new Instruments({ createCounter, createHistogram: () => ({}) } as unknown as Meter);
  const store = { findApproval: async () => undefined, approvalsOf: async () => [] };
  const metrics = new RunMetrics({ instruments, store, onError: () => {} });
  const fail = () =>
    metrics.transitionStored({
      run: { spec: runSpec, version: 1, status: "active" },
      events: [{ event: { type: "model.failed", reason: "The tools cannot be opened.", retryable: true } }],
      after: { status: "active" },
    } as unknown as StoredTransition);

  fail();
  metrics.modelCalled(runSpec, { model: "openai:gpt", instructions: "", messages: [], tools: [] });
  fail();
  fail();

  expect(counted).toEqual([{ name: "golem_forge_model_requests", model: "openai:gpt", outcome: "failed" }]);
});
