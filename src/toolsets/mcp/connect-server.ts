import { createMCPClient, type ListToolsResult, type MCPClient } from "@ai-sdk/mcp";
import { createProgramTransport } from "./program-transport.ts";
import { createPublicFetch, limitedFetch } from "./public-fetch.ts";
import type { ServerSettings } from "./server-settings.ts";

const connectMs = 10_000;
const mostPages = 20;
const mostTools = 200;

/** A tool as its server describes it. */
export type ToolDefinition = ListToolsResult["tools"][number];

/** A server that answered, with the tools it has. */
export interface ServerConnection {
  client: MCPClient;
  definitions: readonly ToolDefinition[];
  close(): Promise<void>;
}

/** Connects within 10 seconds and asks for the tools. With `publicOnly` no private address is reached. */
export async function connectServer(settings: ServerSettings, publicOnly: boolean): Promise<ServerConnection> {
  const guarded = publicOnly ? createPublicFetch() : undefined;
  const program = "command" in settings ? createProgramTransport(settings) : undefined;
  const http = (address: { url: string; headers: Record<string, string> }) => ({
    ...address,
    type: "http" as const,
    redirect: "error" as const,
    fetch: guarded?.fetch ?? limitedFetch(fetch),
  });
  let client: MCPClient | undefined;

  async function close(): Promise<void> {
    await client?.close().catch(() => undefined);
    // A server that never said hello was never the client's to close.
    await program?.close();
    await guarded?.close();
  }

  try {
    client = await createMCPClient({
      transport: program ?? http(settings as Exclude<ServerSettings, { command: string }>),
      clientName: "golem-forge",
      initializationOptions: { timeout: connectMs },
      // What goes wrong between two calls is said by the next one.
      onUncaughtError: () => {},
    });
    return { client, definitions: await listTools(client), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function listTools(client: MCPClient): Promise<ToolDefinition[]> {
  const definitions: ToolDefinition[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < mostPages && definitions.length < mostTools; page += 1) {
    const listed = await client.listTools({
      ...(cursor !== undefined && { params: { cursor } }),
      options: { timeout: connectMs },
    });
    definitions.push(...listed.tools);
    cursor = listed.nextCursor;
    if (cursor === undefined) break;
  }
  return definitions.slice(0, mostTools);
}
