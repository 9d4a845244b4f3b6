import type { Context } from "hono";
import type { ContentfulStatusCode } from "hono/utils/http-status";
import { type MessagePage, renderMessagePage } from "./render-page.ts";

/** The headers of every response. They forbid caching, framing, indexing and scripts other than ours. */
export const securityHeaders = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "X-Robots-Tag": "noindex, nofollow",
  "Referrer-Policy": "no-referrer",
  "Cache-Control": "no-store",
};

/** True for requests of our own script. Browsers request pages. */
export function wantsJson(context: Context): boolean {
  return context.req.header("accept") === "application/json";
}

/** Sends a message: as JSON to our script, as a page to browsers. */
export function sendMessage(context: Context, { status, message, link }: MessagePage): Response {
  if (wantsJson(context)) return context.json({ message, link }, status);
  return context.html(renderMessagePage({ message, link }), status);
}

/** Ends a request with a message for the person. */
export class PageError extends Error implements MessagePage {
  readonly status: ContentfulStatusCode;
  readonly link: MessagePage["link"];

  constructor(status: ContentfulStatusCode, message: string, link?: MessagePage["link"]) {
    super(message);
    this.status = status;
    this.link = link;
  }
}

export const runsLink = { href: "/runs", text: "All runs" };

/** Creates the same error for an unknown run and a wrong link, so that guessing reveals nothing. */
export function runNotFound(): PageError {
  return new PageError(404, "Run not found. Open it from the link in its issue.", runsLink);
}
