/**
 * The public API: what a `tools.ts` beside a worker imports, and what a program that embeds Golem Forge builds on.
 * Where two names do the same job, the comment says which is the canonical one.
 */

// Approval.
export { ApprovalConfig, ApprovalDecisionType } from "#domain/approval.ts";
// Errors. A UserError is a sentence for a person, a ToolError one for the model, with a code.
export {
  BlockedError,
  ToolError,
  ToolErrorCode,
  type ToolErrorOptions,
  ToolErrorType,
  UserError,
} from "#domain/errors.ts";
// Results: one for both readers, told apart by `kind`, a failure by `error`.
export {
  CustomResultValue,
  DiffHunk,
  DiffResultValue,
  DisplayHints,
  FileContentResultValue,
  FileListResultValue,
  isValidKind,
  isWellKnownKind,
  JsonResultValue,
  ResultValue,
  ResultValue as ToolResultValue,
  Task,
  TaskListResultValue,
  TaskStatus,
  TerminalResultValue,
  TextResultValue,
  ToolResult,
  WellKnownResultValue,
} from "#domain/result.ts";
// Tools: who may call them, and what they get. `import type { NamedTool } from "golem-forge"`.
export {
  type ExecutionMode,
  getLLMTools,
  getManualTools,
  isLLMTool,
  isManualTool,
  type ManualExecution,
  type ManualExecution as ManualExecutionConfig,
  type NamedTool,
  type NeedsApproval,
  type ToolContext,
  type ToolRun,
} from "#domain/tool.ts";
// Workers.
export { parseWorker, WorkerDefinition } from "#domain/worker.ts";
export type { Change, Entry, Workspace, ZoneRule } from "#domain/workspace.ts";
// Running a worker in a program of its own. `WorkerRuntime` is the class of the specification.
export type { ModelSettings } from "#embed/choose-models.ts";
export type {
  RunAttachment,
  RunInput,
  RunResult,
  RunResult as WorkerResult,
  WorkerCatalogue,
  WorkerRuntimeOptions,
  WorkerSource,
} from "#embed/options.ts";
export { WorkerRuntime } from "#embed/worker-runtime.ts";
export type { ModelAnswer, ModelRequest, Models } from "#models/models.ts";
export { createMemoryWorkspace, type MemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
// User interfaces: a bus, and a terminal that shows it.
export { type CLIApprovalOptions, createCLIApprovalCallback } from "#terminal/cli-approval-callback.ts";
export {
  createEventCLIAdapter,
  type EventCLIAdapter,
  type EventCLIAdapterOptions,
  type TraceLevel,
} from "#terminal/event-cli-adapter.ts";
export { createTraceFormatter, type TraceFormatterOptions } from "#terminal/trace-formatter.ts";
// Tools as classes: `BaseTool` answers with `success`, `Tool` with `llmContent` and `returnDisplay`.
export { BaseTool } from "#toolsets/base-tool.ts";
export { createToolbox, type ToolboxOptions } from "#toolsets/create-toolbox.ts";
export { type CustomToolsetConfig, loadCustomTools } from "#toolsets/custom/load-custom-tools.ts";
export { DisplayErrorType, type DisplayResult, DisplayTool as Tool } from "#toolsets/display-tool.ts";
export { failedResult, interruptedResult } from "#toolsets/failed-result.ts";
export { createApplyPatchTool } from "#toolsets/filesystem/apply-patch.ts";
// The file tools over one workspace, together or each by itself.
export type { ZoneApprovalConfig } from "#toolsets/filesystem/consent.ts";
export { createDeleteFileTool } from "#toolsets/filesystem/delete-file.ts";
export { createEditFileTool } from "#toolsets/filesystem/edit-file.ts";
export { createFileExistsTool } from "#toolsets/filesystem/file-exists.ts";
export { createFileInfoTool } from "#toolsets/filesystem/file-info.ts";
export { FilesystemToolset, type FilesystemToolsetOptions } from "#toolsets/filesystem/filesystem-tools.ts";
export { createListFilesTool } from "#toolsets/filesystem/list-files.ts";
export { createMoveFileTool } from "#toolsets/filesystem/move-file.ts";
export { createReadFileTool } from "#toolsets/filesystem/read-file.ts";
export { createWriteFileTool } from "#toolsets/filesystem/write-file.ts";
export { isNamedTool } from "#toolsets/is-named-tool.ts";
export { fromOkResult, type OkResult, toOkResult } from "#toolsets/ok-result.ts";
// Running tools: `ToolManager` for a program of its own, the toolbox for a worker's run.
export { type OpenToolboxOptions, openToolbox } from "#toolsets/open-toolbox.ts";
// The same result in the shapes other tool systems give it: `returnDisplay`, `ok`, `success`.
export {
  type AnsiOutput,
  type FileDiff,
  fromReturnDisplay,
  type TaskListDisplay,
  type ToolResultDisplay,
  toReturnDisplay,
} from "#toolsets/return-display.ts";
export { type TaskStats, taskStats, taskStats as calculateStats } from "#toolsets/task-stats.ts";
export { toToolResult } from "#toolsets/to-tool-result.ts";
export {
  type ToolEvent,
  type ToolEventData,
  ToolEvents,
  ToolEvents as ActivityStream,
  ToolEventType,
  ToolEventType as ActivityEventType,
} from "#toolsets/tool-events.ts";
export { type CallOptions, ToolManager, type ToolManagerOptions } from "#toolsets/tool-manager.ts";
export { type ClassTool, type FunctionDefinition, type OpenAIFunction, ToolRegistry } from "#toolsets/tool-registry.ts";
export {
  type CalledTool,
  formatErrorResponse,
  formatSuccessResponse,
  getResultPreview,
  type ToolResponse,
  toToolResponse,
} from "#toolsets/tool-response.ts";
export { ToolValidator, type ValidationResult } from "#toolsets/tool-validator.ts";
export type { CallContext, Review, Toolbox } from "#toolsets/toolbox.ts";
export type { ToolServices, Toolset } from "#toolsets/toolset.ts";
export { wrapWithDefaultApproval } from "#toolsets/wrap-with-default-approval.ts";
export {
  type ApprovalCallback,
  ApprovalController,
  type ApprovalControllerOptions,
  type ApprovalMode,
  type ApprovalRequest,
} from "#ui/approval-controller.ts";
export { type ApprovalDecision, ApprovalMemory, type RememberOption } from "#ui/approval-memory.ts";
// Commands and forms.
export {
  BUILTIN_COMMANDS,
  type BuiltinCommand,
  CommandParseError,
  type CommandType,
  classifyCommand,
  isBuiltinCommand,
  isCommand,
  isInteractive,
  optionsToArgs,
  type ParsedCommand,
  parseCommand,
} from "#ui/command.ts";
export {
  argumentsFromOptions,
  deriveFieldsFromSchema,
  extractManualToolInfo,
  type FieldType,
  getManualToolInfos,
  isZodObjectSchema,
  type ManualToolField,
  type ManualToolInfo,
  parseFieldValue,
} from "#ui/form-fields.ts";
// Interruption.
export { createInterruptSignal, InterruptError, type InterruptSignal, isInterruptError } from "#ui/interrupt-signal.ts";
export type { RuntimeEvent, RuntimeEventCallback } from "#ui/runtime-events.ts";
export {
  type ApprovalAsked,
  type ApprovalResult,
  createRuntimeUI,
  type RuntimeUI,
  type WaitOptions,
} from "#ui/runtime-ui.ts";
export { createUIEventBus, type EventHandler, type UIEventBus, type Unsubscribe } from "#ui/ui-event-bus.ts";
export type * from "#ui/ui-events.ts";
