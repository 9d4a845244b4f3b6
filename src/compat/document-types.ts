import { type ToolErrorType as DomainErrorType, ToolError as ToolErrorClass } from "#domain/errors.ts";
import type { ApprovalDecision } from "#ui/approval-memory.ts";
import type { PlainTool } from "./adapt-tool.ts";
import { DisplayErrorType, DisplayTool } from "./display-tool.ts";
import type { OkResult } from "./ok-result.ts";
import type { FileDiff } from "./return-display.ts";

/**
 * Names that stand for a class in one tool system and for a type in another. As a value each is the class, as a type the
 * interface, so that the programs of both compile.
 */

export const Tool = DisplayTool;
export type Tool = PlainTool;

export const ToolError = ToolErrorClass;
/** An error in a result: with a `code` or a `type`. */
export interface ToolError {
  message: string;
  code?: string;
  type?: string;
  details?: unknown;
}

export const ToolErrorType = DisplayErrorType;
export type ToolErrorType = DisplayErrorType | DomainErrorType;

export type Result<T> = OkResult<T>;

/** An answer to an approval request. */
export type ApprovalResponse = Pick<ApprovalDecision, "approved" | "modifiedArgs">;

export type DiffStat = NonNullable<FileDiff["diffStat"]>;
