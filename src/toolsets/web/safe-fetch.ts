import { isIP, type LookupFunction } from "node:net";
import type { Readable } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import { Agent, errors } from "undici";
import { ToolError } from "#domain/errors.ts";
import { isPublicAddress, publicAddresses, type Resolve } from "#executors/public-address.ts";

export interface SafeFetchOptions {
  /** `host:port` of this deployment's own network that may be reached, over http too. */
  privateHosts?: readonly string[];
  /** How names become addresses. */
  resolve?: Resolve;
}

export interface SafeRequest {
  url: string;
  method: "GET" | "POST";
  headers?: Record<string, string>;
  body?: string;
  timeoutMs: number;
  signal?: AbortSignal;
  /** Whether http on port 80 is allowed besides https. */
  allowHttp?: boolean;
  /** Asked for every address of a redirect, before it is visited. Gives a reason not to, as a sentence. */
  forbids?(url: URL): string | undefined;
}

export interface SafeResponse {
  /** Where the answer came from, after redirects. */
  url: string;
  status: number;
  headers: Record<string, string>;
  body: Buffer;
}

export type SafeFetch = (request: SafeRequest) => Promise<SafeResponse>;

const longestUrl = 2_048;
const mostRedirects = 5;
const rawBytes = 2_000_000;
const decodedBytes = 4_000_000;
const userAgent = "golem-forge";
const ownHeaders =
  /^(host|connection|content-length|transfer-encoding|upgrade|te|trailer|expect|keep-alive|cookie|authorization|forwarded|accept-encoding|user-agent|proxy-.*|x-forwarded-.*|sec-.*|:.*)$/i;

/**
 * Fetches from the public internet and nowhere else. A name is resolved once, every address of it must be public, and
 * the address that was checked is the one connected to, for each redirect anew. Throws a ToolError that says what was wrong.
 * With `credentials`, the headers are our own words and may hold a key.
 */
export function createSafeFetch(
  { privateHosts = [], resolve }: SafeFetchOptions = {},
  { credentials = false }: { credentials?: boolean } = {},
): SafeFetch {
  const own = new Set(privateHosts.map((host) => host.toLowerCase()));
  const lookupPublic: LookupFunction = (host, options, callback) => {
    publicAddresses(host, resolve).then(
      (found) => (options.all ? callback(null, found) : callback(null, found[0]?.address ?? "", found[0]?.family)),
      (error: Error) => callback(error, ""),
    );
  };
  const shared = { maxHeaderSize: 16_384, keepAliveTimeout: 1_000, connections: 8 };
  const outside = new Agent({ ...shared, connect: { lookup: lookupPublic, timeout: 10_000 } });
  const inside = new Agent({ ...shared, connect: { timeout: 10_000 } });
  const isOwn = (url: URL) => own.has(hostAndPort(url));

  return async (request) => {
    const deadline = AbortSignal.timeout(request.timeoutMs);
    const signal = request.signal ? AbortSignal.any([request.signal, deadline]) : deadline;
    try {
      const headers = credentials ? (request.headers ?? {}) : checkHeaders(request.headers ?? {});
      return await follow({ ...request, headers }, signal, (url) => (isOwn(url) ? inside : outside), isOwn);
    } catch (error) {
      if (request.signal?.aborted) throw new ToolError("The request was stopped.", { code: "INTERRUPTED" });
      if (deadline.aborted) {
        throw new ToolError(`${request.url} did not answer in ${request.timeoutMs / 1_000} s.`, { code: "TIMEOUT" });
      }
      if (error instanceof ToolError) throw error;
      throw new ToolError(`${request.url} could not be fetched: ${reasonOf(error)}`, {
        code: "EXECUTION_ERROR",
        cause: error,
      });
    }
  };
}

async function follow(
  request: SafeRequest,
  signal: AbortSignal,
  agentFor: (url: URL) => Agent,
  isOwn: (url: URL) => boolean,
): Promise<SafeResponse> {
  let url = checkUrl(request.url, request, isOwn);
  let { method, body } = request;
  let headers = request.headers ?? {};

  for (let redirects = 0; ; redirects += 1) {
    const response = await agentFor(url).request({
      origin: url.origin,
      path: url.pathname + url.search,
      method,
      headers: {
        ...headers,
        "user-agent": userAgent,
        "accept-encoding": "gzip, br",
        accept: headers.accept ?? "text/html,application/json,text/*;q=0.9,*/*;q=0.5",
      },
      body: method === "POST" ? (body ?? "") : undefined,
      signal,
    });
    const location = headerOf(response.headers, "location");
    if (![301, 302, 303, 307, 308].includes(response.statusCode) || location === undefined) {
      const content = await readBody(response.body, headerOf(response.headers, "content-encoding"));
      return { url: url.href, status: response.statusCode, headers: flatHeaders(response.headers), body: content };
    }

    response.body.on("error", () => undefined).destroy();
    if (redirects === mostRedirects) throw refused(`${request.url} redirects more than ${mostRedirects} times.`);
    const next = checkUrl(new URL(location, url).href, request, isOwn);
    const problem = request.forbids?.(next);
    if (problem) throw refused(`${request.url} redirects to ${next.href}. ${problem}`);
    if (next.origin !== url.origin) headers = {};
    if (response.statusCode < 307) [method, body] = ["GET", undefined];
    else if (method === "POST" && next.origin !== url.origin) {
      throw refused(`${request.url} wants what was posted to be sent to ${next.host} instead.`);
    }
    url = next;
  }
}

/** Throws for an address no request may go to, whatever it resolves to. */
export function checkUrl(
  text: string,
  { allowHttp }: Pick<SafeRequest, "allowHttp">,
  isOwn: (url: URL) => boolean = () => false,
): URL {
  if (text.length > longestUrl) throw refused(`The URL is longer than ${longestUrl} characters.`);
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw refused(`"${text}" is not a URL.`);
  }
  if (url.username !== "" || url.password !== "") throw refused("A URL with a user name or a password is not fetched.");
  if (isOwn(url) && /^https?:$/.test(url.protocol)) return url;

  const isHttp = url.protocol === "http:" && allowHttp;
  if (url.protocol !== "https:" && !isHttp)
    throw refused(`Only https is fetched, and this is ${url.protocol.replace(":", "")}.`);
  if (url.port !== "") throw refused(`Only the standard port is fetched, and this is ${url.port}.`);
  const host = url.hostname.replace(/^\[|\]$/g, "");
  if (isIP(host) !== 0 && !isPublicAddress(host)) throw refused(`${host} is not on the public internet.`);
  if (isIP(host) === 0 && !host.replace(/\.$/, "").includes("."))
    throw refused(`${host} is not a name on the public internet.`);
  return url;
}

function checkHeaders(headers: Record<string, string>): Record<string, string> {
  const checked: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name) || /[^\t\x20-\x7e]/.test(value))
      throw refused(`The header "${name}" cannot be sent.`);
    if (ownHeaders.test(name))
      throw refused(`The header "${name}" may not be set: no cookies, no credentials, no routing.`);
    checked[name.toLowerCase()] = value;
  }
  if (JSON.stringify(checked).length > 8_000) throw refused("The headers are too long.");
  return checked;
}

async function readBody(body: Readable, encoding: string | undefined): Promise<Buffer> {
  let raw = 0;
  body.on("data", (chunk: Buffer) => {
    raw += chunk.length;
    if (raw > rawBytes) body.destroy(tooLarge());
  });
  const decoded = decoderFor(encoding);
  const stream = decoded ? body.pipe(decoded) : body;
  body.on("error", (error) => decoded?.destroy(error));
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > decodedBytes) throw tooLarge();
      chunks.push(chunk);
    }
  } finally {
    body.destroy();
  }
  return Buffer.concat(chunks);
}

function decoderFor(encoding: string | undefined) {
  switch (encoding?.trim().toLowerCase()) {
    case undefined:
    case "":
    case "identity":
      return undefined;
    case "gzip":
    case "x-gzip":
      return createGunzip();
    case "br":
      return createBrotliDecompress();
    case "deflate":
      return createInflate();
    default:
      throw refused(`The answer is packed in a way that is not unpacked here: ${encoding}.`);
  }
}

type RawHeaders = Record<string, string | string[] | undefined>;

function headerOf(headers: RawHeaders, name: string): string | undefined {
  const value = headers[name];
  return Array.isArray(value) ? value[0] : value;
}

function flatHeaders(headers: RawHeaders): Record<string, string> {
  const kept = [
    "content-type",
    "content-language",
    "last-modified",
    "etag",
    "date",
    "cache-control",
    "retry-after",
    "link",
  ];
  return Object.fromEntries(
    kept.flatMap((name) => (headerOf(headers, name) === undefined ? [] : [[name, headerOf(headers, name) ?? ""]])),
  );
}

function hostAndPort(url: URL): string {
  return `${url.hostname}:${url.port || (url.protocol === "https:" ? "443" : "80")}`.toLowerCase();
}

function tooLarge(): ToolError {
  return new ToolError("The answer is too large.", { code: "TOO_LARGE" });
}

function refused(message: string): ToolError {
  return new ToolError(message, { code: "INVALID_ARGUMENTS" });
}

function reasonOf(error: unknown): string {
  if (error instanceof errors.HeadersOverflowError) return "its headers are too long.";
  return error instanceof Error ? error.message : String(error);
}
