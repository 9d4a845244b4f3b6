import {
  type CustomResultValue,
  type DiffResultValue,
  type DisplayHints,
  isWellKnown,
  type JsonResultValue,
  type ResultValue,
  type Task,
  type ToolResult,
} from "#domain/result.ts";
import { isObject } from "#text/json-values.ts";
import { pluralize } from "#text/pluralize.ts";
import { firstLine } from "#text/truncate.ts";

export type Row = Record<string, unknown>;

/** The file or folder that a result is about, and its description, such as "new, +3 −1". */
interface Heading {
  path: string;
  note: string;
}

/** The layout of a tool's result. Each front end renders these views in its own way. */
export type ResultLayout =
  | { view: "text" | "markdown"; text: string; heading?: Heading }
  | { view: "diff"; text: string; heading?: Heading }
  | { view: "code"; text: string; heading: Heading }
  | { view: "terminal"; text: string; exitCode: number | undefined; heading?: undefined }
  | { view: "table"; rows: Row[]; heading?: undefined }
  | { view: "data"; data: unknown; isTree: boolean; heading?: undefined }
  | { view: "tasks"; tasks: Task[]; heading?: undefined };

/** Describes a result in one line, for a log. Data that the model reads as indented JSON is shown without line breaks. */
export function summarizeResult({ value, llmContent }: Pick<ToolResult, "value" | "llmContent">): string {
  if (value.summary !== undefined) return value.summary;
  const line = firstLine(llmContent);
  return "data" in value && (line === "{" || line === "[") ? firstLine(JSON.stringify(value.data)) : line;
}

/** Lays out a result by its kind and display hints. Returns undefined if it is hidden. */
export function layOutResult(value: ResultValue): ResultLayout | undefined {
  const { display } = value;
  if (display?.preferredView === "hidden") return undefined;
  if (!isWellKnown(value)) return value.preview === undefined ? layOutData(value) : layOutText(value.preview, display);
  switch (value.kind) {
    case "text":
      return layOutText(value.content, display);
    case "diff": {
      const heading = { path: value.path, note: describeDiff(value) };
      return { view: value.diff === undefined ? "code" : "diff", text: value.diff ?? value.modified, heading };
    }
    case "file_content":
      return { view: "code", text: value.content, heading: { path: value.path, note: pluralize(value.size, "byte") } };
    case "file_list": {
      const heading = { path: value.path || "/", note: pluralize(value.count, "entry", "entries") };
      return { view: "text", text: value.files.map(fileNameOf).join("\n"), heading };
    }
    case "json":
      return layOutData(value);
    case "terminal":
      return { view: "terminal", text: value.content, exitCode: value.exitCode ?? undefined };
    case "task_list":
      return { view: "tasks", tasks: value.tasks };
  }
}

function layOutText(text: string, display: DisplayHints | undefined): ResultLayout {
  if (display?.language === "diff") return { view: "diff", text };
  return { view: display?.preferredView === "markdown" ? "markdown" : "text", text };
}

function layOutData({ kind, data, display }: JsonResultValue | CustomResultValue): ResultLayout {
  const { preferredView = kind === "json" ? "code" : undefined } = display ?? {};
  if (preferredView === "table" && isTable(data)) return { view: "table", rows: data };
  return typeof data === "string"
    ? layOutText(data, display)
    : { view: "data", data, isTree: preferredView !== "code" };
}

function isTable(data: unknown): data is Row[] {
  return Array.isArray(data) && data.length > 0 && data.every(isObject);
}

function describeDiff({ isNew, action, stats, rejected }: DiffResultValue): string {
  const done = action === "delete" ? "deleted" : isNew ? "new" : "changed";
  const lines = stats ? `, +${stats.additions} −${stats.deletions}` : "";
  return `${rejected ? "not " : ""}${done}${lines}`;
}

/** Returns the name of an entry of a file list: a path, or an object with a path or a name. */
export function fileNameOf(file: unknown): string {
  const { path, name } = (file ?? {}) as { path?: unknown; name?: unknown };
  const named = [file, path, name].find((one) => typeof one === "string");
  return typeof named === "string" ? named : (JSON.stringify(file) ?? "");
}

export function tableColumns(rows: readonly Row[], maxColumns: number): string[] {
  return [...new Set(rows.flatMap(Object.keys))].slice(0, maxColumns);
}
