import { isIP } from "node:net";
import type { Readable } from "node:stream";
import { createBrotliDecompress, createGunzip, createInflate } from "node:zlib";
import type { Agent } from "undici";
import { messageOf, ToolError } from "#domain/errors.ts";
import { isPublicAddress, publicLookup, type Resolve } from "#executors/public-address.ts";
import { createRedactor } from "#text/redact.ts";
import { quoted } from "#text/visible-text.ts";

export interface SafeFetchOptions {
  /** Addresses (`host:port`) in the deployment's own network that may be fetched, even over http. */
  privateHosts?: readonly string[];
  /** Resolves host names; default: DNS. */
  resolve?: Resolve;
}

/** The search provider. Keys come from the deployment, never from a worker file. */
export type SearchProvider =
  | { provider: "searxng"; url: string }
  | { provider: "brave" | "tavily" | "exa"; apiKey: string; url?: string };

/** A deployment's settings for web access. */
export interface WebAccess extends SafeFetchOptions {
  search?: SearchProvider;
}

export interface SafeRequest {
  url: string;
  method: "GET" | "POST";
  headers?: Record<string, string>;
  body?: string;
  timeoutMs: number;
  signal?: AbortSignal;
  /** Allows http on port 80 in addition to https. */
  allowHttp?: boolean;
  /** Called with the target of each redirect; returns a sentence with the reason if it must not be followed. */
  forbids?(url: URL): string | undefined;
}

export interface SafeResponse {
  /** The final URL, after redirects. */
  url: string;
  status: number;
  headers: Record<string, string>;
  body: Buffer;
}

export type SafeFetch = (request: SafeRequest) => Promise<SafeResponse>;

const maxUrlChars = 2_048;
const maxRedirects = 5;
const maxRawBytes = 2_000_000;
const maxDecodedBytes = 4_000_000;
const userAgent = "golem-forge";
const reservedHeaders =
  /^(host|connection|content-length|transfer-encoding|upgrade|te|trailer|expect|keep-alive|cookie|authorization|forwarded|accept-encoding|user-agent|proxy-.*|x-forwarded-.*|sec-.*|:.*)$/i;

/**
 * Returns a `fetch` limited to the public internet. For each request and each redirect, the host name is resolved once,
 * every address must be public, and the connection uses an address that was checked. Throws a ToolError with the reason
 * for a failure. With `credentials`, the headers come from this program and may contain an API key.
 */
export function createSafeFetch(
  { privateHosts, resolve }: SafeFetchOptions = {},
  { credentials = false }: { credentials?: boolean } = {},
): SafeFetch {
  const isPrivate = privateHostTest({ privateHosts });
  const shared = { maxHeaderSize: 16_384, keepAliveTimeout: 1_000, connections: 8 };
  let agents: Promise<{ publicAgent: Agent; privateAgent: Agent }> | undefined;
  const createAgents = async () => {
    // A large package, and few runs fetch anything.
    const { Agent } = await import("undici");
    return {
      publicAgent: new Agent({ ...shared, connect: { lookup: publicLookup(resolve), timeout: 10_000 } }),
      privateAgent: new Agent({ ...shared, connect: { timeout: 10_000 } }),
    };
  };

  return async (request) => {
    const deadline = AbortSignal.timeout(request.timeoutMs);
    const signal = request.signal ? AbortSignal.any([request.signal, deadline]) : deadline;
    try {
      agents ??= createAgents();
      const { publicAgent, privateAgent } = await agents;
      const headers = credentials ? (request.headers ?? {}) : checkHeaders(request.headers ?? {});
      return await follow(
        { ...request, headers },
        signal,
        (url) => (isPrivate(url) ? privateAgent : publicAgent),
        isPrivate,
      );
    } catch (error) {
      if (request.signal?.aborted) throw new ToolError("The request was cancelled.", { code: "INTERRUPTED" });
      if (deadline.aborted) {
        throw new ToolError(`${request.url} did not respond within ${request.timeoutMs / 1_000} s.`, {
          code: "TIMEOUT",
          suggestion: "Try again later, or fetch another page.",
        });
      }
      if (error instanceof ToolError) throw error;
      throw new ToolError(`${request.url} could not be fetched: ${describeFetchError(error)}`, {
        code: "EXECUTION_ERROR",
        suggestion: "Check the URL, or fetch another page.",
        cause: error,
      });
    }
  };
}

/** Returns a predicate for the URLs of hosts in the deployment's own network that may be fetched. */
export function privateHostTest({ privateHosts = [] }: Pick<SafeFetchOptions, "privateHosts"> = {}) {
  const addresses = new Set(privateHosts.map((host) => host.toLowerCase()));
  return ({ hostname, port, protocol }: URL): boolean =>
    addresses.has(`${hostname}:${port || (protocol === "https:" ? "443" : "80")}`.toLowerCase());
}

async function follow(
  request: SafeRequest,
  signal: AbortSignal,
  agentFor: (url: URL) => Agent,
  isPrivate: (url: URL) => boolean,
): Promise<SafeResponse> {
  let url = checkUrl(request.url, request, isPrivate);
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
    if (redirects === maxRedirects)
      throw refused(`${request.url} redirects more than ${maxRedirects} times: fetch another page.`);
    const next = checkUrl(new URL(location, url).href, request, isPrivate);
    const problem = request.forbids?.(next);
    if (problem) throw refused(`${request.url} redirects to ${next.href}. ${problem}`);
    if (next.origin !== url.origin) headers = {};
    if (response.statusCode < 307) [method, body] = ["GET", undefined];
    else if (method === "POST" && next.origin !== url.origin) {
      throw refused(
        `${request.url} redirects the POST request to another host, ${next.host}: post to that URL directly if it is correct.`,
      );
    }
    url = next;
  }
}

/** Parses a URL. Throws a ToolError if it must not be fetched, regardless of the addresses of its host. */
export function checkUrl(
  text: string,
  { allowHttp }: Pick<SafeRequest, "allowHttp">,
  isPrivate: (url: URL) => boolean = () => false,
): URL {
  if (text.length > maxUrlChars)
    throw refused(`The URL is longer than ${maxUrlChars} characters: send the data in the body of a POST request.`);
  let url: URL;
  try {
    url = new URL(text);
  } catch {
    throw refused(`"${text}" is not a URL: write it as https://example.com/page.`);
  }
  if (url.username !== "" || url.password !== "")
    throw refused("URLs with a user name or password are not fetched: remove them from the URL.");
  if (isPrivate(url) && /^https?:$/.test(url.protocol)) return url;

  const isHttp = url.protocol === "http:" && allowHttp;
  if (url.protocol !== "https:" && !isHttp)
    throw refused(`Only https URLs are fetched, not ${url.protocol.replace(":", "")}.`);
  if (url.port !== "") throw refused(`Only the standard port is supported, not ${url.port}.`);
  const host = url.hostname.replace(/^\[|\]$/g, "");
  if (isIP(host) !== 0 && !isPublicAddress(host))
    throw refused(`${host} is not a public address, and only the public internet is fetched.`);
  if (isIP(host) === 0 && !host.replace(/\.$/, "").includes("."))
    throw refused(`${host} is not a public host name, and only the public internet is fetched.`);
  return url;
}

function checkHeaders(headers: Record<string, string>): Record<string, string> {
  const checked: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name) || /[^\t\x20-\x7e]/.test(value))
      throw refused(`The header "${name}" is not valid: use ASCII letters and printable characters only.`);
    if (reservedHeaders.test(name))
      throw refused(`The header "${name}" must not be set: leave out cookies, credentials and routing headers.`);
    checked[name.toLowerCase()] = value;
  }
  if (JSON.stringify(checked).length > 8_000)
    throw refused("The request headers are longer than 8,000 characters: leave some out.");
  return checked;
}

async function readBody(body: Readable, encoding: string | undefined): Promise<Buffer> {
  let raw = 0;
  body.on("data", (chunk: Buffer) => {
    raw += chunk.length;
    if (raw > maxRawBytes) body.destroy(tooLarge());
  });
  const decoded = decoderFor(encoding);
  const stream = decoded ? body.pipe(decoded) : body;
  body.on("error", (error) => decoded?.destroy(error));
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > maxDecodedBytes) throw tooLarge();
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
      throw refused(
        `The response uses an unsupported content encoding, ${quoted(encoding ?? "")}: fetch another page.`,
      );
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

function tooLarge(): ToolError {
  return new ToolError("The response is too large.", {
    code: "TOO_LARGE",
    suggestion: "Request a smaller part, for example a single page or a raw file.",
  });
}

function refused(message: string): ToolError {
  return new ToolError(message, { code: "INVALID_ARGUMENTS" });
}

function describeFetchError(error: unknown): string {
  if (error instanceof Error && "code" in error && error.code === "UND_ERR_HEADERS_OVERFLOW")
    return "its headers are too long.";
  return messageOf(error);
}

const redactShapes = createRedactor([]);
/** The placeholder for a redacted secret, obtained by redacting a fake token. */
const marker = redactShapes(`ghp_${"0".repeat(36)}`);

/** True if outgoing text contains a secret, plain or encoded. `sanitize` redacts the secrets that this process holds. */
export function containsSecret(text: string, sanitize: (text: string) => string): boolean {
  return decodings(text.replaceAll(marker, "")).some(
    (decoded) => redactShapes(decoded) !== decoded || sanitize(decoded).includes(marker),
  );
}

/** Returns the text and the result of each round of decoding percent encoding, escapes and entities, as a server might. */
function decodings(text: string): string[] {
  const found = [text];
  for (let round = 0; round < 3; round += 1) {
    const last = found.at(-1) ?? "";
    const decoded = decodeEscapes(last.replace(/(%[0-9a-f]{2})+/gi, decodeRun).replaceAll("+", " "));
    if (decoded === last) break;
    found.push(decoded);
  }
  return found;
}

/** Decodes a run of percent-encoded bytes as UTF-8. Invalid bytes do not prevent the rest from being decoded. */
function decodeRun(run: string): string {
  return Buffer.from(run.replaceAll("%", ""), "hex").toString("utf8");
}

/** Decodes `\u0068`, `\x68`, `&#104;` and `&#x68;`, the escapes of JSON, JavaScript and HTML. */
function decodeEscapes(text: string): string {
  return text
    .replace(/\\u([0-9a-f]{4})|\\x([0-9a-f]{2})|&#x([0-9a-f]{1,6});/gi, (_, unicode, hex, entity) =>
      character(Number.parseInt(unicode ?? hex ?? entity, 16)),
    )
    .replace(/&#(\d{1,7});/g, (_, decimal) => character(Number(decimal)));
}

function character(code: number): string {
  return code <= 0x10ffff ? String.fromCodePoint(code) : "";
}
