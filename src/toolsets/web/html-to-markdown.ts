import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import { GuardedChild } from "#executors/guarded-child.ts";
import type { ChildHandler } from "#executors/serve-parent.ts";

const Converted = z.object({ title: z.string().catch(""), markdown: z.string() });

const killAfterMs = 10_000;
const maxDepth = 400;
const maxChars = 2_000_000;

/** Converts a page to readable Markdown, or to plain text if it is too deep, too long or too slow to convert. */
export async function htmlToMarkdown(html: string, url: string, signal?: AbortSignal): Promise<string> {
  if (html.length > maxChars || tagDepth(html) > maxDepth) return plainText(html);

  const handler = new URL("./html-to-markdown.ts", import.meta.url);
  const child = new GuardedChild({ handler, memoryMb: 256, messageBytes: 16_000_000, cpuSeconds: 30 });
  try {
    const { title, markdown } = Converted.parse(await child.call({ html, url }, { killAfterMs, signal }));
    if (markdown.trim() === "") return plainText(html);
    return title && !markdown.startsWith("# ") ? `# ${title}\n\n${markdown}` : markdown;
  } catch (error) {
    if (error instanceof ToolError) throw error;
    return plainText(html);
  } finally {
    child.kill();
  }
}

/** Converts pages in a separate process, which is killed if a page takes too much time or memory. */
const handler: ChildHandler = {
  async handle(request) {
    const { html, url } = request as { html: string; url: string };
    const [{ parseHTML }, { Defuddle }] = await Promise.all([import("linkedom"), import("defuddle/node")]);
    const { document } = parseHTML(html);
    const { title, content } = await Defuddle(document as never, url, { markdown: true, useAsync: false });
    return { title, markdown: content };
  },
};
export default handler;

const voidTags = new Set("area base br col embed hr img input link meta param source track wbr".split(" "));

/** Returns the maximum nesting depth of the tags of a page, in one pass. */
export function tagDepth(html: string): number {
  let depth = 0;
  let deepest = 0;
  for (const [, slash, name = ""] of html.matchAll(/<(\/?)([a-z][a-z0-9-]{0,20})/gi)) {
    if (slash) depth = Math.max(0, depth - 1);
    else if (!voidTags.has(name.toLowerCase())) depth += 1;
    deepest = Math.max(deepest, depth);
  }
  return deepest;
}

/** Returns the text of a page without tags, scripts and styles, in one pass. */
export function plainText(html: string): string {
  const pieces: string[] = [];
  let at = 0;
  while (at < html.length) {
    const open = html.indexOf("<", at);
    pieces.push(html.slice(at, open === -1 ? undefined : open));
    if (open === -1) break;
    at = afterTag(html, open);
    pieces.push(" ");
  }
  return decodeEntities(pieces.join(""))
    .split("\n")
    .map((line) => line.replace(/[ \t\r\f]+/g, " ").trim())
    .filter((line) => line !== "")
    .join("\n");
}

/** The end of each invisible element. Each search starts where the last one ended, so the time is linear. */
const endOf: Record<string, RegExp> = {
  "!--": /-->/g,
  ...Object.fromEntries(["script", "style", "template", "noscript"].map((tag) => [tag, new RegExp(`</${tag}`, "gi")])),
};

function afterTag(html: string, open: number): number {
  const hidden = /^<(script|style|template|noscript|!--)/i.exec(html.slice(open, open + 12))?.[1]?.toLowerCase();
  const end = endOf[hidden ?? ""];
  let start = open;
  if (end) {
    end.lastIndex = open;
    const found = end.exec(html);
    if (!found) return html.length;
    start = found.index;
  }
  const close = html.indexOf(">", start);
  return close === -1 ? html.length : close + 1;
}

const entities: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: " " };

function decodeEntities(text: string): string {
  return text.replace(/&(?:#(\d{1,7})|#x([0-9a-f]{1,6})|([a-z]{2,6}));/gi, (whole, decimal, hexadecimal, name) => {
    if (name) return entities[String(name).toLowerCase()] ?? whole;
    const code = decimal ? Number(decimal) : Number.parseInt(hexadecimal, 16);
    return code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? String.fromCodePoint(code) : "";
  });
}
