import type { LookupFunction } from "node:net";
import { createMCPClient, type ListToolsResult, type MCPClient } from "@ai-sdk/mcp";
import { Agent, fetch as undiciFetch } from "undici";
import { z } from "zod";
import { isPublicAddress, publicAddresses, type Resolve } from "#executors/public-address.ts";
import { ProgramEndedError, ProgramTransport } from "./program-transport.ts";
import type { ServerSettings } from "./server-settings.ts";

const connectMs = 10_000;
const maxPages = 20;
const maxTools = 200;

/** A tool as its server describes it. */
export type ToolDefinition = ListToolsResult["tools"][number];

/** A connected server and its tools. */
export interface ServerConnection {
  client: MCPClient;
  /** Returns the server's tools. Lists them again after the server reported a change or their validity has expired. */
  definitions(): Promise<readonly ToolDefinition[]>;
  /** Returns the reason why the server's program ended; undefined while it runs, and for a server over HTTP. */
  describeEnd(): string | undefined;
  /** Returns a report of the program's output besides messages; undefined if there is nothing new. */
  takeReport(): string | undefined;
  close(): Promise<void>;
}

/** Connects within 10 seconds and lists the tools. With `publicOnly`, private addresses are refused. */
export async function connectServer(settings: ServerSettings, publicOnly: boolean): Promise<ServerConnection> {
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
      definitions: () => list.read(connected),
      describeEnd: () => program?.describeEnd(),
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
    const definitions: ToolDefinition[] = [];
    let cursor: string | undefined;
    for (let page = 0; page < maxPages && definitions.length < maxTools; page += 1) {
      const listed = await client.listTools({
        ...(cursor !== undefined && { params: { cursor } }),
        options: { timeout: connectMs },
      });
      definitions.push(...listed.tools);
      const { ttlMs } = Validity.parse(listed);
      if (ttlMs !== undefined) this.#validUntil = Math.min(this.#validUntil, Date.now() + ttlMs);
      cursor = listed.nextCursor;
      if (cursor === undefined) break;
    }
    return definitions.slice(0, maxTools);
  }
}

/** The validity of a tool list. Servers before 2026-07-28 do not specify it. */
const Validity = z.object({ ttlMs: z.number().nonnegative().optional().catch(undefined) });

/** The maximum size of a server's response, in bytes. */
const maxResponseBytes = 8_000_000;

/** Creates a fetch that connects only to public addresses, and only to the address that was checked. */
export function createPublicFetch(resolve?: Resolve): { fetch: typeof globalThis.fetch; close(): Promise<void> } {
  const lookup: LookupFunction = (host, options, callback) => {
    publicAddresses(host, resolve).then(
      (found) => (options.all ? callback(null, found) : callback(null, found[0]?.address ?? "", found[0]?.family)),
      (error: Error) => callback(error, ""),
    );
  };
  const agent = new Agent({ connect: { lookup } });
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
export function limitedFetch(fetch: typeof globalThis.fetch): typeof globalThis.fetch {
  return async (input, init) => {
    const response = await fetch(input, init);
    if (!response.body) return response;

    let bytes = 0;
    const limit = new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        bytes += chunk.length;
        if (bytes > maxResponseBytes) controller.error(new Error("The server's response is too long"));
        else controller.enqueue(chunk);
      },
    });
    const { status, statusText, headers } = response;
    return new Response(response.body.pipeThrough(limit), { status, statusText, headers: new Headers([...headers]) });
  };
}
