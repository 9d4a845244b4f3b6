import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import { readFrames, writeFrame } from "./frames.ts";
import { spawnGuarded } from "./spawn-guarded.ts";

/** The messages a child may send. It handles hostile input, so its messages are validated. */
const ChildMessage = z.union([
  z.object({ ready: z.literal(true) }),
  z.object({ ask: z.number(), question: z.unknown() }),
  z.object({ output: z.unknown() }),
  z.object({ done: z.number(), error: z.string() }),
  z.object({ done: z.number(), result: z.unknown() }),
]);

export interface GuardedChildOptions {
  /** A module that calls `serveParent`. */
  entry: URL;
  memoryMb: number;
  /** The maximum size of a message from the child. */
  messageBytes: number;
  /** The CPU seconds after which the kernel kills the child, even if this process is gone. */
  cpuSeconds: number;
}

/** The JSON of a message, without its bytes and long strings. */
const maxJsonBytes = 8_000_000;
/** The number of questions a child may have open, including answers that it has not read yet. */
const maxOpenQuestions = 64;
const maxUnreadBytes = 256_000_000;

interface GuardedCall {
  /** The milliseconds after which the child is killed. */
  killAfterMs: number;
  signal?: AbortSignal;
  /** Answers the child's questions during the call. */
  answer?(question: unknown): Promise<unknown>;
  /** Receives the child's output during the call. The child is killed if it throws. */
  onOutput?(output: unknown): void;
}

/** The child exited, or was killed at its deadline or by a limit. */
export class ChildEndedError extends Error {
  override readonly name = "ChildEndedError";
  readonly reason: "deadline" | "died";

  constructor(how: "deadline" | "died") {
    super(how === "deadline" ? "It did not end in time" : "It ended before it answered");
    this.reason = how;
  }
}

/** A Node process that can only read this program's own modules: no other files, network, processes or environment. */
export interface GuardedChild {
  readonly alive: boolean;
  readonly pid: number | undefined;
  /** Resolves when the child is ready. Until then, the child keeps this process alive. */
  whenReady(): Promise<void>;
  /** Sends one request at a time. Throws ChildEndedError, or a ToolError `INTERRUPTED` when the signal is aborted. */
  call(request: unknown, options: GuardedCall): Promise<unknown>;
  kill(): void;
}

export function startGuardedChild({ entry, memoryMb, messageBytes, cpuSeconds }: GuardedChildOptions): GuardedChild {
  // Node alone needs half a gigabyte of the counted memory, and files are copied several times in transit.
  const child = spawnGuarded({ entry, memoryMb, limits: { dataMb: 1_024 + 2 * memoryMb, cpuSeconds } });
  // An idle child must not keep this process alive. During a call, the timer of its deadline does.
  const handles = [child, child.stdin, child.stdout] as { ref?(): void; unref?(): void }[];
  for (const handle of handles) handle.unref?.();
  let alive = true;
  let calls = 0;
  let answering = 0;
  let pending:
    | { id: number; settle(outcome: { result: unknown } | { error: Error }): void; call: GuardedCall }
    | undefined;
  const { promise: ready, resolve: up, reject: down } = Promise.withResolvers<void>();
  // A spare child may die before anything awaits it.
  ready.catch(() => undefined);

  /** Keeps this process alive while a caller waits for the child to start. */
  async function whenReady(): Promise<void> {
    for (const handle of handles) handle.ref?.();
    try {
      await ready;
    } finally {
      for (const handle of handles) handle.unref?.();
    }
  }

  function end(error: Error): void {
    alive = false;
    child.kill("SIGKILL");
    down(error);
    pending?.settle({ error });
  }

  async function answerQuestion(id: number, question: unknown): Promise<void> {
    answering += 1;
    // Our own program never asks outside a call, asks this often, or leaves answers unread: the child is compromised.
    if (!pending || answering > maxOpenQuestions || child.stdin.writableLength > maxUnreadBytes) {
      return end(new ChildEndedError("died"));
    }
    try {
      const value = await pending.call.answer?.(question);
      if (alive) writeFrame(child.stdin, { answer: id, value });
    } catch (error) {
      if (alive) writeFrame(child.stdin, { answer: id, error: error instanceof Error ? error.message : String(error) });
    } finally {
      answering -= 1;
    }
  }

  readFrames(child.stdout, {
    maxBytes: messageBytes,
    maxJsonBytes: Math.min(messageBytes, maxJsonBytes),
    onFrame(value) {
      const message = ChildMessage.parse(value);
      if ("ready" in message) up();
      else if ("output" in message) pending?.call.onOutput?.(message.output);
      else if ("ask" in message) void answerQuestion(message.ask, message.question);
      else if (message.done === pending?.id) {
        pending.settle("error" in message ? { error: new Error(message.error) } : { result: message.result });
      }
    },
    onFailure: () => end(new ChildEndedError("died")),
  });
  child.stdin.on("error", () => end(new ChildEndedError("died")));
  child.on("error", () => end(new ChildEndedError("died")));
  child.on("exit", () => end(new ChildEndedError("died")));

  function call(request: unknown, options: GuardedCall): Promise<unknown> {
    if (!alive) return Promise.reject(new ChildEndedError("died"));
    if (options.signal?.aborted) return Promise.reject(interrupted());

    return new Promise((resolve, reject) => {
      calls += 1;
      const deadline = setTimeout(() => end(new ChildEndedError("deadline")), options.killAfterMs);
      const abort = () => end(interrupted());
      options.signal?.addEventListener("abort", abort, { once: true });
      pending = {
        id: calls,
        call: options,
        settle(outcome) {
          clearTimeout(deadline);
          options.signal?.removeEventListener("abort", abort);
          pending = undefined;
          if ("error" in outcome) reject(outcome.error);
          else resolve(outcome.result);
        },
      };
      writeFrame(child.stdin, { id: calls, request });
    });
  }

  return {
    get alive() {
      return alive;
    },
    pid: child.pid,
    whenReady,
    call,
    kill: () => end(new ChildEndedError("died")),
  };
}

function interrupted(): ToolError {
  return new ToolError("The command was stopped before it ended.", { code: "INTERRUPTED" });
}
