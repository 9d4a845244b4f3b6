import { splitCode } from "./markdown-code.ts";

/** The distance within which a cut looks for the end of a word. Half a secret would no longer be recognized. */
const maxWordLength = 4_096;

/** Shortens a line to `maxLength` characters with an ellipsis at its end. Never cuts a character in half. */
export function truncateLine(line: string, maxLength: number): string {
  return line.length > maxLength ? `${line.slice(0, maxLength - 1).replace(/[\uD800-\uDBFF]$/, "")}…` : line;
}

/** Returns the first line of a text that is not blank, shortened to 160 characters. */
export function firstLine(text: string): string {
  return truncateLine(text.trim().split("\n", 1)[0] ?? "", 160);
}

/** Shortens a text to `limit` characters. Cuts whole words from the middle, and adds a line with the number of characters cut. */
export function truncateText(text: string, limit: number): string {
  if (text.length <= limit) return text;

  const room = Math.max(0, limit - `\n${omission(text.length)}\n`.length);
  const head = endAtWord(text.slice(0, Math.ceil(room * 0.6)));
  const tail = startAtWord(text.slice(text.length - Math.floor(room * 0.4)));
  return `${head}\n${omission(text.length - head.length - tail.length)}\n${tail}`.toWellFormed();
}

/** Shortens Markdown like truncateText. Code fences and `<details>` are closed before the cut and opened again after it. */
export function truncateMarkdown(markdown: string, limit: number): string {
  if (markdown.length <= limit) return markdown;

  // Leaves room for the note and for closing and opening again.
  const room = Math.max(0, limit - 600);
  const lines = markdown.split("\n");
  const head = takeLines(lines, room * 0.6);
  const tail = takeLines(lines.slice(head.length).reverse(), room - lengthOf(head)).reverse();
  const omitted = markdown.length - lengthOf(head) - lengthOf(tail);
  const reopened = openBlocks(lines.slice(0, lines.length - tail.length).join("\n")).map(({ open }) => open);
  const after = tail.length > 0 && reopened.length > 0 ? `${reopened.join("\n\n")}\n` : "";
  return closeMarkdown(`${closeMarkdown(head.join("\n"))}\n\n_${omission(omitted)}_\n\n${after}${tail.join("\n")}`);
}

/** Closes the open code fence and the open `<details>` of a Markdown text, so that following text is outside of them. */
export function closeMarkdown(markdown: string): string {
  const ends = openBlocks(markdown).map(({ close }) => close);
  return ends.length > 0 ? `${markdown}\n${ends.reverse().join("\n\n")}` : markdown;
}

function omission(characters: number): string {
  return `… ${characters.toLocaleString("en-US")} characters are not shown …`;
}

/** Cuts inside a word only if the word takes more than half of the text. */
function endAtWord(head: string): string {
  const space = Math.max(...[" ", "\n", "\t"].map((character) => head.lastIndexOf(character)));
  return head.length - space < Math.min(maxWordLength, head.length / 2) ? head.slice(0, space + 1) : head;
}

function startAtWord(tail: string): string {
  const [word = ""] = /^\S*/.exec(tail.slice(0, maxWordLength)) ?? [];
  return word.length < Math.min(maxWordLength, tail.length / 2) ? tail.slice(word.length) : tail;
}

/** The lines that close the blocks at the end of the text, and that open them again. */
function openBlocks(markdown: string): { open: string; close: string }[] {
  const fence = openFence(markdown);
  return [
    ...Array.from({ length: Math.min(openDetails(markdown), 5) }, () => ({
      open: "<details><summary>…</summary>\n",
      close: "</details>",
    })),
    ...(fence ? [{ open: fence, close: fence }] : []),
  ];
}

function openDetails(markdown: string): number {
  if (!markdown.includes("<details")) return 0;
  const prose = splitCode(markdown).filter(({ code }) => !code);
  const count = (tag: RegExp) => prose.reduce((sum, { text }) => sum + (text.match(tag)?.length ?? 0), 0);
  return Math.max(0, count(/<details>|<details open>/g) - count(/<\/details>/g));
}

/** The backticks or tildes of the fence in which the text ends; undefined if it ends outside of one. */
function openFence(markdown: string): string | undefined {
  if (!markdown.includes("```") && !markdown.includes("~~~")) return undefined;

  let fence: string | undefined;
  for (const line of markdown.split("\n")) {
    const [, run = "", rest = ""] = /^ {0,3}(`{3,}|~{3,})(.*)$/.exec(line) ?? [];
    if (!run) continue;
    if (!fence) fence = run.startsWith("~") || !rest.includes("`") ? run : undefined;
    else if (run[0] === fence[0] && run.length >= fence.length && rest.trim() === "") fence = undefined;
  }
  return fence;
}

/** Returns the first lines that fit into the budget. */
function takeLines(lines: string[], room: number): string[] {
  const taken: string[] = [];
  let left = room;
  for (const line of lines) {
    left -= line.length + 1;
    if (left < 0) break;
    taken.push(line);
  }
  return taken;
}

function lengthOf(lines: string[]): number {
  return lines.reduce((sum, line) => sum + line.length + 1, 0);
}
