import type { z } from "zod";
import type { DiffHunk, ResultValue, Task, ToolResult } from "#domain/result.ts";
import { type TaskStats, taskStats } from "#toolsets/tasks/task-stats.ts";

/** An edit of a file, before and after. */
export interface FileDiff {
  /** A unified diff. */
  fileDiff: string;
  fileName: string;
  /** Null where the file is new. */
  originalContent: string | null;
  newContent: string;
  diffStat?: { additions: number; deletions: number; changes: number };
  /** The person refused this write. */
  rejected?: boolean;
  action?: "create" | "update";
  hunks?: z.infer<typeof DiffHunk>[];
}

/** Terminal output with its colour codes. */
export interface AnsiOutput {
  type: "ansi";
  content: string;
}

export interface TaskListDisplay {
  type: "task-list";
  tasks: Task[];
  stats?: TaskStats;
}

/** What a user interface shows of a result: text or markdown, or one of three shapes told apart by their members. */
export type ToolResultDisplay = string | FileDiff | AnsiOutput | TaskListDisplay;

/** A result's value as a display. */
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

/** A display as a result's value. */
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

/** A fence longer than any in the text, so that the text cannot end it. */
function fenced(text: string, language: string): string {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}
