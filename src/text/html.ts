import { showHidden } from "./visible-text.ts";

const safe = Symbol("safe");

/** A piece of markup, created only by `html` and `trusted`. */
export interface Html {
  readonly [safe]: string;
}

type Part = Html | string | number | false | undefined | readonly Part[];

/** Creates HTML. Escapes every value and makes its hidden characters visible, except for values that are HTML. */
export function html(strings: TemplateStringsArray, ...parts: Part[]): Html {
  return { [safe]: strings.map((text, index) => (index === 0 ? text : markupOf(parts[index - 1]) + text)).join("") };
}

/** Marks markup as safe. The caller has sanitized it. */
export function trusted(markup: string): Html {
  return { [safe]: markup };
}

export function markupOf(part: Part): string {
  if (part === false || part === undefined) return "";
  if (typeof part === "string" || typeof part === "number") return escapeHtml(showHidden(String(part)));
  return safe in part ? part[safe] : part.map(markupOf).join("");
}

const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? "");
}
