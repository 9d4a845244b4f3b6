import { ToolErrorCode, ToolErrorType } from "#domain/errors.ts";
import { isWellKnownKind, ResultValue, ToolResult } from "#domain/result.ts";
import { failedResult } from "#toolsets/failed-result.ts";
import { describeForModel } from "#toolsets/normalize-result.ts";
import { toJsonValue } from "#toolsets/to-json-value.ts";
import { fromOkResult, type OkResult } from "./ok-result.ts";
import { fromReturnDisplay, type ToolResultDisplay } from "./return-display.ts";

type Fields = Record<string, unknown>;

/**
 * Converts any return value of a tool to a ToolResult: ToolResult and ResultValue objects are kept, result shapes of other
 * tool systems (`{ llmContent, returnDisplay }`, `{ ok, … }`, `{ success: false, error }`) are translated, strings become
 * text, and everything else becomes JSON.
 */
export function toToolResult(returned: unknown): ToolResult {
  const output = toJsonValue(returned);
  if (output === undefined) return { llmContent: "Done.", value: { kind: "text", content: "Done." } };
  if (typeof output === "string") return { llmContent: output, value: { kind: "text", content: output } };
  if (isFields(output)) {
    const shaped = readShaped(output);
    if (shaped) return shaped;
  }
  return fromValue({ kind: "json", data: output });
}

function readShaped(output: Fields): ToolResult | undefined {
  if (typeof output.llmContent === "string") return readResult(output as Fields & { llmContent: string });
  if (typeof output.kind === "string") {
    const value = readValue(output as Fields & { kind: string });
    return value && fromValue(value);
  }
  if (isOkResult(output)) return fromOkResult(output);
  if (output.success === false && typeof output.error === "string" && output.error !== "") {
    return failedResult(output.error, {
      code: "EXECUTION_ERROR",
      type: ToolErrorType.catch("system_error").parse(output.error_type),
      ...(typeof output.suggestion === "string" && { suggestion: output.suggestion }),
    });
  }
  return undefined;
}

function readResult(output: Fields & { llmContent: string }): ToolResult | undefined {
  const parsed = ToolResult.safeParse(output);
  if (parsed.success) return parsed.data;
  if (!("value" in output) && !("returnDisplay" in output)) return undefined;

  const { llmContent, error } = output;
  const value = readDisplay(output) ?? { kind: "text" as const, content: llmContent };
  return { llmContent, value, ...(error !== undefined && error !== null && { error: readError(error, llmContent) }) };
}

function readDisplay({ value, returnDisplay }: Fields): ResultValue | undefined {
  if (isFields(value) && typeof value.kind === "string") return readValue(value as Fields & { kind: string });
  if (returnDisplay === undefined || returnDisplay === null) return undefined;

  try {
    const parsed = ResultValue.safeParse(fromReturnDisplay(returnDisplay as ToolResultDisplay));
    if (parsed.success) return parsed.data;
  } catch {
    // An unknown display is kept as data.
  }
  return { kind: "json", data: returnDisplay };
}

function readError(error: unknown, fallback: string): NonNullable<ToolResult["error"]> {
  const { type, code, message, suggestion, details } = (isFields(error) ? error : { message: error }) as Fields;
  const failed = failedResult(typeof message === "string" && message !== "" ? message : fallback, {
    code: ToolErrorCode.catch(ToolErrorCode.catch("EXECUTION_ERROR").parse(type)).parse(code),
    ...(ToolErrorType.safeParse(type).success && { type: type as ToolErrorType }),
    ...(typeof suggestion === "string" && { suggestion }),
    ...(isFields(details) && { details }),
  });
  return failed.error as NonNullable<ToolResult["error"]>;
}

function readValue(output: Fields & { kind: string }): ResultValue | undefined {
  // Custom values store their data in `data`; any other object with a `kind` member is plain data.
  if (!isWellKnownKind(output.kind) && !("data" in output)) return undefined;

  const parsed = ResultValue.safeParse(output);
  if (parsed.success) return parsed.data;

  // An unknown display hint is dropped, so that the value keeps its kind.
  const { display: _, ...plain } = output;
  return ResultValue.safeParse(plain).data;
}

function isOkResult(output: Fields): output is Fields & OkResult<unknown> {
  if (output.ok === true) return Object.keys(output).length === 2 && "value" in output;
  return output.ok === false && isFields(output.error) && typeof output.error.message === "string";
}

function fromValue(value: ResultValue): ToolResult {
  return { llmContent: describeForModel(value), value };
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
