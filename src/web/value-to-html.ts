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
import { highlightLines, renderDiff, renderFileDiff } from "#text/changes/render-changes.ts";
import { type Html, html, trusted } from "#text/html.ts";
import { markdownToHtml } from "#text/markdown-to-html.ts";
import { pluralize } from "#text/pluralize.ts";
import { truncateText } from "#text/truncate.ts";
import { showHidden } from "#text/visible-text.ts";

/** The maximum number of characters of one value. */
const maxValueLength = 60_000;
const maxMarkdownLength = 20_000;
/** The maximum number of lines of an expanded value. Longer ones are collapsed. */
const maxOpenLines = 30;
const maxRows = 100;
const maxColumns = 10;

/** Renders a tool's result by its kind and display hints. Returns undefined if it is hidden or empty. */
export function valueToHtml(value: ResultValue, repositoryUrl: string): Html | undefined {
  if (value.display?.preferredView === "hidden") return undefined;
  return isWellKnown(value) ? renderWellKnown(value, repositoryUrl) : renderCustom(value, repositoryUrl);
}

function renderWellKnown(value: WellKnownResultValue, repositoryUrl: string): Html | undefined {
  const { display } = value;
  switch (value.kind) {
    case "text":
      return renderText(value.content, display, repositoryUrl);
    case "diff":
      return html`<p class="file"><b>${value.path}</b> ${describeDiff(value)}</p>${fold(value.diff ?? value.modified, display, (text) => (value.diff === undefined ? renderCode(text, value.path) : renderFileDiff(text, value.path)))}`;
    case "file_content":
      return html`<p class="file"><b>${value.path}</b> ${pluralize(value.size, "byte")}</p>${fold(value.content, display, (text) => renderCode(text, value.path))}`;
    case "file_list":
      return html`<p class="file">${pluralize(value.count, "entry", "entries")} in <b>${value.path || "/"}</b></p>${fold(value.files.map(fileNameOf).join("\n"), display, renderPre)}`;
    case "json":
      return renderData(value.data, display, repositoryUrl);
    case "terminal":
      return html`${fold(value.content.replace(/\n$/, ""), display, renderTerminal)}${renderExitCode(value)}`;
    case "task_list":
      return tasksToHtml(value.tasks);
  }
}

function renderExitCode({ exitCode }: { exitCode?: number | null | undefined }): Html | undefined {
  if (typeof exitCode !== "number") return undefined;
  return html`<p class="exit ${exitCode === 0 ? "good" : "bad"}">Exit code ${exitCode}</p>`;
}

const taskMarks = { pending: "☐", in_progress: "◐", completed: "☑", cancelled: "☒" } as const;
const taskLabels = { pending: "to do", in_progress: "in progress", completed: "done", cancelled: "cancelled" } as const;

/** Describes the progress of a plan: "3/6". */
export function describeTasks(tasks: readonly Task[]): string {
  return `plan ${tasks.filter(({ status }) => status === "completed").length}/${tasks.length}`;
}

/** Renders a list of tasks with their status. */
export function tasksToHtml(tasks: readonly Task[]): Html {
  return html`<ul class="tasks">${tasks
    .slice(0, maxRows)
    .map(
      ({ content, activeForm, status }) =>
        html`<li class="${status}"><span role="img" aria-label="${taskLabels[status]}">${taskMarks[status]}</span> ${status === "in_progress" ? activeForm || content : content}</li>`,
    )}</ul>`;
}

export function renderPre(text: string): Html {
  return html`<pre>${text}</pre>`;
}

/** Renders code with syntax highlighting. */
function renderCode(text: string, path: string): Html {
  const colored = highlightLines(text.split("\n"), path);
  return colored
    ? html`<pre>${colored.map((line, index) => html`${index > 0 && "\n"}${line}`)}</pre>`
    : renderPre(text);
}

export function describeLines(text: string): string {
  const count = text.split("\n").length;
  return pluralize(count, "line");
}

export function renderJson(data: unknown): Html {
  return renderPre(truncateText(JSON.stringify(data, null, 2) ?? "undefined", maxValueLength));
}

function renderCustom({ data, preview, display }: CustomResultValue, repositoryUrl: string): Html | undefined {
  return preview === undefined ? renderData(data, display, repositoryUrl) : renderText(preview, display, repositoryUrl);
}

function renderText(content: string, display: DisplayHints | undefined, repositoryUrl: string): Html | undefined {
  if (content.trim() === "") return undefined;
  if (display?.language === "diff") return fold(content, display, renderDiff);
  return display?.preferredView === "markdown"
    ? renderMarkdownText(content, repositoryUrl)
    : fold(content, display, renderPre);
}

/** Renders Markdown. Longer text is shortened: rendering 60,000 characters of nested brackets takes 150 ms. */
export function renderMarkdownText(text: string, repositoryUrl: string): Html {
  const shown = showHidden(truncateText(text, maxMarkdownLength));
  return html`<div class="markdown">${trusted(markdownToHtml(shown, repositoryUrl))}</div>`;
}

function renderData(data: unknown, display: DisplayHints | undefined, repositoryUrl: string): Html | undefined {
  if (display?.preferredView === "table" && isTable(data)) return renderTable(data);
  if (typeof data === "string") return renderText(data, display, repositoryUrl);
  return fold(JSON.stringify(data, null, 2) ?? "undefined", display, renderPre);
}

/** Truncates a text to its hints and the page's limits, and collapses it if it is long. */
function fold(text: string, hints: DisplayHints = {}, render: (text: string) => Html): Html | undefined {
  if (text.trim() === "") return undefined;
  const lines = text.split("\n");
  const height = hints.maxHeight !== undefined && hints.maxHeight >= 1 ? Math.floor(hints.maxHeight) : lines.length;
  const rest = lines.length > height ? [`… ${pluralize(lines.length - height, "more line")}`] : [];
  const shown = render(truncateText([...lines.slice(0, height), ...rest].join("\n"), maxValueLength));
  const isLong = height > maxOpenLines || text.length > maxValueLength / 4;
  const isFolded = hints.collapsed === true || (hints.collapsed === undefined && isLong);
  return isFolded ? html`<details><summary>${describeLines(text)}</summary>${shown}</details>` : shown;
}

function describeDiff({ isNew, action, stats, rejected }: Extract<WellKnownResultValue, { kind: "diff" }>): Html {
  const change = action === "delete" ? "deleted" : isNew ? "new" : "changed";
  return html`${rejected && "not "}${change}${stats && html` <span class="added">+${stats.additions}</span> <span class="removed">−${stats.deletions}</span>`}`;
}

type Row = Record<string, unknown>;

function renderTable(rows: readonly Row[]): Html {
  const shown = rows.slice(0, maxRows);
  const columns = [...new Set(shown.flatMap(Object.keys))].slice(0, maxColumns);
  const rest = rows.length - shown.length;
  return html`<div class="table"><table><thead><tr>${columns.map((column) => html`<th scope="col">${column}</th>`)}</tr></thead>
<tbody>${shown.map((row) => html`<tr>${columns.map((column) => html`<td>${formatCell(row[column])}</td>`)}</tr>`)}</tbody></table></div>${rest > 0 && html`<p>… ${pluralize(rest, "more row")}</p>`}`;
}

function formatCell(value: unknown): string {
  if (value === undefined || value === null) return "";
  return truncateText(typeof value === "string" ? value : (JSON.stringify(value) ?? ""), 500);
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: matches the escape sequences that set terminal colors
const colorSequence = /\u001B\[([0-9;]{0,40})m/g;
const colorNames = ["black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"];

/** Renders the output of a command with its colors. Drops other escape sequences. */
function renderTerminal(content: string): Html {
  let style = "";
  const pieces = content.split(colorSequence).map((piece, index) => {
    if (index % 2 === 1) {
      style = styleAfter(style, piece);
      return undefined;
    }
    return style === "" ? piece : html`<span class="${style}">${piece}</span>`;
  });
  return html`<pre class="terminal">${pieces}</pre>`;
}

/** Returns the classes in effect after these codes: a color and bold. */
function styleAfter(before: string, codes: string): string {
  let [tint, bold] = [/ansi-(?!bold)\w+/.exec(before)?.[0] ?? "", before.includes("ansi-bold")];
  for (const code of codes.split(";").map(Number)) {
    if (code === 0) [tint, bold] = ["", false];
    if (code === 1) bold = true;
    if (code === 22) bold = false;
    if (code === 39) tint = "";
    if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) tint = `ansi-${colorNames[code % 10]}`;
  }
  return [tint, bold && "ansi-bold"].filter(Boolean).join(" ");
}
