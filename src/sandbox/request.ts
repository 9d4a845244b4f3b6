import http from "node:http";
import https from "node:https";
import { OutageError, UserError } from "#domain/errors.ts";

export interface GitRequest {
  method: "GET" | "POST";
  url: URL;
  headers: Record<string, string>;
  body?: Buffer;
  /** The largest answer taken, in bytes. */
  maxBytes: number;
  /** Asking twice does no harm. */
  repeatable: boolean;
  signal: AbortSignal;
}

export interface GitResponse {
  status: number;
  type: string;
  body: Buffer;
}

// An agent of our own: Node's global one closes what is silent for 5 s, and a git server may think longer than that.
const agents = {
  "http:": new http.Agent({ keepAlive: true, maxSockets: 32 }),
  "https:": new https.Agent({ keepAlive: true, maxSockets: 32 }),
};
const idleTimeoutMs = 120_000;
const staleConnectionCodes = ["ECONNRESET", "EPIPE", "ECONNABORTED"];

/** One request, its whole answer in memory. A kept connection that turns out to be dead is replaced once. */
export async function request(asked: GitRequest): Promise<GitResponse> {
  const first = await attempt(asked);
  if (first !== "stale") return first;

  const second = await attempt(asked);
  if (second === "stale") throw new OutageError("The git server closed the connection.");
  return second;
}

function attempt(asked: GitRequest): Promise<GitResponse | "stale"> {
  const { method, url, headers, body, signal } = asked;
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
      outgoing.destroy(new OutageError(`The git server was silent for ${idleTimeoutMs / 1_000} seconds.`));
    });
    outgoing.once("response", (incoming) => {
      read(incoming, asked.maxBytes).then(resolve, (error) => {
        incoming.destroy();
        if (signal.aborted) reject(signal.reason);
        else reject(error instanceof UserError ? error : toOutageError(error));
      });
    });
    outgoing.once("error", (error: NodeJS.ErrnoException) => {
      if (signal.aborted) return reject(signal.reason);
      const stale = outgoing.reusedSocket && staleConnectionCodes.includes(error.code ?? "");
      if (stale && asked.repeatable) return resolve("stale");
      reject(toOutageError(error));
    });
    outgoing.end(body);
  });
}

async function read(incoming: http.IncomingMessage, maxBytes: number): Promise<GitResponse> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > maxBytes) throw tooLargeError(maxBytes);
    chunks.push(chunk);
  }
  return {
    status: incoming.statusCode ?? 0,
    type: incoming.headers["content-type"] ?? "",
    body: Buffer.concat(chunks),
  };
}

function toOutageError(error: NodeJS.ErrnoException): OutageError {
  if (error instanceof OutageError) return error;
  return new OutageError(`The git server cannot be reached: ${error.code ?? error.message}.`, { cause: error });
}

function tooLargeError(maxBytes: number): UserError {
  const megabytes = Math.round(maxBytes / 1024 ** 2);
  return new UserError(`The repository is too large to work on: the git server sent more than ${megabytes} MB.`);
}
