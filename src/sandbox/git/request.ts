import http from "node:http";
import https from "node:https";
import { OutageError, UserError } from "#domain/errors.ts";

export interface GitRequest {
  method: "GET" | "POST";
  url: URL;
  headers: Record<string, string>;
  body?: Buffer;
  /** The maximum size of the response in bytes. */
  maxBytes: number;
  /** True if sending the request twice is harmless. */
  repeatable: boolean;
  signal: AbortSignal;
}

export interface GitResponse {
  status: number;
  /** The media type. */
  type: string;
  /** The delay that the server asks for, in milliseconds; undefined if it asks for none. */
  retryAfterMs: number | undefined;
  /** Must be read to its end, or its iterator must be closed. */
  body: AsyncIterable<Buffer>;
}

// Node's global agent closes connections after 5 s of silence, but a git server may take longer to respond.
const agents = {
  "http:": new http.Agent({ keepAlive: true, maxSockets: 32 }),
  "https:": new https.Agent({ keepAlive: true, maxSockets: 32 }),
};
const idleTimeoutMs = 120_000;
const staleConnectionCodes = ["ECONNRESET", "EPIPE", "ECONNABORTED"];

/** Sends a request, and sends it again when a keep-alive connection turns out to be closed. */
export async function request(options: GitRequest): Promise<GitResponse> {
  const first = await attempt(options);
  if (first !== "stale") return first;

  const second = await attempt(options);
  if (second === "stale") throw new OutageError("The git server closed the connection.");
  return second;
}

export async function readBody({ body }: Pick<GitResponse, "body">): Promise<Buffer> {
  return Buffer.concat(await Array.fromAsync(body));
}

function attempt({
  method,
  url,
  headers,
  body,
  maxBytes,
  repeatable,
  signal,
}: GitRequest): Promise<GitResponse | "stale"> {
  const secure = url.protocol === "https:";
  return new Promise((resolve, reject) => {
    signal.throwIfAborted();
    const length = body ? { "content-length": String(body.length) } : {};
    const outgoing = (secure ? https : http).request(url, {
      method,
      headers: { ...headers, ...length },
      agent: secure ? agents["https:"] : agents["http:"],
      signal,
    });
    outgoing.setTimeout(idleTimeoutMs, () => {
      outgoing.destroy(new OutageError(`The git server sent nothing for ${idleTimeoutMs / 1_000} seconds.`));
    });
    outgoing.once("response", (incoming) => {
      resolve({
        status: incoming.statusCode ?? 0,
        type: incoming.headers["content-type"] ?? "",
        retryAfterMs: retryAfterOf(incoming.headers["retry-after"]),
        body: readChunks(incoming, { maxBytes, signal }),
      });
    });
    outgoing.on("error", (error: NodeJS.ErrnoException) => {
      if (signal.aborted) return reject(signal.reason);
      const stale = outgoing.reusedSocket && staleConnectionCodes.includes(error.code ?? "");
      if (stale && repeatable) return resolve("stale");
      reject(toOutageError(error));
    });
    outgoing.end(body);
  });
}

/** A server may ask for any time, and the limits of GitHub last an hour. */
const maxRetryAfterMs = 60 * 60_000;

/** Returns the milliseconds to wait by a header that has seconds or a date. */
function retryAfterOf(header: string | undefined): number | undefined {
  if (header === undefined) return undefined;
  const ms = /^\d+$/.test(header.trim()) ? Number(header) * 1_000 : Date.parse(header) - Date.now();
  return Number.isNaN(ms) ? undefined : Math.min(Math.max(ms, 0), maxRetryAfterMs);
}

async function* readChunks(
  incoming: http.IncomingMessage,
  { maxBytes, signal }: Pick<GitRequest, "maxBytes" | "signal">,
): AsyncGenerator<Buffer> {
  let size = 0;
  try {
    for await (const chunk of incoming as AsyncIterable<Buffer>) {
      size += chunk.length;
      if (size > maxBytes) throw tooLargeError(maxBytes);
      yield chunk;
    }
  } catch (error) {
    if (signal.aborted) throw signal.reason;
    throw error instanceof UserError ? error : toOutageError(error as NodeJS.ErrnoException);
  }
}

function toOutageError(error: NodeJS.ErrnoException): OutageError {
  if (error instanceof OutageError) return error;
  return new OutageError(`The git server cannot be reached: ${error.code ?? error.message}.`, { cause: error });
}

function tooLargeError(maxBytes: number): UserError {
  const megabytes = Math.round(maxBytes / 1024 ** 2);
  return new UserError(`The repository is too large to work on: the git server sent more than ${megabytes} MB.`);
}

/** One packet of git's protocol: data, or one of the three marks between data. */
export type Packet = Buffer | "flush" | "delimiter" | "end";

const marks: Record<string, Packet> = { "0000": "flush", "0001": "delimiter", "0002": "end" };
const lengthBytes = 4;

export const flushPacket = Buffer.from("0000");
export const delimiterPacket = Buffer.from("0001");

export function encodePacket(text: string): Buffer {
  const data = Buffer.from(text);
  return Buffer.concat([Buffer.from((data.length + lengthBytes).toString(16).padStart(lengthBytes, "0")), data]);
}

/** Splits a response into packets as it arrives, without copying complete ones. Throws an Error for anything else. */
export async function* readPackets(response: AsyncIterable<Buffer> | Iterable<Buffer>): AsyncGenerator<Packet> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of response) {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let at = 0;
    while (at + lengthBytes <= rest.length) {
      const head = rest.toString("latin1", at, at + lengthBytes);
      const mark = marks[head];
      const size = mark ? lengthBytes : /^[0-9a-f]{4}$/i.test(head) ? Number.parseInt(head, 16) : 0;
      if (size < lengthBytes) throw new Error("The response is not in the git server's protocol.");
      if (at + size > rest.length) break;
      yield mark ?? rest.subarray(at + lengthBytes, at + size);
      at += size;
    }
    rest = rest.subarray(at);
  }
  if (rest.length > 0) throw new Error("The git server's response is cut off.");
}

/** Splits a complete response into packets. */
export function parsePackets(response: Buffer): Promise<Packet[]> {
  return Array.fromAsync(readPackets([response]));
}

/** Yields the data of the side band. Passes the server's messages to `onMessage`, and throws what it reports as an error. */
export async function* readSideBand(
  packets: AsyncIterable<Packet> | Iterable<Packet>,
  onMessage: (message: Buffer) => void = () => {},
): AsyncGenerator<Buffer> {
  for await (const packet of packets) {
    if (typeof packet === "string") continue;
    if (packet[0] === 1) yield packet.subarray(1);
    if (packet[0] === 2) onMessage(packet.subarray(1));
    if (packet[0] === 3) throw new Error(`The git server reported an error: ${packet.toString("utf8", 1).trim()}`);
  }
}
