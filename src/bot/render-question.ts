import type { Question } from "#runtime/front-end.ts";
import { inline, paragraphs, quote } from "./markdown.ts";

/** A worker's question to the people of the thread. */
export function renderQuestion({ workerPath, text }: Question): string {
  return paragraphs(
    `### 💬 **${inline(workerPath)}** asks`,
    quote(text),
    "Answer with a plain comment. `/stop` stops the worker instead.",
  );
}
