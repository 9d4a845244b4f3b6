import type { Approval } from "#domain/approval.ts";
import type { LoggedEvent, ModelCall, RunEvent } from "#domain/events.ts";
import type { ToolResult } from "#domain/result.ts";
import type { RunOutcome, RunSpec, TokenUsage } from "#domain/run.ts";
import type { NamedTool } from "#domain/tool.ts";
import { canRetry, retryDelay } from "#machines/worker-context.ts";
import type { LiveOutput } from "#runtime/scheduler/live-output.ts";
import type { RunObserver } from "#runtime/scheduler/run-observer.ts";
import { isObject } from "#text/json-values.ts";
import { failedResult, interruptedResult, textResult } from "#toolsets/tool-result.ts";
import type { ApprovalDecision } from "#ui/approval-controller.ts";
import type { RuntimeEventCallback, RuntimeEventData } from "#ui/runtime-events.ts";
import type { RuntimeUI } from "#ui/runtime-ui.ts";

const maxReportedOutput = 2_000;

export interface RunEnd {
  outcome: RunOutcome | { kind: "interrupted" };
  usage: TokenUsage;
  cost: number;
}

interface ReportedRun {
  spec: RunSpec;
  startedAt: number | undefined;
  /** The number of answers of the model. */
  iterations: number;
  /** The failures of the model since its last answer. */
  failures: number;
  toolCalls: number;
  /** The calls of the last answer, with the arguments they run with. */
  calls: ModelCall[];
  /** The running calls with their start times. */
  running: Map<string, { call: ModelCall; startedAt: number }>;
  stream: { source: string; id: string; state: "open" | "closed" } | undefined;
}

type EffectStarted = Parameters<Required<RunObserver>["effectStarted"]>;
type EffectCompleted = Parameters<Required<RunObserver>["effectCompleted"]>;

/** Reports the progress of runs on the bus of a user interface and to a program's `onEvent`. */
export class RunReporter implements RunObserver, LiveOutput {
  readonly #ui: RuntimeUI | undefined;
  readonly #onEvent: RuntimeEventCallback | undefined;
  readonly #runs = new Map<string, ReportedRun>();

  constructor({ ui, onEvent }: { ui: RuntimeUI | undefined; onEvent: RuntimeEventCallback | undefined }) {
    this.#ui = ui;
    this.#onEvent = onEvent;
  }

  /** Starts to report on a run. `log` and `approvals` are those of a run that another process started. */
  follow(spec: RunSpec, log: readonly LoggedEvent[] = [], approvals: readonly Approval[] = []): void {
    const run: ReportedRun = {
      spec,
      startedAt: undefined,
      iterations: 0,
      failures: 0,
      toolCalls: 0,
      calls: [],
      running: new Map(),
      stream: undefined,
    };
    this.#runs.set(spec.id, run);
    for (const { event } of log) {
      if (event.type === "model.answered") countAnswer(run, event);
      if (event.type === "model.failed") run.failures += 1;
    }
    for (const approval of approvals) if (approval.runId === spec.id) showArguments(run, approval);
  }

  /** Reports the start of a run; `tools` are those of its worker. */
  started(spec: RunSpec, tools: readonly NamedTool[]): void {
    const run = this.#run(spec);
    if (run.startedAt !== undefined) return;
    run.startedAt = Date.now();
    this.#showWorker(spec, "running", tools);
    this.#trace(spec, { type: "execution_start", workerName: spec.worker.name, model: spec.model });
  }

  effectStarted(...[{ request }, spec]: EffectStarted): void {
    if (request.kind === "tool.execute" || request.kind === "child.spawn") {
      const run = this.#run(spec);
      this.#callStarted(run, callOf(run, request.callId));
    }
    if (request.kind === "tool.invoke") {
      const { callId, tool, args } = request;
      this.#callStarted(this.#run(spec), { callId, tool, args });
    }
  }

  effectCompleted(...[{ runId }, { events = [], approvals = [], run: child }]: EffectCompleted): void {
    const run = this.#runs.get(runId);
    if (run) for (const approval of approvals) showArguments(run, approval);
    if (child && !this.#runs.has(child.spec.id)) this.follow(child.spec);
    for (const { runId: receiver, event } of events) {
      const receiving = this.#runs.get(receiver);
      if (receiving) this.#received(receiving, event);
    }
  }

  modelCalled(...[spec, { instructions, messages, tools }]: Parameters<Required<RunObserver>["modelCalled"]>): void {
    this.started(spec, tools);
    this.#trace(spec, {
      type: "message_send",
      iteration: this.#run(spec).iterations + 1,
      messages: [{ role: "system", content: instructions }, ...messages],
      toolCount: tools.length,
    });
  }

  add(...[runId, { source, text }]: Parameters<LiveOutput["add"]>): void {
    const run = this.#runs.get(runId);
    if (!run || text === undefined || !source.startsWith("model/")) return;
    if (run.stream?.source !== source) {
      this.#endStream(run);
      run.stream = { source, id: crypto.randomUUID(), state: "open" };
      this.#ui?.startStreaming(run.stream.id);
    }
    // Drop the output of a model whose run was interrupted.
    if (run.stream.state === "open") this.#ui?.appendStreaming(run.stream.id, text);
  }

  read(): undefined {}

  forget(): void {}

  approvalRequested({ runId, tool: toolName, args, reason: description }: Approval): void {
    const spec = this.#runs.get(runId)?.spec;
    if (spec) this.#trace(spec, { type: "approval_request", toolName, toolArgs: asRecord(args), description });
  }

  approvalDecided(approval: Approval, decision: ApprovalDecision, { cached }: { cached: boolean }): void {
    const run = this.#runs.get(approval.runId);
    if (!run) return;
    const { tool: toolName, callId } = approval;
    const { approved, remember = "none", modifiedArgs, note } = decision;
    this.#trace(run.spec, { type: "approval_decision", toolName, approved: approved === true, cached, remember });
    if (approved === true) {
      if (modifiedArgs !== undefined) showArguments(run, { callId, args: modifiedArgs });
      return;
    }
    const message = `${toolName} was denied${note ? `: ${note}` : "."}`;
    this.#callRefused(run, callId, failedResult(message, { code: "DENIED" }));
  }

  questionAsked(runId: string, callId: string): void {
    const run = this.#runs.get(runId);
    if (run) this.#callStarted(run, callOf(run, callId));
  }

  /** Reports an event that did not come from an effect. */
  received(runId: string, event: RunEvent): void {
    const run = this.#runs.get(runId);
    if (run) this.#received(run, event);
  }

  status(type: "info" | "warning" | "error", message: string): void {
    this.#ui?.showStatus(type, message);
  }

  /** Reports the end of the root, and of every worker below it that ended with it. */
  ended(spec: RunSpec, end: RunEnd): void {
    for (const run of [...this.#runs.values()].toReversed()) if (run.spec.id !== spec.id) this.#interrupt(run);
    this.#end(this.#run(spec), end);
    this.#runs.clear();
  }

  toolCalls(spec: RunSpec): number {
    return this.#run(spec).toolCalls;
  }

  #run(spec: RunSpec): ReportedRun {
    if (!this.#runs.has(spec.id)) this.follow(spec);
    return this.#runs.get(spec.id) as ReportedRun;
  }

  #received(run: ReportedRun, event: RunEvent): void {
    switch (event.type) {
      case "model.answered":
        this.#answered(run, event);
        break;
      case "model.failed":
        this.#endStream(run);
        this.#modelFailed(run, event);
        break;
      case "calls.reviewed":
        for (const verdict of event.verdicts) {
          if (verdict.kind === "refuse") this.#callRefused(run, verdict.callId, verdict.result);
        }
        break;
      case "tool.finished":
        this.#callEnded(run, event.callId, event.result);
        break;
      case "tool.invoked":
        this.#callEnded(run, event.callId, event.result);
        if (event.result.error) this.status("error", `${event.tool}: ${event.result.error.message}`);
        break;
      case "question.answered":
        this.#callEnded(run, event.callId, textResult(event.text));
        break;
      case "child.finished": {
        const { childId, callId, outcome, usage, cost = 0 } = event;
        const child = this.#runs.get(childId);
        if (child) this.#end(child, { outcome, usage, cost });
        this.#callEnded(run, callId, resultOfChild(outcome));
        break;
      }
      case "message.received":
      case "sandbox.opened":
      case "sandbox.failed":
      case "approval.granted":
      case "approval.denied":
      case "approval.expired":
      case "run.stop":
      case "run.resume":
      case "run.cancel":
      case "run.exit":
      case "retry.requested":
      case "conversation.cleared":
      case "model.changed":
      case "cost_limit.raised":
      case "timer.due":
      case "guidance.read":
      case "conversation.compacted":
      case "checks.completed":
      case "pull_request.closed":
      case "pull_request.reopened":
      case "pull_request.reviewed":
        break;
      default:
        event satisfies never;
    }
  }

  #modelFailed(run: ReportedRun, failure: Extract<RunEvent, { type: "model.failed" }>): void {
    if (canRetry(run.failures, failure)) {
      const seconds = Math.ceil(retryDelay(run.failures, failure) / 1_000);
      const wait = seconds < 120 ? `${seconds} s` : `${Math.ceil(seconds / 60)} minutes`;
      this.status("warning", `${failure.reason} Trying again in ${wait}.`);
    }
    run.failures += 1;
  }

  #answered(run: ReportedRun, event: Extract<RunEvent, { type: "model.answered" }>): void {
    this.#endStream(run);
    countAnswer(run, event);
    const { spec, iterations: iteration } = run;
    const { text, calls, schemaProblem, usage } = event;
    this.#trace(spec, {
      type: "response_receive",
      iteration,
      ...(text !== "" && { text }),
      toolCalls: calls.map((call) => ({ id: call.callId, name: call.tool, args: asRecord(call.args) })),
      usage: { input: usage.inputTokens, output: usage.outputTokens },
    });
    if (text.trim() !== "") this.#ui?.showMessage({ role: "assistant", content: text, timestamp: Date.now() });
    if (schemaProblem !== undefined) {
      this.status("warning", `The answer does not match the output schema. ${schemaProblem}`);
    }
    this.#ui?.updateContextUsage(usage.inputTokens + usage.outputTokens, spec.worker.max_context_tokens);
  }

  #callStarted(run: ReportedRun, call: ModelCall): void {
    if (run.running.has(call.callId)) return;
    run.running.set(call.callId, { call, startedAt: Date.now() });
    const { spec, iterations, calls } = run;
    const { callId, tool, args } = call;
    const index = calls.findIndex((one) => one.callId === callId);
    this.#trace(spec, {
      type: "tool_call_start",
      iteration: index < 0 ? 0 : iterations,
      toolIndex: Math.max(index, 0) + 1,
      toolTotal: index < 0 ? 1 : calls.length,
      toolCallId: callId,
      toolName: tool,
      toolArgs: asRecord(args),
    });
    this.#ui?.showToolStarted(callId, tool, asRecord(args), spec.id);
  }

  #callRefused(run: ReportedRun, callId: string, result: ToolResult): void {
    this.#callStarted(run, callOf(run, callId));
    this.#callEnded(run, callId, result);
  }

  #callEnded(run: ReportedRun, callId: string, { error, llmContent, value, durationMs }: ToolResult): void {
    const { call, startedAt } = run.running.get(callId) ?? { call: callOf(run, callId), startedAt: Date.now() };
    run.running.delete(callId);
    const { tool, args } = call;
    const isOwn = run.calls.some((one) => one.callId === callId);
    const about = { iteration: isOwn ? run.iterations : 0, toolCallId: callId, toolName: tool };
    const ms = durationMs ?? Date.now() - startedAt;
    if (error) this.#trace(run.spec, { type: "tool_call_error", ...about, error: error.message });
    else {
      const output = llmContent.slice(0, maxReportedOutput);
      const truncated = output.length < llmContent.length;
      this.#trace(run.spec, { type: "tool_call_end", ...about, output, truncated, durationMs: ms });
    }
    const status = !error ? "success" : error.type === "interrupted" ? "interrupted" : "error";
    this.#ui?.showToolResult(callId, tool, asRecord(args), status, ms, value, error?.message);
  }

  #interrupt(run: ReportedRun): void {
    if (run.startedAt === undefined) return;
    this.#end(run, { outcome: { kind: "interrupted" }, usage: { inputTokens: 0, outputTokens: 0 }, cost: 0 });
  }

  #end(run: ReportedRun, { outcome, usage, cost }: RunEnd): void {
    const { spec, iterations, toolCalls, startedAt = Date.now() } = run;
    this.#endStream(run);
    for (const [callId, { call }] of run.running) this.#callEnded(run, callId, interruptedResult(call.tool));
    this.#runs.delete(spec.id);
    const totals = { totalIterations: iterations, totalToolCalls: toolCalls, durationMs: Date.now() - startedAt };
    const failure = "reason" in outcome ? outcome.reason : undefined;
    this.#showWorker(spec, failure === undefined ? "complete" : "error");
    if (failure !== undefined) {
      this.#trace(spec, { type: "execution_error", success: false, error: failure, ...totals });
      this.status("error", failure);
      if (spec.depth === 0) this.#ui?.endSession("error", failure);
      return;
    }
    const response = outcome.kind === "answered" ? outcome.text : "[Interrupted]";
    const totalTokens = { input: usage.inputTokens, output: usage.outputTokens };
    const spent = { totalTokens, ...(cost > 0 && { cost }), ...totals };
    this.#trace(spec, { type: "execution_end", success: true, response, ...spent });
    if (spec.depth === 0) this.#ui?.endSession(outcome.kind === "answered" ? "completed" : "interrupted");
  }

  #endStream(run: ReportedRun): void {
    if (run.stream?.state !== "open") return;
    run.stream.state = "closed";
    this.#ui?.endStreaming(run.stream.id);
  }

  #showWorker(spec: RunSpec, status: "running" | "complete" | "error", tools?: readonly NamedTool[]): void {
    const { id, worker, parentId, depth, model } = spec;
    const names = tools?.map(({ name }) => name);
    this.#ui?.updateWorker(id, worker.name, status, parentId, depth, status === "running" ? model : undefined, names);
  }

  #trace({ depth, workerPath }: RunSpec, data: RuntimeEventData): void {
    const onError = (error: unknown) => console.error(`onEvent failed for ${data.type}:`, error);
    try {
      const event = { ...data, timestamp: new Date(), depth, workerPath: workerPath.split(" -> ") };
      const returned: unknown = this.#onEvent?.(event);
      if (returned instanceof Promise) returned.catch(onError);
    } catch (error) {
      onError(error);
    }
  }
}

function countAnswer(run: ReportedRun, { calls }: Extract<RunEvent, { type: "model.answered" }>): void {
  run.iterations += 1;
  run.failures = 0;
  run.toolCalls += calls.length;
  run.calls = [...calls];
}

function showArguments(run: ReportedRun, { callId, args }: Pick<Approval, "callId" | "args">): void {
  run.calls = run.calls.map((call) => (call.callId === callId ? { ...call, args } : call));
}

function callOf({ calls, running }: ReportedRun, callId: string): ModelCall {
  return (
    running.get(callId)?.call ?? calls.find((call) => call.callId === callId) ?? { callId, tool: "unknown", args: {} }
  );
}

function resultOfChild(outcome: RunOutcome): ToolResult {
  switch (outcome.kind) {
    case "answered":
      return textResult(outcome.text);
    case "failed":
    case "limited":
      return failedResult(outcome.reason, { code: "EXECUTION_ERROR" });
    case "cancelled":
      return failedResult("It was cancelled.", { code: "INTERRUPTED" });
  }
}

/** Returns the arguments as an object, since models also send other values. */
export function asRecord(args: unknown): Record<string, unknown> {
  if (isObject(args)) return args;
  return args === undefined ? {} : { input: args };
}
