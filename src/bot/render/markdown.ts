import { fencedBlock, maxBackticks } from "#text/markdown-code.ts";
import { pluralize } from "#text/pluralize.ts";
import { truncateLine, truncateText } from "#text/truncate.ts";
import { showHidden } from "#text/visible-text.ts";

/** Escapes a text so that it is shown literally, on one line. */
export function inline(text: string, limit = 500): string {
  return oneLine(text, limit)
    .replace(/&/g, "&amp;")
    .replace(/</g, "&lt;")
    .replace(/>/g, "&gt;")
    .replace(/[\\`*_[\]~|$]/g, "\\$&")
    .replace(/^(?:[-+#=]|\d+(?=[.)]))/, (start) => (/\d/.test(start) ? `${start}\\` : `\\${start}`));
}

/** Formats a text as inline code. Backticks in the text are safe. */
export function code(text: string, limit = 200): string {
  const line = oneLine(text, limit);
  if (line === "") return "``` ```";
  if (!line.includes("`") && !line.includes("|")) return `\`${line}\``;

  const ticks = "`".repeat(maxBackticks(line) + 1);
  return `${ticks} ${line} ${ticks}`;
}

/** Creates a fenced code block. Its fence is longer than any run of backticks in the text. */
export function codeBlock(text: string, language = "", limit = 30_000): string {
  const content = truncateText(showHidden(truncateText(text, 4 * limit)), limit).replace(/\n$/, "");
  return fencedBlock(content, language);
}

/** Formats a text as a blockquote that contains all of its lines. */
export function blockquote(text: string, limit = 10_000): string {
  return truncateText(showHidden(truncateText(text, 4 * limit)), limit)
    .split("\n")
    .map((line) => `> ${line}`.trimEnd())
    .join("\n");
}

/** Creates a collapsed section. Pass an escaped summary, because it is inserted unchanged. */
export function details(summary: string, content: string): string {
  return `<details>\n<summary>${summary}</summary>\n\n${content}\n\n</details>`;
}

/** Joins paragraphs with blank lines. Omits empty ones. */
export function paragraphs(...parts: (string | undefined | false)[]): string {
  return parts.filter(Boolean).join("\n\n");
}

function oneLine(text: string, limit: number): string {
  // Also truncated first, so that the cost depends only on the part that is shown.
  const line = showHidden(text.slice(0, 4 * limit))
    .replace(/\s+/g, " ")
    .trim();
  return truncateLine(line, limit);
}

/** Returns the last item of a truncated list: the number of omitted items. Empty if none were omitted. */
export function moreItems(left: number, noun: string): string[] {
  return left > 0 ? [`- … ${pluralize(left, `more ${noun}`)}`] : [];
}

/** Formats a time to the minute: `2026-05-04 10:00 UTC`. */
export function formatUtc(at: number): string {
  return `${new Date(at).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}
