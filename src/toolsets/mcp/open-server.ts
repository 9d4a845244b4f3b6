import type { CallToolResult } from "@ai-sdk/mcp";
import { ToolError } from "#domain/errors.ts";
import { connectServer, type ServerConnection, type ToolDefinition } from "./connect-server.ts";
import { fingerprint } from "./pins.ts";
import type { ServerSettings } from "./server-settings.ts";

/** A server for the length of a run: connected when it is needed, and again after it was lost. */
export interface Server {
  /** The tools it has now. Throws a ToolError `UNAVAILABLE`. */
  definitions(): Promise<readonly ToolDefinition[]>;
  /** Calls a tool that must still be the one with this fingerprint. Throws ToolErrors. */
  call(tool: string, args: unknown, options: McpCallOptions): Promise<CallToolResult>;
  close(): Promise<void>;
}

export interface McpCallOptions {
  expected: string;
  timeoutMs: number;
  signal: AbortSignal;
}

export function openServer(name: string, settings: ServerSettings, publicOnly: boolean): Server {
  let connecting: Promise<ServerConnection> | undefined;
  let closed = false;

  function connection(): Promise<ServerConnection> {
    if (closed) throw unavailable(name, "the run's tools are put away");
    if (connecting) return connecting;

    const attempt = connectServer(settings, publicOnly);
    connecting = attempt;
    attempt.catch(() => {
      if (connecting === attempt) connecting = undefined;
    });
    return attempt;
  }

  async function drop(): Promise<void> {
    const dropped = connecting;
    connecting = undefined;
    await dropped?.then((open) => open.close()).catch(() => undefined);
  }

  return {
    async definitions() {
      try {
        return (await connection()).definitions;
      } catch (error) {
        throw unavailable(name, reasonOf(error), error);
      }
    },
    async call(tool, args, { expected, timeoutMs, signal }) {
      const { client, definitions } = await connection().catch((error) => {
        throw unavailable(name, reasonOf(error), error);
      });
      const now = definitions.find((definition) => definition.name === tool);
      if (!now) throw unavailable(name, `it has no ${tool} any more`);
      if (fingerprint(now) !== expected) throw changed(name, tool, fingerprint(now));

      const deadline = AbortSignal.timeout(timeoutMs);
      try {
        return await client.callTool({
          name: tool,
          arguments: (args ?? {}) as Record<string, unknown>,
          options: { signal: AbortSignal.any([signal, deadline]) },
        });
      } catch (error) {
        if (signal.aborted) throw error;
        if (deadline.aborted) throw late(name, tool, timeoutMs);
        // An answer that says no is an answer; anything else means that nobody is there.
        if (typeof (error as { code?: unknown }).code === "number") {
          throw new ToolError(`${tool} of the MCP server ${name} refused: ${reasonOf(error)}`, {
            code: "EXECUTION_ERROR",
          });
        }
        await drop();
        throw unavailable(name, reasonOf(error), error);
      }
    },
    async close() {
      closed = true;
      await drop();
    },
  };
}

/** The refusal of a tool that is not what it was. */
export function changed(server: string, tool: string, now: string): ToolError {
  return new ToolError(
    `The MCP server ${server} changed its tool ${tool} since it was first seen, so it is refused. Its fingerprint is now ` +
      `${now}: whoever keeps the worker can look at the change, and name it under fingerprints.`,
    { code: "BLOCKED", suggestion: "Go on without this tool, or say that it is needed." },
  );
}

function unavailable(server: string, why: string, cause?: unknown): ToolError {
  return new ToolError(`The MCP server ${server} cannot be reached: ${why}.`, {
    code: "UNAVAILABLE",
    suggestion: "Go on without it, or try again later.",
    cause,
  });
}

function late(server: string, tool: string, timeoutMs: number): ToolError {
  return new ToolError(`${tool} of the MCP server ${server} did not answer within ${timeoutMs / 1_000} s.`, {
    code: "TIMEOUT",
    suggestion: "It may have done its work all the same: look before you call it again.",
  });
}

/** The innermost reason, on one line: what is around it is plumbing. */
function reasonOf(error: unknown): string {
  let innermost = error;
  for (let depth = 0; depth < 5 && innermost instanceof Error && innermost.cause instanceof Error; depth += 1) {
    innermost = innermost.cause;
  }
  const message = innermost instanceof Error ? innermost.message : String(innermost);
  return message.replace(/\s+/g, " ").replace(/\.$/, "").slice(0, 300);
}
