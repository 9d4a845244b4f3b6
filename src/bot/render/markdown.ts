import { truncateText } from "#text/truncate.ts";
import { showHidden } from "#text/visible-text.ts";

/** Text on one line that shows as it is written: nothing in it is Markdown or HTML. */
export function inline(text: string, limit = 500): string {
  return oneLine(text, limit)
    .replace(/&/g, "&amp;")
    .replace(/</g, "&lt;")
    .replace(/>/g, "&gt;")
    .replace(/[\\`*_[\]~|$]/g, "\\$&")
    .replace(/^(?:[-+#=]|\d+(?=[.)]))/, (start) => (/\d/.test(start) ? `${start}\\` : `\\${start}`));
}

/** Inline code, whatever the text holds. */
export function code(text: string, limit = 200): string {
  const line = oneLine(text, limit);
  if (line === "") return "``` ```";
  if (!line.includes("`") && !line.includes("|")) return `\`${line}\``;

  const ticks = "`".repeat(longestRunOf(line, "`") + 1);
  return `${ticks} ${line} ${ticks}`;
}

/** A fenced block that the text cannot close: its fence is longer than any run of backticks inside. */
export function codeBlock(text: string, language = "", limit = 30_000): string {
  const content = truncateText(showHidden(truncateText(text, 4 * limit)), limit).replace(/\n$/, "");
  const fence = "`".repeat(Math.max(3, longestRunOf(content, "`") + 1));
  return `${fence}${language}\n${content}\n${fence}`;
}

/** The text as a quotation: no line of it stands outside. */
export function blockquote(text: string, limit = 10_000): string {
  return truncateText(showHidden(truncateText(text, 4 * limit)), limit)
    .split("\n")
    .map((line) => `> ${line}`.trimEnd())
    .join("\n");
}

/** A section one opens with a tap. The summary is shown as it is; give it escaped text. */
export function details(summary: string, content: string): string {
  return `<details>\n<summary>${summary}</summary>\n\n${content}\n\n</details>`;
}

/** Paragraphs with an empty line between them; empty ones are left out. */
export function paragraphs(...parts: (string | undefined | false)[]): string {
  return parts.filter(Boolean).join("\n\n");
}

function oneLine(text: string, limit: number): string {
  // Cut first as well, so that the cost is that of what is shown.
  const line = showHidden(text.slice(0, 4 * limit))
    .replace(/\s+/g, " ")
    .trim();
  return line.length > limit ? `${line.slice(0, limit - 1).toWellFormed()}…` : line;
}

/** How often the character stands in a row at most. */
export function longestRunOf(text: string, character: string): number {
  return (text.match(new RegExp(`${character}+`, "g")) ?? []).reduce(
    (longest, run) => Math.max(longest, run.length),
    0,
  );
}

/** The last item of a truncated list; empty when nothing was left out. */
export function moreItems(left: number, what: string): string[] {
  return left > 0 ? [`- … ${left} more ${what}`] : [];
}

/** Formats a time to the minute: `2026-05-04 10:00 UTC`. */
export function formatUtc(at: number): string {
  return `${new Date(at).toISOString().slice(0, 16).replace("T", " ")} UTC`;
}
