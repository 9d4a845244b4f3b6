import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import {
  createMCPClient,
  type JSONRPCMessage,
  type ListToolsResult,
  type MCPClient,
  type MCPTransport,
} from "@ai-sdk/mcp";
import { Agent, fetch as undiciFetch } from "undici";
import { z } from "zod";
import { startStopwatch } from "#domain/work-context.ts";
import { isPublicAddress, publicLookup, type Resolve } from "#executors/public-address.ts";
import { JsonValueCounter } from "#text/json-values.ts";
import { pluralize } from "#text/pluralize.ts";
import { quoted } from "#text/visible-text.ts";
import { readJsonLines } from "#toolsets/read-json-lines.ts";
import { ProgramEndedError, type ServerSettings } from "./server-settings.ts";

const connectMs = 10_000;
const maxPages = 20;
const maxTools = 200;
/** The maximum size of all tools with their descriptions and schemas, in characters. */
const maxListLength = 2_000_000;
/** The maximum time for all pages of the list. */
const maxListingMs = 30_000;

/** A tool as its server describes it. */
export type ToolDefinition = ListToolsResult["tools"][number];

export type ServerConnection = Awaited<ReturnType<typeof connectServer>>;

/** Connects within 10 seconds and lists the tools. With `publicOnly`, private addresses are refused. */
export async function connectServer(settings: ServerSettings, publicOnly: boolean) {
  const guarded = publicOnly ? createPublicFetch() : undefined;
  const program = "command" in settings ? new ProgramTransport(settings) : undefined;
  const http = (address: { url: string; headers: Record<string, string> }) => ({
    ...address,
    type: "http" as const,
    redirect: "error" as const,
    fetch: guarded?.fetch ?? limitedFetch(fetch),
  });
  let client: MCPClient | undefined;
  const list = new ToolList();

  async function close(): Promise<void> {
    await client?.close().catch(() => undefined);
    // If the program never answered, the client does not close it.
    await program?.close();
    await guarded?.close();
  }

  try {
    client = await createMCPClient({
      transport: program ?? http(settings as Exclude<ServerSettings, { command: string }>),
      clientName: "golem-forge",
      initializationOptions: { timeout: connectMs },
      // A failure between two calls is reported by the next call. Notifications also arrive here, without their name.
      onUncaughtError: () => list.expire(),
    });
    await list.read(client);
    const connected = client;
    return {
      client,
      /** Returns the tools. Lists them again after the server reported a change or their validity has expired. */
      definitions: () => list.read(connected),
      /** Returns the reason why the server's program ended; undefined while it runs, and for a server over HTTP. */
      describeEnd: () => program?.describeEnd(),
      /** Returns a report of the program's output other than messages; undefined if there is nothing new. */
      takeReport: () => program?.takeReport(),
      close,
    };
  } catch (error) {
    await close();
    const end = program?.describeEnd();
    throw end === undefined ? error : new ProgramEndedError(end, { cause: error });
  }
}

/** The tools of a server, cached for as long as the server says they are valid. */
class ToolList {
  #definitions: Promise<readonly ToolDefinition[]> | undefined;
  #validUntil = Number.POSITIVE_INFINITY;

  expire(): void {
    this.#validUntil = 0;
  }

  read(client: MCPClient): Promise<readonly ToolDefinition[]> {
    if (this.#definitions && Date.now() < this.#validUntil) return this.#definitions;
    this.#validUntil = Number.POSITIVE_INFINITY;
    const definitions = this.#list(client);
    this.#definitions = definitions;
    definitions.catch(() => {
      if (this.#definitions === definitions) this.#definitions = undefined;
    });
    return definitions;
  }

  async #list(client: MCPClient): Promise<readonly ToolDefinition[]> {
    const announcesChanges = client.initializeResult.capabilities.tools?.listChanged === true;
    const definitions: ToolDefinition[] = [];
    const elapsedMs = startStopwatch();
    let length = 0;
    let cursor: string | undefined;
    for (let page = 0; page < maxPages && definitions.length < maxTools; page += 1) {
      const listed = await client.listTools({
        ...(cursor !== undefined && { params: { cursor } }),
        options: { timeout: connectMs },
      });
      for (const tool of listed.tools.slice(0, maxTools)) {
        length += JSON.stringify(tool).length;
        if (length > maxListLength) throw new Error("Its list of tools is longer than 2 MB");
        definitions.push(tool);
      }
      if (elapsedMs() > maxListingMs) throw new Error("Its list of tools takes longer than 30 seconds");
      const { ttlMs = announcesChanges ? undefined : 0 } = Validity.parse(listed);
      if (ttlMs !== undefined) this.#validUntil = Math.min(this.#validUntil, Date.now() + ttlMs);
      cursor = listed.nextCursor;
      if (cursor === undefined) break;
    }
    return definitions.slice(0, maxTools);
  }
}

/**
 * The validity of a tool list. Where it is absent, as before 2026-07-28, the list is stale at once, unless the server says when
 * it changes; a negative one counts as 0.
 */
const Validity = z.object({
  ttlMs: z
    .number()
    .transform((ms) => Math.max(0, ms))
    .optional()
    .catch(undefined),
});

/** The maximum size of a server's response, in bytes. */
const maxResponseBytes = 8_000_000;
/** The maximum number of values in it, which the client parses in one turn of the event loop. */
const maxResponseValues = 100_000;

/** Creates a fetch that connects only to public addresses, and only to the address that was checked. */
export function createPublicFetch(resolve?: Resolve): { fetch: typeof globalThis.fetch; close(): Promise<void> } {
  const agent = new Agent({ connect: { lookup: publicLookup(resolve) } });
  const fetch = async (input: string | URL | Request, init?: RequestInit) => {
    const url = new URL(input instanceof Request ? input.url : input);
    const host = url.hostname.replace(/^\[|\]$/g, "");
    // IP addresses are not resolved.
    if ((/^[\d.]+$/.test(host) || host.includes(":")) && !isPublicAddress(host)) {
      throw new Error(`${host} is not on the public internet`);
    }
    type Init = NonNullable<Parameters<typeof undiciFetch>[1]>;
    return (await undiciFetch(url, { ...(init as Init), dispatcher: agent })) as unknown as Response;
  };
  return { fetch: limitedFetch(fetch as typeof globalThis.fetch), close: () => agent.destroy() };
}

/** Wraps a fetch so that responses that are too long fail. */
function limitedFetch(fetch: typeof globalThis.fetch): typeof globalThis.fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    if (!response.body) return response;

    let bytes = 0;
    const values = new JsonValueCounter();
    const limit = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        bytes += chunk.length;
        const isTooLong = bytes > maxResponseBytes || values.add(chunk) > maxResponseValues;
        if (isTooLong) controller.error(new Error("The server's response is too long"));
        else controller.enqueue(chunk);
      },
    });
    const { status, statusText, headers } = response;
    return new Response(response.body.pipeThrough(limit), { status, statusText, headers: new Headers([...headers]) });
  };
}

/** The maximum size of a server's message, in bytes. */
const maxMessageBytes = 8_000_000;
/** The maximum number of messages in one line. */
const maxBatch = 1_000;
/** The time in milliseconds that a program gets to end after its input was closed. */
const graceMs = 500;
const maxStderrCharacters = 2_000;
const maxReportedLines = 5;
const maxQuotedStderr = 250;
const maxReportedCharacters = 200;

interface ServerProgram {
  command: string;
  args: readonly string[];
  env: Readonly<Record<string, string>>;
}

const Id = z.union([z.string(), z.number()]);
/** A request or notification from the server. */
const ServerRequest = z.looseObject({ method: z.string(), id: Id.optional() });
const AnyResponse = z.looseObject({ id: Id });
/** A response to one of our requests. */
const ServerResponse = z.union([
  z.looseObject({ id: Id, result: z.unknown() }),
  z.looseObject({ id: Id, error: z.looseObject({ code: z.number(), message: z.string() }) }),
]);

/**
 * A connection to an MCP server that is a program. The program sees only PATH and the variables it is given, and is
 * ended together with everything it started. Its output can only fail its own calls: lines that are not messages, and
 * responses to unknown or answered requests, are skipped and can be reported.
 */
class ProgramTransport implements MCPTransport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly supportsProtocolVersionDiscovery = true;
  protocolVersion?: string;

  readonly #program: ServerProgram;
  readonly #closed = Promise.withResolvers<void>();
  /** The requests without a response so far. */
  readonly #pending = new Set<string>();
  readonly #skipped: string[] = [];
  #skippedCount = 0;
  #child: ChildProcessByStdio<Writable, Readable, Readable> | undefined;
  #stderr = "";
  #end: string | undefined;

  constructor(program: ServerProgram) {
    this.#program = program;
  }

  start(): Promise<void> {
    const { command, args, env } = this.#program;
    return new Promise((resolve, reject) => {
      const child = spawn(command, args, {
        env: { ...(process.env.PATH !== undefined && { PATH: process.env.PATH }), ...env },
        stdio: "pipe",
        // A separate process group, so that everything the program starts can be ended with it.
        detached: true,
      });
      this.#child = child;
      child.on("spawn", resolve);
      child.on("error", (error) => {
        this.#end ??= error.message;
        reject(error);
        this.onerror?.(error);
      });
      child.on("close", (code, signal) => {
        this.#end ??= signal ? `it was ended by ${signal}` : `it exited with code ${code}`;
        this.#closed.resolve();
        this.onclose?.();
      });
      for (const stream of [child.stdin, child.stdout, child.stderr]) {
        stream.on("error", (error) => this.onerror?.(error));
      }
      child.stderr.on("data", (chunk: Buffer) => {
        this.#stderr = (this.#stderr + chunk.toString()).slice(-maxStderrCharacters);
      });
      readJsonLines(child.stdout, {
        maxBytes: maxMessageBytes,
        maxValues: maxResponseValues,
        onValue: (value) => {
          const messages = [value].flat();
          if (messages.length > maxBatch) this.#skip(`a batch of ${messages.length} messages`);
          else for (const message of messages) this.#receive(message);
        },
        onInvalidLine: (line) => this.#skip(line),
        onFailure: (reason) => {
          this.#end ??= reason;
          this.#killAll();
        },
      });
    });
  }

  send(message: JSONRPCMessage): Promise<void> {
    const child = this.#child;
    return new Promise((resolve, reject) => {
      if (!child?.stdin.writable) {
        reject(new Error(this.describeEnd() ?? "The program is not running"));
        return;
      }
      if ("method" in message && "id" in message) this.#pending.add(String(message.id));
      child.stdin.write(`${JSON.stringify(message)}\n`, (error) => (error ? reject(error) : resolve()));
    });
  }

  async close(): Promise<void> {
    if (this.#child?.pid === undefined) return;
    this.#child.stdin.end();
    const timer = setTimeout(() => this.#killAll(), graceMs);
    await this.#closed.promise;
    clearTimeout(timer);
    this.#killAll();
  }

  /** Returns the reason why the program ended, with the end of its stderr; undefined while it runs. */
  describeEnd(): string | undefined {
    if (this.#end === undefined) return undefined;
    const stderr = this.#stderr.trim().split("\n").slice(-maxReportedLines).join(" | ");
    return stderr === "" ? this.#end : `${this.#end}. It wrote to stderr: ${quoted(stderr.slice(-maxQuotedStderr))}`;
  }

  /** Returns a report of the lines skipped since the last report; undefined if there are none. */
  takeReport(): string | undefined {
    if (this.#skippedCount === 0) return undefined;
    const lines = this.#skipped.splice(0).map((line) => JSON.stringify(line));
    const more = this.#skippedCount - lines.length;
    const count = pluralize(this.#skippedCount, "line");
    this.#skippedCount = 0;
    return `skipped ${count} on stdout that are not MCP messages: ${lines.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
  }

  #receive(value: unknown): void {
    const request = ServerRequest.safeParse(value);
    if (request.success) {
      this.#forward(value);
      return;
    }
    const id = AnyResponse.safeParse(value).data?.id;
    if (id === undefined || !this.#pending.delete(String(id))) {
      this.#skip(JSON.stringify(value));
      return;
    }
    if (ServerResponse.safeParse(value).success) this.#forward(value);
    else this.#forward({ jsonrpc: "2.0", id, error: { code: -32_603, message: "its response is not valid MCP" } });
  }

  #forward(message: unknown): void {
    try {
      this.onmessage?.(message as JSONRPCMessage);
    } catch (error) {
      // The client throws for a response that it is no longer waiting for.
      this.#skip(JSON.stringify(message));
      this.onerror?.(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #skip(line: string): void {
    if (line.trim() === "") return;
    this.#skippedCount++;
    if (this.#skipped.length < maxReportedLines) this.#skipped.push(line.slice(0, maxReportedCharacters));
  }

  #killAll(): void {
    if (this.#child?.pid === undefined) return;
    try {
      process.kill(-this.#child.pid, "SIGKILL");
    } catch {
      // The process group has already ended.
    }
  }
}
