import type { ToolResult } from "#domain/result.ts";
import type { RunSpec, TokenUsage } from "#domain/run.ts";
import type { NamedTool } from "#domain/tool.ts";
import { getManualToolInfos } from "#ui/form-fields.ts";
import type { RuntimeEvent, RuntimeEventCallback, RuntimeEventData } from "#ui/runtime-events.ts";
import type { RuntimeUI } from "#ui/runtime-ui.ts";
import type { DiffFileSummary, WorkerStatus } from "#ui/ui-events.ts";
import type { RunEnd } from "./drive.ts";

const longestOutput = 2_000;

/** A call as it is told of. */
export interface ShownCall {
  callId: string;
  tool: string;
  args: unknown;
}

/** Tells a program and its user interface what a worker does. Never throws. */
export interface Reporter {
  trace(event: RuntimeEventData): void;
  worker(status: WorkerStatus, model?: string, tools?: readonly NamedTool[]): void;
  manualTools(tools: readonly NamedTool[]): void;
  says(text: string): void;
  status(type: "info" | "warning" | "error", message: string): void;
  /** Opens a stream of text; what is written after its end is dropped. */
  stream(): { write(delta: string): void; end(): void };
  toolStarted(call: ShownCall, place: { iteration: number; index: number; total: number }): void;
  toolEnded(call: ShownCall, iteration: number, result: ToolResult): void;
  context(usage: TokenUsage, limit: number): void;
  changed(summaries: DiffFileSummary[]): void;
  /** How a run ended; the root's is the end of the session. */
  end(end: RunEnd, startedAt: number): void;
}

/** Tells about one worker, on the bus and to `onEvent`. */
export function createReporter(
  spec: RunSpec,
  { ui, onEvent }: { ui: RuntimeUI | undefined; onEvent: RuntimeEventCallback | undefined },
): Reporter {
  const { id, depth, parentId, worker } = spec;
  const workerPath = spec.workerPath.split(" -> ");

  function trace(data: RuntimeEventData): void {
    const event: RuntimeEvent = { ...data, timestamp: new Date(), depth, workerPath };
    try {
      onEvent?.(event);
    } catch (error) {
      console.error(`onEvent failed for ${event.type}:`, error);
    }
  }

  return {
    trace,
    worker: (status, model, tools) =>
      ui?.updateWorker(
        id,
        worker.name,
        status,
        parentId,
        depth,
        model,
        tools?.map(({ name }) => name),
      ),
    manualTools: (tools) => ui?.showManualTools(getManualToolInfos(tools)),
    says: (content) => ui?.showMessage({ role: "assistant", content, timestamp: Date.now() }),
    status: (type, message) => ui?.showStatus(type, message),
    stream: () => openStream(ui),
    toolStarted: ({ callId, tool, args }, { iteration, index, total }) => {
      const toolArgs = asRecord(args);
      trace({
        type: "tool_call_start",
        iteration,
        toolIndex: index,
        toolTotal: total,
        toolCallId: callId,
        toolName: tool,
        toolArgs,
      });
      ui?.showToolStarted(callId, tool, toolArgs, id);
    },
    toolEnded: ({ callId, tool, args }, iteration, { error, llmContent, value, durationMs = 0 }) => {
      const status = !error ? "success" : error.type === "interrupted" ? "interrupted" : "error";
      const about = { iteration, toolCallId: callId, toolName: tool };
      if (error) trace({ type: "tool_call_error", ...about, error: error.message });
      else {
        const truncated = llmContent.length > longestOutput;
        trace({ type: "tool_call_end", ...about, output: llmContent.slice(0, longestOutput), truncated, durationMs });
      }
      ui?.showToolResult(callId, tool, asRecord(args), status, durationMs, value, error?.message);
    },
    context: ({ inputTokens, outputTokens }, limit) => ui?.updateContextUsage(inputTokens + outputTokens, limit),
    changed: (summaries) => {
      if (summaries.length > 0) ui?.showDiffSummary(id, summaries);
    },
    end: ({ outcome, iterations, calls, usage, cost }, startedAt) => {
      const totals = { totalIterations: iterations, totalToolCalls: calls, durationMs: Date.now() - startedAt };
      const failure = "reason" in outcome ? outcome.reason : undefined;
      ui?.updateWorker(id, worker.name, failure === undefined ? "complete" : "error", parentId, depth);
      if (failure !== undefined) {
        trace({ type: "execution_error", success: false, error: failure, ...totals });
        ui?.showStatus("error", failure);
        if (depth === 0) ui?.endSession("error", failure);
        return;
      }
      const response = outcome.kind === "answered" ? outcome.text : "[Interrupted]";
      const totalTokens = { input: usage.inputTokens, output: usage.outputTokens };
      trace({ type: "execution_end", success: true, response, totalTokens, ...(cost > 0 && { cost }), ...totals });
      if (depth === 0) ui?.endSession(outcome.kind === "answered" ? "completed" : "interrupted");
    },
  };
}

function openStream(ui: RuntimeUI | undefined): { write(delta: string): void; end(): void } {
  const requestId = crypto.randomUUID();
  let state: "fresh" | "open" | "over" = "fresh";
  return {
    write: (delta) => {
      if (state === "over") return;
      if (state === "fresh") ui?.startStreaming(requestId);
      state = "open";
      ui?.appendStreaming(requestId, delta);
    },
    end: () => {
      if (state === "open") ui?.endStreaming(requestId);
      state = "over";
    },
  };
}

/** Arguments as an object, whatever a model made of them. */
export function asRecord(args: unknown): Record<string, unknown> {
  if (args !== null && typeof args === "object" && !Array.isArray(args)) return args as Record<string, unknown>;
  return args === undefined ? {} : { input: args };
}
