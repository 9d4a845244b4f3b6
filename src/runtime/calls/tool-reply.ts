import { z } from "zod";
import { Preview } from "#domain/preview.ts";
import { ToolResult } from "#domain/result.ts";
import type { ManualToolInfo } from "#ui/form-fields.ts";

const ManualTool = z.object({
  name: z.string(),
  label: z.string(),
  description: z.string(),
  category: z.string().optional(),
  fields: z.array(
    z.object({
      name: z.string(),
      description: z.string(),
      type: z.enum(["text", "number", "select", "boolean"]),
      required: z.boolean(),
      options: z.array(z.string()).optional(),
      default: z.unknown().optional(),
    }),
  ),
}) satisfies z.ZodType<ManualToolInfo>;

/** The reply to a person's call of a tool. */
export const ToolReply = z.discriminatedUnion("kind", [
  /** The call is accepted, and runs when the worker's current work has finished. */
  z.object({ kind: z.literal("queued"), by: z.string(), behind: z.enum(["model", "tool", "step"]) }),
  z.object({
    kind: z.literal("result"),
    by: z.string(),
    tool: z.string(),
    args: z.unknown(),
    result: ToolResult,
  }),
  /** Nothing has run. `command` confirms exactly the call shown here. */
  z.object({
    kind: z.literal("confirm"),
    callId: z.string(),
    tool: z.string(),
    args: z.unknown(),
    preview: Preview.optional(),
    command: z.string(),
    /** A word that confirms exactly this call. */
    word: z.string(),
  }),
  z.object({ kind: z.literal("form"), tool: ManualTool }),
  z.object({ kind: z.literal("list"), tools: z.array(ManualTool) }),
  /** All changes of the run, as a unified diff. */
  z.object({ kind: z.literal("changes"), by: z.string(), diff: z.string() }),
  /** Nothing has run. The message says why and what to do. */
  z.object({ kind: z.literal("refused"), by: z.string(), message: z.string() }),
]);
export type ToolReply = z.infer<typeof ToolReply>;
