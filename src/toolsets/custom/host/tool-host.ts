import { AsyncLocalStorage } from "node:async_hooks";
import { Console } from "node:console";
import { readFileSync } from "node:fs";
import process from "node:process";
import { Writable } from "node:stream";
import { pathToFileURL } from "node:url";
import { z } from "zod";
import { adaptTool, type ClassTool, type ForeignTool, isClassTool } from "#compat/adapt-tool.ts";
import { ToolError } from "#domain/errors.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import { compileSchema, type ToolSchema } from "#domain/tool-schema.ts";
import type { Entry, Workspace } from "#domain/workspace.ts";
import { confine } from "#executors/confine.ts";
import { parsePath } from "#sandbox/paths.ts";
import { closestMatch } from "#text/closest-match.ts";
import {
  type CallFacts,
  type FromHost,
  maxLineBytes,
  plainError,
  type SandboxCall,
  type ToHost,
  type ToolDescription,
} from "#toolsets/custom/messages.ts";
import { readJsonLines } from "#toolsets/read-json-lines.ts";
import { ToolEvents } from "#toolsets/tool-events.ts";
import { toJsonValue } from "#toolsets/tool-result.ts";

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
    // What the call holds is freed some time later. Until then another call may need more than is left, and V8 aborts.
    if (isAllocationFailure(error)) throw error;
    send({ kind: "failed", id: call.id, error: plainError(error) });
  } finally {
    calls.delete(call.id);
  }
}

/** True for V8's and Node's errors about memory for buffers. */
function isAllocationFailure(error: unknown): boolean {
  return error instanceof Error && /^(Array buffer allocation failed|Failed to allocate memory)$/.test(error.message);
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

/** A tool of the module, ready to be called. */
export interface HostedTool {
  description: ToolDescription;
  tool: NamedTool;
  input: ToolSchema;
  output: ToolSchema | undefined;
}

interface Module {
  exports: Record<string, unknown>;
  /** The name in the worker file. */
  shown: string;
  source: string;
}

/** Creates a tool from an export. Throws an Error that names the module, the export and the problem. */
async function hostTool(module: Module, exportName: string): Promise<HostedTool> {
  const tool = adaptTool(readExport(module, exportName));
  const place = `'${exportName}' in ${module.shown}`;
  const input = await readSchema(tool.inputSchema, `The input schema of ${place}`);
  const output = tool.outputSchema && (await readSchema(tool.outputSchema, `The output schema of ${place}`));
  const { needsApproval, manualExecution, aliases, readOnly, afterCrash } = tool;
  return {
    tool,
    input,
    output,
    description: {
      exportName,
      name: tool.name,
      description: tool.description,
      inputSchema: input.json as Record<string, unknown>,
      ...(output && { outputSchema: output.json as Record<string, unknown> }),
      ...(needsApproval !== undefined && {
        needsApproval: typeof needsApproval === "function" ? "rule" : needsApproval !== false,
      }),
      hasPreview: typeof tool.preview === "function",
      hasReason: typeof tool.approvalReason === "function",
      ...(manualExecution && { manualExecution }),
      ...(aliases && { aliases: [...aliases] }),
      ...(readOnly !== undefined && { readOnly }),
      ...(afterCrash && { afterCrash: typeof afterCrash === "function" ? "report" : afterCrash }),
    },
  };
}

function readExport({ exports, shown, source }: Module, exportName: string): ForeignTool {
  if (!Object.hasOwn(exports, exportName)) throw new Error(missingExport(exports, shown, exportName));

  const found = exports[exportName];
  if (isClassTool(found)) return found;
  if (isToolClass(found)) return new found(new ToolEvents());
  const comment = docComment(source, exportName) ?? `Custom tool: ${exportName}`;
  if (typeof found === "function") {
    const schemaName = `${exportName}Schema`;
    if (!Object.hasOwn(exports, schemaName)) {
      throw new Error(
        `Schema '${schemaName}' required for function '${exportName}' in ${shown}: export const ${schemaName} = ` +
          `z.object({ … }). ${listExports(exports)}`,
      );
    }
    const inputSchema = exports[schemaName] as NamedTool["inputSchema"];
    const description =
      descriptionOf(found as { description?: unknown }) ??
      descriptionOf(inputSchema as { description?: unknown } | undefined) ??
      comment;
    return { name: exportName, description, inputSchema, execute: (...call: unknown[]) => found(...call) };
  }
  if (isToolObject(found)) {
    const [name, description] = [found.name ?? exportName, descriptionOf(found) ?? comment];
    return Object.assign(Object.create(found), { name, description });
  }
  throw new Error(
    `Export '${exportName}' in ${shown} must be a function or tool object, it is ${describeValue(found)}.`,
  );
}

/** True for a class whose objects are tools. They take the stream of their events, or nothing. */
function isToolClass(value: unknown): value is new (events: ToolEvents) => ClassTool {
  return typeof value === "function" && isClassTool(value.prototype);
}

function isToolObject(value: unknown): value is Partial<NamedTool> {
  if (typeof value !== "object" || value === null) return false;
  const { execute, inputSchema } = value as Partial<NamedTool>;
  return typeof execute === "function" && inputSchema !== undefined && inputSchema !== null;
}

async function readSchema(schema: unknown, place: string): Promise<ToolSchema> {
  const expected = "a schema such as z.object({ … }) or a JSON Schema";
  const isSchema = (typeof schema === "object" || typeof schema === "function") && schema !== null;
  if (!isSchema) throw new Error(`${place} must be ${expected}, it is ${describeValue(schema)}.`);
  try {
    return await compileSchema(schema as NamedTool["inputSchema"]);
  } catch (error) {
    const reason = messageOf(error);
    throw new Error(`${place} must be ${expected}, and is invalid: ${reason}`);
  }
}

function missingExport(exports: Record<string, unknown>, shown: string, exportName: string): string {
  const near = closestMatch(exportName, Object.keys(exports));
  const hint = near ? ` Did you mean '${near}'?` : "";
  return `Tool '${exportName}' not found in ${shown}.${hint} ${listExports(exports)}`;
}

function listExports(exports: Record<string, unknown>): string {
  const names = Object.keys(exports).sort();
  return names.length > 0 ? `It exports: ${names.join(", ")}.` : "It exports nothing.";
}

function describeValue(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (Array.isArray(value)) return "a list";
  if (value instanceof z.ZodType) return "a schema";
  if (typeof value !== "object") return `a ${typeof value}`;
  const keys = Object.keys(value);
  return `an object with ${keys.length > 0 ? keys.join(", ") : "nothing in it"}, and needs inputSchema and execute`;
}

function descriptionOf(value: { description?: unknown } | undefined): string | undefined {
  const description = value?.description;
  return typeof description === "string" && description.trim() !== "" ? description : undefined;
}

/** Returns the doc comment of an export up to its first tag, on one line. */
function docComment(source: string, name: string): string | undefined {
  const escaped = name.replaceAll("$", "\\$");
  const exported = new RegExp(
    `/\\*\\*((?:(?!\\*/)[\\s\\S])*)\\*/\\s*export\\s+(?:async\\s+)?(?:function\\s*\\*?|const|let|var)\\s+${escaped}(?![\\w$])`,
  );
  const comment = exported.exec(source)?.[1];
  if (comment === undefined) return undefined;

  const lines = comment.split("\n").map((line) => line.replace(/^\s*\*?\s?/, "").trim());
  const tags = lines.findIndex((line) => line.startsWith("@"));
  const text = lines
    .slice(0, tags === -1 ? undefined : tags)
    .join(" ")
    .replace(/\s+/g, " ")
    .trim();
  return text || undefined;
}
