import { z } from "zod";

/** The category of a tool failure. */
export const ToolErrorType = z.enum([
  "validation_error",
  "user_error",
  "system_error",
  "permission_error",
  "security_error",
  "interrupted",
]);
export type ToolErrorType = z.infer<typeof ToolErrorType>;

/** A stable code that programs may branch on. */
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

/** An error that someone can act on. The message tells that person what happened and what to do. */
export class UserError extends Error {
  override readonly name: string = "UserError";
}

/** One problem in a file that a person wrote, with its position if that is known. Lines and columns count from 1. */
export interface FileProblem {
  message: string;
  line?: number;
  column?: number;
}

/** A file that a person wrote is not valid. The message names the file and all problems. */
export class InvalidFileError extends UserError {
  override readonly name = "InvalidFileError";
  readonly problems: readonly FileProblem[];

  constructor(message: string, problems: readonly FileProblem[], options?: ErrorOptions) {
    super(message, options);
    this.problems = problems;
  }
}

/** An external server failed or could not be reached. The same request may succeed later. */
export class OutageError extends Error {
  override readonly name = "OutageError";
  /** The server asked for no request before this time; milliseconds since 1970. */
  readonly retryAt: number | undefined;

  constructor(message: string, { cause, retryAt }: { cause?: unknown; retryAt?: number | undefined } = {}) {
    super(message, { cause });
    this.retryAt = retryAt;
  }
}

/**
 * The database cannot be used at present: it cannot be reached, or its disk is full, read-only or damaged. The same
 * operation may succeed later. The message tells operators what to do.
 */
export class DatabaseError extends Error {
  override readonly name = "DatabaseError";
}

export interface ToolErrorOptions {
  code: ToolErrorCode;
  /** Default: the type that belongs to the code. */
  type?: ToolErrorType;
  /** Tells the model what to try next. */
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

/** A tool call failed. The message and the suggestion are written for the model. */
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

/** Policy forbids the operation. It is not offered for approval either. */
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

/** Returns the message of anything that was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Returns the message of an error as a part of a sentence, without its period. */
export function reasonOf(error: unknown): string {
  return messageOf(error).replace(/\.$/, "");
}
