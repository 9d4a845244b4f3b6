import type { PlainError } from "#toolsets/custom/messages.ts";

/** What was thrown, as it crosses between processes. */
export function plainError(thrown: unknown): PlainError {
  const { name, message, code, suggestion, toolName, reason } = (
    typeof thrown === "object" && thrown !== null ? thrown : {}
  ) as Record<string, unknown>;
  const text = (value: unknown, length: number) =>
    typeof value === "string" && value !== "" ? value.slice(0, length) : undefined;
  const optional = {
    code: text(code, 100),
    suggestion: text(suggestion, 2_000),
    toolName: text(toolName, 200),
    reason: text(reason, 2_000),
  };
  return {
    name: text(name, 200) ?? "Error",
    message: text(message, 20_000) ?? text(String(thrown), 20_000) ?? "It failed without a word",
    ...Object.fromEntries(Object.entries(optional).filter(([, value]) => value !== undefined)),
  };
}
