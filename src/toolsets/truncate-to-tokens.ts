import { estimateTokens } from "#text/estimate-tokens.ts";

/** No text of fewer characters than this has more tokens than a token for each half of one. */
const tokensPerCharacter = 2;

/** A text with at most so many tokens: what is too long keeps its head and its tail, and says in between what is gone. */
export function truncateToTokens(text: string, maxTokens: number): string {
  if (text.length * tokensPerCharacter <= maxTokens) return text;

  // Estimating costs time with length: nothing beyond this can fit.
  const most = maxTokens * 16;
  const sample = text.length > most ? text.slice(0, most) : text;
  const tokens = estimateTokens(sample);
  if (sample.length === text.length && tokens <= maxTokens) return text;

  let room = Math.floor((sample.length * maxTokens) / tokens);
  for (let attempt = 0; attempt < 20; attempt++) {
    const cut = headAndTail(text, room);
    if (estimateTokens(cut) <= maxTokens) return cut;
    room = Math.floor(room * 0.8);
  }
  return headAndTail(text, 0);
}

function headAndTail(text: string, room: number): string {
  const headEnd = lineEndBefore(text, Math.floor(room * 0.6));
  const tailStart = lineStartAfter(text, text.length - Math.floor(room * 0.4));
  const gone = text.slice(headEnd, tailStart);
  const lines = gone.split("\n").length - 1;
  const what = lines > 1 ? `${lines} lines, ${gone.length} characters` : `${gone.length} characters`;
  return `${text.slice(0, headEnd)}\n[… ${what} left out here because the result is too long. Ask for a part of it. …]\n${text.slice(tailStart)}`;
}

/** Cuts after a line where one ends near, and never through a character of two units. */
function lineEndBefore(text: string, position: number): number {
  const lineEnd = text.lastIndexOf("\n", position);
  if (lineEnd > position - 400 && lineEnd > 0) return lineEnd;
  return isLowSurrogate(text, position) ? position - 1 : position;
}

function lineStartAfter(text: string, position: number): number {
  const lineEnd = text.indexOf("\n", position);
  if (lineEnd >= 0 && lineEnd < position + 400 && lineEnd + 1 < text.length) return lineEnd + 1;
  return isLowSurrogate(text, position) ? position + 1 : position;
}

function isLowSurrogate(text: string, position: number): boolean {
  const unit = text.charCodeAt(position);
  return unit >= 0xdc00 && unit <= 0xdfff;
}
