import { type RequestContent, requestBlocks } from "#ui/request-blocks.ts";
import { code, details, inline, longestRunOf, paragraphs } from "./markdown.ts";

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

/** A path has up to 4,096 bytes, each of which may be shown as an escape of eight characters. */
const maxPathLength = 33_000;

/** What is longer is opened with a tap: a request is read on a phone. */
const maxOpenLines = 40;
const maxOpenLength = 3_000;

/** How much of each text a request shows that is too long for one comment. */
const excerptLength = 1_500;

interface Section {
  /** About a file: its name, and what kind of change it is. */
  heading: string | undefined;
  name: string;
  language: string;
  text: string;
  /** Opened with a tap in any case. */
  folded: boolean;
}

/** Lays out what a call is and would change, so that every character of it stands in some comment. */
export function layOutRequest(asked: RequestContent): RequestLayout {
  const texts = sectionsOf(asked);
  const whole = paragraphs(...texts.map(renderSection));
  if (whole.length <= maxBodyLength) return { body: whole, precedingComments: [] };

  const above = pack(texts.flatMap(breakUp));
  const characters = texts.reduce((sum, { text }) => sum + text.length, 0).toLocaleString("en-US");
  const where = above.length === 1 ? "the comment" : `the ${above.length} comments`;
  const notice = `**Beginning only.** The full request (${characters} characters) is in ${where} above: read it there before you approve.`;
  return { body: paragraphs(notice, ...beginningsOf(texts)), precedingComments: above };
}

/** The beginning of each section, as many as fit into the request. */
function beginningsOf(texts: readonly Section[]): string[] {
  const beginnings: string[] = [];
  let length = 0;
  for (const [index, { text, ...rest }] of texts.entries()) {
    const beginning = renderSection({ ...rest, text: excerptOf(text) });
    length += beginning.length;
    if (length > maxBodyLength) return [...beginnings, `… and ${texts.length - index} more sections, listed above.`];
    beginnings.push(beginning);
  }
  return beginnings;
}

function excerptOf(text: string): string {
  if (text.length <= excerptLength) return text;
  return text.slice(0, text.lastIndexOf("\n", excerptLength) + 1 || excerptLength).toWellFormed();
}

function sectionsOf(content: RequestContent): Section[] {
  const blocks = requestBlocks(content);
  return blocks.map(({ kind, title, details: about = "", lines }) => ({
    heading: kind === "diff" ? `File **${pathAsCode(title)}**: ${inline(about, 1_000)}` : undefined,
    name: kind === "diff" ? "Changes" : inline(title),
    language: languages[kind],
    text: lines.join("\n"),
    // What it would do says it better, and twice is too much for a phone.
    folded: kind === "arguments" && blocks.length > 1,
  }));
}

function pathAsCode(path: string): string {
  const shown = code(path, maxPathLength);
  // Only a path longer than any that a repository can have: a run of backticks takes a fence as long as it on either side.
  return shown.length <= maxPathLength + 3_000 ? shown : code(path, maxPathLength / 3);
}

const languages = { text: "text", diff: "diff", arguments: "json" };

function renderSection({ heading, name, language, text, folded }: Section): string {
  if (text === "") return heading ?? "";
  const block = fencedBlock(text, language);
  const lines = text.split("\n").length;
  const isShort = !folded && lines <= maxOpenLines && text.length <= maxOpenLength;
  if (isShort) return paragraphs(heading ?? `${name}:`, block);
  return paragraphs(
    heading,
    details(`${name} (${lines.toLocaleString("en-US")} ${lines === 1 ? "line" : "lines"})`, block),
  );
}

/** A fence that no run of backticks inside can close. The text is visible already, so nothing of it is replaced. */
function fencedBlock(text: string, language: string): string {
  const fence = "`".repeat(Math.max(3, longestRunOf(text, "`") + 1));
  return `${fence}${language}\n${text}\n${fence}`;
}

/** The text in pieces that fit into a comment, broken between lines. */
function breakUp({ heading, name, language, text }: Section): Section[] {
  const pieces: string[] = [];
  const maxLength = maxPrecedingLength - 1_500 - (heading?.length ?? 0);
  let lines: string[] = [];
  let size = 0;
  for (const line of text.split("\n")) {
    // The fence has to outgrow the longest run alone; counting each is simpler, and errs on the safe side.
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

/** The length of a text in a fence that is longer than any run of backticks in it. */
function sizeOf(text: string): number {
  return text.length + 2 * longestRunOf(text, "`");
}

/** Renders the comments that have to precede a request that is too long for one comment. Empty for any other. */
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
