import { splitCode } from "./markdown-code.ts";

const note = (characters: number) => `\n\n_… ${characters.toLocaleString("en-US")} characters are not shown …_\n\n`;

/** How far a cut looks for the end of a word: half a secret would not be known for one any more. */
const longestWord = 4_096;

/** Text of at most `limit` characters: what is too much goes from the middle, in whole words, with a line that says so. */
export function truncateText(text: string, limit: number): string {
  if (text.length <= limit) return text;

  const said = (gone: number) => `\n… ${gone.toLocaleString("en-US")} characters are not shown …\n`;
  const room = Math.max(0, limit - said(text.length).length);
  const head = toEndOfWord(text.slice(0, Math.ceil(room * 0.6)));
  const tail = fromStartOfWord(text.slice(text.length - Math.floor(room * 0.4)));
  return `${head}${said(text.length - head.length - tail.length)}${tail}`.toWellFormed();
}

/** A word that takes more than half of what is left is cut all the same. */
function toEndOfWord(head: string): string {
  const space = Math.max(...[" ", "\n", "\t"].map((character) => head.lastIndexOf(character)));
  return head.length - space < Math.min(longestWord, head.length / 2) ? head.slice(0, space + 1) : head;
}

function fromStartOfWord(tail: string): string {
  const [word = ""] = /^\S*/.exec(tail.slice(0, longestWord)) ?? [];
  return word.length < Math.min(longestWord, tail.length / 2) ? tail.slice(word.length) : tail;
}

/** The same for Markdown: fences and `<details>` that the cut leaves open are closed before it, and opened again after. */
export function truncateMarkdown(markdown: string, limit: number): string {
  if (markdown.length <= limit) return markdown;

  // Room for the note and for what closes and opens again.
  const room = Math.max(0, limit - 600);
  const lines = markdown.split("\n");
  const head = takeLines(lines, room * 0.6);
  const tail = takeLines(lines.slice(head.length).reverse(), room - length(head)).reverse();
  const before = head.join("\n");
  const cut = lines.slice(0, lines.length - tail.length).join("\n");
  const again = openAt(cut)
    .map(({ open }) => open)
    .join("\n\n");
  const after = tail.length > 0 && again ? `${again}\n${tail.join("\n")}` : tail.join("\n");
  return closeMarkdown(`${closeMarkdown(before)}${note(markdown.length - length(head) - length(tail))}${after}`);
}

/** The Markdown with its open fence and its open `<details>` closed, so that what follows stands outside. */
export function closeMarkdown(markdown: string): string {
  const ends = openAt(markdown).map(({ close }) => close);
  return ends.length > 0 ? `${markdown}\n${ends.reverse().join("\n\n")}` : markdown;
}

function openAt(markdown: string): { open: string; close: string }[] {
  const details = Math.max(0, count(markdown, /<details>|<details open>/g) - count(markdown, /<\/details>/g));
  const fence = openFence(markdown);
  return [
    ...Array.from({ length: Math.min(details, 5) }, () => ({
      open: "<details><summary>…</summary>\n",
      close: "</details>",
    })),
    ...(fence ? [{ open: fence, close: fence }] : []),
  ];
}

function count(markdown: string, tag: RegExp): number {
  return splitCode(markdown).reduce((sum, part) => sum + (part.code ? 0 : (part.text.match(tag)?.length ?? 0)), 0);
}

/** The run that opened the fence the text ends in; undefined when it ends outside of one. */
function openFence(markdown: string): string | undefined {
  let fence: string | undefined;
  for (const line of markdown.split("\n")) {
    const [, run = "", rest = ""] = /^ {0,3}(`{3,}|~{3,})(.*)$/.exec(line) ?? [];
    if (!run) continue;
    if (!fence) fence = run.startsWith("~") || !rest.includes("`") ? run : undefined;
    else if (run[0] === fence[0] && run.length >= fence.length && rest.trim() === "") fence = undefined;
  }
  return fence;
}

/** Whole lines while they fit; the first one is cut when it alone is too long. */
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

function length(lines: string[]): number {
  return lines.reduce((sum, line) => sum + line.length + 1, 0);
}
