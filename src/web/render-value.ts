import {
  type CustomResultValue,
  type DisplayHints,
  isWellKnownKind,
  type ResultValue,
  type Task,
  type WellKnownResultValue,
} from "#domain/result.ts";
import { showHidden } from "#text/hidden-characters.ts";
import { renderMarkdown } from "#text/render-markdown.ts";
import { truncateText } from "#text/truncate.ts";
import { type Html, html, trusted } from "./html.ts";
import { renderTerminal } from "./render-terminal.ts";

/** What the page shows of one value, in characters. */
const longestValue = 60_000;
/** A value longer than this is opened with a tap. */
const openLines = 30;
const shownRows = 100;
const shownColumns = 10;

/** A tool's result for people, by its kind and its own hints. Undefined for what is hidden, and for nothing. */
export function renderValue(value: ResultValue, repositoryUrl: string): Html | undefined {
  if (value.display?.preferredView === "hidden") return undefined;
  return isWellKnownKind(value.kind)
    ? renderWellKnown(value as WellKnownResultValue, repositoryUrl)
    : renderCustom(value as CustomResultValue, repositoryUrl);
}

function renderWellKnown(value: WellKnownResultValue, repositoryUrl: string): Html | undefined {
  const { display } = value;
  switch (value.kind) {
    case "text":
      return renderText(value.content, display, repositoryUrl);
    case "diff":
      return html`<p class="file"><b>${value.path}</b> ${describeDiff(value)}</p>${fold(value.diff ?? value.modified, display, (text) => (value.diff === undefined ? block(text) : renderDiff(text)))}`;
    case "file_content":
      return html`<p class="file"><b>${value.path}</b> ${value.size} bytes</p>${fold(value.content, display, block)}`;
    case "file_list":
      return html`<p class="file">${value.count} in <b>${value.path || "/"}</b></p>${fold(value.files.map(nameOf).join("\n"), display, block)}`;
    case "json":
      return renderData(value.data, display, repositoryUrl);
    case "terminal":
      return html`${fold(value.content.replace(/\n$/, ""), display, renderTerminal)}${exitOf(value)}`;
    case "task_list":
      return renderTasks(value.tasks);
  }
}

function exitOf({ exitCode }: { exitCode?: number | null | undefined }): Html | undefined {
  if (typeof exitCode !== "number") return undefined;
  return html`<p class="exit ${exitCode === 0 ? "good" : "bad"}">Exit code ${exitCode}</p>`;
}

const marks = { pending: "☐", in_progress: "◐", completed: "☑", cancelled: "☒" } as const;
const words = { pending: "to do", in_progress: "in progress", completed: "done", cancelled: "cancelled" } as const;

/** A list of tasks, each with how it stands. */
export function renderTasks(tasks: readonly Task[]): Html {
  return html`<ul class="tasks">${tasks
    .slice(0, shownRows)
    .map(
      ({ content, activeForm, status }) =>
        html`<li class="${status}"><span role="img" aria-label="${words[status]}">${marks[status]}</span> ${status === "in_progress" ? activeForm || content : content}</li>`,
    )}</ul>`;
}

/** A unified diff with its lines in their colours. */
export function renderDiff(diff: string): Html {
  const lines = diff.replace(/\n$/, "").split("\n");
  return html`<pre class="diff">${lines.map((line) => html`<span class="${classOf(line)}">${line}\n</span>`)}</pre>`;
}

function classOf(line: string): string {
  if (/^(\+\+\+|---|diff |index )/.test(line)) return "meta";
  if (line.startsWith("@@")) return "hunk";
  if (line.startsWith("+")) return "added";
  return line.startsWith("-") ? "removed" : "same";
}

/** Text as it is. */
export function block(text: string): Html {
  return html`<pre>${text}</pre>`;
}

/** How long a text is, for people. */
export function describeLines(text: string): string {
  const count = text.split("\n").length;
  return count === 1 ? "1 line" : `${count} lines`;
}

/** Data as indented JSON. */
export function renderJson(data: unknown): Html {
  return block(truncateText(JSON.stringify(data, null, 2) ?? "nothing", longestValue));
}

function renderCustom({ data, preview, display }: CustomResultValue, repositoryUrl: string): Html | undefined {
  return preview === undefined ? renderData(data, display, repositoryUrl) : renderText(preview, display, repositoryUrl);
}

function renderText(content: string, display: DisplayHints | undefined, repositoryUrl: string): Html | undefined {
  if (content.trim() === "") return undefined;
  return display?.preferredView === "markdown" ? renderWords(content, repositoryUrl) : fold(content, display, block);
}

/** Words in Markdown. */
export function renderWords(text: string, repositoryUrl: string): Html {
  return html`<div class="words">${trusted(renderMarkdown(showHidden(truncateText(text, longestValue)), repositoryUrl))}</div>`;
}

function renderData(data: unknown, display: DisplayHints | undefined, repositoryUrl: string): Html | undefined {
  if (display?.preferredView === "table" && isTable(data)) return renderTable(data);
  if (typeof data === "string") return renderText(data, display, repositoryUrl);
  return fold(JSON.stringify(data, null, 2) ?? "nothing", display, block);
}

/** Cut where its hints or the room say so; what is long is folded. */
function fold(text: string, hints: DisplayHints = {}, render: (text: string) => Html): Html | undefined {
  if (text.trim() === "") return undefined;
  const lines = text.split("\n");
  const height = hints.maxHeight !== undefined && hints.maxHeight >= 1 ? Math.floor(hints.maxHeight) : lines.length;
  const rest = lines.length > height ? [`… ${lines.length - height} more lines`] : [];
  const shown = render(truncateText([...lines.slice(0, height), ...rest].join("\n"), longestValue));
  const isLong = height > openLines || text.length > longestValue / 4;
  const isFolded = hints.collapsed === true || (hints.collapsed === undefined && isLong);
  return isFolded ? html`<details><summary>${describeLines(text)}</summary>${shown}</details>` : shown;
}

function describeDiff({ isNew, action, stats, rejected }: Extract<WellKnownResultValue, { kind: "diff" }>): Html {
  const done = action === "delete" ? "deleted" : isNew ? "new" : "changed";
  return html`${rejected && "not "}${done}${stats && html` <span class="added">+${stats.additions}</span> <span class="removed">−${stats.deletions}</span>`}`;
}

function nameOf(file: unknown): string {
  const { path, name } = (file ?? {}) as { path?: unknown; name?: unknown };
  const named = [file, path, name].find((one) => typeof one === "string");
  return typeof named === "string" ? named : (JSON.stringify(file) ?? "");
}

type Row = Record<string, unknown>;

function isTable(data: unknown): data is Row[] {
  return (
    Array.isArray(data) &&
    data.length > 0 &&
    data.every((row) => row !== null && typeof row === "object" && !Array.isArray(row))
  );
}

function renderTable(rows: readonly Row[]): Html {
  const shown = rows.slice(0, shownRows);
  const columns = [...new Set(shown.flatMap(Object.keys))].slice(0, shownColumns);
  const rest = rows.length - shown.length;
  return html`<div class="table"><table><thead><tr>${columns.map((column) => html`<th scope="col">${column}</th>`)}</tr></thead>
<tbody>${shown.map((row) => html`<tr>${columns.map((column) => html`<td>${cellOf(row[column])}</td>`)}</tr>`)}</tbody></table></div>${rest > 0 && html`<p>… ${rest} more rows</p>`}`;
}

function cellOf(value: unknown): string {
  if (value === undefined || value === null) return "";
  return truncateText(typeof value === "string" ? value : (JSON.stringify(value) ?? ""), 500);
}
