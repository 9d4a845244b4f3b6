import type { ResultValue, ToolResult } from "#domain/result.ts";
import { isWellKnownKind } from "#domain/result.ts";
import { describeForModel } from "./describe-for-model.ts";

/** The result of a tool: a ToolResult as it is; a ResultValue, text or other JSON with a text for the model added. */
export function normalizeResult(returned: unknown): ToolResult {
  if (returned === undefined) return textResult("Done.");
  if (typeof returned === "string") return textResult(returned);
  if (isToolResult(returned)) return returned;

  const value: ResultValue = isResultValue(returned) ? returned : { kind: "json", data: returned };
  return { llmContent: describeForModel(value), value };
}

function textResult(text: string): ToolResult {
  return { llmContent: text, value: { kind: "text", content: text } };
}

function isToolResult(returned: unknown): returned is ToolResult {
  return typeof returned === "object" && returned !== null && "llmContent" in returned && "value" in returned;
}

/** An object that happens to have a `kind` is data unless it has the shape of a value. */
function isResultValue(returned: unknown): returned is ResultValue {
  if (typeof returned !== "object" || returned === null || !("kind" in returned)) return false;
  return "data" in returned || (typeof returned.kind === "string" && isWellKnownKind(returned.kind));
}
