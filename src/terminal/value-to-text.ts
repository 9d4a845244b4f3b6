import type { DisplayHints, ResultValue, Task } from "#domain/result.ts";
import { pluralize } from "#text/pluralize.ts";
import { truncateLine } from "#text/truncate.ts";
import { layOutResult, type ResultLayout, type Row, tableColumns } from "#ui/result-layout.ts";
import type { DisplayEvents, ToolResultStatus } from "#ui/ui-event-bus.ts";
import { markdownToAnsi } from "./markdown-to-ansi.ts";
import { type Style, type TextFormat, visible, visibleWithColors } from "./style.ts";

type ShownResult = DisplayEvents["toolResult"];

const defaultHeight = 20;
const filePreviewHeight = 6;
const maxLineLength = 2_000;
const maxColumns = 8;
const maxCellLength = 40;

/** The output for which values are rendered. */
interface Screen {
  style: Style;
  /** Undefined for a program that reads the output: Markdown stays as it is. */
  columns: number | undefined;
}

/** Renders a tool's result as lines for a terminal, by its kind and hints. Returns an empty list if it is hidden. */
function valueToText(value: ResultValue, screen: Screen): string[] {
  const layout = layOutResult(value);
  if (!layout) return [];
  const { heading } = layout;
  const isInSummary = heading !== undefined && value.summary?.includes(heading.path);
  const head = heading && !isInSummary ? [`${visible(heading.path)}: ${heading.note}`] : [];
  const lines = [...head, ...renderView(layout, screen)];
  if (layout.view === "tasks") return lines;
  // Workers read whole files, but people only need to see which file was read.
  const height = value.kind === "file_content" ? { maxHeight: filePreviewHeight } : {};
  return shortenLines(lines, { ...height, ...value.display }, screen.style);
}

function renderView(layout: ResultLayout, { style, columns }: Screen): string[] {
  switch (layout.view) {
    case "text":
    case "code":
      return printableLines(layout.text);
    case "markdown":
      if (columns === undefined) return printableLines(layout.text);
      return markdownToAnsi(layout.text, { style, columns: columns - branchWidth });
    case "diff":
      return printableLines(layout.text).map((line) => styleDiffLine(line, style));
    case "terminal":
      return renderTerminal(layout.text, layout.exitCode, style);
    case "data":
      return layout.isTree
        ? renderTree(layout.data)
        : printableLines(JSON.stringify(layout.data, null, 2) ?? "nothing");
    case "table":
      return renderTable(layout.rows);
    case "tasks":
      return layout.tasks.map((task) => renderTask(task, style));
  }
}

function renderTerminal(content: string, exitCode: number | undefined, style: Style): string[] {
  // If colors are off, also remove those of the command.
  const isColored = style("bold", "x") !== "x";
  const lines = content.replace(/\n$/, "").split("\n");
  const shown = lines.map((line) => (isColored ? `${visibleWithColors(line)}\u001b[0m` : visible(line)));
  return exitCode === undefined || exitCode === 0 ? shown : [...shown, style("red", `Exit code ${exitCode}`)];
}

const marks = { pending: "[ ]", in_progress: "[◐]", completed: "[✓]", cancelled: "[x]" } as const;
const colors = { pending: "gray", in_progress: "yellow", completed: "green", cancelled: "red" } as const;

function renderTask({ content, activeForm, status }: Task, style: Style): string {
  const text = status === "in_progress" ? activeForm || content : content;
  return style(colors[status], `${marks[status]} ${oneLine(text)}`);
}

function renderTree(data: unknown, depth = 0): string[] {
  const indent = "  ".repeat(depth);
  if (data === null || typeof data !== "object" || depth > 6) return [`${indent}${scalar(data)}`];

  const entries: [string, unknown][] = Array.isArray(data)
    ? data.map((item) => ["-", item])
    : Object.entries(data).map(([key, value]) => [`${oneLine(key)}:`, value]);
  if (entries.length === 0) return [`${indent}(none)`];
  return entries.flatMap(([label, value]) => {
    const isNested = value !== null && typeof value === "object" && Object.keys(value).length > 0;
    return isNested ? [`${indent}${label}`, ...renderTree(value, depth + 1)] : [`${indent}${label} ${scalar(value)}`];
  });
}

function scalar(value: unknown): string {
  if (typeof value === "string") return oneLine(value);
  if (value !== null && typeof value === "object") return Object.keys(value).length === 0 ? "(none)" : "…";
  return String(value);
}

function renderTable(rows: readonly Row[]): string[] {
  const columns = tableColumns(rows, maxColumns);
  const cells = [columns, ...rows.map((row) => columns.map((column) => row[column]))].map((line) =>
    line.map((cell) => cellOf(cell)),
  );
  const widths = columns.map((_, index) => Math.max(...cells.map((line) => line[index]?.length ?? 0)));
  const [head = "", ...body] = cells.map((line) =>
    line
      .map((cell, index) => cell.padEnd(widths[index] ?? 0))
      .join("  ")
      .trimEnd(),
  );
  return [head, widths.map((width) => "─".repeat(width)).join("  "), ...body];
}

function cellOf(value: unknown): string {
  if (value === undefined || value === null) return "";
  const text = oneLine(typeof value === "string" ? value : (JSON.stringify(value) ?? ""));
  return truncateLine(text, maxCellLength);
}

/** Colors a line of a unified diff. */
export function styleDiffLine(line: string, style: Style): string {
  if (/^(\+\+\+|---|diff |index )/.test(line)) return style("bold", line);
  if (line.startsWith("@@")) return style("cyan", line);
  if (line.startsWith("+")) return style("green", line);
  return line.startsWith("-") ? style("red", line) : line;
}

/** Splits text into lines without control sequences. */
export function printableLines(text: string): string[] {
  const lines = visible(text).replace(/\n$/, "").split("\n");
  return lines.map((line) => truncateLine(line, maxLineLength));
}

export function oneLine(text: string): string {
  return visible(text).replaceAll(/\s+/g, " ").trim();
}

function shortenLines(
  lines: string[],
  { collapsed, maxHeight = defaultHeight }: DisplayHints = {},
  style: Style,
): string[] {
  const height = collapsed ? 1 : Math.max(1, Math.floor(maxHeight));
  const rest = lines.length - height;
  // A note about one hidden line would take as much room as the line itself.
  if (rest <= 1) return lines;
  return [...lines.slice(0, height), style("gray", `… ${pluralize(rest, "more line")}`)];
}

const maxParamsLength = 80;
const statusColors: Record<ToolResultStatus, TextFormat> = { success: "green", error: "red", interrupted: "yellow" };

/** Formats a call as `ToolName(params)`. */
export function describeCall({ toolName, args = {} }: Pick<ShownResult, "toolName" | "args">): string {
  return `${oneLine(toolName)}(${describeParams(args)})`;
}

/** Renders a finished call: `● ToolName(params)` in the color of its status, and the result below it after `└>`. */
export function renderCall(shown: ShownResult, { details, ...screen }: Screen & { details: boolean }): string[] {
  const { value, status, error } = shown;
  const { style } = screen;
  const renderPill = (call: ShownResult) => style(statusColors[status], `● ${describeCall(call)}`);
  if (status !== "success") {
    const why = status === "interrupted" ? "interrupted" : (error ?? "failed");
    return [renderPill(shown), ...branch(printableLines(why).slice(0, details ? 10 : 1))];
  }
  if (value?.kind === "task_list" && "tasks" in value) {
    const count = pluralize(value.tasks.length, "task");
    const pill = renderPill({ ...shown, args: { "": count } });
    return [pill, ...(details ? valueToText(value, screen).map((line) => ` ${line}`) : [])];
  }
  const pill = renderPill(shown);
  if (!value || value.display?.preferredView === "hidden") return [pill];

  // The summary says the same as the data, which is for programs.
  const isSaid = value.kind === "json" && value.summary !== undefined && value.display === undefined;
  const rendered = isSaid ? [] : valueToText(value, screen);
  const lines = rendered.some((line) => line.trim() !== "") ? rendered : [];
  const summary = value.summary === undefined ? [] : [oneLine(value.summary)];
  return [
    pill,
    ...branch(
      details ? [...summary, ...lines.filter((line) => line !== summary[0])] : [...summary, ...lines].slice(0, 1),
    ),
  ];
}

const branchWidth = 3;

function branch(lines: readonly string[]): string[] {
  return lines.map((line, index) => `${(index === 0 ? "└>" : "").padEnd(branchWidth)}${line}`);
}

function describeParams(args: Record<string, unknown>): string {
  const entries = Object.entries(args).filter(([, value]) => value !== undefined);
  const text =
    entries.length === 1
      ? shortValue(entries[0]?.[1])
      : entries.map(([key, value]) => `${oneLine(key)}: ${shortValue(value)}`).join(", ");
  return truncateLine(text, maxParamsLength);
}

function shortValue(value: unknown): string {
  const text = oneLine(typeof value === "string" ? value : (JSON.stringify(value) ?? ""));
  return truncateLine(text, 40);
}
