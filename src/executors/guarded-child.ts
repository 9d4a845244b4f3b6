import { z } from "zod";
import { messageOf, ToolError } from "#domain/errors.ts";
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
  /** A module whose default export is a `ChildHandler`. */
  handler: URL;
  memoryMb: number;
  /** The maximum size of a message from the child. */
  messageBytes: number;
  /** The CPU seconds after which the kernel kills the child, even if this process is gone. */
  cpuSeconds: number;
}

/** The JSON of a message, without its bytes and long strings. */
const maxJsonBytes = 8_000_000;
/** They are parsed in one turn of the event loop. */
const maxJsonValues = 100_000;
/** The number of questions a child may have open, including answers that it has not read yet. */
const maxOpenQuestions = 64;
const maxUnreadBytes = 256_000_000;

/** The time that a child may take to start, on a busy machine. */
const maxStartMs = 60_000;

interface GuardedCall {
  /** The milliseconds after which the child is killed, counted from when it is ready. */
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

/** A resource that keeps this process alive, such as a pipe. */
interface Handle {
  ref?(): void;
  unref?(): void;
}

type CallOutcome = { result: unknown } | { error: Error };

/** A Node process that can only read this program's own modules: no other files, network, processes or environment. */
export class GuardedChild {
  readonly #process: ReturnType<typeof spawnGuarded>;
  /** An idle child must not keep this process alive. During a call, the timer of its deadline does. */
  readonly #handles: readonly Handle[];
  readonly #ready = Promise.withResolvers<void>();
  #alive = true;
  #calls = 0;
  #answering = 0;
  #pending: { id: number; settle(outcome: CallOutcome): void; call: GuardedCall } | undefined;

  constructor({ handler, memoryMb, messageBytes, cpuSeconds }: GuardedChildOptions) {
    // Node alone needs half a gigabyte of the counted memory, and files are copied several times in transit.
    const entry = new URL("./serve-parent.ts", import.meta.url);
    const child = spawnGuarded({ entry, handler, memoryMb, limits: { dataMb: 1_024 + 2 * memoryMb, cpuSeconds } });
    this.#process = child;
    this.#handles = [child, child.stdin, child.stdout] as Handle[];
    for (const handle of this.#handles) handle.unref?.();
    // A spare child may die before anything awaits it.
    this.#ready.promise.catch(() => undefined);
    readFrames(child.stdout, {
      maxBytes: messageBytes,
      maxJsonBytes: Math.min(messageBytes, maxJsonBytes),
      maxValues: maxJsonValues,
      onFrame: (value) => this.#receive(ChildMessage.parse(value)),
      onFailure: () => this.kill(),
    });
    child.stdin.on("error", () => this.kill());
    child.on("error", () => this.kill());
    child.on("exit", () => this.kill());
  }

  get alive(): boolean {
    return this.#alive;
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** Sends one request at a time. Throws ChildEndedError, or a ToolError `INTERRUPTED` when the signal is aborted. */
  call(request: unknown, options: GuardedCall): Promise<unknown> {
    if (!this.#alive) return Promise.reject(new ChildEndedError("died"));
    if (options.signal?.aborted) return Promise.reject(interrupted());

    return new Promise((resolve, reject) => {
      this.#calls += 1;
      const endAfter = (ms: number) => setTimeout(() => this.#end(new ChildEndedError("deadline")), ms);
      let deadline = endAfter(maxStartMs);
      // The time that the child takes to start, seconds on a busy machine, is not part of the call's.
      void this.#ready.promise.then(
        () => {
          clearTimeout(deadline);
          if (this.#pending?.settle === settle) deadline = endAfter(options.killAfterMs);
        },
        () => undefined,
      );
      const abort = () => this.#end(interrupted());
      options.signal?.addEventListener("abort", abort, { once: true });
      const settle = (outcome: CallOutcome) => {
        clearTimeout(deadline);
        options.signal?.removeEventListener("abort", abort);
        this.#pending = undefined;
        if ("error" in outcome) reject(outcome.error);
        else resolve(outcome.result);
      };
      this.#pending = { id: this.#calls, call: options, settle };
      writeFrame(this.#process.stdin, { id: this.#calls, request });
    });
  }

  kill(): void {
    this.#end(new ChildEndedError("died"));
  }

  #end(error: Error): void {
    this.#alive = false;
    this.#process.kill("SIGKILL");
    this.#ready.reject(error);
    this.#pending?.settle({ error });
  }

  #receive(message: z.output<typeof ChildMessage>): void {
    if ("ready" in message) this.#ready.resolve();
    else if ("output" in message) this.#pending?.call.onOutput?.(message.output);
    else if ("ask" in message) void this.#answer(message.ask, message.question);
    else if (message.done === this.#pending?.id) {
      this.#pending.settle("error" in message ? { error: new Error(message.error) } : { result: message.result });
    }
  }

  async #answer(id: number, question: unknown): Promise<void> {
    const { stdin } = this.#process;
    this.#answering += 1;
    // Our own program never asks outside a call, asks this often, or leaves answers unread: the child is compromised.
    if (!this.#pending || this.#answering > maxOpenQuestions || stdin.writableLength > maxUnreadBytes) {
      return this.kill();
    }
    try {
      const value = await this.#pending.call.answer?.(question);
      if (this.#alive) writeFrame(stdin, { answer: id, value });
    } catch (error) {
      if (this.#alive) writeFrame(stdin, { answer: id, error: messageOf(error) });
    } finally {
      this.#answering -= 1;
    }
  }
}

function interrupted(): ToolError {
  return new ToolError("The command was stopped before it ended.", { code: "INTERRUPTED" });
}
