import { BlockedError, ToolError, ToolErrorCode, UserError } from "#domain/errors.ts";
import type { Workspace } from "#domain/workspace.ts";
import { spawnGuarded } from "#executors/spawn-guarded.ts";
import { readJsonLines } from "#toolsets/read-json-lines.ts";
import { toJsonValue } from "#toolsets/tool-result.ts";
import { digestOf, type ToolModule } from "./find-module.ts";
import {
  type CallFacts,
  FromHost,
  type HostTask,
  maxLineBytes,
  maxLineValues,
  type PlainError,
  plainError,
  type SandboxCall,
  type ToHost,
  type ToolDescription,
} from "./messages.ts";

export interface HostRequest {
  task: HostTask;
  /** The name of the export. */
  tool: string;
  args: unknown;
  facts?: CallFacts;
  deadlineMs: number;
  signal?: AbortSignal;
  sandbox?: Workspace;
  output?(chunk: string): void;
}

const memoryMb = 256;
const limits = { dataMb: 1_024, cpuSeconds: 600 };
const loadMs = 60_000;
/** The time in milliseconds that an aborted call gets before its process is killed. */
const abortGraceMs = 500;
/** The maximum number of bytes that may arrive while calls are open, and while none is. */
const maxBusyBytes = 128_000_000;
const maxIdleBytes = 1_000_000;
const maxOpenSandboxCalls = 256;
/** The maximum number of bytes that may be waiting for the process to read them. */
const maxUnreadBytes = 2 * maxLineBytes;
const maxOutputCharacters = 200_000;

/** The process that runs a module's tools. Starts on first use, and restarts after it has ended. */
export class ToolProcess {
  readonly #module: ToolModule;
  readonly #tools: readonly string[];
  #running: RunningProcess | undefined;
  #closed = false;

  constructor(module: ToolModule, tools: readonly string[]) {
    this.#module = module;
    this.#tools = tools;
  }

  /** Returns the tools of the module. Throws a UserError if the module is invalid. */
  async describe(): Promise<ToolDescription[]> {
    return this.#process().loaded;
  }

  /** Returns the digest of the module's files at the start of its process; undefined if they could not be read. */
  async digest(): Promise<string | undefined> {
    return this.#process().digest;
  }

  /** Sends a request. Throws the tool's error, or a ToolError if the process ended, hung or sent an invalid message. */
  async ask(request: HostRequest): Promise<unknown> {
    const process = this.#process();
    await process.loaded;
    return process.ask(request);
  }

  /** Resolves when the process has ended. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#running?.end(this.#closedError());
  }

  #process(): RunningProcess {
    if (this.#closed) throw this.#closedError();
    if (!this.#running?.isAlive) this.#running = new RunningProcess(this.#module, this.#tools);
    return this.#running;
  }

  #closedError(): ToolError {
    return new ToolError(`The tools of ${this.#module.shown} are closed.`, {
      code: "UNAVAILABLE",
      suggestion: "Continue without them; the run is ending.",
    });
  }
}

interface OpenRequest {
  request: HostRequest;
  printed: number;
  settle(outcome: { value: unknown } | { error: Error }): void;
}

class RunningProcess {
  readonly loaded: Promise<ToolDescription[]>;
  readonly digest: Promise<string | undefined>;
  isAlive = true;
  readonly #module: ToolModule;
  readonly #child: ReturnType<typeof spawnGuarded>;
  readonly #open = new Map<number, OpenRequest>();
  readonly #loading = Promise.withResolvers<ToolDescription[]>();
  readonly #ended = Promise.withResolvers<void>();
  readonly #loadDeadline: NodeJS.Timeout;
  #lastId = 0;
  #openSandboxCalls = 0;
  #receivedBytes = 0;

  constructor(module: ToolModule, tools: readonly string[]) {
    requireNetworkPermission();
    this.#module = module;
    this.loaded = this.#loading.promise;
    // Prevents an unhandled rejection if the process ends while nothing is waiting for it.
    this.loaded.catch(() => undefined);
    this.digest = digestOf(module).catch(() => undefined);
    this.#child = spawnGuarded({
      entry: new URL("./host/tool-host.ts", import.meta.url),
      memoryMb,
      readable: module.readable,
      limits,
    });
    const late = new UserError(`${module.shown} was not loaded within ${loadMs / 1_000} s.`);
    this.#loadDeadline = setTimeout(() => void this.end(late), loadMs);
    this.#listen();
    this.#send({ kind: "load", module: module.path, shown: module.shown, tools: [...tools] });
  }

  ask(request: HostRequest): Promise<unknown> {
    const { tool, task, args, facts, deadlineMs, signal } = request;
    return new Promise((resolve, reject) => {
      this.#lastId += 1;
      const id = this.#lastId;
      const deadline = setTimeout(() => void this.end(timeout(tool, deadlineMs)), deadlineMs);
      let grace: NodeJS.Timeout | undefined;
      const abort = () => {
        const isDeadline = signal?.reason instanceof Error && signal.reason.name === "TimeoutError";
        this.#send({ kind: "abort", id, reason: isDeadline ? "TimeoutError" : "AbortError" });
        grace = setTimeout(() => void this.end(interrupted(tool)), abortGraceMs);
      };
      const settle: OpenRequest["settle"] = (outcome) => {
        clearTimeout(deadline);
        clearTimeout(grace);
        signal?.removeEventListener("abort", abort);
        this.#open.delete(id);
        if (this.#open.size === 0) this.#receivedBytes = 0;
        if ("error" in outcome) reject(outcome.error);
        else resolve(outcome.value);
      };
      if (this.#open.size === 0) this.#receivedBytes = 0;
      this.#open.set(id, { request, printed: 0, settle });
      this.#send({ kind: "call", id, task, tool, args, facts });
      if (signal?.aborted) abort();
      else signal?.addEventListener("abort", abort, { once: true });
    });
  }

  /** Ends the process. Every open request fails with this reason. */
  end(reason: Error): Promise<void> {
    if (this.isAlive) {
      this.isAlive = false;
      clearTimeout(this.#loadDeadline);
      // The caller waits for the process to end.
      this.#child.ref();
      this.#child.kill("SIGKILL");
      this.#loading.reject(reason);
      for (const open of this.#open.values()) open.settle({ error: reason });
    }
    return this.#ended.promise;
  }

  #listen(): void {
    const child = this.#child;
    // An idle process must not keep this one alive. While a request is open, its deadline does.
    for (const handle of [child, child.stdin, child.stdout]) (handle as { unref?(): void }).unref?.();
    readJsonLines(child.stdout, {
      maxBytes: maxLineBytes,
      maxValues: maxLineValues,
      onBytes: (count) => {
        this.#receivedBytes += count;
        if (this.#receivedBytes > (this.#open.size > 0 ? maxBusyBytes : maxIdleBytes))
          this.#fail("it sent too much data");
      },
      onValue: (value) => {
        const message = FromHost.safeParse(value);
        if (message.success) this.#receive(message.data);
        else this.#fail("it sent an invalid message");
      },
      onFailure: (reason) => this.#fail(reason),
    });
    child.stdin.on("error", () => this.#fail("it closed its input"));
    child.on("error", () => {
      this.#fail("it could not be started");
      this.#ended.resolve();
    });
    child.on("close", (code, signal) => {
      this.#fail(
        signal ? `it was stopped by ${signal}, as happens when it uses too much memory` : `it exited with code ${code}`,
      );
      this.#ended.resolve();
    });
  }

  #send(message: ToHost): void {
    if (!this.isAlive) return;
    this.#child.stdin.write(`${JSON.stringify(message)}\n`);
    if (this.#child.stdin.writableLength > maxUnreadBytes) this.#fail("it does not read its input");
  }

  #receive(message: FromHost): void {
    switch (message.kind) {
      case "loaded":
        clearTimeout(this.#loadDeadline);
        this.#loading.resolve(message.tools);
        return;
      case "refused":
        void this.end(new UserError(message.problem));
        return;
      case "crashed":
        this.#fail(message.problem);
        return;
      case "done":
        this.#open.get(message.id)?.settle({ value: toJsonValue(message.value) });
        return;
      case "failed":
        this.#open.get(message.id)?.settle({ error: errorOf(message.error) });
        return;
      case "ask":
        void this.#answerSandboxCall(message);
        return;
      case "output":
        this.#print(message);
    }
  }

  async #answerSandboxCall({ id, call, request }: Extract<FromHost, { kind: "ask" }>): Promise<void> {
    this.#openSandboxCalls += 1;
    try {
      const open = this.#open.get(call)?.request;
      if (!open?.sandbox) throw new ToolError("The call has ended.", { code: "PERMISSION_DENIED" });
      if (this.#openSandboxCalls > maxOpenSandboxCalls) {
        throw new ToolError("Too many sandbox calls at once.", { code: "TOO_LARGE" });
      }
      const mayChange = open.task === "execute" && !open.signal?.aborted;
      this.#send({ kind: "answer", id, value: await answerSandboxCall(open.sandbox, request, { mayChange }) });
    } catch (error) {
      this.#send({ kind: "answer", id, error: plainError(error) });
    } finally {
      this.#openSandboxCalls -= 1;
    }
  }

  #print({ call, chunk }: Extract<FromHost, { kind: "output" }>): void {
    const open = this.#open.get(call);
    if (!open || open.printed >= maxOutputCharacters) return;
    const text = chunk.slice(0, maxOutputCharacters - open.printed);
    open.printed += text.length;
    open.request.output?.(text);
  }

  #fail(reason: string): void {
    void this.end(
      new ToolError(`The process of ${this.#module.shown} was stopped: ${reason}.`, {
        code: "EXECUTION_ERROR",
        suggestion: "A part of the call may have been carried out. The next call starts a new process.",
      }),
    );
  }
}

/** Throws a UserError if this version of Node cannot restrict the network with its permission model. */
function requireNetworkPermission(): void {
  if (process.allowedNodeEnvironmentFlags.has("--allow-net")) return;
  throw new UserError(
    `Custom tools need Node 25 or newer: the permission model of Node ${process.versions.node} does not restrict the network.`,
  );
}

function timeout(tool: string, deadlineMs: number): ToolError {
  return new ToolError(`${tool} did not finish within ${deadlineMs / 1_000} s, and its process was ended.`, {
    code: "TIMEOUT",
    suggestion: "Divide the work into smaller calls.",
  });
}

function interrupted(tool: string): ToolError {
  return new ToolError(`${tool} was stopped before it finished.`, { code: "INTERRUPTED" });
}

function errorOf({ name, message, code, suggestion, toolName, reason }: PlainError): Error {
  if (name === "BlockedError") return new BlockedError(toolName ?? "custom tool", reason ?? message);
  const known = ToolErrorCode.safeParse(code);
  if (known.success) return new ToolError(message, { code: known.data, ...(suggestion && { suggestion }) });
  return name === "UserError" ? new UserError(message) : Object.assign(new Error(message), { name });
}

const changing: ReadonlySet<SandboxCall["method"]> = new Set(["write", "remove", "move"]);

/** Performs a sandbox call for a tool's process, subject to the run's rules for paths and zones. */
async function answerSandboxCall(
  workspace: Workspace,
  call: SandboxCall,
  { mayChange }: { mayChange: boolean },
): Promise<unknown> {
  if (!mayChange && changing.has(call.method)) {
    throw new ToolError("The sandbox is read-only before the call is allowed.", {
      code: "PERMISSION_DENIED",
      suggestion: "Change files only in execute.",
    });
  }
  switch (call.method) {
    case "exists":
      return workspace.exists(call.path);
    case "stat":
      return workspace.stat(call.path);
    case "read":
      return encode(await workspace.readBytes(call.path));
    case "write": {
      const content = typeof call.content === "string" ? call.content : Buffer.from(call.content.base64, "base64");
      const { executable } = call;
      return workspace.write(call.path, content, executable === undefined ? {} : { executable });
    }
    case "remove":
      return workspace.remove(call.path, { recursive: call.recursive ?? false });
    case "move":
      return workspace.move(call.from, call.to, { overwrite: call.overwrite ?? false });
    case "list":
      return workspace.list(call.path, { recursive: call.recursive ?? false });
    case "paths":
      return workspace.paths();
    case "changes":
      return workspace.changes();
    case "readBase": {
      const content = await workspace.readBase(call.path);
      return content && encode(content);
    }
    case "ruleFor":
      return workspace.ruleFor(call.path);
  }
}

function encode(content: Uint8Array): { base64: string } {
  return { base64: Buffer.from(content.buffer, content.byteOffset, content.byteLength).toString("base64") };
}
