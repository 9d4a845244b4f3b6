import { z } from "zod";

/** What kind of failure a tool reports; the first five are Code-Ally's, the rest narrow them. */
export const ToolErrorType = z.enum([
  "validation_error",
  "user_error",
  "system_error",
  "permission_error",
  "security_error",
  "interrupted",
]);
export type ToolErrorType = z.infer<typeof ToolErrorType>;

/** The stable code a program may branch on. */
export const ToolErrorCode = z.enum([
  "INVALID_ARGUMENTS",
  "INVALID_PATH",
  "FILE_NOT_FOUND",
  "FILE_EXISTS",
  "NOT_A_FILE",
  "NOT_A_DIRECTORY",
  "PERMISSION_DENIED",
  "READ_ONLY",
  "BINARY_FILE",
  "TOO_LARGE",
  "NO_MATCH",
  "AMBIGUOUS_MATCH",
  "STALE",
  "CONFLICT",
  "REDUNDANT_CALL",
  "UNKNOWN_TOOL",
  "MANUAL_TOOL",
  "DENIED",
  "BLOCKED",
  "EXPIRED",
  "TIMEOUT",
  "INTERRUPTED",
  "UNAVAILABLE",
  "EXECUTION_ERROR",
  "INVALID_OUTPUT",
]);
export type ToolErrorCode = z.infer<typeof ToolErrorCode>;

/** Someone can act on it: the message is a sentence for that person, saying what happened and what to do. */
export class UserError extends Error {
  override readonly name: string = "UserError";
}

/** A server outside failed or cannot be reached: the same may work the next time. */
export class OutageError extends Error {
  override readonly name = "OutageError";
}

export interface ToolErrorOptions {
  code: ToolErrorCode;
  /** Defaults to the type the code belongs to. */
  type?: ToolErrorType;
  /** What to try next, as a sentence for the model. */
  suggestion?: string;
  details?: Record<string, unknown>;
  cause?: unknown;
}

const typeOfCode: Partial<Record<ToolErrorCode, ToolErrorType>> = {
  INVALID_ARGUMENTS: "validation_error",
  INVALID_OUTPUT: "system_error",
  INVALID_PATH: "security_error",
  PERMISSION_DENIED: "permission_error",
  READ_ONLY: "permission_error",
  DENIED: "permission_error",
  BLOCKED: "permission_error",
  EXPIRED: "permission_error",
  MANUAL_TOOL: "permission_error",
  TIMEOUT: "system_error",
  INTERRUPTED: "interrupted",
  UNAVAILABLE: "system_error",
  EXECUTION_ERROR: "system_error",
};

/** A tool could not do what it was asked. The reader of the message and the suggestion is the model. */
export class ToolError extends UserError {
  override readonly name: string = "ToolError";
  readonly code: ToolErrorCode;
  readonly type: ToolErrorType;
  readonly suggestion: string | undefined;
  readonly details: Record<string, unknown> | undefined;

  constructor(message: string, { code, type, suggestion, details, cause }: ToolErrorOptions) {
    super(message, { cause });
    this.code = code;
    this.type = type ?? typeOfCode[code] ?? "user_error";
    this.suggestion = suggestion;
    this.details = details;
  }
}

/** Policy forbids this operation: it is not even offered to a person for approval. */
export class BlockedError extends ToolError {
  override readonly name = "BlockedError";
  readonly toolName: string;
  readonly reason: string;

  constructor(toolName: string, reason: string) {
    super(`Tool '${toolName}' blocked: ${reason}`, { code: "BLOCKED" });
    this.toolName = toolName;
    this.reason = reason;
  }
}
