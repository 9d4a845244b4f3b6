import { ToolError, type ToolErrorCode, type ToolErrorOptions, UserError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";

type FailedResult = ToolResult & { error: NonNullable<ToolResult["error"]> };

/** Creates the result of a failed call. The model receives the message and the suggestion; people see the message. */
export function failedResult(message: string, options: ToolErrorOptions): FailedResult {
  const { code, type, suggestion, details } = new ToolError(message, options);
  return {
    llmContent: suggestion ? `Error: ${message}\n${suggestion}` : `Error: ${message}`,
    value: { kind: "text", content: message },
    error: { type, code, message, ...(suggestion && { suggestion }), ...(details && { details }) },
  };
}

/**
 * Creates the result of a call that did not finish because a person stopped the run: `{ type: "interrupted" }`. Pass
 * `started: false` for a call that had not started.
 */
export function interruptedResult(tool: string, { started = true }: { started?: boolean } = {}): ToolResult {
  const message = started
    ? `${tool} was interrupted before it finished.`
    : `${tool} was interrupted before it started.`;
  const known = started ? "Its effects up to that point are unknown." : "It had no effect.";
  return {
    llmContent: `${message} ${known} {"type":"interrupted"}`,
    value: { kind: "json", data: { type: "interrupted" }, summary: "Interrupted" },
    error: { type: "interrupted", code: "INTERRUPTED", message },
  };
}

/** Converts a thrown value to the result of the call. */
export function resultOfError(error: unknown): ToolResult {
  const message = error instanceof Error ? error.message || error.name : String(error);
  if (error instanceof ToolError) return failedResult(message, error);
  if (error instanceof UserError) return failedResult(message, { code: "EXECUTION_ERROR", type: "user_error" });
  return failedResult(message, { code: codeOf(error) });
}

const errorCodes = new Map<unknown, ToolErrorCode>([
  ["ENOENT", "FILE_NOT_FOUND"],
  ["EEXIST", "FILE_EXISTS"],
  ["EISDIR", "NOT_A_FILE"],
  ["ENOTDIR", "NOT_A_DIRECTORY"],
  ["EACCES", "PERMISSION_DENIED"],
  ["EPERM", "PERMISSION_DENIED"],
  ["EROFS", "READ_ONLY"],
  ["ETIMEDOUT", "TIMEOUT"],
]);

function codeOf(error: unknown): ToolErrorCode {
  if (typeof error !== "object" || error === null) return "EXECUTION_ERROR";
  if ("name" in error && error.name === "TimeoutError") return "TIMEOUT";
  return ("code" in error && errorCodes.get(error.code)) || "EXECUTION_ERROR";
}
