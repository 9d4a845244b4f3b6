import { AsyncLocalStorage } from "node:async_hooks";
import { Console } from "node:console";
import { readFileSync } from "node:fs";
import process from "node:process";
import { Writable } from "node:stream";
import { pathToFileURL } from "node:url";
import { ToolError } from "#domain/errors.ts";
import type { ToolContext } from "#domain/tool.ts";
import type { Entry, Workspace } from "#domain/workspace.ts";
import { confine } from "#executors/confine.ts";
import { parsePath } from "#sandbox/paths.ts";
import {
  type CallFacts,
  type FromHost,
  maxLineBytes,
  plainError,
  type SandboxCall,
  type ToHost,
} from "#toolsets/custom/messages.ts";
import { readJsonLines } from "#toolsets/read-json-lines.ts";
import { toJsonValue } from "#toolsets/tool-result.ts";
import { type HostedTool, hostTool } from "./describe-tool.ts";

/** The process that runs the tools of one module. It exchanges lines of JSON with its parent process. */

/** The maximum number of characters of one call's output; the rest is dropped. */
const maxOutputCharacters = 200_000;

const tools = new Map<string, HostedTool>();
const calls = new Map<number, AbortController>();
const sandboxCalls = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
const currentOutput = new AsyncLocalStorage<(chunk: string) => void>();
let lastSandboxCall = 0;

function send(message: FromHost): void {
  process.stdout.write(`${JSON.stringify(message)}\n`);
}

function receive(message: ToHost): void {
  switch (message.kind) {
    case "load":
      void load(message);
      return;
    case "call":
      void answer(message);
      return;
    case "abort":
      calls.get(message.id)?.abort(new DOMException("The call was stopped.", message.reason));
      return;
    case "answer": {
      const sandboxCall = sandboxCalls.get(message.id);
      sandboxCalls.delete(message.id);
      if (!message.error) sandboxCall?.resolve(message.value);
      else sandboxCall?.reject(Object.assign(new Error(message.error.message), message.error));
    }
  }
}

async function load({ module, shown, tools: wanted }: Extract<ToHost, { kind: "load" }>): Promise<void> {
  try {
    const exports: Record<string, unknown> = await import(pathToFileURL(module).href);
    const source = readFileSync(module, "utf8");
    const outcomes = await Promise.allSettled(wanted.map((name) => hostTool({ exports, shown, source }, name)));
    const problems = outcomes.flatMap((outcome) => (outcome.status === "rejected" ? [messageOf(outcome.reason)] : []));
    if (problems.length > 0) {
      send({ kind: "refused", problem: problems.join(" ") });
      return;
    }

    const hosted = outcomes.flatMap((outcome) => (outcome.status === "fulfilled" ? [outcome.value] : []));
    for (const tool of hosted) tools.set(tool.description.exportName, tool);
    send({ kind: "loaded", tools: hosted.map(({ description }) => description) });
  } catch (error) {
    send({ kind: "refused", problem: `${shown} cannot be loaded: ${messageOf(error)}` });
  }
}

function messageOf(error: unknown): string {
  return plainError(error).message;
}

async function answer(call: Extract<ToHost, { kind: "call" }>): Promise<void> {
  const controller = new AbortController();
  calls.set(call.id, controller);
  try {
    const value = await currentOutput.run(outputOf(call.id), () => perform(call, controller.signal));
    send({ kind: "done", id: call.id, value: toJsonValue(value) });
  } catch (error) {
    send({ kind: "failed", id: call.id, error: plainError(error) });
  } finally {
    calls.delete(call.id);
  }
}

async function perform(call: Extract<ToHost, { kind: "call" }>, signal: AbortSignal): Promise<unknown> {
  const hosted = tools.get(call.tool);
  if (!hosted) throw new Error(`${call.tool} is not loaded.`);
  const { tool, input, output } = hosted;
  if (call.task === "checkInput") return check(input, call.args);
  if (call.task === "checkOutput") return output ? check(output, call.args) : { valid: true };

  const value = await parseInput(hosted, call.args);
  const context = contextOf(call, signal);
  switch (call.task) {
    case "preview":
      return tool.preview?.(value, context);
    case "judge": {
      const { needsApproval } = tool;
      const needed = typeof needsApproval === "function" ? (await needsApproval(value, context)) !== false : undefined;
      return { needed, reason: tool.approvalReason?.(value) };
    }
    case "execute":
      return tool.execute?.(value, context);
  }
}

async function check(schema: HostedTool["input"], value: unknown): Promise<unknown> {
  const checked = await schema.validate(value);
  return checked.valid ? { valid: true } : { valid: false, issues: checked.issues.slice(0, 20) };
}

async function parseInput({ description, input }: HostedTool, args: unknown): Promise<unknown> {
  const checked = await input.validate(args);
  if (checked.valid) return checked.value;

  const problems = checked.issues
    .slice(0, 5)
    .map(({ path, message }) => `${path.join(".") || "arguments"}: ${message}`);
  throw new ToolError(`The arguments for ${description.name} do not match its schema: ${problems.join(". ")}.`, {
    code: "INVALID_ARGUMENTS",
    suggestion: "Correct these arguments and call it again.",
  });
}

function contextOf({ id, facts }: Extract<ToHost, { kind: "call" }>, signal: AbortSignal): ToolContext {
  const { toolCallId, idempotencyKey, run } = facts as CallFacts;
  const sandbox = remoteSandbox((request) => callSandbox(id, request));
  return { sandbox, run, toolCallId, idempotencyKey, abortSignal: signal, messages: [], output: outputOf(id) };
}

function callSandbox(call: number, request: SandboxCall): Promise<unknown> {
  return new Promise((resolve, reject) => {
    lastSandboxCall += 1;
    sandboxCalls.set(lastSandboxCall, { resolve, reject });
    send({ kind: "ask", id: lastSandboxCall, call, request });
  });
}

/** Returns the run's sandbox for tools in this process. The parent process performs every call, by the run's rules. */
function remoteSandbox(ask: (request: SandboxCall) => Promise<unknown>): Workspace {
  const entry = (value: unknown): Entry => ({
    ...(value as Entry),
    modified: new Date((value as { modified: string }).modified),
  });
  const bytes = (value: unknown) => new Uint8Array(Buffer.from((value as { base64: string }).base64, "base64"));
  const readBytes = async (path: string) => bytes(await ask({ method: "read", path }));

  return {
    resolve: parsePath,
    exists: async (path) => (await ask({ method: "exists", path })) === true,
    stat: async (path) => entry(await ask({ method: "stat", path })),
    read: async (path) => new TextDecoder().decode(await readBytes(path)),
    readBytes,
    async write(path, content, { executable } = {}) {
      const sent = typeof content === "string" ? content : { base64: Buffer.from(content).toString("base64") };
      await ask({ method: "write", path, content: sent, ...(executable !== undefined && { executable }) });
    },
    remove: async (path, { recursive = false } = {}) => (await ask({ method: "remove", path, recursive })) as string[],
    async move(from, to, { overwrite = false } = {}) {
      await ask({ method: "move", from, to, overwrite });
    },
    list: async (path, { recursive = false } = {}) =>
      ((await ask({ method: "list", path, recursive })) as unknown[]).map(entry),
    paths: async () => (await ask({ method: "paths" })) as string[],
    changes: async () => (await ask({ method: "changes" })) as Awaited<ReturnType<Workspace["changes"]>>,
    async readBase(path) {
      const value = await ask({ method: "readBase", path });
      return value === undefined || value === null ? undefined : bytes(value);
    },
    // Synchronous in the parent process, but here a promise that the tool must await.
    ruleFor: ((path: string) => ask({ method: "ruleFor", path })) as unknown as Workspace["ruleFor"],
  };
}

function outputOf(call: number): (chunk: string) => void {
  let printed = 0;
  return (chunk) => {
    const text = String(chunk).slice(0, maxOutputCharacters - printed);
    printed += text.length;
    if (text !== "") send({ kind: "output", call, chunk: text });
  };
}

/** Redirects the console to the output of the current call, since stdout carries messages. */
function redirectConsole(): void {
  const stdout = new Writable({
    decodeStrings: false,
    write(chunk, _encoding, written) {
      currentOutput.getStore()?.(String(chunk));
      written();
    },
  });
  globalThis.console = new Console({ stdout, stderr: stdout });
}

process.on("uncaughtException", (error) => {
  send({ kind: "crashed", problem: messageOf(error) });
  process.exit(1);
});
process.stdin.on("end", () => process.exit(0));
redirectConsole();
confine(
  "custom tools cannot access files, the network, processes or the environment. Use the sandbox in the second argument.",
);
readJsonLines(process.stdin, {
  maxBytes: 2 * maxLineBytes,
  maxValues: Number.POSITIVE_INFINITY,
  onValue: (value) => receive(value as ToHost),
  onFailure: () => process.exit(1),
});
