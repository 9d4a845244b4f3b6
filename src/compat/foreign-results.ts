import type { z } from "zod";
import { ToolErrorCode, type ToolErrorType } from "#domain/errors.ts";
import {
  type DiffHunk,
  isWellKnown,
  type ResultValue,
  type Task,
  type ToolResult,
  type WellKnownResultValue,
} from "#domain/result.ts";
import { hunkHeader } from "#sandbox/diff-file.ts";
import { fencedBlock } from "#text/markdown-code.ts";
import { type TaskStats, taskStats } from "#toolsets/tasks/tasks-toolset.ts";
import { describeForModel, failedResult, toJsonValue } from "#toolsets/tool-result.ts";
import { fileNameOf } from "#ui/result-layout.ts";

/** A flat result object with `success` and the tool's own fields. */
export interface ToolResponse {
  success: boolean;
  /** Empty on success. */
  error: string;
  error_type?: string;
  suggestion?: string;
  [field: string]: unknown;
}

/** The tool call that failed. */
export interface CalledTool {
  tool: string;
  args?: Readonly<Record<string, unknown>>;
}

/** Creates an error response that names the call: `my_tool(param1="value"): File not found`. Long values are shortened. */
export function formatErrorResponse(
  { tool, args = {} }: CalledTool,
  message: string,
  errorType: ToolErrorType | (string & {}) = "system_error",
  suggestion?: string,
): ToolResponse {
  // A model may send null.
  const given = Object.entries(args ?? {})
    .filter(([, value]) => !isEmpty(value))
    .map(([name, value]) => `${name}=${shortenArgument(value)}`);
  return {
    success: false,
    error: `${tool}(${given.join(", ")}): ${message}`,
    error_type: errorType,
    ...(suggestion && { suggestion }),
  };
}

export function formatSuccessResponse(fields: Record<string, unknown>): ToolResponse {
  return { success: true, error: "", ...fields };
}

/** Converts a tool result to a flat response with the fields of its value. */
export function toToolResponse(result: ToolResult, call: CalledTool): ToolResponse {
  const { error } = result;
  if (error) {
    const response = formatErrorResponse(call, error.message, error.type, error.suggestion);
    return { ...error.details, ...response, content: result.llmContent };
  }
  // The tool's own fields take precedence over the text for the model.
  const { value, llmContent } = result;
  if (!("data" in value)) return formatSuccessResponse({ ...withOtherNames(value), content: llmContent });
  if (typeof value.data !== "object" || value.data === null || Array.isArray(value.data)) {
    return formatSuccessResponse({ content: llmContent, result: value.data });
  }
  return formatSuccessResponse({ content: llmContent, ...value.data });
}

/** Returns the first lines of a response for a compact view. */
export function getResultPreview(response: ToolResponse, maxLines = 3): string[] {
  if (!response.success) {
    return [`Error: ${response.error}`, ...(response.suggestion ? [`Suggestion: ${response.suggestion}`] : [])];
  }
  const text = [response.content, response.output, response.result, response.data].find(Boolean);
  if (text === undefined) return ["Success"];

  const lines = (typeof text === "string" ? text : JSON.stringify(text)).split("\n");
  return lines.length > maxLines ? [...lines.slice(0, maxLines), "..."] : lines;
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null) return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

function shortenArgument(value: unknown): string {
  if (Array.isArray(value) && value.length > 3) return `[${value.length} items]`;
  if (typeof value === "string") return `"${value.length > 40 ? `${value.slice(0, 37)}...` : value}"`;
  return JSON.stringify(value) ?? String(value);
}

/** A result with `ok`, and an error code for programs. */
export type OkResult<T> =
  | { ok: true; value: T }
  | { ok: false; error: { code: string; message: string; details?: Record<string, unknown> } };

/** Converts a tool's result to an `ok` result: the data of `json` and custom values, or the whole value of other kinds. */
export function toOkResult({ value, error }: ToolResult): OkResult<unknown> {
  if (error) {
    const { code, message, details } = error;
    return { ok: false, error: { code, message, ...(details && { details }) } };
  }
  return { ok: true, value: "data" in value ? value.data : withOtherNames(value) };
}

/** Converts an `ok` result to a tool's result. An unknown code is kept in the details. */
export function fromOkResult(result: OkResult<unknown>): ToolResult {
  if (!result.ok) {
    const { code, message, details } = result.error;
    const known = ToolErrorCode.safeParse(code);
    return known.success
      ? failedResult(message, { code: known.data, ...(details && { details }) })
      : failedResult(message, { code: "EXECUTION_ERROR", details: { ...details, code } });
  }
  const value = { kind: "json" as const, data: toJsonValue(result.value) };
  return { llmContent: describeForModel(value), value };
}

/** Adds the names that other tool systems use for the members of a value. */
function withOtherNames(value: ResultValue): object {
  if (!isWellKnown(value)) return value;
  switch (value.kind) {
    case "diff":
      return { ...value, size: value.bytesWritten };
    case "file_list":
      return { ...value, entries: value.files };
    case "terminal":
      return { ...value, ...(value.durationMs !== undefined && { duration: value.durationMs }) };
    case "text":
    case "file_content":
    case "json":
    case "task_list":
      return value;
  }
}

/** A file edit with its content before and after. */
export interface FileDiff {
  /** A unified diff. */
  fileDiff: string;
  fileName: string;
  /** Null for a new file. */
  originalContent: string | null;
  newContent: string;
  diffStat?: { additions: number; deletions: number; changes: number };
  /** True if a person rejected the edit. */
  rejected?: boolean;
  action?: "create" | "update";
  hunks?: z.infer<typeof DiffHunk>[];
}

/** Terminal output with ANSI escape codes. */
export interface AnsiOutput {
  type: "ansi";
  content: string;
}

export interface TaskListDisplay {
  type: "task-list";
  tasks: Task[];
  stats?: TaskStats;
}

/** A result for display in a user interface: text or Markdown, a file diff, terminal output or a task list. */
export type ToolResultDisplay = string | FileDiff | AnsiOutput | TaskListDisplay;

export function toReturnDisplay({ value }: Pick<ToolResult, "value">): ToolResultDisplay {
  if (!isWellKnown(value)) return displayData(value);
  switch (value.kind) {
    case "task_list":
      return { type: "task-list", tasks: value.tasks, stats: value.stats ?? taskStats(value.tasks) };
    case "diff":
      return toFileDiff(value);
    case "terminal":
      return { type: "ansi", content: value.content };
    case "text":
      return value.content;
    case "file_content":
      return `## File: ${value.path}\n\n${fencedBlock(value.content, "")}`;
    case "file_list":
      return value.files.map(fileNameOf).join("\n");
    case "json":
      return displayData(value);
  }
}

function displayData({ data, summary, preview }: { data: unknown; summary?: string; preview?: string }): string {
  return [summary, preview ?? fencedBlock(JSON.stringify(data, null, 2) ?? "", "json")].filter(Boolean).join("\n\n");
}

export function fromReturnDisplay(display: ToolResultDisplay): ResultValue {
  if (typeof display === "string") return { kind: "text", content: display };
  if ("type" in display && display.type === "ansi") return { kind: "terminal", content: display.content };
  if ("type" in display) {
    return { kind: "task_list", tasks: display.tasks, stats: display.stats ?? taskStats(display.tasks) };
  }
  return {
    kind: "diff",
    path: display.fileName,
    modified: display.newContent,
    isNew: display.originalContent === null,
    bytesWritten: display.rejected ? 0 : Buffer.byteLength(display.newContent),
    diff: display.fileDiff || diffOf(display),
    ...(display.originalContent !== null && { original: display.originalContent }),
    ...(display.diffStat && { stats: display.diffStat }),
    ...(display.hunks && { hunks: display.hunks }),
    ...(display.action && { action: display.action }),
    ...(display.rejected !== undefined && { rejected: display.rejected }),
  };
}

/** Formats the hunks as a unified diff. Empty without hunks. */
function diffOf({ hunks = [], fileName, originalContent }: FileDiff): string {
  if (hunks.length === 0) return "";
  const before = originalContent === null ? "/dev/null" : `a/${fileName}`;
  const lines = hunks.flatMap((hunk) => [hunkHeader(hunk), ...hunk.lines]);
  return `${[`--- ${before}`, `+++ b/${fileName}`, ...lines].join("\n")}\n`;
}

type WellKnown<Kind> = Extract<WellKnownResultValue, { kind: Kind }>;

function toFileDiff(value: WellKnown<"diff">): FileDiff {
  return {
    fileDiff: value.diff ?? "",
    fileName: value.path,
    originalContent: value.original ?? null,
    newContent: value.modified,
    ...(value.stats && { diffStat: value.stats }),
    ...(value.rejected !== undefined && { rejected: value.rejected }),
    ...(value.action && value.action !== "delete" && { action: value.action }),
    ...(value.hunks && { hunks: value.hunks }),
  };
}
