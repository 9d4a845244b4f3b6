import { cleanText, wrapUntrusted } from "#text/untrusted.ts";

/** A text somebody wrote on GitHub, for the model: without what a reader does not see, and marked as data. */
export function outsideText(text: string, source: string): string {
  const { text: clean, removed } = cleanText(text);
  const note = removed.length > 0 ? `\n(Taken out, because a reader does not see it: ${removed.join(", ")}.)` : "";
  return wrapUntrusted(clean.trim() === "" ? "(no text)" : clean, source) + note;
}
