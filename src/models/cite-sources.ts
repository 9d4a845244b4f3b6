import type { ContentPart, ToolSet } from "ai";

const most = 10;

/** The pages that the provider found for an answer, as a list in Markdown behind its text; `""` where it names none. */
export function citeSources(parts: readonly ContentPart<ToolSet>[]): string {
  const cited = new Map<string, string>();
  for (const part of parts) {
    if (part.type === "source" && part.sourceType === "url" && isWebAddress(part.url)) {
      cited.set(part.url, part.title ?? cited.get(part.url) ?? "");
    }
  }
  if (cited.size === 0) return "";
  return `\n\nFound on the web:\n${[...cited].slice(0, most).map(line).join("\n")}`;
}

function isWebAddress(url: string): boolean {
  return /^https?:\/\//.test(url) && URL.canParse(url);
}

function line([url, title]: [string, string]): string {
  const address = new URL(url).href.replace(/[()]/g, (character) => (character === "(" ? "%28" : "%29"));
  const name = title
    .replace(/[[\]\\`<>]/g, "")
    .replace(/\s+/g, " ")
    .trim()
    .slice(0, 120);
  return `- [${name || new URL(url).host}](${address})`;
}
