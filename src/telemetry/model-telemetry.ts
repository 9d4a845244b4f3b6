import { OpenTelemetry, OpenTelemetryIdGenerator } from "@ai-sdk/otel";
import { context, type Tracer } from "@opentelemetry/api";
import type { ModelTelemetry } from "#models/models.ts";

/**
 * Follows model calls with the AI SDK's OpenTelemetry integration: a `chat` span for each call, and the metric
 * `gen_ai.client.inference.duration`. Prompts and answers are never recorded.
 *
 * The runtime replaces the SDK's agent loop, and the integration traces a single call only as a step of a durable workflow.
 * It would then place the span below the workflow's; here the parent is the active span, which is the effect's.
 */
export function createModelTelemetry(tracer: Tracer): ModelTelemetry {
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
