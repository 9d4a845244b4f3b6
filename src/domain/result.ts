import { z } from "zod";
import { ToolErrorCode, ToolErrorType } from "./errors.ts";

/** How a front end may show a value it has no component for. */
export const DisplayHints = z.object({
  preferredView: z.enum(["text", "markdown", "code", "table", "tree", "hidden"]).optional(),
  language: z.string().optional(),
  collapsed: z.boolean().optional(),
  /** Lines. */
  maxHeight: z.number().optional(),
});
export type DisplayHints = z.infer<typeof DisplayHints>;

const shown = {
  summary: z.string().optional(),
  display: DisplayHints.optional(),
};

export const TaskStatus = z.enum(["pending", "in_progress", "completed", "cancelled"]);
export type TaskStatus = z.infer<typeof TaskStatus>;

export const Task = z.object({
  content: z.string(),
  /** The task in progress form: "Fixing the test". */
  activeForm: z.string(),
  status: TaskStatus,
});
export type Task = z.infer<typeof Task>;

export const DiffHunk = z.object({
  oldStart: z.number(),
  oldLines: z.number(),
  newStart: z.number(),
  newLines: z.number(),
  lines: z.array(z.string()),
});

export const TextResultValue = z.object({ kind: z.literal("text"), content: z.string(), ...shown });
export const DiffResultValue = z.object({
  kind: z.literal("diff"),
  path: z.string(),
  /** Undefined where the file is new. */
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
  ...shown,
});
export const FileContentResultValue = z.object({
  kind: z.literal("file_content"),
  path: z.string(),
  content: z.string(),
  /** Bytes. */
  size: z.number(),
  ...shown,
});
export const FileListResultValue = z.object({
  kind: z.literal("file_list"),
  path: z.string(),
  files: z.array(z.unknown()),
  count: z.number(),
  ...shown,
});
export const JsonResultValue = z.object({ kind: z.literal("json"), data: z.unknown(), ...shown });
/** Output of a command; the content keeps its ANSI escapes. */
export const TerminalResultValue = z.object({
  kind: z.literal("terminal"),
  content: z.string(),
  exitCode: z.number().nullable().optional(),
  ...shown,
});
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
  ...shown,
});

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

/** Lowercase words, digits and underscores, dotted for namespaces, each part starting with a letter: `git.status`. */
export function isValidKind(kind: string): boolean {
  return kindPattern.test(kind);
}

/** True for the kinds every front end renders with a component of its own. */
export function isWellKnownKind(kind: string): kind is WellKnownResultValue["kind"] {
  return wellKnownKinds.has(kind);
}

export const CustomResultValue = z.object({
  kind: z.string().refine((kind) => isValidKind(kind) && !isWellKnownKind(kind), {
    error: "A custom kind is lowercase words with dots, such as git.status, and not one of the well-known kinds",
  }),
  data: z.unknown(),
  summary: z.string().optional(),
  /** A few lines for a compact view. */
  preview: z.string().optional(),
  mimeType: z.string().optional(),
  display: DisplayHints.optional(),
});
export type CustomResultValue = z.infer<typeof CustomResultValue>;

/** What a tool gives to people: rendered by kind, never parsed by the model. */
export const ResultValue = z.union([WellKnownResultValue, CustomResultValue]);
export type ResultValue = z.infer<typeof ResultValue>;

/** What one tool call came to. Success is the absence of `error`. */
export const ToolResult = z.object({
  /** What the model reads. */
  llmContent: z.string(),
  /** What people see. */
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
