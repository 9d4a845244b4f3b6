import { paragraphs } from "./markdown.ts";
import { type Asked, showAsked } from "./render-request.ts";

/** The comments that have to stand before a request that is too long for one. None where it is not. */
export function renderAbove(about: string, asked: Asked): string[] {
  const { above } = showAsked(asked);
  return above.map((content, index) =>
    paragraphs(
      `### 🔐 ${about}, part ${index + 1} of ${above.length}`,
      content,
      "The request itself is a comment of its own.",
    ),
  );
}
