import { showHidden } from "#text/hidden-characters.ts";
import { codeBlock, details, longestRunOf, paragraphs } from "./markdown.ts";

/** What a person has to have read before agreeing to it. */
export interface RequestContent {
  args: unknown;
  preview?: string | undefined;
}

interface RequestLayout {
  /** For the request itself: all of it, or, where that is too long, how it begins. */
  body: string | undefined;
  /** All of it, for the comments that then stand above the request. Empty where the request holds it. */
  precedingComments: string[];
}

/** Characters of Markdown; a comment takes 60,000, and has words of its own around them. */
const maxBodyLength = 40_000;
const maxPrecedingLength = 50_000;

/** How many comments may stand above a request. Nobody reads more, so nothing longer is asked. */
export const maxPrecedingComments = 10;

/** A line longer than this is broken. Of backticks alone, with a fence longer than they are, it still fits. */
const maxLineLength = 15_000;

/** What is longer is opened with a tap: a request is read on a phone. */
const maxOpenLines = 40;
const maxOpenLength = 3_000;

/** How much of each text a request shows that is too long for one comment. */
const excerptLength = 1_500;

interface Section {
  title: string;
  language: string;
  text: string;
  /** Opened with a tap in any case. */
  folded: boolean;
}

/** Lays out what a call is and would change, so that every character of it stands in some comment. */
export function layOutRequest(asked: RequestContent): RequestLayout {
  const texts = sectionsOf(asked);
  const whole = texts.reduce((sum, { text }) => sum + sizeOf(text), 0);
  if (whole <= maxBodyLength) return { body: paragraphs(...texts.map(renderSection)), precedingComments: [] };

  const above = pack(texts.flatMap(breakUp));
  const beginnings = texts.map(({ text, ...rest }) => renderSection({ ...rest, text: text.slice(0, excerptLength) }));
  const characters = texts.reduce((sum, { text }) => sum + text.length, 0).toLocaleString("en-US");
  const where = above.length === 1 ? "a comment of its own" : `${above.length} comments, parts 1 to ${above.length}`;
  const notice = `**This is only how it begins.** All of it, ${characters} characters, stands in ${where}: read it there before you agree.`;
  return { body: paragraphs(notice, ...beginnings), precedingComments: above };
}

function sectionsOf({ args, preview = "" }: RequestContent): Section[] {
  const { words, diff } = splitPreview(showHidden(preview));
  const hasPreview = preview.trim() !== "";
  const json = showHidden(JSON.stringify(args, null, 2) ?? "undefined");
  // What it would change says it better, and twice is too much for a phone.
  const texts = [
    { title: "What it would do", language: "text", text: words, folded: false },
    { title: "What it would change", language: "diff", text: diff, folded: false },
    { title: "Arguments", language: "json", text: json === "{}" && hasPreview ? "" : json, folded: hasPreview },
  ];
  return texts.filter(({ text }) => text.trim() !== "");
}

/** Words before the first file's change are no diff: a list in them would look like lines taken out. */
function splitPreview(preview: string): { words: string; diff: string } {
  const start = /^(?:diff --git |--- (?:a\/|\/dev\/null)|@@ )/m.exec(preview)?.index ?? preview.length;
  return { words: preview.slice(0, start).trim(), diff: preview.slice(start) };
}

function renderSection({ title, language, text, folded }: Section): string {
  const block = codeBlock(text, language, Number.POSITIVE_INFINITY);
  const lines = text.trimEnd().split("\n").length;
  if (!folded && lines <= maxOpenLines && text.length <= maxOpenLength) return paragraphs(`${title}:`, block);
  return details(`${title} (${lines.toLocaleString("en-US")} ${lines === 1 ? "line" : "lines"})`, block);
}

/** The text in pieces that fit into a comment, broken between lines where it can be. */
function breakUp({ title, language, text }: Section): Section[] {
  const pieces: string[] = [];
  let lines: string[] = [];
  let size = 0;
  const flush = () => {
    if (lines.length > 0) pieces.push(lines.join(""));
    lines = [];
    size = 0;
  };
  for (const line of text.split(/(?<=\n)/)) {
    if (size + sizeOf(line) > maxPrecedingLength - 1_000 || line.length > maxLineLength) flush();
    if (line.length > maxLineLength) pieces.push(...breakLine(line));
    else {
      lines.push(line);
      // The fence has to outgrow the longest run alone; counting each is simpler, and errs on the safe side.
      size += sizeOf(line);
    }
  }
  flush();
  return pieces.map((piece, index) => ({
    title: pieces.length > 1 ? `${title}, ${index + 1} of ${pieces.length}` : title,
    language,
    text: piece,
    folded: true,
  }));
}

function breakLine(line: string): string[] {
  return line.match(new RegExp(`[^]{1,${maxLineLength}}`, "gu")) ?? [];
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

/** The length of a text in a fence that is longer than any run of backticks in it. */
function sizeOf(text: string): number {
  return text.length + 2 * longestRunOf(text, "`");
}

/** Renders the comments that have to precede a request that is too long for one comment. Empty for any other. */
export function renderPrecedingComments(about: string, content: RequestContent): string[] {
  const { precedingComments } = layOutRequest(content);
  return precedingComments.map((part, index) =>
    paragraphs(
      `### 🔐 ${about}, part ${index + 1} of ${precedingComments.length}`,
      part,
      "The approval request follows below.",
    ),
  );
}
