import {
  type CustomResultValue,
  type DisplayHints,
  fileNameOf,
  isTable,
  isWellKnown,
  type ResultValue,
  type Task,
  type WellKnownResultValue,
} from "#domain/result.ts";
import { pluralize } from "#text/pluralize.ts";
import { blockquote, codeBlock, details, inline, moreItems, paragraphs } from "./markdown.ts";

/** The maximum number of characters of one value in a comment. */
const maxValueLength = 20_000;
/** Longer values are collapsed. */
const maxOpenLines = 40;
const maxRows = 50;
const maxColumns = 8;

/** Renders a tool's result for people by its kind and hints. Text is escaped, unless the value is Markdown. */
export function valueToMarkdown(value: ResultValue): string | undefined {
  if (value.display?.preferredView === "hidden") return undefined;
  return isWellKnown(value) ? renderWellKnown(value) : renderCustom(value);
}

function renderWellKnown(value: WellKnownResultValue): string | undefined {
  const { display } = value;
  switch (value.kind) {
    case "text":
      return renderText(value.content, display);
    case "diff":
      return paragraphs(
        `**${inline(value.path)}**, ${describeDiff(value)}`,
        block(value.diff ?? value.modified, value.diff === undefined ? "text" : "diff", display),
      );
    case "file_content":
      return paragraphs(
        `**${inline(value.path)}**, ${pluralize(value.size, "byte")}`,
        block(value.content, languageOf(value.path), display),
      );
    case "file_list":
      return paragraphs(
        `${pluralize(value.count, "file")} in **${inline(value.path || "/")}**`,
        block(value.files.map(fileNameOf).join("\n"), "text", display),
      );
    case "json":
      return renderData(value.data, display);
    case "terminal":
      return paragraphs(
        typeof value.exitCode === "number" && `Exit code ${value.exitCode}`,
        block(value.content, "text", display),
      );
    case "task_list":
      return tasksToMarkdown(value.tasks);
  }
}

function renderCustom({ data, preview, display }: CustomResultValue): string | undefined {
  return preview === undefined ? renderData(data, display) : renderText(preview, display);
}

function renderText(content: string, display: DisplayHints | undefined): string | undefined {
  if (display?.preferredView === "markdown") return blockquote(content, maxValueLength);
  return block(content, "text", display);
}

function renderData(data: unknown, display: DisplayHints | undefined): string | undefined {
  if (display?.preferredView === "table" && isTable(data)) return renderTable(data);
  if (typeof data === "string") return renderText(data, display);
  return block(JSON.stringify(data, null, 2) ?? "nothing", "json", display);
}

/** Renders preformatted text, truncated to its hints and the limit. Returns an empty string for empty text. */
function block(content: string, language: string, hints: DisplayHints = {}): string | undefined {
  if (content.trim() === "") return undefined;

  const lines = content.split("\n");
  const height = hints.maxHeight !== undefined && hints.maxHeight >= 1 ? Math.floor(hints.maxHeight) : lines.length;
  const rest = lines.length > height ? [`… ${pluralize(lines.length - height, "more line")}`] : [];
  const shown = codeBlock(
    [...lines.slice(0, height), ...rest].join("\n"),
    plainLanguage(hints.language) ?? language,
    maxValueLength,
  );
  const isLong = height > maxOpenLines || content.length > maxValueLength / 4;
  return hints.collapsed === true || (hints.collapsed === undefined && isLong)
    ? details(`Show (${pluralize(lines.length, "line")})`, shown)
    : shown;
}

/** The language becomes part of the fence, where other characters would be markup. */
function plainLanguage(language: string | undefined): string | undefined {
  return language !== undefined && /^[a-z0-9+#-]{1,20}$/i.test(language) ? language : undefined;
}

function languageOf(path: string): string {
  return plainLanguage(/\.([^./]+)$/.exec(path)?.[1]) ?? "text";
}

function describeDiff({ isNew, action, stats, rejected }: Extract<WellKnownResultValue, { kind: "diff" }>): string {
  const done = action === "delete" ? "deleted" : isNew ? "new" : "changed";
  const lines = stats ? `, +${stats.additions} −${stats.deletions}` : "";
  return `${rejected ? "not " : ""}${done}${lines}`;
}

type Row = Record<string, unknown>;

function renderTable(rows: readonly Row[]): string | undefined {
  const columns = [...new Set(rows.slice(0, maxRows).flatMap(Object.keys))].slice(0, maxColumns);
  if (columns.length === 0) return undefined;

  const line = (cells: readonly string[]) => `| ${cells.map((cell) => inline(cell, 60)).join(" | ")} |`;
  const body = rows.slice(0, maxRows).map((row) => line(columns.map((column) => cellOf(row[column]))));
  const left = rows.length - maxRows;
  const table = [line(columns), `|${columns.map(() => "---|").join("")}`, ...body].join("\n");
  return paragraphs(table, left > 0 && `… ${pluralize(left, "more row")}`);
}

function cellOf(value: unknown): string {
  if (value === undefined) return "";
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

const maxTasks = 50;

/** Renders a list of tasks with their status. */
export function tasksToMarkdown(tasks: readonly Task[]): string {
  return [...tasks.slice(0, maxTasks).map(renderTask), ...moreItems(tasks.length - maxTasks, "task")].join("\n");
}

function renderTask({ content, activeForm, status }: Task): string {
  switch (status) {
    case "completed":
      return `- [x] ${inline(content)}`;
    case "in_progress":
      return `- [ ] **${inline(activeForm || content)}** …`;
    case "cancelled":
      return `- [x] ~~${inline(content)}~~`;
    case "pending":
      return `- [ ] ${inline(content)}`;
  }
}
