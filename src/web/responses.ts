import type { Context } from "hono";
import type { MessagePage } from "./page-error.ts";
import { renderMessagePage } from "./render-page.ts";

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
