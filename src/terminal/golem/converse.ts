import type { RunResult } from "#embed/options.ts";
import type { WorkerRuntime } from "#embed/worker-runtime.ts";
import { exitCodes } from "./command-context.ts";
import type { Terminal } from "./terminal.ts";

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
  { terminal, chats }: { terminal: Terminal; chats: boolean },
): Promise<ConversationEnd> {
  let wasInterrupted = false;
  const stopHearing = terminal.bus.on("sessionEnd", ({ reason }) => {
    wasInterrupted = reason === "interrupted";
  });
  const spent = { toolCallCount: 0, tokens: { input: 0, output: 0 }, cost: 0 };
  try {
    for (let words = first; ; ) {
      const result = await runtime.run(words);
      add(spent, result);
      const end = endOf(result, wasInterrupted, spent);
      const isOver = terminal.hasExited() || (!wasInterrupted && (!chats || !result.success));
      if (isOver) return { ...end, isLeaving: terminal.hasExited() };

      terminal.resetInterrupt();
      const next = await terminal.ask(wasInterrupted ? "Say something to go on, or press Enter to end: " : "> ", {
        commands: true,
      });
      if (next === undefined || next.trim() === "") {
        const isLeaving = next === undefined && (wasInterrupted || terminal.interruptSignal().aborted);
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
