import { paragraphs } from "./markdown.ts";
import { type Asked, showAsked } from "./show-asked.ts";

/** The comments that have to stand above a request, which is too long for one. None where it is not. */
export function renderAbove(about: string, asked: Asked): string[] {
  const { above } = showAsked(asked);
  return above.map((content, index) =>
    paragraphs(`### 🔐 ${about}, part ${index + 1} of ${above.length}`, content, "The request itself stands below."),
  );
}
