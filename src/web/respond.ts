import type { IncomingMessage, ServerResponse } from "node:http";
import { Refusal, type Sentence } from "./refusal.ts";
import { renderSentence } from "./render-page.ts";

/** Throws a Refusal for any other method; whoever may GET may ask for the HEAD alone. */
export function allow({ method }: IncomingMessage, allowed: "GET" | "POST"): void {
  if (method === allowed || (allowed === "GET" && method === "HEAD")) return;
  throw new Refusal(405, `Only ${allowed} works here.`);
}

/** What every page is sent as. */
export const htmlType = "text/html; charset=utf-8";

/** On every answer: nothing is kept, framed, told to others, or run unless it is our own file. */
export const pageHeaders = {
  "Content-Security-Policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
  "X-Robots-Tag": "noindex, nofollow",
  "Referrer-Policy": "no-referrer",
  "Cache-Control": "no-store",
};

/** Our own script asks for data, browsers for pages. */
export function wantsJson({ headers }: IncomingMessage): boolean {
  return headers.accept === "application/json";
}

export function send(response: ServerResponse, status: number, type: string, content: string | Buffer): void {
  // A body that was not read must not be taken for the next request.
  response.writeHead(status, { "content-type": type, ...(status >= 400 ? { connection: "close" } : {}) }).end(content);
}

export function sendJson(response: ServerResponse, status: number, value: unknown): void {
  send(response, status, "application/json; charset=utf-8", JSON.stringify(value));
}

/** The words alone for our script, a page around them for browsers. */
export function sendSentence(
  request: IncomingMessage,
  response: ServerResponse,
  { status, words, link }: Sentence,
): void {
  if (wantsJson(request)) sendJson(response, status, { words });
  else send(response, status, htmlType, renderSentence({ title: "Golem Forge", words, ...(link && { link }) }));
}

export function redirect(response: ServerResponse, location: string): void {
  response.writeHead(303, { location }).end();
}
