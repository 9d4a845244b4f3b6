import { z } from "zod";

/** One field of the form with which a person calls a tool. */
const ManualToolField = z.object({
  name: z.string(),
  /** Empty if the schema has no description. */
  description: z.string(),
  type: z.enum(["text", "number", "select", "boolean"]),
  required: z.boolean(),
  /** The options of a `select`, as text. */
  options: z.array(z.string()).optional(),
  default: z.unknown().optional(),
});
export type ManualToolField = z.infer<typeof ManualToolField>;
export type FieldType = ManualToolField["type"];

/** A tool that people may call, as shown by front ends. */
export const ManualToolInfo = z.object({
  name: z.string(),
  /** The name for people. Default: the tool's name. */
  label: z.string(),
  description: z.string(),
  category: z.string().optional(),
  fields: z.array(ManualToolField),
});
export type ManualToolInfo = z.infer<typeof ManualToolInfo>;
