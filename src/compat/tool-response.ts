import type { ToolErrorType } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import { withOtherNames } from "./ok-result.ts";

/** A flat result object with `success` and the tool's own fields. */
export interface ToolResponse {
  success: boolean;
  /** Empty on success. */
  error: string;
  error_type?: string;
  suggestion?: string;
  [field: string]: unknown;
}

/** The tool call that failed. */
export interface CalledTool {
  tool: string;
  args?: Readonly<Record<string, unknown>>;
}

/** Creates an error response that names the call: `my_tool(param1="value"): File not found`. Long values are shortened. */
export function formatErrorResponse(
  { tool, args = {} }: CalledTool,
  message: string,
  errorType: ToolErrorType | (string & {}) = "system_error",
  suggestion?: string,
): ToolResponse {
  const given = Object.entries(args)
    .filter(([, value]) => !isEmpty(value))
    .map(([name, value]) => `${name}=${shorten(value)}`);
  return {
    success: false,
    error: `${tool}(${given.join(", ")}): ${message}`,
    error_type: errorType,
    ...(suggestion && { suggestion }),
  };
}

/** Creates a success response with the tool's own fields. */
export function formatSuccessResponse(fields: Record<string, unknown>): ToolResponse {
  return { success: true, error: "", ...fields };
}

/** Converts a tool result to a flat response with the fields of its value. */
export function toToolResponse(result: ToolResult, call: CalledTool): ToolResponse {
  const { error } = result;
  if (error) {
    const response = formatErrorResponse(call, error.message, error.type, error.suggestion);
    return { ...error.details, ...response, content: result.llmContent };
  }
  // The tool's own fields take precedence over the text for the model.
  const { value, llmContent } = result;
  if (!("data" in value)) return formatSuccessResponse({ ...withOtherNames(value), content: llmContent });
  if (typeof value.data !== "object" || value.data === null || Array.isArray(value.data)) {
    return formatSuccessResponse({ content: llmContent, result: value.data });
  }
  return formatSuccessResponse({ content: llmContent, ...value.data });
}

/** Returns the first lines of a response for a compact view. */
export function getResultPreview(response: ToolResponse, maxLines = 3): string[] {
  if (!response.success) {
    return [`Error: ${response.error}`, ...(response.suggestion ? [`Suggestion: ${response.suggestion}`] : [])];
  }
  const text = [response.content, response.output, response.result, response.data].find(Boolean);
  if (text === undefined) return ["Success"];

  const lines = (typeof text === "string" ? text : JSON.stringify(text)).split("\n");
  return lines.length > maxLines ? [...lines.slice(0, maxLines), "..."] : lines;
}

function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null) return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

function shorten(value: unknown): string {
  if (Array.isArray(value) && value.length > 3) return `[${value.length} items]`;
  if (typeof value === "string") return `"${value.length > 40 ? `${value.slice(0, 37)}...` : value}"`;
  return JSON.stringify(value) ?? String(value);
}
