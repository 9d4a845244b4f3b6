/** A stretch of Markdown: code is shown as it is written, prose is not. */
export interface MarkdownPart {
  text: string;
  code: boolean;
}

const fenceLine = /^(`{3,}|~{3,})(.*)$/;
const looseFenceLine = /^[ \t>*+\-\d.)]*(?:`{3,}|~{3,})/;
const htmlBlock = /^ {0,3}<(?:[A-Za-z/])/;
const rawHtmlBlock = /^ {0,3}<(?:(script|pre|style|textarea)\b|(!--)|(\?)|(!\[CDATA\[)|(!))/i;

/**
 * Splits Markdown into prose and code. Only what GitHub surely shows as code counts as code: where indentation, lists,
 * raw HTML or unmatched backticks leave a doubt, it is prose. The parts joined are the text again.
 */
export function splitCode(markdown: string): MarkdownPart[] {
  return splitFences(markdown).flatMap((part) => (part.code ? [part] : splitParagraphs(part.text)));
}

/** The same for fenced code alone: code within a line counts as prose. */
export function splitFences(markdown: string): MarkdownPart[] {
  const blocks = readBlocks(markdown.split("\n"));
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

/** Undefined where it cannot be told for sure which lines are inside a fence. */
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
      if (closes(line, fence)) {
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

function closes(line: string, fence: string): boolean {
  const run = /^ {0,3}(`{3,}|~{3,})[ \t]*$/.exec(line)?.[1];
  return run !== undefined && run[0] === fence[0] && run.length >= fence.length;
}

/** What ends the block of raw HTML that goes on after this line; undefined when none does. */
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

/** Inline code counts where every line of its paragraph has its backticks in pairs, and no tag could hold one. */
function splitParagraphs(text: string): MarkdownPart[] {
  const parts = text.split(/(\n[ \t]*\n)/).flatMap((paragraph) => {
    const lines = paragraph.split("\n").map(splitLine);
    const sure = lines.flatMap((line, index) => [...(index > 0 ? [{ text: "\n", code: false }] : []), ...(line ?? [])]);
    const doubtful = lines.includes(undefined) || sure.some((part) => !part.code && /<[A-Za-z/!?]/.test(part.text));
    return doubtful ? [{ text: paragraph, code: false }] : sure;
  });
  return joinProse(parts);
}

/** The line's prose and code spans; undefined when they cannot be told apart for sure. */
function splitLine(line: string): MarkdownPart[] | undefined {
  const runs = [...line.matchAll(/`+/g)];
  const parts: MarkdownPart[] = [];
  let from = 0;
  for (let index = 0; index < runs.length; index += 2) {
    const [open, close] = [runs[index], runs[index + 1]];
    // Runs of another length inside a span are legal, and rare: they count as a doubt.
    if (!open || open[0] !== close?.[0]) return undefined;
    const end = close.index + close[0].length;
    const [prose, code] = [line.slice(from, open.index), line.slice(open.index, end)];
    // An escaped backtick opens nothing, and in a table a bar ends the cell even inside backticks.
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
