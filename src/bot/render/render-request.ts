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
  const whole = texts.reduce((sum, { text }) => sum + sizeOf(text), 0);
  if (whole <= maxBodyLength) return { body: paragraphs(...texts.map(renderSection)), precedingComments: [] };

  const above = pack(texts.flatMap(breakUp));
  const beginnings = texts.map(({ text, ...rest }) => renderSection({ ...rest, text: excerptOf(text) }));
  const characters = texts.reduce((sum, { text }) => sum + text.length, 0).toLocaleString("en-US");
  const where = above.length === 1 ? "the comment" : `the ${above.length} comments`;
  const notice = `**Beginning only.** The full request (${characters} characters) is in ${where} above: read it there before you approve.`;
  return { body: paragraphs(notice, ...beginnings), precedingComments: above };
}

function excerptOf(text: string): string {
  if (text.length <= excerptLength) return text;
  return text.slice(0, text.lastIndexOf("\n", excerptLength) + 1 || excerptLength).toWellFormed();
}

function sectionsOf(content: RequestContent): Section[] {
  const blocks = requestBlocks(content);
  return blocks.map(({ kind, title, details: about = "", lines }) => ({
    heading: kind === "diff" ? `File **${code(title, 1_000)}**: ${inline(about, 1_000)}` : undefined,
    name: kind === "diff" ? "Changes" : inline(title),
    language: languages[kind],
    text: lines.join("\n"),
    // What it would do says it better, and twice is too much for a phone.
    folded: kind === "arguments" && blocks.length > 1,
  }));
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
  let lines: string[] = [];
  let size = 0;
  for (const line of text.split("\n")) {
    // The fence has to outgrow the longest run alone; counting each is simpler, and errs on the safe side.
    if (size + sizeOf(line) > maxPrecedingLength - 1_500 && lines.length > 0) {
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
