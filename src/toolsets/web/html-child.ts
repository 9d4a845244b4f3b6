import { Defuddle } from "defuddle/node";
import { parseHTML } from "linkedom";
import { serveParent } from "#executors/serve-parent.ts";

/** Runs in a process of its own, which is killed when a page is too much for it. */
serveParent(async (request) => {
  const { html, url } = request as { html: string; url: string };
  const { document } = parseHTML(html);
  const { title, content } = await Defuddle(document as never, url, { markdown: true, useAsync: false });
  return { title, markdown: content };
});
