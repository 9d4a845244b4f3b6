import { deferred } from "#domain/async-work.ts";
import type { RunView } from "#domain/run.ts";
import type { RunAttachment, RunResult } from "#embed/options.ts";
import type { WorkerRuntime } from "#embed/worker-runtime.ts";
import { exitCodes } from "./command-context.ts";
import type { Terminal } from "./terminal.ts";

/** The outcome of a conversation with a worker, and its total usage. */
export interface ConversationEnd {
  code: number;
  /** The last answer. */
  response?: string;
  error?: string;
  toolCallCount: number;
  tokens: { input: number; output: number };
  /** In US dollars; undefined if the price of the model is unknown. */
  cost?: number;
  /** True if the person is leaving and must not be asked anything else. */
  isLeaving: boolean;
}

type Usage = Pick<ConversationEnd, "toolCallCount" | "tokens" | "cost">;

export interface Conversation {
  /** The first message, or the last turn of a run that is resumed. */
  first: string | RunView;
  /** Files for the first message. */
  attachments?: readonly RunAttachment[];
  runtime: WorkerRuntime;
  terminal: Terminal;
  /** True if the worker waits for another message after each answer. */
  chats: boolean;
}

/** Runs a worker. The person can continue after an interruption and, if it `chats`, after each answer. */
export async function converse({
  first,
  attachments = [],
  runtime,
  terminal,
  chats,
}: Conversation): Promise<ConversationEnd> {
  let wasInterrupted = typeof first !== "string" && first.state === "interrupted";
  const unsubscribe = terminal.bus.on("sessionEnd", ({ reason }) => {
    wasInterrupted = reason === "interrupted";
  });
  const used: Usage = { toolCallCount: 0, tokens: { input: 0, output: 0 } };
  using _ = deferred(() => unsubscribe());
  let result = typeof first === "string" ? await runtime.run(first, attachments) : await resume(first, runtime);
  for (;;) {
    add(used, result);
    const end = endOf(result, wasInterrupted, used);
    const isOver = terminal.hasExited() || (!wasInterrupted && (!chats || !result.success));
    if (isOver) return { ...end, isLeaving: terminal.hasExited() };

    terminal.resetInterrupt();
    const question = wasInterrupted ? "Enter a message to continue, or press Enter to end: " : "> ";
    const next = await terminal.ask(question, { commands: true, isProse: true });
    if (next === undefined || next.trim() === "") {
      const isLeaving = next === undefined && (wasInterrupted || terminal.interruptSignal().aborted);
      return { ...end, ...(isLeaving && { code: exitCodes.interrupted }), isLeaving };
    }
    result = await runtime.run(next);
  }
}

async function resume(last: RunView, runtime: WorkerRuntime): Promise<RunResult> {
  const resumed = await runtime.resume();
  if (resumed) return resumed;

  const nothing = { toolCallCount: 0, tokens: { input: 0, output: 0 } };
  const { outcome } = last;
  switch (outcome?.kind) {
    case "answered":
      return { success: true, response: outcome.text, ...nothing };
    case "failed":
    case "limited":
      return { success: false, error: outcome.reason, ...nothing };
    case "cancelled":
    case undefined:
      return { success: true, response: "[Interrupted]", ...nothing };
  }
}

function add(used: Usage, result: RunResult): void {
  used.toolCallCount += result.toolCallCount;
  used.tokens.input += result.tokens.input;
  used.tokens.output += result.tokens.output;
  if (result.cost !== undefined) used.cost = (used.cost ?? 0) + result.cost;
}

function endOf(
  { success, response, error }: RunResult,
  wasInterrupted: boolean,
  used: Usage,
): Omit<ConversationEnd, "isLeaving"> {
  if (wasInterrupted) return { code: exitCodes.interrupted, ...used };
  return {
    code: success ? exitCodes.answered : exitCodes.failed,
    ...(response !== undefined && { response }),
    ...(error !== undefined && { error }),
    ...used,
  };
}
