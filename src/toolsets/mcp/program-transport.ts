import { type ChildProcessByStdio, spawn } from "node:child_process";
import type { Readable, Writable } from "node:stream";
import type { JSONRPCMessage, MCPTransport } from "@ai-sdk/mcp";
import { z } from "zod";
import { readJsonLines } from "#toolsets/read-json-lines.ts";

/** Thrown if a server's program ends before it answers. The message gives the reason. */
export class ProgramEndedError extends Error {
  override readonly name = "ProgramEndedError";
}

/** The maximum size of a server's message, in bytes. */
const maxMessageBytes = 8_000_000;
/** The time in milliseconds that a program gets to end after its input was closed. */
const graceMs = 500;
const maxStderrCharacters = 2_000;
const maxReportedLines = 5;
const maxReportedCharacters = 200;

export interface ServerProgram {
  command: string;
  args: readonly string[];
  env: Readonly<Record<string, string>>;
}

const Id = z.union([z.string(), z.number()]);
/** A request or notification from the server. */
const ServerRequest = z.looseObject({ method: z.string(), id: Id.optional() });
/** A response to one of our requests. */
const Response = z.union([
  z.looseObject({ id: Id, result: z.unknown() }),
  z.looseObject({ id: Id, error: z.looseObject({ code: z.number(), message: z.string() }) }),
]);

/**
 * A connection to an MCP server that is a program. The program sees only PATH and the variables it is given, and is
 * ended together with everything it started. Its output can only fail its own calls: lines that are not messages, and
 * responses to unknown or answered requests, are skipped and can be reported.
 */
export class ProgramTransport implements MCPTransport {
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
        onValue: (value) => {
          for (const message of [value].flat()) this.#receive(message);
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
    return stderr === "" ? this.#end : `${this.#end}. It wrote to stderr: ${stderr}`;
  }

  /** Returns a report of the lines skipped since the last report; undefined if there are none. */
  takeReport(): string | undefined {
    if (this.#skippedCount === 0) return undefined;
    const lines = this.#skipped.splice(0).map((line) => JSON.stringify(line));
    const more = this.#skippedCount - lines.length;
    const count = this.#skippedCount === 1 ? "1 line" : `${this.#skippedCount} lines`;
    this.#skippedCount = 0;
    return `skipped ${count} on stdout that are not MCP messages: ${lines.join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
  }

  #receive(value: unknown): void {
    const request = ServerRequest.safeParse(value);
    if (request.success) {
      this.#forward(value);
      return;
    }
    const id = z.looseObject({ id: Id }).safeParse(value).data?.id;
    if (id === undefined || !this.#pending.delete(String(id))) {
      this.#skip(JSON.stringify(value));
      return;
    }
    if (Response.safeParse(value).success) this.#forward(value);
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
