/**
 * The names of other tool systems: tools as classes, their managers, registries and validators, their result shapes, the
 * single file tools, and commands and forms. It includes the whole public API of `golem-forge`; where a name exists in
 * both, it is the other system's.
 */

import { ToolError as DomainToolError, type ToolErrorType as DomainToolErrorType } from "#domain/errors.ts";
import type { ApprovalDecision } from "#ui/approval-controller.ts";
import type { ForeignResult, PlainTool } from "./adapt-tool.ts";
import { DisplayErrorType, DisplayTool } from "./display-tool.ts";
import type { FileDiff } from "./foreign-results.ts";

// Approval and errors.
export { ApprovalDecisionType } from "#domain/approval.ts";
export type { ToolErrorOptions } from "#domain/errors.ts";
// Result values, told apart by `kind`.
export {
  CustomResultValue,
  DiffHunk,
  DiffResultValue,
  FileContentResultValue,
  FileListResultValue,
  isValidKind,
  isWellKnownKind,
  JsonResultValue,
  ResultValue as ToolResultValue,
  Task,
  TaskListResultValue,
  TaskStatus,
  TerminalResultValue,
  TextResultValue,
  WellKnownResultValue,
} from "#domain/result.ts";
// Tools: who may call them.
export {
  type ExecutionMode,
  getLLMTools,
  getManualTools,
  isLLMTool,
  isManualTool,
  type ManualExecution as ManualExecutionConfig,
  type NeedsApproval,
  type ToolRun,
} from "#domain/tool.ts";
export type { ZoneRule } from "#domain/workspace.ts";
export type { RunResult as WorkerResult } from "#embed/options.ts";
export * from "#index.ts";
export type { CLIApprovalOptions } from "#terminal/ask-approval.ts";
export type { EventCLIAdapterOptions, TraceLevel } from "#terminal/event-cli-adapter.ts";
export type { TraceFormatterOptions } from "#terminal/trace-formatter.ts";
export { type CustomToolsetConfig, loadCustomTools } from "#toolsets/custom/custom-toolset.ts";
// The single file tools over one workspace.
export { createApplyPatchTool } from "#toolsets/filesystem/apply-patch.ts";
export { createEditFileTool } from "#toolsets/filesystem/edit-file.ts";
export type { ZoneApprovalConfig } from "#toolsets/filesystem/file-changes.ts";
export { createFileExistsTool, createFileInfoTool, createListFilesTool } from "#toolsets/filesystem/file-info.ts";
export type { FilesystemToolsOptions as FilesystemToolsetOptions } from "#toolsets/filesystem/filesystem-toolset.ts";
export { createDeleteFileTool, createMoveFileTool } from "#toolsets/filesystem/move-and-delete.ts";
export { createReadFileTool } from "#toolsets/filesystem/read-file.ts";
export { createWriteFileTool } from "#toolsets/filesystem/write-file.ts";
export { type TaskStats, taskStats, taskStats as calculateStats } from "#toolsets/tasks/tasks-toolset.ts";
export {
  type ToolEvent,
  type ToolEventData,
  ToolEvents as ActivityStream,
  ToolEventType,
  ToolEventType as ActivityEventType,
} from "#toolsets/tool-events.ts";
export { failedResult, interruptedResult } from "#toolsets/tool-result.ts";
export type { FinishedCall } from "#toolsets/toolset.ts";
export type { ApprovalControllerOptions, ApprovalMode } from "#ui/approval-controller.ts";
export { ApprovalMemory, type RememberOption } from "#ui/approval-controller.ts";
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
  getManualToolInfos,
  isZodObjectSchema,
  parseFieldValue,
} from "#ui/form-fields.ts";
export { InterruptError, isInterruptError } from "#ui/interrupt-signal.ts";
export type { FieldType, ManualToolField, ManualToolInfo } from "#ui/manual-tool.ts";
export type { RuntimeEventCallback } from "#ui/runtime-events.ts";
export {
  type ApprovalAsked,
  type ApprovalResult,
  createRuntimeUI,
  type RuntimeUI,
  type WaitOptions,
} from "#ui/runtime-ui.ts";
export type * from "#ui/ui-event-bus.ts";
export type { EventHandler, Unsubscribe } from "#ui/ui-event-bus.ts";
export { type ClassTool, type ForeignTool, isNamedTool, wrapWithDefaultApproval } from "./adapt-tool.ts";
// Tools as classes: `BaseTool` answers with `success`, `Tool` with `llmContent` and `returnDisplay`.
export { BaseTool } from "./base-tool.ts";
export {
  BashTool,
  FilesystemToolset,
  ReadTool,
  ShellToolset,
  type ShellToolsetOptions,
  TaskWriteTool,
  WorkerCallToolset,
  type WorkerCallToolsetOptions,
} from "./class-tools.ts";
export { DisplayErrorType, type DisplayResult } from "./display-tool.ts";
// Results in the shapes of other tool systems: `returnDisplay`, `ok`, `success`.
export {
  type AnsiOutput,
  type CalledTool,
  type FileDiff,
  formatErrorResponse,
  formatSuccessResponse,
  fromOkResult,
  fromReturnDisplay,
  getResultPreview,
  type OkResult,
  type TaskListDisplay,
  type ToolResponse,
  type ToolResultDisplay,
  toOkResult,
  toReturnDisplay,
  toToolResponse,
} from "./foreign-results.ts";
export { toToolResult } from "./to-tool-result.ts";
export { type CallOptions, ToolExecutor, ToolManager, type ToolManagerOptions } from "./tool-manager.ts";
export {
  type FunctionDefinition,
  type OpenAIFunction,
  ToolRegistry,
  ToolValidator,
  type ValidationResult,
} from "./tool-registry.ts";

// Names of a class in one tool system and of a type in another. Each value is the class and each type the interface, so that
// programs written for either system compile.

export const Tool = DisplayTool;
export type Tool<_Input = unknown, _Output = unknown> = PlainTool;

export const ToolError = DomainToolError;
/** An error in a result: with a `code` or a `type`. */
export interface ToolError {
  message: string;
  // biome-ignore lint/suspicious/noExplicitAny: always a string in one system, absent in the other
  code?: any;
  type?: string;
  details?: unknown;
}

export const ToolErrorType = DisplayErrorType;
export type ToolErrorType = DisplayErrorType | DomainToolErrorType;

export type Result<T> = { ok: true; value: T } | { ok: false; error: ToolError };

declare const flat: unique symbol;
/** With an argument, `{ ok, … }` with a value of this type. Without one, a result of any tool system. */
export type ToolResult<T = typeof flat> = T extends typeof flat ? ForeignResult : Result<T>;

/** An answer to an approval request. */
export type ApprovalResponse = Pick<ApprovalDecision, "approved" | "modifiedArgs">;

export type DiffStat = NonNullable<FileDiff["diffStat"]>;
