import { z } from "zod";
import { ToolErrorCode, ToolErrorType } from "./errors.ts";

/** Hints for front ends that have no component for a value. */
export const DisplayHints = z.object({
  preferredView: z.enum(["text", "markdown", "code", "table", "tree", "hidden"]).optional(),
  language: z.string().optional(),
  collapsed: z.boolean().optional(),
  /** Lines. */
  maxHeight: z.number().optional(),
});
export type DisplayHints = z.infer<typeof DisplayHints>;

const displayFields = {
  summary: z.string().optional(),
  display: DisplayHints.optional(),
};

export const TaskStatus = z.enum(["pending", "in_progress", "completed", "cancelled"]);
export type TaskStatus = z.infer<typeof TaskStatus>;

export const Task = z.object({
  content: z.string(),
  /** The task in the progressive form, such as "Fixing the test". */
  activeForm: z.string(),
  status: TaskStatus,
});
export type Task = z.infer<typeof Task>;

/** A hunk of a unified diff. Each line begins with a space, `-`, `+` or `\`. */
export const DiffHunk = z.object({
  oldStart: z.number(),
  oldLines: z.number(),
  newStart: z.number(),
  newLines: z.number(),
  lines: z.array(z.string()),
});
export type DiffHunk = z.infer<typeof DiffHunk>;

export const TextResultValue = z.object({ kind: z.literal("text"), content: z.string(), ...displayFields });
export type TextResultValue = z.infer<typeof TextResultValue>;
export const DiffResultValue = z.object({
  kind: z.literal("diff"),
  path: z.string(),
  /** Undefined for a new file. */
  original: z.string().optional(),
  modified: z.string(),
  isNew: z.boolean(),
  bytesWritten: z.number(),
  /** A unified diff. */
  diff: z.string().optional(),
  stats: z.object({ additions: z.number(), deletions: z.number(), changes: z.number() }).optional(),
  hunks: z.array(DiffHunk).optional(),
  action: z.enum(["create", "update", "delete"]).optional(),
  rejected: z.boolean().optional(),
  ...displayFields,
});
export type DiffResultValue = z.infer<typeof DiffResultValue>;
export const FileContentResultValue = z.object({
  kind: z.literal("file_content"),
  path: z.string(),
  content: z.string(),
  /** Bytes. */
  size: z.number(),
  /** The time of the last change, in ISO 8601. */
  modified: z.string().optional(),
  ...displayFields,
});
export type FileContentResultValue = z.infer<typeof FileContentResultValue>;
export const FileListResultValue = z.object({
  kind: z.literal("file_list"),
  path: z.string(),
  files: z.array(z.unknown()),
  count: z.number(),
  ...displayFields,
});
export type FileListResultValue = z.infer<typeof FileListResultValue>;
export const JsonResultValue = z.object({ kind: z.literal("json"), data: z.unknown(), ...displayFields });
export type JsonResultValue = z.infer<typeof JsonResultValue>;
/** The output of a command, with its ANSI escape sequences. */
export const TerminalResultValue = z.object({
  kind: z.literal("terminal"),
  content: z.string(),
  exitCode: z.number().nullable().optional(),
  stdout: z.string().optional(),
  stderr: z.string().optional(),
  durationMs: z.number().optional(),
  /** The sentences that name the changes of the command that were not applied, and why. */
  notApplied: z.array(z.string()).optional(),
  ...displayFields,
});
export type TerminalResultValue = z.infer<typeof TerminalResultValue>;
export const TaskListResultValue = z.object({
  kind: z.literal("task_list"),
  tasks: z.array(Task),
  stats: z
    .object({
      total: z.number(),
      pending: z.number(),
      inProgress: z.number(),
      completed: z.number(),
      cancelled: z.number(),
    })
    .optional(),
  ...displayFields,
});
export type TaskListResultValue = z.infer<typeof TaskListResultValue>;

export const WellKnownResultValue = z.discriminatedUnion("kind", [
  TextResultValue,
  DiffResultValue,
  FileContentResultValue,
  FileListResultValue,
  JsonResultValue,
  TerminalResultValue,
  TaskListResultValue,
]);
export type WellKnownResultValue = z.infer<typeof WellKnownResultValue>;

const kindPattern = /^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$/;
const wellKnownKinds: ReadonlySet<string> = new Set(
  WellKnownResultValue.options.map((option) => option.shape.kind.value),
);

/** True for lowercase words with digits and underscores, with dots for namespaces, such as `git.status`. */
export function isValidKind(kind: string): boolean {
  return kindPattern.test(kind);
}

/** True for the kinds that every front end has a component for. */
export function isWellKnownKind(kind: string): kind is WellKnownResultValue["kind"] {
  return wellKnownKinds.has(kind);
}

export const CustomResultValue = z.object({
  kind: z.string().refine((kind) => isValidKind(kind) && !isWellKnownKind(kind), {
    error: "A custom kind consists of lowercase words with dots, such as git.status, and is not a well-known kind",
  }),
  data: z.unknown(),
  summary: z.string().optional(),
  /** A few lines for a compact view. */
  preview: z.string().optional(),
  mimeType: z.string().optional(),
  display: DisplayHints.optional(),
});
export type CustomResultValue = z.infer<typeof CustomResultValue>;

/** The part of a tool result that is shown to people. Front ends render it by its kind. */
export const ResultValue = z.union([WellKnownResultValue, CustomResultValue]);
export type ResultValue = z.infer<typeof ResultValue>;

/** True for a value of a kind that every front end has a component for. */
export function isWellKnown(value: ResultValue): value is WellKnownResultValue {
  return isWellKnownKind(value.kind);
}

/** The result of one tool call. A call succeeded if `error` is undefined. */
export const ToolResult = z.object({
  /** The part for the model. */
  llmContent: z.string(),
  /** The part for people. */
  value: ResultValue,
  error: z
    .object({
      type: ToolErrorType,
      code: ToolErrorCode,
      message: z.string(),
      suggestion: z.string().optional(),
      details: z.record(z.string(), z.unknown()).optional(),
    })
    .optional(),
  durationMs: z.number().optional(),
});
export type ToolResult = z.infer<typeof ToolResult>;
