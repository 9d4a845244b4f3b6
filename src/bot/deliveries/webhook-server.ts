import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { DatabaseError, UserError } from "#domain/errors.ts";
import type { RawDelivery, Receipt } from "./receive-delivery.ts";

/** GitHub sends no more than 25 MB. */
const maxBodyBytes = 25 * 1024 * 1024;

/** Bytes of all bodies that are being read. Their signatures are not verified yet. */
const maxBufferedBytes = 100 * 1024 * 1024;

const maxConnections = 256;

/** How long a client may take, in milliseconds: for its headers, and for all of its request. */
interface Timeouts {
  headersMs: number;
  requestMs: number;
}
const defaultTimeouts: Timeouts = { headersMs: 10_000, requestMs: 30_000 };

export interface WebhookServerOptions {
  host: string;
  /** 0 for any that is free. */
  port: number;
  webhookPath: string;
  receive: (delivery: RawDelivery) => Promise<Receipt>;
  /** Answers a request for a page. Returns false for any other request. */
  pages?: ((request: IncomingMessage, response: ServerResponse) => boolean) | undefined;
  /** Resolves to the answer of /readyz. Rejects while deliveries cannot be stored; a UserError says why. */
  ready: () => Promise<string>;
  /** Default: 10 seconds for the headers, 30 in all. */
  timeouts?: Timeouts;
}

export interface WebhookServer {
  /** Resolves to the address it listens on, once it does. */
  start(): Promise<{ host: string; port: number }>;
  /** Accepts no more connections; resolves when all open requests are answered. */
  stop(): Promise<void>;
}

/** The app's HTTP server: webhooks, `/healthz` (the process is running) and `/readyz` (it can accept deliveries). */
export function createWebhookServer({
  host,
  port,
  webhookPath,
  receive,
  pages,
  ready,
  timeouts: { headersMs, requestMs } = defaultTimeouts,
}: WebhookServerOptions): WebhookServer {
  let stopping = false;
  let bufferedBytes = 0;
  const path = withoutSlash(webhookPath);
  const limits = {
    headersTimeout: headersMs,
    requestTimeout: requestMs,
    connectionsCheckingInterval: Math.min(1_000, headersMs),
    keepAliveTimeout: 5_000,
  };
  const server = createServer(limits, async (request, response) => {
    if (pages?.(request, response)) return;
    const [status, words] = await answer(request).catch((): Answer => [500, "It could not be read."]);
    // A connection that is kept alive would keep the server from closing.
    if (stopping) response.setHeader("Connection", "close");
    send(response, status, words);
  });

  server.maxConnections = maxConnections;

  async function answer(request: IncomingMessage): Promise<Answer> {
    const at = withoutSlash((request.url ?? "/").split("?")[0] ?? "/");
    const reading = request.method === "GET" || request.method === "HEAD";
    if (reading && at === "/healthz") return [200, "ok"];
    if (reading && at === "/readyz") return isReady();
    if (at !== path) return [404, "There is nothing here."];
    if (request.method !== "POST") return [405, "Webhooks are posted here."];
    if (stopping) return [503, "Shutting down. Deliver it again."];
    return receiveWebhook(request);
  }

  async function isReady(): Promise<Answer> {
    if (stopping) return [503, "shutting down"];
    return ready().then(
      (state): Answer => [200, state],
      (error): Answer => [
        503,
        error instanceof UserError || error instanceof DatabaseError ? error.message : "The store does not answer.",
      ],
    );
  }

  async function receiveWebhook(request: IncomingMessage): Promise<Answer> {
    const { headers } = request;
    const [id, name, signature] = ["x-github-delivery", "x-github-event", "x-hub-signature-256"].map((header) =>
      String(headers[header] ?? ""),
    ) as [string, string, string];
    if (!/^\s*application\/json\s*(;|$)/i.test(headers["content-type"] ?? "")) return [415, "Send application/json."];
    if (!signature) return [401, "There is no X-Hub-Signature-256."];
    if (!id || !name) return [400, "There is no X-GitHub-Delivery or no X-GitHub-Event."];

    const body = await readBody(request);
    if (typeof body !== "string") return body;
    const { status, message: words } = await receive({ id, name, signature, body });
    return [status, words];
  }

  async function readBody(request: IncomingMessage): Promise<string | Answer> {
    if (Number(request.headers["content-length"] ?? 0) > maxBodyBytes) return tooLong;
    const chunks: Buffer[] = [];
    let length = 0;
    try {
      for await (const chunk of request as AsyncIterable<Buffer>) {
        length += chunk.length;
        bufferedBytes += chunk.length;
        if (length > maxBodyBytes) return tooLong;
        if (bufferedBytes > maxBufferedBytes) return [503, "Too much is arriving at once. Deliver it again."];
        chunks.push(chunk);
      }
      return Buffer.concat(chunks).toString("utf8");
    } finally {
      bufferedBytes -= length;
    }
  }

  return {
    start: () =>
      new Promise((resolve, reject) => {
        const fail = (error: Error) => reject(cannotListen(error));
        server.once("error", fail);
        server.listen({ host, port }, () => {
          server.off("error", fail);
          const address = server.address() as AddressInfo;
          resolve({ host: address.family === "IPv6" ? `[${address.address}]` : address.address, port: address.port });
        });
      }),
    stop: () => {
      stopping = true;
      if (!server.listening) return Promise.resolve();
      return new Promise((resolve, reject) => server.close((error) => (error ? reject(error) : resolve())));
    },
  };
}

function cannotListen(error: Error): UserError {
  const reason = error.message.replace(/^listen \w+: /, "");
  return new UserError(`Golem Forge cannot listen: ${reason}. Set HOST and PORT to an address that is free.`, {
    cause: error,
  });
}

type Answer = [status: number, words: string];

const tooLong: Answer = [413, "That is more than GitHub sends."];

function send(response: ServerResponse, status: number, words: string): void {
  // A body that was not read must not be parsed as the next request.
  const headers = { "content-type": "text/plain; charset=utf-8", ...(status >= 400 ? { connection: "close" } : {}) };
  response.writeHead(status, headers).end(`${words}\n`);
}

function withoutSlash(path: string): string {
  return path.length > 1 ? path.replace(/\/+$/, "") : path;
}
