import type { DisplayHints, ResultValue, Task } from "#domain/result.ts";
import { pluralize } from "#text/pluralize.ts";
import { layOutResult, type ResultLayout, type Row, tableColumns } from "#ui/result-layout.ts";
import { blockquote, codeBlock, details, inline, moreItems, paragraphs } from "./markdown.ts";

/** The maximum number of characters of one value in a comment. */
const maxValueLength = 20_000;
/** Longer values are collapsed. */
const maxOpenLines = 40;
const maxRows = 50;
const maxColumns = 8;

/** Renders a tool's result for people by its kind and hints. Text is escaped, unless the value is Markdown. */
export function valueToMarkdown(value: ResultValue): string | undefined {
  const layout = layOutResult(value);
  if (!layout) return undefined;
  const { heading } = layout;
  return paragraphs(heading && `**${inline(heading.path)}**, ${heading.note}`, renderView(layout, value.display));
}

function renderView(layout: ResultLayout, hints: DisplayHints | undefined): string | undefined {
  switch (layout.view) {
    case "text":
    case "diff":
      return block(layout.text, layout.view, hints);
    case "code":
      return block(layout.text, languageOf(layout.heading.path), hints);
    case "markdown":
      return blockquote(layout.text, maxValueLength);
    case "terminal": {
      const { text, exitCode } = layout;
      return paragraphs(exitCode !== undefined && `Exit code ${exitCode}`, block(text, "text", hints));
    }
    case "data":
      return block(JSON.stringify(layout.data, null, 2) ?? "nothing", "json", hints);
    case "table":
      return renderTable(layout.rows);
    case "tasks":
      return tasksToMarkdown(layout.tasks);
  }
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

function renderTable(rows: readonly Row[]): string | undefined {
  const columns = tableColumns(rows.slice(0, maxRows), maxColumns);
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
