import type { z } from "zod";
import type { DiffHunk, ResultValue, Task, ToolResult } from "#domain/result.ts";
import { type TaskStats, taskStats } from "#toolsets/tasks/tasks-toolset.ts";

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

/** Converts the value of a result to a display. */
export function toReturnDisplay({ value }: Pick<ToolResult, "value">): ToolResultDisplay {
  if (isTaskList(value)) return { type: "task-list", tasks: value.tasks, stats: value.stats ?? taskStats(value.tasks) };
  if (isDiff(value)) return toFileDiff(value);
  if (isOf(value, "terminal")) return { type: "ansi", content: value.content };
  if (isOf(value, "text")) return value.content;
  if (isOf(value, "file_content")) return `## File: ${value.path}\n\n${fenced(value.content, "")}`;
  if (isOf(value, "file_list")) return value.files.map(entryName).join("\n");

  const { data, summary, preview } = value as { data: unknown; summary?: string; preview?: string };
  return [summary, preview ?? fenced(JSON.stringify(data, null, 2) ?? "", "json")].filter(Boolean).join("\n\n");
}

/** Converts a display to the value of a result. */
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
    diff: display.fileDiff,
    ...(display.originalContent !== null && { original: display.originalContent }),
    ...(display.diffStat && { stats: display.diffStat }),
    ...(display.hunks && { hunks: display.hunks }),
    ...(display.action && { action: display.action }),
    ...(display.rejected !== undefined && { rejected: display.rejected }),
  };
}

type WellKnown<Kind> = Extract<ResultValue, { kind: Kind }>;

function isOf<Kind extends "text" | "terminal" | "file_content" | "file_list">(
  value: ResultValue,
  kind: Kind,
): value is WellKnown<Kind> {
  return value.kind === kind;
}

function isDiff(value: ResultValue): value is WellKnown<"diff"> {
  return value.kind === "diff";
}

function isTaskList(value: ResultValue): value is WellKnown<"task_list"> {
  return value.kind === "task_list";
}

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

function entryName(entry: unknown): string {
  if (typeof entry === "string") return entry;
  const { path, name } = (entry ?? {}) as { path?: unknown; name?: unknown };
  return String(path ?? name ?? JSON.stringify(entry));
}

/** Encloses text in a fence that is longer than any fence in the text. */
function fenced(text: string, language: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}
