import { Defuddle } from "defuddle/node";
import { parseHTML } from "linkedom";
import { serveParent } from "#executors/serve-parent.ts";

/** Converts pages in a separate process, which is killed if a page takes too much time or memory. */
serveParent(async (request) => {
  const { html, url } = request as { html: string; url: string };
  const { document } = parseHTML(html);
  const { title, content } = await Defuddle(document as never, url, { markdown: true, useAsync: false });
  return { title, markdown: content };
});
