/** A part of a Markdown text: code, which is shown verbatim, or prose. */
export interface MarkdownPart {
  text: string;
  code: boolean;
}

const fenceLine = /^(`{3,}|~{3,})(.*)$/;
const looseFenceLine = /^[ \t>*+\-\d.)]*(?:`{3,}|~{3,})/;
const htmlBlock = /^ {0,3}<(?:[A-Za-z/])/;
const rawHtmlBlock = /^ {0,3}<(?:(script|pre|style|textarea)\b|(!--)|(\?)|(!\[CDATA\[)|(!))/i;

/**
 * Splits Markdown into prose and code. Counts as code only what GitHub certainly shows as code. If indentation, lists, raw
 * HTML or unmatched backticks leave any doubt, the part counts as prose. The joined parts are the original text.
 */
export function splitCode(markdown: string): MarkdownPart[] {
  return splitFences(markdown).flatMap((part) => (part.code ? [part] : splitParagraphs(part.text)));
}

/** Like splitCode, but splits at fenced code only: inline code counts as prose. */
export function splitFences(markdown: string): MarkdownPart[] {
  const mayHaveFences = markdown.includes("```") || markdown.includes("~~~");
  const blocks = mayHaveFences ? readBlocks(markdown.split("\n")) : undefined;
  if (!blocks) return [{ text: markdown, code: false }];

  return blocks.map(({ lines, code }, index) => ({
    text: lines.join("\n") + (index < blocks.length - 1 ? "\n" : ""),
    code,
  }));
}

interface Block {
  lines: string[];
  code: boolean;
}

/** Returns undefined if it is uncertain which lines are inside a fence. */
function readBlocks(lines: string[]): Block[] | undefined {
  const blocks: Block[] = [];
  let block: Block = { lines: [], code: false };
  let fence: string | undefined;
  let html: RegExp | undefined;
  const begin = (code: boolean) => {
    if (block.lines.length > 0) blocks.push(block);
    block = { lines: [], code };
  };

  for (const line of lines) {
    if (fence) {
      block.lines.push(line);
      if (isClosingFence(line, fence)) {
        fence = undefined;
        begin(false);
      }
      continue;
    }

    if (looseFenceLine.test(line)) {
      const opening = fenceLine.exec(line);
      if (html || !opening) return undefined;
      if (opening[1]?.startsWith("~") || !opening[2]?.includes("`")) {
        fence = opening[1];
        begin(true);
      }
    } else {
      html = htmlAfter(line, html);
    }
    block.lines.push(line);
  }
  begin(false);
  return blocks;
}

function isClosingFence(line: string, fence: string): boolean {
  const run = /^ {0,3}(`{3,}|~{3,})[ \t]*$/.exec(line)?.[1];
  return run !== undefined && run[0] === fence[0] && run.length >= fence.length;
}

/** The pattern that ends the raw HTML block which continues after this line; undefined if there is none. */
function htmlAfter(line: string, open: RegExp | undefined): RegExp | undefined {
  if (open) return open.test(line) ? undefined : open;

  const raw = rawHtmlBlock.exec(line);
  if (raw) {
    const end = raw[1]
      ? /<\/(?:script|pre|style|textarea)>/i
      : raw[2]
        ? /-->/
        : raw[3]
          ? /\?>/
          : raw[4]
            ? /\]\]>/
            : />/;
    return end.test(line) ? undefined : end;
  }
  return htmlBlock.test(line) ? /^[ \t]*$/ : undefined;
}

/** Counts inline code only in paragraphs with paired backticks on each line, and without tags that could contain one. */
function splitParagraphs(text: string): MarkdownPart[] {
  if (!text.includes("`")) return [{ text, code: false }];

  const parts = text.split(/(\n[ \t]*\n)/).flatMap((paragraph) => {
    if (!paragraph.includes("`")) return [{ text: paragraph, code: false }];
    const lines = paragraph.split("\n").map(splitLine);
    const split = lines.flatMap((line, index) => [
      ...(index > 0 ? [{ text: "\n", code: false }] : []),
      ...(line ?? []),
    ]);
    const isUncertain = lines.includes(undefined) || split.some((part) => !part.code && /<[A-Za-z/!?]/.test(part.text));
    return isUncertain ? [{ text: paragraph, code: false }] : split;
  });
  return joinProse(parts);
}

/** Splits a line into prose and code spans. Returns undefined if they cannot be told apart with certainty. */
function splitLine(line: string): MarkdownPart[] | undefined {
  const runs = [...line.matchAll(/`+/g)];
  const parts: MarkdownPart[] = [];
  let from = 0;
  for (let index = 0; index < runs.length; index += 2) {
    const [open, close] = [runs[index], runs[index + 1]];
    // Runs of another length inside a span are legal but rare.
    if (!open || open[0] !== close?.[0]) return undefined;
    const end = close.index + close[0].length;
    const [prose, code] = [line.slice(from, open.index), line.slice(open.index, end)];
    // An escaped backtick opens no span, and in a table a bar ends the cell even inside backticks.
    if (prose.endsWith("\\") || code.includes("|")) return undefined;
    parts.push({ text: prose, code: false }, { text: code, code: true });
    from = end;
  }
  return [...parts, { text: line.slice(from), code: false }];
}

function joinProse(parts: MarkdownPart[]): MarkdownPart[] {
  const joined: MarkdownPart[] = [];
  for (const part of parts) {
    const last = joined.at(-1);
    if (part.text === "") continue;
    if (last && !last.code && !part.code) last.text += part.text;
    else joined.push({ ...part });
  }
  return joined;
}

/** Returns the length of the longest run of backticks. */
export function maxBackticks(text: string): number {
  return text.match(/`+/g)?.reduce((longest, run) => Math.max(longest, run.length), 0) ?? 0;
}

/** Creates a fenced block that its text cannot close. */
export function fencedBlock(text: string, language: string): string {
  const fence = "`".repeat(Math.max(3, maxBackticks(text) + 1));
  return `${fence}${language}\n${text}\n${fence}`;
}
