import type { DisplayHints, ResultValue, Task } from "#domain/result.ts";
import { highlightLines, renderDiff, renderFileDiff } from "#text/changes/render-changes.ts";
import { type Html, html, trusted } from "#text/html.ts";
import { markdownToHtml } from "#text/markdown-to-html.ts";
import { pluralize } from "#text/pluralize.ts";
import { truncateText } from "#text/truncate.ts";
import { showHidden } from "#text/visible-text.ts";
import { layOutResult, type ResultLayout, type Row, tableColumns } from "#ui/result-layout.ts";

/** The maximum number of characters of one value. */
const maxValueLength = 60_000;
const maxMarkdownLength = 20_000;
/** The maximum number of lines of an expanded value. Longer ones are collapsed. */
const maxOpenLines = 30;
const maxRows = 100;
const maxColumns = 10;

/** Renders a tool's result by its kind and display hints. Returns undefined if it is hidden or empty. */
export function valueToHtml(value: ResultValue, repositoryUrl: string): Html | undefined {
  const layout = layOutResult(value);
  if (!layout) return undefined;
  const { heading } = layout;
  const view = renderView(layout, value.display, repositoryUrl);
  return heading ? html`<p class="file"><b>${heading.path}</b> ${colorCounts(heading.note)}</p>${view}` : view;
}

function renderView(layout: ResultLayout, hints: DisplayHints | undefined, repositoryUrl: string): Html | undefined {
  switch (layout.view) {
    case "text":
      return fold(layout.text, hints, renderPre);
    case "markdown":
      return layout.text.trim() === "" ? undefined : renderMarkdownText(layout.text, repositoryUrl);
    case "diff": {
      const { heading } = layout;
      return fold(layout.text, hints, (text) => (heading ? renderFileDiff(text, heading.path) : renderDiff(text)));
    }
    case "code":
      return fold(layout.text, hints, (text) => renderCode(text, layout.heading.path));
    case "terminal":
      return html`${fold(layout.text.replace(/\n$/, ""), hints, renderTerminal)}${renderExitCode(layout.exitCode)}`;
    case "data":
      return fold(JSON.stringify(layout.data, null, 2) ?? "nothing", hints, renderPre);
    case "table":
      return renderTable(layout.rows);
    case "tasks":
      return tasksToHtml(layout.tasks);
  }
}

function renderExitCode(exitCode: number | undefined): Html | undefined {
  if (exitCode === undefined) return undefined;
  return html`<p class="exit ${exitCode === 0 ? "good" : "bad"}">Exit code ${exitCode}</p>`;
}

/** Colors the counts of lines in a note such as "new, +3 −1". */
function colorCounts(note: string): Html {
  const [, text, added, removed] = /^(.*), (\+\d+) (−\d+)$/.exec(note) ?? [];
  return added === undefined
    ? html`${note}`
    : html`${text} <span class="added">${added}</span> <span class="removed">${removed}</span>`;
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

/** Renders Markdown. Longer text is shortened: rendering 60,000 characters of nested brackets takes 150 ms. */
export function renderMarkdownText(text: string, repositoryUrl: string): Html {
  const shown = showHidden(truncateText(text, maxMarkdownLength));
  return html`<div class="markdown">${trusted(markdownToHtml(shown, repositoryUrl))}</div>`;
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

function renderTable(rows: readonly Row[]): Html {
  const shown = rows.slice(0, maxRows);
  const columns = tableColumns(shown, maxColumns);
  const rest = rows.length - shown.length;
  return html`<div class="table" tabindex="0"><table><thead><tr>${columns.map((column) => html`<th scope="col">${column}</th>`)}</tr></thead>
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
