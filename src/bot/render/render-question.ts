import type { Question } from "#runtime/front-end.ts";
import { formatUtc, inline, paragraphs, quote } from "./markdown.ts";

/** Characters of what nobody has to act on any more. */
const maxSettledLength = 2_000;

/** A worker's question to the people of the thread, or, once it is over, what became of it. */
export function renderQuestion({ workerPath, text, end }: Question): string {
  const who = `**${inline(workerPath)}**`;
  switch (end?.kind) {
    case undefined:
      return paragraphs(
        `### 💬 ${who} asks`,
        quote(text),
        "Answer with a plain comment. `/stop` stops the worker instead.",
      );
    case "answered":
      return paragraphs(
        `### ✅ Answered by ${inline(end.by)}, ${formatUtc(end.at)}`,
        quote(end.text, maxSettledLength),
        `${who} had asked:`,
        quote(text, maxSettledLength),
      );
    case "withdrawn":
      return paragraphs(
        "### ⏹️ Withdrawn: the run was stopped or has ended",
        `${who} had asked:`,
        quote(text, maxSettledLength),
      );
  }
}
