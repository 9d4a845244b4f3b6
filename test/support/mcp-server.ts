import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { z } from "zod";

export interface McpServerOptions {
  /** The era of the server. Default: 2025 without sessions. */
  sessions?: boolean;
  /** The description of `echo`. A changed one counts as drift. */
  description?: string;
  /** Describes the input of \`echo\`. */
  input?: z.ZodType<string>;
  /** Called with each incoming call. */
  onCall?(what: string): void;
}

/** Creates a small MCP server with the protocol's SDK. */
export function createMcpServer({
  description = "Says it again.",
  input = z.string(),
  onCall = () => {},
}: McpServerOptions = {}): McpServer {
  const server = new McpServer({ name: "test", version: "1.0.0" });
  server.registerTool("echo", { description, inputSchema: { text: input } }, ({ text }) => {
    onCall(`echo ${text}`);
    return { content: [{ type: "text", text: `echo: ${text}` }] };
  });
  server.registerTool(
    "sum",
    { inputSchema: { a: z.number(), b: z.number() }, outputSchema: { sum: z.number() } },
    ({ a, b }) => ({
      content: [{ type: "text", text: JSON.stringify({ sum: a + b }) }],
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
    onCall("wait");
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
  /** The open sessions by id. */
  sessions: ReadonlyMap<string, { server: McpServer }>;
  close(): Promise<void>;
}

/** Starts the same server over HTTP on a free port. `options` may be changed while it runs. */
export async function startHttpMcpServer(options: McpServerOptions = {}, port = 0): Promise<HttpMcpServer> {
  const authorizations: (string | undefined)[] = [];
  const sessions = new Map<string, { server: McpServer; transport: StreamableHTTPServerTransport }>();
  const http = createServer(async (request, response) => {
    authorizations.push(request.headers.authorization);
    if (options.sessions) return inSession(request, response);
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    const server = createMcpServer(options);
    response.on("close", () => void server.close());
    await server.connect(transport as Parameters<McpServer["connect"]>[0]);
    await transport.handleRequest(request, response);
  });

  async function inSession(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const known = sessions.get(String(request.headers["mcp-session-id"]));
    if (known) return known.transport.handleRequest(request, response);
    const server = createMcpServer(options);
    const transport: StreamableHTTPServerTransport = new StreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized: (id) => void sessions.set(id, { server, transport }),
    });
    await server.connect(transport as Parameters<McpServer["connect"]>[0]);
    await transport.handleRequest(request, response);
  }

  await new Promise<void>((listening) => http.listen(port, "127.0.0.1", listening));
  const { port: taken } = http.address() as { port: number };
  return {
    url: `http://127.0.0.1:${taken}/mcp`,
    options,
    authorizations,
    sessions,
    close: () =>
      new Promise((closed) => {
        http.close(() => closed());
        http.closeAllConnections();
      }),
  };
}

if (process.argv[1] === import.meta.filename) await createMcpServer().connect(new StdioServerTransport());
