import { BlockedError, ToolError, ToolErrorCode, UserError } from "#domain/errors.ts";
import type { Workspace } from "#domain/workspace.ts";
import { spawnGuarded } from "#executors/spawn-guarded.ts";
import { readJsonLines } from "#toolsets/read-json-lines.ts";
import { toJsonValue } from "#toolsets/to-json-value.ts";
import { answerSandboxCall } from "./answer-sandbox-call.ts";
import { plainError } from "./host/plain-error.ts";
import {
  type CallFacts,
  FromHost,
  type HostTask,
  lineBytes,
  type PlainError,
  type ToHost,
  type ToolDescription,
} from "./messages.ts";

/** A module on disk, and what its process may read. */
export interface ToolModule {
  path: string;
  /** As the worker file calls it. */
  shown: string;
  readable: readonly string[];
}

export interface HostRequest {
  task: HostTask;
  /** The export's name. */
  tool: string;
  args: unknown;
  facts?: CallFacts;
  deadlineMs: number;
  signal?: AbortSignal;
  sandbox?: Workspace;
  output?(chunk: string): void;
}

/** The process that runs a module's tools. It is started when it is first needed, and again after it ended. */
export interface ToolProcess {
  /** What the module gives. Throws a UserError that says what is wrong with it. */
  describe(): Promise<ToolDescription[]>;
  /** Throws what the tool threw, or a ToolError for a process that ended, hung or spoke nonsense. */
  ask(question: HostRequest): Promise<unknown>;
  /** Resolves once the process is gone. */
  close(): Promise<void>;
}

const memoryMb = 256;
const limits = { dataMb: 1_024, cpuSeconds: 600 };
const loadMs = 15_000;
/** Milliseconds a call that was told to stop gets before its process is ended. */
const stopMs = 500;
/** What may arrive while calls are open, and while none is. */
const busyBytes = 128_000_000;
const idleBytes = 1_000_000;
const openQuestions = 256;
/** Answers that wait because the process does not read them. */
const unreadBytes = 2 * lineBytes;
const outputCharacters = 200_000;

export function openToolProcess(module: ToolModule, tools: readonly string[]): ToolProcess {
  let live: LiveProcess | undefined;
  let closed = false;

  function running(): LiveProcess {
    if (closed) throw new ToolError(`The tools of ${module.shown} are put away.`, { code: "UNAVAILABLE" });
    if (!live?.alive()) live = startProcess(module, tools);
    return live;
  }

  return {
    describe: async () => running().loaded,
    async ask(question) {
      const process = running();
      await process.loaded;
      return process.ask(question);
    },
    async close() {
      closed = true;
      await live?.end(new ToolError(`The tools of ${module.shown} were put away.`, { code: "UNAVAILABLE" }));
    },
  };
}

interface LiveProcess {
  alive(): boolean;
  loaded: Promise<ToolDescription[]>;
  ask(question: HostRequest): Promise<unknown>;
  end(why: Error): Promise<void>;
}

interface OpenCall {
  question: HostRequest;
  printed: number;
  settle(outcome: { value: unknown } | { error: Error }): void;
}

function startProcess(module: ToolModule, tools: readonly string[]): LiveProcess {
  requireNetworkWall();
  const child = spawnGuarded({
    entry: new URL("./host/tool-host.ts", import.meta.url),
    memoryMb,
    readable: module.readable,
    limits,
  });
  // A process at rest must not keep this one from ending; while a call is open, its deadline does.
  for (const handle of [child, child.stdin, child.stdout]) (handle as { unref?(): void }).unref?.();

  const calls = new Map<number, OpenCall>();
  const gone = Promise.withResolvers<void>();
  const loading = Promise.withResolvers<ToolDescription[]>();
  // Nobody may be waiting when it ends.
  loading.promise.catch(() => undefined);
  const loadDeadline = setTimeout(
    () => end(new UserError(`${module.shown} was not loaded within ${loadMs / 1_000} s.`)),
    loadMs,
  );
  let alive = true;
  let asked = 0;
  let answering = 0;
  let heardBytes = 0;

  function tell(message: ToHost): void {
    if (!alive) return;
    child.stdin.write(`${JSON.stringify(message)}\n`);
    if (child.stdin.writableLength > unreadBytes) broken("it does not read its answers");
  }

  function end(why: Error): Promise<void> {
    if (alive) {
      alive = false;
      clearTimeout(loadDeadline);
      // Whoever waits for the end gets to see it.
      child.ref();
      child.kill("SIGKILL");
      loading.reject(why);
      for (const call of calls.values()) call.settle({ error: why });
    }
    return gone.promise;
  }

  function broken(why: string): void {
    void end(
      new ToolError(`The process of ${module.shown} was ended: ${why}.`, {
        code: "EXECUTION_ERROR",
        suggestion: "The call may have been half done. A new process is started for the next call.",
      }),
    );
  }

  async function answer({ id, call, request }: Extract<FromHost, { kind: "ask" }>): Promise<void> {
    answering += 1;
    try {
      const open = calls.get(call);
      if (!open?.question.sandbox) throw new ToolError("The call is over.", { code: "PERMISSION_DENIED" });
      if (answering > openQuestions) throw new ToolError("Too many questions at once.", { code: "TOO_LARGE" });
      const mayChange = open.question.task === "execute" && !open.question.signal?.aborted;
      tell({ kind: "answer", id, value: await answerSandboxCall(open.question.sandbox, request, { mayChange }) });
    } catch (error) {
      tell({ kind: "answer", id, error: plainError(error) });
    } finally {
      answering -= 1;
    }
  }

  function hear(value: unknown): void {
    const parsed = FromHost.safeParse(value);
    if (parsed.success) hearMessage(parsed.data);
    else broken("it said what is no message");
  }

  function hearMessage(message: FromHost): void {
    switch (message.kind) {
      case "loaded":
        clearTimeout(loadDeadline);
        loading.resolve(message.tools);
        return;
      case "refused":
        void end(new UserError(message.problem));
        return;
      case "crashed":
        broken(message.problem);
        return;
      case "done":
        calls.get(message.id)?.settle({ value: toJsonValue(message.value) });
        return;
      case "failed":
        calls.get(message.id)?.settle({ error: errorOf(message.error) });
        return;
      case "ask":
        void answer(message);
        return;
      case "output": {
        const call = calls.get(message.call);
        if (!call || call.printed >= outputCharacters) return;
        const chunk = message.chunk.slice(0, outputCharacters - call.printed);
        call.printed += chunk.length;
        call.question.output?.(chunk);
      }
    }
  }

  readJsonLines(child.stdout, {
    maxBytes: lineBytes,
    onBytes(count) {
      heardBytes += count;
      if (heardBytes > (calls.size > 0 ? busyBytes : idleBytes)) broken("it said more than it may");
    },
    onValue: hear,
    onFailure: broken,
  });
  child.stdin.on("error", () => broken("it stopped listening"));
  child.on("error", () => {
    broken("it could not be started");
    gone.resolve();
  });
  child.on("close", (code, signal) => {
    broken(
      signal ? `it was stopped by ${signal}, as one that takes too much memory is` : `it ended by itself (${code})`,
    );
    gone.resolve();
  });
  tell({ kind: "load", module: module.path, shown: module.shown, tools: [...tools] });

  function ask(question: HostRequest): Promise<unknown> {
    const { tool, task, args, facts, deadlineMs, signal } = question;
    return new Promise((resolve, reject) => {
      asked += 1;
      const id = asked;
      const late = setTimeout(() => end(timeout(tool, deadlineMs)), deadlineMs);
      let stopping: NodeJS.Timeout | undefined;
      const stop = () => {
        const isDeadline = (signal?.reason as { name?: unknown } | undefined)?.name === "TimeoutError";
        tell({ kind: "abort", id, reason: isDeadline ? "TimeoutError" : "AbortError" });
        stopping = setTimeout(() => end(interrupted(tool)), stopMs);
      };
      if (calls.size === 0) heardBytes = 0;
      calls.set(id, {
        question,
        printed: 0,
        settle(outcome) {
          clearTimeout(late);
          clearTimeout(stopping);
          signal?.removeEventListener("abort", stop);
          calls.delete(id);
          if (calls.size === 0) heardBytes = 0;
          if ("error" in outcome) reject(outcome.error);
          else resolve(outcome.value);
        },
      });
      tell({ kind: "call", id, task, tool, args, facts });
      if (signal?.aborted) stop();
      else signal?.addEventListener("abort", stop, { once: true });
    });
  }

  return { alive: () => alive, loaded: loading.promise, ask, end };
}

/** Throws a UserError on a Node whose permission model leaves the network open. */
function requireNetworkWall(): void {
  if (process.allowedNodeEnvironmentFlags.has("--allow-net")) return;
  throw new UserError(
    `Custom tools need Node 25 or newer: the permission model of Node ${process.versions.node} does not hold the network.`,
  );
}

function timeout(tool: string, deadlineMs: number): ToolError {
  return new ToolError(`${tool} did not end within ${deadlineMs / 1_000} s, and its process was ended.`, {
    code: "TIMEOUT",
    suggestion: "Try a smaller piece of the work.",
  });
}

function interrupted(tool: string): ToolError {
  return new ToolError(`${tool} was stopped before it ended.`, { code: "INTERRUPTED" });
}

function errorOf({ name, message, code, suggestion, toolName, reason }: PlainError): Error {
  if (name === "BlockedError") return new BlockedError(toolName ?? "custom tool", reason ?? message);
  const known = ToolErrorCode.safeParse(code);
  if (known.success) return new ToolError(message, { code: known.data, ...(suggestion && { suggestion }) });
  return name === "UserError" ? new UserError(message) : Object.assign(new Error(message), { name });
}
