import { Console } from "node:console";
import process from "node:process";
import { Writable } from "node:stream";
import { messageOf } from "#domain/errors.ts";
import { confine } from "./confine.ts";
import { readFrames, writeFrame } from "./frames.ts";

/** The parent process during a request. */
export interface Parent {
  /** Sends a question and resolves to the answer. */
  ask(question: unknown): Promise<unknown>;
  /** Sends output that needs no answer. */
  send(output: unknown): void;
}

/** The default export of a module that handles requests in a guarded child. */
export interface ChildHandler {
  /** Handles one request. There is only one at a time. */
  handle(request: unknown, parent: Parent): Promise<unknown>;
  /** Called before the first request. */
  warmUp?(): Promise<void>;
}

// The entry of every guarded child. Its argument is the module that handles the requests.
void import(process.argv[2] ?? "").then((module) => serve(module.default));

async function serve(handler: ChildHandler): Promise<void> {
  // The output of packages must not be mistaken for a message.
  globalThis.console = new Console({ stdout: new Writable({ write: (_chunk, _encoding, written) => written() }) });
  confine("this process has no files, network, processes or environment.");
  await handler.warmUp?.();
  listen(handler);
}

/** Handles the parent's requests, and exits when the parent does. */
function listen({ handle }: ChildHandler): void {
  const waiting = new Map<number, { resolve(value: unknown): void; reject(error: Error): void }>();
  let questions = 0;

  const parent: Parent = {
    ask: (question) =>
      new Promise((resolve, reject) => {
        questions += 1;
        waiting.set(questions, { resolve, reject });
        writeFrame(process.stdout, { ask: questions, question });
      }),
    send: (output) => writeFrame(process.stdout, { output }),
  };

  async function answer(id: number, request: unknown): Promise<void> {
    try {
      writeFrame(process.stdout, { done: id, result: await handle(request, parent) });
    } catch (error) {
      writeFrame(process.stdout, { done: id, error: messageOf(error) });
    }
  }

  readFrames(process.stdin, {
    maxBytes: 0xffff_ffff,
    maxJsonBytes: 0xffff_ffff,
    maxValues: Number.POSITIVE_INFINITY,
    onFrame(value) {
      const message = value as { id: number; request: unknown } | { answer: number; value?: unknown; error?: string };
      if ("id" in message) {
        void answer(message.id, message.request);
        return;
      }
      const asked = waiting.get(message.answer);
      waiting.delete(message.answer);
      if (message.error === undefined) asked?.resolve(message.value);
      else asked?.reject(new Error(message.error));
    },
    onFailure: () => process.exit(1),
  });
  process.stdin.on("end", () => process.exit(0));
  writeFrame(process.stdout, { ready: true });
}
