import {
  isWellKnownKind,
  type ResultValue,
  type Task,
  type ToolResult,
  type WellKnownResultValue,
} from "#domain/result.ts";
import { showHidden } from "#text/hidden-characters.ts";

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

/** The text the model reads of a value whose tool gave none. */
export function describeForModel(value: ResultValue): string {
  return isWellKnown(value) ? describeWellKnown(value) : withSummary(value.summary, value.data);
}

function describeWellKnown(value: WellKnownResultValue): string {
  switch (value.kind) {
    case "text":
    case "file_content":
      return value.content;
    case "terminal": {
      const text = showHidden(value.content);
      return typeof value.exitCode === "number" ? `${text}\nExit code: ${value.exitCode}` : text;
    }
    case "diff": {
      const verb = value.action === "delete" ? "Deleted" : value.isNew ? "Created" : "Changed";
      return [value.summary ?? `${verb} ${value.path}.`, value.diff].filter(Boolean).join("\n");
    }
    case "file_list":
      return withSummary(value.summary ?? `${value.count} in ${value.path || "/"}`, value.files);
    case "task_list":
      return value.tasks.map(describeTask).join("\n");
    case "json":
      return withSummary(value.summary, value.data);
  }
}

function isWellKnown(value: ResultValue): value is WellKnownResultValue {
  return isWellKnownKind(value.kind);
}

function withSummary(summary: string | undefined, data: unknown): string {
  const json = typeof data === "string" ? data : (JSON.stringify(data, null, 1) ?? "Done.");
  return summary ? `${summary}\n${json}` : json;
}

function describeTask({ content, status }: Task): string {
  const mark = { pending: " ", in_progress: "◐", completed: "✓", cancelled: "x" }[status];
  return `[${mark}] ${content}`;
}
