import type { RunResult } from "#embed/options.ts";
import type { WorkerRuntime } from "#embed/worker-runtime.ts";
import type { Desk } from "./desk.ts";
import { exitCodes } from "./place.ts";

/** How a conversation with a worker ended, and what all of it took. */
export interface ConversationEnd {
  code: number;
  /** The last answer. */
  response?: string;
  error?: string;
  toolCallCount: number;
  tokens: { input: number; output: number };
  cost: number;
  /** The person wants to be asked nothing more. */
  isLeaving: boolean;
}

/** Lets a worker work, go on after an interruption, and where it `chats` answer one sentence after the other. */
export async function converse(
  first: string,
  runtime: WorkerRuntime,
  { desk, chats }: { desk: Desk; chats: boolean },
): Promise<ConversationEnd> {
  let wasInterrupted = false;
  const stopHearing = desk.bus.on("sessionEnd", ({ reason }) => {
    wasInterrupted = reason === "interrupted";
  });
  const spent = { toolCallCount: 0, tokens: { input: 0, output: 0 }, cost: 0 };
  try {
    for (let words = first; ; ) {
      const result = await runtime.run(words);
      add(spent, result);
      const end = endOf(result, wasInterrupted, spent);
      const isOver = desk.hasLeft() || (!wasInterrupted && (!chats || !result.success));
      if (isOver) return { ...end, isLeaving: desk.hasLeft() };

      desk.listen();
      const next = await desk.ask(wasInterrupted ? "Say something to go on, or press Enter to end: " : "> ", {
        commands: true,
      });
      if (next === undefined || next.trim() === "") {
        const isLeaving = next === undefined && (wasInterrupted || desk.interruption().aborted);
        return { ...end, ...(isLeaving && { code: exitCodes.interrupted }), isLeaving };
      }
      words = next;
    }
  } finally {
    stopHearing();
  }
}

function add(spent: Pick<ConversationEnd, "toolCallCount" | "tokens" | "cost">, result: RunResult): void {
  spent.toolCallCount += result.toolCallCount;
  spent.tokens.input += result.tokens.input;
  spent.tokens.output += result.tokens.output;
  spent.cost += result.cost ?? 0;
}

function endOf(
  { success, response, error }: RunResult,
  wasInterrupted: boolean,
  spent: Pick<ConversationEnd, "toolCallCount" | "tokens" | "cost">,
): Omit<ConversationEnd, "isLeaving"> {
  if (wasInterrupted) return { code: exitCodes.interrupted, ...spent };
  return {
    code: success ? exitCodes.answered : exitCodes.failed,
    ...(response !== undefined && { response }),
    ...(error !== undefined && { error }),
    ...spent,
  };
}
