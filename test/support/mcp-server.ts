import { createServer } from "node:http";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

export interface McpServerOptions {
  /** What `echo` says of itself; another one is drift. */
  description?: string;
  /** Hears each call that arrives. */
  heard?(what: string): void;
}

/** A small MCP server made with the protocol's own SDK. */
export function createMcpServer({
  description = "Says it again.",
  heard = () => {},
}: McpServerOptions = {}): McpServer {
  const server = new McpServer({ name: "test", version: "1.0.0" });
  server.registerTool("echo", { description, inputSchema: { text: z.string() } }, ({ text }) => {
    heard(`echo ${text}`);
    return { content: [{ type: "text", text: `echo: ${text}` }] };
  });
  server.registerTool(
    "sum",
    { inputSchema: { a: z.number(), b: z.number() }, outputSchema: { sum: z.number() } },
    ({ a, b }) => ({
      content: [{ type: "text", text: String(a + b) }],
      structuredContent: { sum: a + b },
    }),
  );
  server.registerTool("fail", { description: "Fails." }, () => ({
    isError: true,
    content: [{ type: "text", text: "no such ticket" }],
  }));
  server.registerTool("picture", { description: "Shows." }, () => ({
    content: [
      { type: "image", data: "aGVsbG8=", mimeType: "image/png" },
      { type: "resource", resource: { uri: "file:///a.txt", text: "inside" } },
    ],
  }));
  server.registerTool("wait", { description: "Waits until it is stopped." }, (extra) => {
    heard("wait");
    return new Promise((resolve) => {
      extra.signal.addEventListener("abort", () => resolve({ content: [] }));
    });
  });
  server.registerTool("environment", { description: "Names what it sees." }, () => ({
    content: [
      {
        type: "text",
        text: JSON.stringify({ pid: process.pid, names: Object.keys(process.env).sort(), args: process.argv.slice(2) }),
      },
    ],
  }));
  server.registerTool("leave", { description: "Ends the server." }, () => process.exit(1));
  return server;
}

export interface HttpMcpServer {
  url: string;
  options: McpServerOptions;
  /** The `authorization` of every request. */
  authorizations: (string | undefined)[];
  close(): Promise<void>;
}

/** The same over HTTP, on a free port of this machine. `options` may be changed while it stands. */
export async function startHttpMcpServer(options: McpServerOptions = {}, port = 0): Promise<HttpMcpServer> {
  const authorizations: (string | undefined)[] = [];
  const http = createServer(async (request, response) => {
    authorizations.push(request.headers.authorization);
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    const server = createMcpServer(options);
    response.on("close", () => void server.close());
    await server.connect(transport as Parameters<McpServer["connect"]>[0]);
    await transport.handleRequest(request, response);
  });
  await new Promise<void>((listening) => http.listen(port, "127.0.0.1", listening));
  const { port: taken } = http.address() as { port: number };
  return {
    url: `http://127.0.0.1:${taken}/mcp`,
    options,
    authorizations,
    close: () =>
      new Promise((closed) => {
        http.close(() => closed());
        http.closeAllConnections();
      }),
  };
}

if (process.argv[1] === import.meta.filename) await createMcpServer().connect(new StdioServerTransport());
