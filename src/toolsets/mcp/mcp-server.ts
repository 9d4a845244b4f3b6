import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { CallToolResult } from "@ai-sdk/mcp";
import { LRUCache } from "lru-cache";
import { z } from "zod";
import { canonicalJson } from "#domain/approval.ts";
import { messageOf, reasonOf, ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import { parseJson } from "#text/json-values.ts";
import { wrapUntrusted } from "#text/untrusted.ts";
import { quoted, showHidden } from "#text/visible-text.ts";
import { failedResult } from "#toolsets/tool-result.ts";
import type { ServerConnection, ToolDefinition } from "./connect-server.ts";
import { ProgramEndedError, type ServerSettings } from "./server-settings.ts";

export interface McpCallOptions {
  /** The fingerprint that the tool must still have. */
  expected: string;
  timeoutMs: number;
  signal: AbortSignal;
  /** Receives reports for people, such as lines that are not messages. */
  output(text: string): void;
}

/** A server for the duration of a run. Connects on first use, and reconnects after losing the connection. */
export class McpServer {
  readonly #name: string;
  readonly #settings: ServerSettings;
  readonly #publicOnly: boolean;
  #connecting: Promise<ServerConnection> | undefined;
  #closed = false;

  constructor(name: string, settings: ServerSettings, publicOnly: boolean) {
    this.#name = name;
    this.#settings = settings;
    this.#publicOnly = publicOnly;
  }

  /** Returns the server's current tools. Throws a ToolError `UNAVAILABLE`. */
  async definitions(): Promise<readonly ToolDefinition[]> {
    return (await this.#connection()).definitions();
  }

  /** Calls a tool. Throws ToolErrors. */
  async call(
    tool: string,
    args: unknown,
    { expected, timeoutMs, signal, output }: McpCallOptions,
  ): Promise<CallToolResult> {
    const connection = await this.#connection();
    const definitions = await connection.definitions().catch(async (error: unknown) => {
      await this.#drop();
      throw this.#unavailable(connection.describeEnd() ?? describeServerError(error), error);
    });
    const current = definitions.find((definition) => definition.name === tool);
    if (!current) throw this.#unavailable(`it no longer has the tool ${tool}`);
    if (fingerprint(current) !== expected) throw changedTool(this.#name, tool, fingerprint(current));

    const deadline = AbortSignal.timeout(timeoutMs);
    try {
      return await connection.client.callTool({
        name: tool,
        arguments: (args ?? {}) as Record<string, unknown>,
        options: { signal: AbortSignal.any([signal, deadline]) },
      });
    } catch (error) {
      if (signal.aborted) throw error;
      if (deadline.aborted) throw this.#late(tool, timeoutMs);
      // An error response is valid, and its text is the server's. Any other error means that the connection is lost.
      if (typeof (error as { code?: unknown }).code === "number")
        return { content: [{ type: "text", text: messageOf(error) }], isError: true };
      await this.#drop();
      throw this.#lost(tool, connection.describeEnd() ?? describeServerError(error), error);
    } finally {
      const report = connection.takeReport();
      if (report) output(`The MCP server ${this.#name} ${report}\n`);
    }
  }

  async close(): Promise<void> {
    this.#closed = true;
    await this.#drop();
  }

  async #connection(): Promise<ServerConnection> {
    if (this.#closed) throw this.#unavailable("the run's tools are closed");
    const connecting = this.#connecting ?? this.#connect();
    this.#connecting = connecting;
    try {
      return await connecting;
    } catch (error) {
      if (this.#connecting === connecting) this.#connecting = undefined;
      throw this.#unavailable(describeServerError(error), error);
    }
  }

  async #connect(): Promise<ServerConnection> {
    // Its packages are large, and few workers use a server.
    const { connectServer } = await import("./connect-server.ts");
    return connectServer(this.#settings, this.#publicOnly);
  }

  async #drop(): Promise<void> {
    const dropped = this.#connecting;
    this.#connecting = undefined;
    await dropped?.then((open) => open.close()).catch(() => undefined);
  }

  #unavailable(reason: string, cause?: unknown): ToolError {
    return new ToolError(`The MCP server ${this.#name} cannot be reached: ${reason}.`, {
      code: "UNAVAILABLE",
      suggestion: "Continue without it, or try again later.",
      cause,
    });
  }

  #lost(tool: string, reason: string, cause: unknown): ToolError {
    return new ToolError(`The MCP server ${this.#name} was lost during the call of ${tool}: ${reason}.`, {
      code: "UNAVAILABLE",
      suggestion: "It is not known whether the call took effect. Check before you call it again.",
      cause,
    });
  }

  #late(tool: string, timeoutMs: number): ToolError {
    return new ToolError(`${tool} of the MCP server ${this.#name} did not answer within ${timeoutMs / 1_000} s.`, {
      code: "TIMEOUT",
      suggestion: "It is not known whether the call took effect. Check before you call it again.",
    });
  }
}

/** Returns the error for a tool that has changed since it was first seen. */
export function changedTool(server: string, tool: string, current: string): ToolError {
  return new ToolError(
    `The MCP server ${server} changed its tool ${tool} since it was first seen, so it is refused. Its fingerprint is now ` +
      `${current}: the maintainer of the worker can review the change and add it to fingerprints.`,
    { code: "BLOCKED", suggestion: "Continue without this tool, or report that it is needed." },
  );
}

/** Returns the innermost error message, quoted: the server may have written it. */
function describeServerError(error: unknown): string {
  let reason = error;
  for (let depth = 0; depth < 5 && !(reason instanceof ProgramEndedError); depth += 1) {
    if (reason instanceof Error && reason.cause instanceof Error) reason = reason.cause;
  }
  return reason instanceof ProgramEndedError ? reason.message : quoted(reasonOf(reason));
}

/** The maximum of all tools that a server lists over time, under any names: some full lists. */
const maxPins = { tools: 1_000, characters: 8_000_000 };

/** A server's tools as this process first saw them, by the server's names for them. None is ever evicted. */
export class Pins {
  /** The tools that the server listed last, which are offered while it is down. */
  listed: readonly ToolDefinition[] | undefined;
  readonly #definitions = new Map<string, ToolDefinition>();
  #characters = 0;

  get(tool: string): ToolDefinition | undefined {
    return this.#definitions.get(tool);
  }

  /** Adds or replaces a tool. Returns false if there is no room for one more. */
  set(definition: ToolDefinition): boolean {
    const known = this.#definitions.get(definition.name);
    const added = JSON.stringify(definition).length - (known ? JSON.stringify(known).length : 0);
    const isFull = this.#definitions.size >= maxPins.tools || this.#characters + added > maxPins.characters;
    if (!known && isFull) return false;
    this.#characters += added;
    this.#definitions.set(definition.name, definition);
    return true;
  }
}

const maxServers = 1_000;
const pinsByServer = new LRUCache<string, Pins>({ max: maxServers });

/** Returns the pins of a server. They are kept as long as the process runs. */
export function pinsOf(server: string, settings: ServerSettings): Pins {
  const key = createHash("sha256").update(canonicalJson({ server, settings })).digest("hex");
  const pins = pinsByServer.get(key) ?? new Pins();
  pinsByServer.set(key, pins);
  return pins;
}

/** Returns the SHA-256 of everything a model is told about a tool, as `sha256:…`. Any change by the server changes it. */
export function fingerprint(definition: ToolDefinition): string {
  const { name, title, description, inputSchema, outputSchema, annotations } = definition;
  const described = canonicalJson({ name, title, description, inputSchema, outputSchema, annotations });
  return `sha256:${createHash("sha256").update(described).digest("hex")}`;
}

const maxCharacters = 1_000_000;

/** A server's response. Invalid parts are dropped, since a server may send anything. */
const CallResponse = z.object({
  content: z.array(z.unknown()).catch([]),
  structuredContent: z.unknown().optional(),
  isError: z.boolean().catch(false),
  /** The result format of servers before 2024-11-05. */
  toolResult: z.unknown().optional(),
});

const anything = z.unknown().optional();
const Part = z.looseObject({
  type: z.string().catch("content"),
  text: anything,
  data: anything,
  mimeType: anything,
  resource: z.looseObject({ uri: anything, text: anything }).optional().catch(undefined),
  uri: anything,
  name: anything,
});

/** Returns the result of an MCP call, marked as untrusted data that contains no instructions. */
export function mcpResult(response: CallToolResult, { server, tool }: { server: string; tool: string }): ToolResult {
  const { content, structuredContent, isError, toolResult } = CallResponse.parse(response);
  const parts = content.map(partToText).filter((text) => text !== "");
  if (parts.length === 0) parts.push(JSON.stringify(structuredContent ?? toolResult) ?? "");
  const text = showHidden(parts.join("\n").slice(0, maxCharacters));
  const source = `the MCP server ${server}`;
  if (isError) {
    const failed = failedResult(text || `${tool} failed and gave no reason.`, { code: "EXECUTION_ERROR" });
    return { ...failed, llmContent: `Error: ${wrapUntrusted(text, source)}` };
  }
  // People are shown what the model reads, which may differ from the structured content.
  const isSame = structuredContent !== undefined && isDeepStrictEqual(parseJson(text), structuredContent);
  return {
    llmContent: text === "" ? "Done." : wrapUntrusted(text, source),
    value: isSame ? { kind: "json", data: structuredContent, summary: tool } : { kind: "text", content: text },
  };
}

function partToText(part: unknown): string {
  const parsed = Part.safeParse(part);
  if (!parsed.success) return "";
  const { type, text, data, mimeType, resource, uri, name } = parsed.data;
  if (type === "text") return String(text ?? "");
  if (type === "resource") {
    return typeof resource?.text === "string" ? resource.text : `[the resource ${resource?.uri}, which is not text]`;
  }
  if (type === "resource_link") return `[the resource ${name ?? uri}: ${uri}]`;
  const size = typeof data === "string" ? `, ${Math.ceil((data.length * 3) / 4)} bytes` : "";
  return `[${type} ${mimeType ?? "of an unknown type"}${size}, which is not shown]`;
}
