import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import type { JSONRPCMessage, MCPTransport } from "@ai-sdk/mcp";
import { readJsonLines } from "#toolsets/read-json-lines.ts";

/** The longest message taken from a server, in bytes. */
const mostBytes = 32_000_000;
/** Milliseconds a program gets to end after its input was closed. */
const graceMs = 500;

export interface Program {
  command: string;
  args: readonly string[];
  env: Readonly<Record<string, string>>;
}

/**
 * Speaks with an MCP server that is a program of its own. It sees PATH and the variables it is given, and it is ended
 * with everything it started.
 */
export function createProgramTransport({ command, args, env }: Program): MCPTransport {
  let child: ChildProcessByStdio<Writable, Readable, null> | undefined;
  const gone = Promise.withResolvers<void>();

  function killAll(): void {
    if (child?.pid === undefined) return;
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {
      // It is gone with all it started.
    }
  }

  const transport: MCPTransport = {
    start: () =>
      new Promise((resolve, reject) => {
        const started = spawn(command, args, {
          env: { ...(process.env.PATH !== undefined && { PATH: process.env.PATH }), ...env },
          stdio: ["pipe", "pipe", "ignore"],
          // A group of its own, so that what it starts can be ended with it.
          detached: true,
        });
        child = started;
        started.on("spawn", resolve);
        started.on("error", (error) => {
          reject(error);
          transport.onerror?.(error);
        });
        started.on("close", () => {
          gone.resolve();
          transport.onclose?.();
        });
        started.stdin.on("error", (error) => transport.onerror?.(error));
        readJsonLines(started.stdout, {
          maxBytes: mostBytes,
          onValue: (value) => transport.onmessage?.(value as JSONRPCMessage),
          onFailure(why) {
            transport.onerror?.(new Error(`The program was ended: ${why}`));
            killAll();
          },
        });
      }),
    send: (message) =>
      new Promise((resolve, reject) => {
        if (!child?.stdin.writable) reject(new Error("The program has ended"));
        else child.stdin.write(`${JSON.stringify(message)}\n`, (error) => (error ? reject(error) : resolve()));
      }),
    async close() {
      if (child?.pid === undefined) return;
      child.stdin.end();
      const timer = setTimeout(killAll, graceMs);
      await gone.promise;
      clearTimeout(timer);
      killAll();
    },
  };
  return transport;
}
