import { z } from "zod";
import type { ToolRun } from "#domain/tool.ts";

/** The maximum length of a line that either process accepts from the other, in bytes. */
export const maxLineBytes = 32_000_000;
/** The maximum number of values in a message from the host. */
export const maxLineValues = 100_000;

/** The tasks of a tool: run, decide about approval, preview, and check input and output. */
export type HostTask = "execute" | "judge" | "preview" | "checkInput" | "checkOutput";

/** The serializable part of a call's context. */
export interface CallFacts {
  toolCallId: string;
  idempotencyKey: string;
  run: ToolRun;
}

/** An error as sent between processes. */
export const PlainError = z.object({
  name: z.string().max(200),
  message: z.string().max(20_000),
  code: z.string().max(100).optional(),
  suggestion: z.string().max(2_000).optional(),
  toolName: z.string().max(200).optional(),
  reason: z.string().max(2_000).optional(),
});
export type PlainError = z.infer<typeof PlainError>;

/** Converts a thrown value to a serializable error. */
export function plainError(thrown: unknown): PlainError {
  const fields = (typeof thrown === "object" && thrown !== null ? thrown : {}) as Record<string, unknown>;
  const text = (value: unknown, length: number) =>
    typeof value === "string" && value !== "" ? value.slice(0, length) : undefined;
  const optional = {
    code: text(fields.code, 100),
    suggestion: text(fields.suggestion, 2_000),
    toolName: text(fields.toolName, 200),
    reason: text(fields.reason, 2_000),
  };
  return {
    name: text(fields.name, 200) ?? "Error",
    message: text(fields.message, 20_000) ?? text(String(thrown), 20_000) ?? "It failed and gave no reason",
    ...Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined)),
  };
}

/** A message to a module's process. */
export type ToHost =
  | { kind: "load"; module: string; shown: string; tools: string[] }
  | { kind: "call"; id: number; task: HostTask; tool: string; args?: unknown; facts?: CallFacts | undefined }
  | { kind: "abort"; id: number; reason: "TimeoutError" | "AbortError" }
  | { kind: "answer"; id: number; value?: unknown; error?: PlainError };

const name = z.string().regex(/^[A-Za-z_][\w-]{0,63}$/);

/** The serializable part of a module's tool. */
export const ToolDescription = z.strictObject({
  /** The name in the worker file. */
  exportName: z.string(),
  name,
  description: z.string().max(10_000),
  inputSchema: z.record(z.string(), z.unknown()),
  outputSchema: z.record(z.string(), z.unknown()).optional(),
  /** `rule` stands for a function, which is called for each call. */
  needsApproval: z.union([z.boolean(), z.literal("rule")]).optional(),
  hasPreview: z.boolean(),
  hasReason: z.boolean(),
  manualExecution: z
    .strictObject({
      mode: z.enum(["llm", "manual", "both"]),
      label: z.string().max(200).optional(),
      category: z.string().max(200).optional(),
    })
    .optional(),
  aliases: z.array(name).max(20).optional(),
  readOnly: z.boolean().optional(),
  afterCrash: z.enum(["repeat", "report"]).optional(),
});
export type ToolDescription = z.infer<typeof ToolDescription>;

/** Binary file contents. */
const Bytes = z.strictObject({ base64: z.base64() });
const path = z.string();

/** A sandbox method call from the other process. */
export const SandboxCall = z.discriminatedUnion("method", [
  z.strictObject({ method: z.literal("exists"), path }),
  z.strictObject({ method: z.literal("stat"), path }),
  z.strictObject({ method: z.literal("read"), path }),
  z.strictObject({
    method: z.literal("write"),
    path,
    content: z.union([z.string(), Bytes]),
    executable: z.boolean().optional(),
  }),
  z.strictObject({ method: z.literal("remove"), path, recursive: z.boolean().optional() }),
  z.strictObject({ method: z.literal("move"), from: path, to: path, overwrite: z.boolean().optional() }),
  z.strictObject({ method: z.literal("list"), path, recursive: z.boolean().optional() }),
  z.strictObject({ method: z.literal("paths") }),
  z.strictObject({ method: z.literal("changes") }),
  z.strictObject({ method: z.literal("readBase"), path }),
  z.strictObject({ method: z.literal("ruleFor"), path }),
]);
export type SandboxCall = z.infer<typeof SandboxCall>;

/** A message from a module's process. The process runs untrusted code, so every message is validated. */
export const FromHost = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("loaded"), tools: z.array(ToolDescription).max(100) }),
  z.object({ kind: z.literal("refused"), problem: z.string().max(20_000) }),
  z.object({ kind: z.literal("crashed"), problem: z.string().max(20_000) }),
  // JSON has no undefined: if a tool returns nothing, the value is missing.
  z.object({ kind: z.literal("done"), id: z.number(), value: z.unknown().optional() }),
  z.object({ kind: z.literal("failed"), id: z.number(), error: PlainError }),
  z.object({ kind: z.literal("ask"), id: z.number(), call: z.number(), request: SandboxCall }),
  z.object({ kind: z.literal("output"), call: z.number(), chunk: z.string() }),
]);
export type FromHost = z.infer<typeof FromHost>;
