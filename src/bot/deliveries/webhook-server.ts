import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import {
  type AddressInfo,
  createServer as createListener,
  type Server as Listener,
  type ListenOptions,
} from "node:net";
import { z } from "zod";
import { UserError } from "#domain/errors.ts";
import { JsonValueCounter } from "#text/json-values.ts";
import type { RawDelivery, Receipt } from "./receive-delivery.ts";

/** GitHub sends at most 25 MB. */
const maxBodyBytes = 25 * 1024 * 1024;

/**
 * Above GitHub's largest payload, a push of 2,048 commits with their files. So many values in GitHub's shapes are parsed in
 * less than 50 ms. Objects whose keys all differ take 150 ms, but only someone who knows the secret can send them.
 */
const maxBodyValues = 200_000;

/** Bytes of all bodies that are being read. Their senders are not authenticated yet. */
const maxBufferedBytes = 100 * 1024 * 1024;

const maxConnections = 256;

/**
 * Node accepts one connection per listening socket in each turn of the event loop. A turn takes 15 ms while 60 runs are in progress, so
 * with one socket, 50 deliveries that arrive at once over new connections wait for up to two seconds. The kernel divides the
 * connections among sockets on the same port; on Linux only. The price is their order: among 50 such connections, a delivery that was
 * sent 100 ms after another is read before it half of the time. With one socket, it never is.
 */
const listeningSockets = process.platform === "linux" ? 8 : 1;

/** The time that a client may take, in milliseconds: for its headers, and for all of its request. */
interface Timeouts {
  headersMs: number;
  requestMs: number;
}
const defaultTimeouts: Timeouts = { headersMs: 10_000, requestMs: 30_000 };

export interface WebhookServerOptions {
  host: string;
  /** 0 for any free port. */
  port: number;
  webhookPath: string;
  receive: (delivery: RawDelivery) => Promise<Receipt>;
  /** Answers requests for pages. Returns false for any other request. */
  pages?: ((request: IncomingMessage, response: ServerResponse) => boolean) | undefined;
  /** Resolves to the response of /readyz. Rejects while deliveries cannot be stored; the message of a UserError is shown. */
  ready: () => Promise<string>;
  /** Default: 10 seconds for the headers, 30 in all. */
  timeouts?: Timeouts;
}

/** The app's HTTP server: webhooks, `/healthz` (the process runs) and `/readyz` (it can work). */
export class WebhookServer {
  readonly #options: WebhookServerOptions;
  readonly #path: string;
  readonly #server: Server;
  /** The listening sockets: that of the server, and others whose connections it serves. */
  readonly #listeners: readonly Listener[];
  #connections = 0;
  #stopping = false;
  #bufferedBytes = 0;

  constructor(options: WebhookServerOptions) {
    const { headersMs, requestMs } = options.timeouts ?? defaultTimeouts;
    this.#options = options;
    this.#path = withoutSlash(options.webhookPath);
    const limits = {
      headersTimeout: headersMs,
      requestTimeout: requestMs,
      connectionsCheckingInterval: Math.min(1_000, headersMs),
      keepAliveTimeout: 5_000,
    };
    this.#server = createServer(limits, (request, response) => void this.#serve(request, response));
    this.#server.on("connection", (socket) => {
      this.#connections += 1;
      socket.once("close", () => {
        this.#connections -= 1;
      });
      if (this.#connections > maxConnections) socket.destroy();
    });
    const others = Array.from({ length: listeningSockets - 1 }, () =>
      createListener({ allowHalfOpen: true, noDelay: true }, (socket) => this.#server.emit("connection", socket)),
    );
    this.#listeners = [this.#server, ...others];
  }

  /** Resolves to the address it listens on, once it does. Rejects with a UserError when the address cannot be used. */
  async start(): Promise<{ host: string; port: number }> {
    const { host, port } = this.#options;
    // Sockets that share a port would also share it with another process. This one reports that the port is in use.
    const probe = createListener();
    const bound = await listen(probe, { host, port });
    await close(probe);
    const shared = { host: bound.address, port: bound.port, reusePort: listeningSockets > 1 };
    await Promise.all(this.#listeners.map((listener) => listen(listener, shared)));
    return { host: bound.family === "IPv6" ? `[${bound.address}]` : bound.address, port: bound.port };
  }

  /** Stops accepting connections. Resolves when all requests are answered. */
  async stop(): Promise<void> {
    this.#stopping = true;
    await Promise.all(this.#listeners.filter(({ listening }) => listening).map(close));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.#options.pages?.(request, response)) return;
    const [status, message] = await this.#replyTo(request).catch((): Reply => [500, "The request could not be read."]);
    // A connection that is kept alive would keep the server from closing.
    if (this.#stopping) response.setHeader("Connection", "close");
    send(response, status, message);
  }

  async #replyTo(request: IncomingMessage): Promise<Reply> {
    const path = withoutSlash((request.url ?? "/").split("?")[0] ?? "/");
    const reading = request.method === "GET" || request.method === "HEAD";
    if (reading && path === "/healthz") return [200, "ok"];
    if (reading && path === "/readyz") return this.#isReady();
    if (path !== this.#path) return [404, "Not found."];
    if (request.method !== "POST") return [405, "Send webhooks with POST."];
    if (this.#stopping) return [503, "Shutting down. Deliver it again."];
    return this.#receiveWebhook(request);
  }

  async #isReady(): Promise<Reply> {
    if (this.#stopping) return [503, "Shutting down."];
    try {
      return [200, await this.#options.ready()];
    } catch (error) {
      // Anyone may ask. What the database says, with its address and its files, is in the log.
      return [
        503,
        error instanceof UserError ? error.message : "The database cannot be used at present. The log says why.",
      ];
    }
  }

  async #receiveWebhook(request: IncomingMessage): Promise<Reply> {
    const header = (name: string) => String(request.headers[name] ?? "");
    const id = header("x-github-delivery");
    const name = header("x-github-event");
    const signature = header("x-hub-signature-256");
    if (!/^\s*application\/json\s*(;|$)/i.test(header("content-type"))) return [415, "Send application/json."];
    if (!signature) return [401, "The header X-Hub-Signature-256 is missing."];
    if (!id || !name) return [400, "The header X-GitHub-Delivery or X-GitHub-Event is missing."];

    const body = await this.#readBody(request);
    if (typeof body !== "string") return body;
    const { status, message } = await this.#options.receive({ id, name, signature, body });
    return [status, message];
  }

  async #readBody(request: IncomingMessage): Promise<string | Reply> {
    if (Number(request.headers["content-length"] ?? 0) > maxBodyBytes) return tooLong;
    const chunks: Buffer[] = [];
    const values = new JsonValueCounter();
    let length = 0;
    try {
      for await (const chunk of request as AsyncIterable<Buffer>) {
        length += chunk.length;
        this.#bufferedBytes += chunk.length;
        if (length > maxBodyBytes) return tooLong;
        if (values.add(chunk) > maxBodyValues) return tooManyValues;
        if (this.#bufferedBytes > maxBufferedBytes) return [503, "Too many large requests at once. Deliver it again."];
        chunks.push(chunk);
      }
      return Buffer.concat(chunks).toString("utf8");
    } finally {
      this.#bufferedBytes -= length;
    }
  }
}

function listen(listener: Listener, options: ListenOptions): Promise<AddressInfo> {
  return new Promise((resolve, reject) => {
    const fail = (error: Error) => reject(cannotListen(error));
    listener.once("error", fail);
    listener.listen(options, () => {
      listener.off("error", fail);
      resolve(listener.address() as AddressInfo);
    });
  });
}

function close(listener: Listener): Promise<void> {
  return new Promise((resolve, reject) => listener.close((error) => (error ? reject(error) : resolve())));
}

function cannotListen(error: Error): UserError {
  const reason = error.message.replace(/^listen \w+: /, "");
  return new UserError(`Golem Forge cannot listen: ${reason}. Set HOST and PORT to an address that is free.`, {
    cause: error,
  });
}

type Reply = [status: number, message: string];

const tooLong: Reply = [413, "The body is larger than 25 MB."];
const tooManyValues: Reply = [413, `The body has more than ${maxBodyValues} values.`];

function send(response: ServerResponse, status: number, message: string): void {
  // A body that was not read must not be parsed as the next request.
  const headers = { "content-type": "text/plain; charset=utf-8", ...(status >= 400 ? { connection: "close" } : {}) };
  response.writeHead(status, headers).end(`${message}\n`);
}

function withoutSlash(path: string): string {
  return path.length > 1 ? path.replace(/\/+$/, "") : path;
}

/** A message of smee.io and similar proxies for a webhook: its headers and, among them, its body. */
const Proxied = z.object({
  "x-github-delivery": z.string(),
  "x-github-event": z.string(),
  "x-hub-signature-256": z.string(),
  body: z.unknown(),
});

export interface WebhookProxyOptions {
  url: string;
  receive: (delivery: RawDelivery) => Promise<Receipt>;
  log: (message: string) => void;
}

/** Receives webhooks from a proxy, for a machine that GitHub cannot reach. Returns a function that disconnects. */
export async function connectToProxy({ url, receive, log }: WebhookProxyOptions): Promise<() => void> {
  const { EventSource } = await import("undici");
  const source = new EventSource(url);
  source.addEventListener("open", () => log(`Listening for webhooks at ${url}.`));
  source.addEventListener("error", () => log(`The webhook proxy ${url} is not responding. Trying again.`));
  source.addEventListener("message", ({ data }: { data: string }) => {
    const proxied = readProxied(data);
    if (!proxied) return;
    receive(proxied).then(
      (receipt) => log(`Delivery ${proxied.id} through the proxy: ${receipt.status}.`),
      (error: Error) => log(`Delivery ${proxied.id} through the proxy failed: ${error.message}`),
    );
  });
  return () => source.close();
}

/** Returns undefined for a message that is not a webhook, such as the proxy's own greeting. */
function readProxied(data: string): RawDelivery | undefined {
  try {
    const proxied = Proxied.parse(JSON.parse(data));
    return {
      id: proxied["x-github-delivery"],
      name: proxied["x-github-event"],
      signature: proxied["x-hub-signature-256"],
      // The proxy has parsed the body; GitHub signs exactly what JSON.stringify writes.
      body: JSON.stringify(proxied.body),
    };
  } catch {
    return undefined;
  }
}
