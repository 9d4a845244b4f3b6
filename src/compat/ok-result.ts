import { ToolErrorCode } from "#domain/errors.ts";
import { isWellKnown, type ResultValue, type ToolResult } from "#domain/result.ts";
import { failedResult } from "#toolsets/failed-result.ts";
import { describeForModel, toJsonValue } from "#toolsets/normalize-result.ts";

/** A result with `ok`, and an error code for programs. */
export type OkResult<T> =
  | { ok: true; value: T }
  | { ok: false; error: { code: string; message: string; details?: Record<string, unknown> } };

/** Converts a tool's result to an `ok` result: the data of `json` and custom values, or the whole value of other kinds. */
export function toOkResult({ value, error }: ToolResult): OkResult<unknown> {
  if (error) {
    const { code, message, details } = error;
    return { ok: false, error: { code, message, ...(details && { details }) } };
  }
  return { ok: true, value: "data" in value ? value.data : withOtherNames(value) };
}

/** Converts an `ok` result to a tool's result. An unknown code is kept in the details. */
export function fromOkResult(result: OkResult<unknown>): ToolResult {
  if (!result.ok) {
    const { code, message, details } = result.error;
    const known = ToolErrorCode.safeParse(code);
    return known.success
      ? failedResult(message, { code: known.data, ...(details && { details }) })
      : failedResult(message, { code: "EXECUTION_ERROR", details: { ...details, code } });
  }
  const value = { kind: "json" as const, data: toJsonValue(result.value) };
  return { llmContent: describeForModel(value), value };
}

/** Adds the names that other tool systems use for the members of a value. */
export function withOtherNames(value: ResultValue): object {
  if (!isWellKnown(value)) return value;
  switch (value.kind) {
    case "diff":
      return { ...value, size: value.bytesWritten };
    case "file_list":
      return { ...value, entries: value.files };
    case "terminal":
      return { ...value, ...(value.durationMs !== undefined && { duration: value.durationMs }) };
    case "text":
    case "file_content":
    case "json":
    case "task_list":
      return value;
  }
}
