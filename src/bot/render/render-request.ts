import { textOf } from "#domain/preview.ts";
import { fencedBlock, maxBackticks } from "#text/markdown-code.ts";
import { pluralize } from "#text/pluralize.ts";
import { escapeInvisible } from "#text/visible-text.ts";
import { type RequestContent, requestBlocks } from "#ui/request-blocks.ts";
import { code, details, inline, paragraphs } from "./markdown.ts";

interface RequestLayout {
  /** The part in the request itself: everything or, if that is too long, the beginning. */
  body: string | undefined;
  /** The full content, split into comments that precede the request. Empty if the request contains everything. */
  precedingComments: string[];
}

/** Characters of Markdown. A comment may have 60,000, including our own text around them. */
const maxBodyLength = 40_000;
const maxPrecedingLength = 50_000;

/** People would not read more than this, so a longer request is refused. */
const maxPrecedingComments = 10;
const maxLines = 25_000;

/** A path has up to 4,096 bytes, and each may be shown as an escape of eight characters. */
const maxPathLength = 33_000;

/** Longer blocks are collapsed, since requests are read on phones. */
const maxOpenLines = 40;
const maxOpenLength = 3_000;

/** The number of characters of each text in a request that is too long for one comment. */
const excerptLength = 1_500;

interface Section {
  /** The name of a file and the kind of its change. */
  heading: string | undefined;
  name: string;
  language: string;
  /** Undefined if no content is shown. A text may be one empty line. */
  text: string | undefined;
  /** True for a block that is always collapsed. */
  folded: boolean;
}

/** The layouts of requests that are being posted. A long one takes tens of milliseconds. */
const layouts = new WeakMap<RequestContent, RequestLayout>();

/** Lays out a call and its changes, so that every character is in one of the comments. */
export function layOutRequest(asked: RequestContent): RequestLayout {
  return layouts.getOrInsertComputed(asked, createLayout);
}

function createLayout(asked: RequestContent): RequestLayout {
  const texts = sectionsOf(asked);
  const whole = paragraphs(...texts.map(renderSection));
  if (whole.length <= maxBodyLength) return { body: whole, precedingComments: [] };

  const above = pack(texts.flatMap(breakUp));
  const characters = texts.reduce((sum, { text = "" }) => sum + text.length, 0).toLocaleString("en-US");
  const where = above.length === 1 ? "the comment" : `the ${above.length} comments`;
  const notice = `**Only the beginning is shown.** The full request (${characters} characters) is in ${where} above: read it there before you approve.`;
  return { body: paragraphs(notice, ...beginningsOf(texts)), precedingComments: above };
}

/** Returns false for a call whose request would have more comments or lines than people read. */
export function isReadable(asked: RequestContent): boolean {
  const texts = [JSON.stringify(asked.args) ?? "", ...(asked.preview?.sections ?? []).map(textOf)];
  if (texts.reduce((sum, text) => sum + countLines(text), 0) > maxLines) return false;
  if (!fits(texts, maxPrecedingComments * maxPrecedingLength)) return false;
  return layOutRequest(asked).precedingComments.length <= maxPrecedingComments;
}

/** True if texts are not longer than this once their hidden characters are shown, each of which takes up to ten. */
function fits(texts: readonly string[], maxLength: number): boolean {
  let left = maxLength;
  for (const text of texts) {
    for (let at = 0; at < text.length && left >= 0; at += sliceLength) {
      left -= escapeInvisible(text.slice(at, at + sliceLength)).length;
    }
  }
  return left >= 0;
}

const sliceLength = 20_000;

function countLines(text: string): number {
  let count = 1;
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) count += 1;
  return count;
}

/** Returns the beginnings of as many sections as fit into the request. */
function beginningsOf(texts: readonly Section[]): string[] {
  const beginnings: string[] = [];
  let length = 0;
  for (const [index, { text, ...rest }] of texts.entries()) {
    const beginning = renderSection({ ...rest, text: excerptOf(text) });
    length += beginning.length;
    if (length > maxBodyLength)
      return [...beginnings, `… and ${pluralize(texts.length - index, "more section")}, listed above.`];
    beginnings.push(beginning);
  }
  return beginnings;
}

function excerptOf(text: string | undefined): string | undefined {
  if (text === undefined || text.length <= excerptLength) return text;
  return text.slice(0, text.lastIndexOf("\n", excerptLength) + 1 || excerptLength).toWellFormed();
}

function sectionsOf(content: RequestContent): Section[] {
  const blocks = requestBlocks(content);
  return blocks.map(({ kind, title, details: about = "", lines }) => ({
    heading: kind === "diff" ? `File **${pathAsCode(title)}**: ${inline(about, 1_000)}` : undefined,
    name: kind === "diff" ? "Changes" : inline(title),
    language: languages[kind],
    text: lines.length > 0 ? lines.join("\n") : undefined,
    // The changes already show these arguments, and showing them twice is too much for a phone.
    folded: kind === "arguments" && blocks.length > 1,
  }));
}

function pathAsCode(path: string): string {
  const shown = code(path, maxPathLength);
  // Only for a path that is longer than a repository can contain: a run of backticks needs a fence of its length on both sides.
  return shown.length <= maxPathLength + 3_000 ? shown : code(path, maxPathLength / 3);
}

const languages = { text: "text", diff: "diff", arguments: "json" };

function renderSection({ heading, name, language, text, folded }: Section): string {
  if (text === undefined) return heading ?? "";
  // Hidden characters are already visible in the text.
  const block = fencedBlock(text, language);
  const lines = text.split("\n").length;
  const isShort = !folded && lines <= maxOpenLines && text.length <= maxOpenLength;
  if (isShort) return paragraphs(heading ?? `${name}:`, block);
  return paragraphs(heading, details(`${name} (${pluralize(lines, "line")})`, block));
}

/** Splits a text between lines into pieces that fit into a comment. */
function breakUp(section: Section): Section[] {
  const { heading, name, language, text } = section;
  if (text === undefined) return [section];
  const pieces: string[] = [];
  const maxLength = maxPrecedingLength - 1_500 - (heading?.length ?? 0);
  let lines: string[] = [];
  let size = 0;
  for (const line of text.split("\n")) {
    // The fence only has to be longer than the longest run. Counting all backticks is simpler and never too small.
    if (size + sizeOf(line) > maxLength && lines.length > 0) {
      pieces.push(lines.join("\n"));
      [lines, size] = [[], 0];
    }
    lines.push(line);
    size += sizeOf(line) + 1;
  }
  pieces.push(lines.join("\n"));
  return pieces.map((piece, index) => ({
    heading,
    name: pieces.length > 1 ? `${name}, ${index + 1} of ${pieces.length}` : name,
    language,
    text: piece,
    folded: true,
  }));
}

function pack(pieces: readonly Section[]): string[] {
  const comments: string[] = [];
  let comment = "";
  for (const piece of pieces) {
    const shown = renderSection(piece);
    if (comment !== "" && comment.length + shown.length > maxPrecedingLength) {
      comments.push(comment);
      comment = "";
    }
    comment = paragraphs(comment, shown);
  }
  return comment === "" ? comments : [...comments, comment];
}

/** Returns the length of a text in a fence that is longer than any run of backticks in it. */
function sizeOf(text: string): number {
  return text.length + 2 * maxBackticks(text);
}

/** Renders the comments to post before a request that is too long for one comment. Empty for other requests. */
export function renderPrecedingComments(
  about: string,
  content: RequestContent,
  { sign, note } = { sign: "🔐", note: "The approval request follows below." },
): string[] {
  const { precedingComments } = layOutRequest(content);
  return precedingComments.map((part, index) =>
    paragraphs(`### ${sign} ${about}, part ${index + 1} of ${precedingComments.length}`, part, note),
  );
}
