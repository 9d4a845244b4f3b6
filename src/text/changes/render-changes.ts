import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import csharp from "highlight.js/lib/languages/csharp";
import css from "highlight.js/lib/languages/css";
import dockerfile from "highlight.js/lib/languages/dockerfile";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import kotlin from "highlight.js/lib/languages/kotlin";
import markdown from "highlight.js/lib/languages/markdown";
import php from "highlight.js/lib/languages/php";
import python from "highlight.js/lib/languages/python";
import ruby from "highlight.js/lib/languages/ruby";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import swift from "highlight.js/lib/languages/swift";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { type Html, html, trusted } from "#text/html.ts";
import { unquotePath } from "#text/quoted-path.ts";
import { showHidden, wrapMark } from "#text/visible-text.ts";

interface DiffLine {
  kind: "meta" | "hunk" | "added" | "removed" | "same";
  text: string;
  /** Line numbers in the old and the new file. */
  before?: number;
  after?: number;
}

/** A changed file, with the lines of its unified diff. */
export interface FileToShow {
  name: string;
  lines: readonly string[];
  /** Shown next to the name: the kind of change, modes, the reason why no content is shown. */
  details?: string | undefined;
}

/** The stylesheet and the script of pages that show changes. */
export const changesAssets = {
  "changes.css": new URL("./changes.css", import.meta.url),
  "changes.js": new URL("./changes.js", import.meta.url),
};

/**
 * Renders changed files as a pull request shows them: a tree of the files with a filter, and for each file its diff, which
 * folds, with a box to mark it as viewed. `id` is unique on the page.
 */
export function renderChanges(files: readonly FileToShow[], id: string): Html | undefined {
  if (files.length === 0) return undefined;
  const budget = colorBudget();
  const diffs = files.map((file, index) => renderFile(file, `${id}-${index}`, budget));
  const split = html`<label class="choice split"><input type="checkbox" id="${id}-split"> Show changes side by side</label>`;
  if (files.length === 1) return html`<div class="changes" id="${id}">${split}${diffs}</div>`;
  return html`<div class="changes" id="${id}"><p class="changes-head"><b>${files.length} files changed</b> ${renderCounts(files.flatMap(({ lines }) => lines))} ${split}</p>
<div class="changes-body"><nav class="tree" aria-label="Changed files"><input type="search" id="${id}-filter" class="filter" placeholder="Filter files" aria-label="Filter files">${renderFolder(buildTree(files, id))}<p class="no-match" role="status" hidden>No file matches.</p></nav><div>${diffs}</div></div></div>`;
}

function renderFile({ name, lines, details }: FileToShow, id: string, budget: ColorBudget): Html {
  return html`<div class="reviewed" id="${id}"><details class="file" open><summary><code>${name}</code> ${renderCounts(lines)} <span class="small">${details}</span></summary>${lines.length > 0 && renderLines(lines, name, budget)}</details><label class="choice"><input type="checkbox" id="${id}-viewed" aria-label="Viewed: ${name}"> Viewed</label></div>`;
}

interface Folder {
  folders: Map<string, Folder>;
  files: { name: string; id: string; lines: readonly string[] }[];
}

/** The rest of a deeper path is shown as one name: browsers limit the depth of a document. */
const maxTreeDepth = 20;

function buildTree(files: readonly FileToShow[], id: string): Folder {
  const root: Folder = { folders: new Map(), files: [] };
  for (const [index, { name, lines }] of files.entries()) {
    const parts = name.split("/");
    const path = parts.slice(0, Math.min(parts.length - 1, maxTreeDepth));
    let folder = root;
    for (const part of path) {
      folder = folder.folders.getOrInsertComputed(part, () => ({ folders: new Map(), files: [] }));
    }
    folder.files.push({ name: parts.slice(path.length).join("/"), id: `${id}-${index}`, lines });
  }
  return root;
}

function renderFolder({ folders, files }: Folder): Html {
  return html`<ul>${[...folders].map(([name, folder]) => renderSubfolder(name, folder))}${files.map(
    ({ name, id, lines }) => html`<li><a href="#${id}">${name}</a> ${renderCounts(lines)}</li>`,
  )}</ul>`;
}

/** Renders folders that contain only one folder as one entry. */
function renderSubfolder(name: string, folder: Folder): Html {
  const [only, ...others] = folder.folders;
  if (only && others.length === 0 && folder.files.length === 0) return renderSubfolder(`${name}/${only[0]}`, only[1]);
  return html`<li><details open><summary>${name}</summary>${renderFolder(folder)}</details></li>`;
}

/** Renders the unified diff of one file. Its text cannot begin another file. */
export function renderFileDiff(diff: string, path: string): Html {
  return renderLines(diff.replace(/\n$/, "").split("\n"), path, colorBudget());
}

/** Renders a unified diff of any number of files: a list of the files, and a collapsible block for each. */
export function renderDiff(diff: string): Html {
  const files = splitFiles(diff.replace(/\n$/, "").split("\n"));
  const budget = colorBudget();
  if (files.length < 2) return renderLines(files[0]?.lines ?? [], files[0]?.path ?? "", budget);
  const list = files.map(({ path, lines }) => html`<li><code>${path}</code> ${renderCounts(lines)}</li>`);
  return html`<p>${files.length} files changed ${renderCounts(files.flatMap(({ lines }) => lines))}</p><ul class="changed-files">${list}</ul>${files.map(
    ({ path, lines }) =>
      html`<details class="file" open><summary><code>${path}</code> ${renderCounts(lines)}</summary>${renderLines(lines, path, budget)}</details>`,
  )}`;
}

function renderCounts(lines: readonly string[]): Html | undefined {
  const parsed = parseDiff(lines);
  const additions = parsed.filter(({ kind, after }) => kind === "added" && after !== undefined).length;
  const deletions = parsed.filter(({ kind, before }) => kind === "removed" && before !== undefined).length;
  if (additions + deletions === 0) return undefined;
  return html`<span class="added">+${additions}</span> <span class="removed">−${deletions}</span>`;
}

function splitFiles(lines: readonly string[]): { path: string; lines: string[] }[] {
  const files: { path: string; lines: string[] }[] = [];
  let removedLeft = 0;
  let addedLeft = 0;
  /** True if the header of the file has ended, so that another header begins the next file. */
  let isComplete = false;
  for (const line of lines) {
    const hunk = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))?/.exec(line);
    const inHunk = removedLeft + addedLeft > 0;
    const startsFile = !inHunk && (/^diff --git /.test(line) || (/^--- /.test(line) && isComplete));
    if (files.length === 0 || startsFile) {
      files.push({ path: "", lines: [] });
      isComplete = false;
    }
    const file = files.at(-1);
    if (!file) continue;
    file.lines.push(line);
    isComplete ||= /^(?:\+\+\+ |Binary )/.test(line);
    if (hunk) [removedLeft, addedLeft] = [Number(hunk[1] ?? 1), Number(hunk[2] ?? 1)];
    else if (inHunk) {
      if (!/^[+\\]/.test(line)) removedLeft -= 1;
      if (!/^[-\\]/.test(line)) addedLeft -= 1;
    } else {
      const name = nameIn(line);
      if (name !== undefined) file.path = name;
    }
  }
  return files;
}

/** Returns the path in a line of a file's header, without the prefix. */
function nameIn(line: string): string | undefined {
  if (!/^(?:\+\+\+|---) [^\t]/.test(line)) return undefined;
  const [name = ""] = line.slice(4).split("\t", 1);
  return name === "/dev/null" ? undefined : unquotePath(name).replace(/^[ab]\//, "");
}

/** Renders lines with their numbers as attributes, so that copied text does not contain the numbers. */
function renderLines(lines: readonly string[], path: string, budget: ColorBudget): Html {
  const parsed = parseDiff(lines);
  const wasSpent = budget.isSpent;
  const colors = highlightSides(parsed, path, budget);
  const rendered = parsed.map((line) => ({ line, markup: renderLine(line, colors.get(line)) }));
  // Related removed and added lines are in one element, which can show them side by side.
  const blocks: Html[] = [];
  let change: Html[] = [];
  const endChange = () => {
    if (change.length > 0) blocks.push(html`<span class="change">${change}</span>`);
    change = [];
  };
  for (const { line, markup } of rendered) {
    if (line.kind === "added" || line.kind === "removed") change.push(markup);
    else {
      endChange();
      blocks.push(markup);
    }
  }
  endChange();
  const colorsEnd = budget.isSpent && !wasSpent;
  return html`${colorsEnd && html`<p class="small">These changes are long: part of this file, and the files below, have no syntax colors.</p>`}<pre class="diff">${blocks}</pre>`;
}

function renderLine({ kind, text, before, after }: DiffLine, colored: Html | undefined): Html {
  const content = colored ? html`${text.slice(0, 1)}${colored}` : kind === "meta" ? readableHeader(text) : text;
  return html`<span class="${kind}" data-old="${before ?? ""}" data-new="${after ?? ""}">${content}\n</span>`;
}

function readableHeader(text: string): string {
  return text.replace(/^(\+\+\+|---) (".*")$/, (_, mark: string, name: string) => `${mark} ${unquotePath(name)}`);
}

/** Colors the old and the new text of each hunk. */
function highlightSides(lines: readonly DiffLine[], path: string, budget: ColorBudget): Map<DiffLine, Html> {
  const colors = new Map<DiffLine, Html>();
  const language = languageOf(path);
  if (language === undefined) return colors;
  let hunk: DiffLine[] = [];
  const endHunk = () => {
    for (const other of ["added", "removed"]) {
      const side = hunk.filter(({ kind }) => kind !== other);
      const code = side.map(({ text }) => text.slice(1));
      for (const [index, markup] of highlightCode(code, language, budget).entries()) {
        const line = side[index];
        if (line) colors.set(line, markup);
      }
    }
    hunk = [];
  };
  for (const line of lines) {
    if (line.kind === "meta" || line.kind === "hunk") endHunk();
    else hunk.push(line);
  }
  endHunk();
  return colors;
}

function parseDiff(lines: readonly string[]): DiffLine[] {
  let [before, after, inHunk] = [0, 0, false];
  return lines.map((text): DiffLine => {
    const hunk = /^@@ -(\d+)(?:,\d+)? \+(\d+)/.exec(text);
    if (hunk) {
      [before, after, inHunk] = [Number(hunk[1]), Number(hunk[2]), true];
      return { kind: "hunk", text };
    }
    if (/^(?:diff |index |\\ )/.test(text)) {
      if (!text.startsWith("\\")) inHunk = false;
      return { kind: "meta", text };
    }
    if (!inHunk && /^(?:\+\+\+|---) /.test(text)) return { kind: "meta", text };
    const kind = text.startsWith("+") ? "added" : text.startsWith("-") ? "removed" : "same";
    // The continuation of a wrapped line has no number.
    if (!inHunk || text.slice(1).startsWith(`${wrapMark} `)) return { kind, text };
    return {
      kind,
      text,
      ...(kind !== "added" && { before: before++ }),
      ...(kind !== "removed" && { after: after++ }),
    };
  });
}

const languages = {
  ...{ bash, c, cpp, csharp, css, dockerfile, go, ini, java, javascript, json, kotlin, markdown, php, python, ruby },
  ...{ rust, sql, swift, typescript, xml, yaml },
};
for (const [name, language] of Object.entries(languages)) hljs.registerLanguage(name, language);

/** The highlighter's time grows with the square of the length of a line, and of a text: each gets short ones. */
const maxColoredLine = 200;
const maxBlock = 4_000;
/** Nested tokens that span lines are repeated on each line. */
const maxOpenTokens = 20;
/** The fixed cost of each call of the highlighter. */
const minCost = 100;

/** The number of characters that may still be colored. */
interface ColorBudget {
  left: number;
  /** True once a block of code was longer than what was left. */
  isSpent: boolean;
}

function colorBudget(): ColorBudget {
  return { left: 60_000, isSpent: false };
}

/** Colors code by its file's language, within a budget. Returns undefined for an unknown language. */
export function highlightLines(lines: readonly string[], path: string): Html[] | undefined {
  const language = languageOf(path);
  return language === undefined ? undefined : highlightCode(lines, language, colorBudget());
}

function languageOf(path: string): string | undefined {
  const name = path.slice(path.lastIndexOf("/") + 1).toLowerCase();
  const language = name === "dockerfile" ? name : (/\.(\w+)$/.exec(name)?.[1] ?? "");
  return hljs.getLanguage(language) && language;
}

function highlightCode(lines: readonly string[], language: string, budget: ColorBudget): Html[] {
  return splitBlocks(lines).flatMap((block) => highlightBlock(block, language, budget) ?? block.map(plainLine));
}

const plainLine = (line: string): Html => html`${line}`;

/** Splits code into blocks of lines, between two top-level statements where possible. */
function splitBlocks(lines: readonly string[]): string[][] {
  const blocks: string[][] = [];
  let block: string[] = [];
  /** The first line of the last statement in the block. */
  let statement = 0;
  let length = 0;
  for (const line of lines) {
    if (length + costOf(line) > maxBlock) {
      const next = statement > 0 ? block.splice(statement) : [];
      blocks.push(block);
      [block, statement, length] = [next, 0, next.reduce((sum, each) => sum + costOf(each), 0)];
    }
    if (block.at(-1)?.trim() === "" && /^\S/.test(line)) statement = block.length;
    block.push(line);
    length += costOf(line);
  }
  return block.length > 0 ? [...blocks, block] : blocks;
}

function costOf(line: string): number {
  return Math.min(line.length, maxColoredLine) + 1;
}

/** Returns undefined where the budget is spent, or where too many tokens span lines. */
function highlightBlock(lines: readonly string[], language: string, budget: ColorBudget): Html[] | undefined {
  const code = lines
    .map((line) => (line.length > maxColoredLine ? "" : showHidden(line)))
    .map((line) => (line.length > maxColoredLine ? "" : line))
    .join("\n");
  const cost = Math.max(code.length, minCost);
  budget.isSpent ||= budget.left < cost;
  if (budget.isSpent) return undefined;
  budget.left -= cost;

  const open: string[] = [];
  const colored: Html[] = [];
  const marked = hljs.highlight(code, { language, ignoreIllegals: true }).value.split("\n");
  for (const [index, line] of marked.entries()) {
    const start = open.join("");
    // Close a token that spans lines at the end of each line, and open it again on the next.
    for (const [tag] of line.matchAll(/<span class="[^"]*">|<\/span>/g)) {
      if (tag === "</span>") open.pop();
      else open.push(tag);
    }
    if (open.length > maxOpenTokens) return undefined;
    const text = lines[index] ?? "";
    colored.push(
      line === "" && text !== "" ? plainLine(text) : trusted(`${start}${line}${"</span>".repeat(open.length)}`),
    );
  }
  return colored.length === lines.length ? colored : undefined;
}
