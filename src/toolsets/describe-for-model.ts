import type { ResultValue, Task, WellKnownResultValue } from "#domain/result.ts";
import { isWellKnownKind } from "#domain/result.ts";
import { showHidden } from "#text/hidden-characters.ts";

/** What the model reads of a value when its tool did not say. */
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
      const did = value.action === "delete" ? "Deleted" : value.isNew ? "Created" : "Changed";
      return [value.summary ?? `${did} ${value.path}.`, value.diff].filter(Boolean).join("\n");
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
