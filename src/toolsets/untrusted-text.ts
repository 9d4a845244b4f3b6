import { type CleanText, cleanText, wrapUntrusted } from "#text/untrusted.ts";

/** Removes hidden content from text written by someone else and marks the text as untrusted data for the model. */
export function untrustedText(text: string, source: string): string {
  return wrapCleaned(cleanText(text), source);
}

/** Marks cleaned text as untrusted data, with a note about the hidden content that was removed. */
export function wrapCleaned({ text, removed }: CleanText, source: string): string {
  const note = removed.length > 0 ? `\n(Removed hidden content: ${removed.join(", ")}.)` : "";
  return wrapUntrusted(text.trim() === "" ? "(empty)" : text, source) + note;
}
