import { showHidden } from "./visible-text.ts";

const safe = Symbol("safe");

/** A piece of markup, created only by `html` and `trusted`. */
export interface Html {
  readonly [safe]: string;
}

type Part = Html | string | number | false | undefined | readonly Part[];

/** Creates HTML. Escapes every value and makes its hidden characters visible, except for values that are HTML. */
export function html(strings: TemplateStringsArray, ...parts: Part[]): Html {
  let markup = strings[0] ?? "";
  for (const [index, part] of parts.entries()) markup += markupOf(part) + (strings[index + 1] ?? "");
  return { [safe]: markup };
}

/** Marks markup as safe. The caller has sanitized it. */
export function trusted(markup: string): Html {
  return { [safe]: markup };
}

export function markupOf(part: Part): string {
  if (part === false || part === undefined) return "";
  if (typeof part === "number") return String(part);
  if (typeof part === "string") return plainText.test(part) ? part : escapeHtml(showHidden(part));
  return safe in part ? part[safe] : part.map(markupOf).join("");
}

/** In most text nothing is hidden, and nothing has to be escaped. */
const plainText = /^[\t\n !#-%(-;=?-~]*$/;

const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? "");
}
