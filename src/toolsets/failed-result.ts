import { ToolError, type ToolErrorCode, type ToolErrorOptions, UserError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";

/** The result of a call that failed: the model reads the message and the suggestion, people see the message. */
export function failedResult(message: string, options: ToolErrorOptions): ToolResult {
  const { code, type, suggestion, details } = new ToolError(message, options);
  return {
    llmContent: suggestion ? `Error: ${message}\n${suggestion}` : `Error: ${message}`,
    value: { kind: "text", content: message },
    error: { type, code, message, ...(suggestion && { suggestion }), ...(details && { details }) },
  };
}

/**
 * The result of a call that did not finish because a person stopped the run: people and programs see
 * `{ type: "interrupted" }`. `started: false` is for one that had not even begun.
 */
export function interruptedResult(tool: string, { started = true }: { started?: boolean } = {}): ToolResult {
  const message = started ? `${tool} was interrupted before it finished.` : `${tool} was interrupted before it began.`;
  const known = started ? "It is not known what it did until then." : "It did nothing.";
  return {
    llmContent: `${message} ${known} {"type":"interrupted"}`,
    value: { kind: "json", data: { type: "interrupted" }, summary: "Interrupted" },
    error: { type: "interrupted", code: "INTERRUPTED", message },
  };
}

/** What was thrown, as the result of the call. */
export function resultOfError(error: unknown): ToolResult {
  const message = error instanceof Error ? error.message || error.name : String(error);
  if (error instanceof ToolError) return failedResult(message, error);
  if (error instanceof UserError) return failedResult(message, { code: "EXECUTION_ERROR", type: "user_error" });
  return failedResult(message, { code: codeOf(error) });
}

const codeOfSystem: Record<string, ToolErrorCode> = {
  ENOENT: "FILE_NOT_FOUND",
  EEXIST: "FILE_EXISTS",
  EISDIR: "NOT_A_FILE",
  ENOTDIR: "NOT_A_DIRECTORY",
  EACCES: "PERMISSION_DENIED",
  EPERM: "PERMISSION_DENIED",
  EROFS: "READ_ONLY",
  ETIMEDOUT: "TIMEOUT",
};

function codeOf(error: unknown): ToolErrorCode {
  const { name, code } = (error ?? {}) as { name?: unknown; code?: unknown };
  if (name === "TimeoutError") return "TIMEOUT";
  return typeof code === "string" && Object.hasOwn(codeOfSystem, code)
    ? (codeOfSystem[code] as ToolErrorCode)
    : "EXECUTION_ERROR";
}
