import { ToolErrorCode } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import { failedResult } from "#toolsets/failed-result.ts";
import { describeForModel } from "#toolsets/normalize-result.ts";
import { toJsonValue } from "#toolsets/to-json-value.ts";

/** A result told apart by `ok`, with an error code a program may branch on. */
export type OkResult<T> =
  | { ok: true; value: T }
  | { ok: false; error: { code: string; message: string; details?: Record<string, unknown> } };

/** A tool's result as `ok` and value: the data of `json` and custom values, the whole value of the others. */
export function toOkResult({ value, error }: ToolResult): OkResult<unknown> {
  if (error) {
    const { code, message, details } = error;
    return { ok: false, error: { code, message, ...(details && { details }) } };
  }
  return { ok: true, value: "data" in value ? value.data : value };
}

/** An `ok` result as a tool's result. A code that is not known keeps its name in the details. */
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
