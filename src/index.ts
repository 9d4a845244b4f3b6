/**
 * The public API: for `tools.ts` modules next to a worker, and for programs that run workers themselves. The class-based
 * tools, result shapes and further names of other tool systems are in `golem-forge/compat`.
 */

// Tools: `import type { NamedTool, ToolContext } from "golem-forge"`.
export { ApprovalConfig } from "#domain/approval.ts";
export { BlockedError, ToolError, ToolErrorCode, UserError } from "#domain/errors.ts";
export { DisplayHints, ResultValue, ToolResult } from "#domain/result.ts";
export type { ManualExecution, NamedTool, ToolContext } from "#domain/tool.ts";
// Workers, and running them in a program.
export { parseWorker, WorkerDefinition } from "#domain/worker.ts";
export type { Change, Entry, Workspace } from "#domain/workspace.ts";
export { WorkerRuntime } from "#embed/worker-runtime.ts";
export { createMemoryWorkspace, type MemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
// User interfaces: a bus, and a terminal that shows it.
export { createCLIApprovalCallback } from "#terminal/ask-approval.ts";
export { createEventCLIAdapter, type EventCLIAdapter } from "#terminal/event-cli-adapter.ts";
export { createTraceFormatter } from "#terminal/trace-formatter.ts";
export { ToolEvents } from "#toolsets/tool-events.ts";
export type { ApprovalDecision } from "#ui/approval-controller.ts";
export {
  type ApprovalCallback,
  ApprovalController,
  type ApprovalRequest,
  type RequestedApproval,
} from "#ui/approval-controller.ts";
export { createInterruptSignal, type InterruptSignal } from "#ui/interrupt-signal.ts";
export type { RuntimeEvent } from "#ui/runtime-events.ts";
export { createUIEventBus, type UIEventBus } from "#ui/ui-event-bus.ts";
export type {
  ModelSettings,
  RunAttachment,
  RunInput,
  RunResult,
  WorkerRuntimeOptions,
  WorkerSource,
  WorkerSources,
} from "./embed/options.ts";
export type { ModelAnswer, ModelRequest, Models } from "./models/models.ts";
