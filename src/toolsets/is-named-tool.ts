import type { NamedTool } from "#domain/tool.ts";

/** True for what can stand in a registry: a name, an input schema and something to execute. */
export function isNamedTool(value: unknown): value is NamedTool {
  if (typeof value !== "object" || value === null) return false;

  const { name, inputSchema, execute } = value as Partial<NamedTool>;
  const isSchema = (typeof inputSchema === "object" || typeof inputSchema === "function") && inputSchema !== null;
  return typeof name === "string" && name !== "" && isSchema && typeof execute === "function";
}
