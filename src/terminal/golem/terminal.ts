import { Readable } from "node:stream";
import { createEventCLIAdapter, type EventCLIAdapterOptions, userExited } from "#terminal/event-cli-adapter.ts";
import { openPrompter } from "#terminal/prompter.ts";
import { createStyle, isTerminal } from "#terminal/style.ts";
import { createUIEventBus, type Unsubscribe } from "#ui/ui-event-bus.ts";
import type { CommandContext } from "./command-context.ts";

/** The terminal of a running worker: output, questions and interruptions. */
export type Terminal = Awaited<ReturnType<typeof openTerminal>>;

export interface TerminalOptions extends Pick<EventCLIAdapterOptions, "historyFile" | "files"> {
  json: boolean;
  quiet: boolean;
}

/**
 * Opens the terminal. If standard output is not a terminal, or with `json`, standard output is for programs and everything
 * else goes to standard error. With `quiet`, only questions, answers and errors are shown.
 */
export async function openTerminal(
  { input, output, errors }: CommandContext,
  { json, quiet, historyFile, files }: TerminalOptions,
) {
  const isInteractive = !json && isTerminal(input);
  // Input that no person types must not keep the process alive.
  const typed = isInteractive ? input : Readable.from([]);
  const outputIsForPeople = isTerminal(output) && !json;
  const shown = outputIsForPeople ? output : errors;
  const bus = createUIEventBus();
  const adapter = createEventCLIAdapter(bus, {
    input: typed,
    output: shown,
    traceLevel: json || quiet ? "quiet" : "normal",
    showsAnswers: outputIsForPeople || !(json || quiet),
    ...(historyFile !== undefined && { historyFile }),
    ...(files && { files }),
  });
  await adapter.initialize();
  const prompter = openPrompter(typed, shown);
  const secondInterruptListeners = new Set<() => void>();
  let interruption = new AbortController();
  let hasExited = false;
  bus.on("interrupt", ({ reason }) => {
    if (reason === userExited) hasExited = true;
    if (interruption.signal.aborted) for (const notify of secondInterruptListeners) notify();
    interruption.abort();
  });

  return {
    bus,
    paint: createStyle(shown),
    /** True if a person can answer questions. */
    isInteractive,
    /** True if standard output is a terminal. Otherwise only the answer is written to it. */
    outputIsForPeople,
    print: (...lines: string[]): void => {
      if (lines.length > 0) prompter.print(lines.map((line) => `${line}\n`).join(""));
    },
    /** Resolves to the typed line; undefined without a person, at the end of the input, or after Ctrl+C. */
    ask: async (question: string, { commands = false, isProse = false } = {}) =>
      isInteractive ? prompter.ask(question, { signal: interruption.signal, verbatim: !commands, isProse }) : undefined,
    /** The same for a decision, which input typed before the question does not answer. */
    askToDecide: async (question: string) =>
      isInteractive ? prompter.ask(question, { signal: interruption.signal, verbatim: true, fresh: true }) : undefined,
    interruptSignal: () => interruption.signal,
    /** Makes the next Ctrl+C count as the first one again. */
    resetInterrupt: (): void => {
      interruption = new AbortController();
    },
    /** Calls back on a second Ctrl+C. */
    onSecondInterrupt: (listener: () => void): Unsubscribe => {
      secondInterruptListeners.add(listener);
      return () => secondInterruptListeners.delete(listener);
    },
    /** True if the person has entered /exit. */
    hasExited: () => hasExited,
    close: async (): Promise<void> => {
      await adapter.shutdown();
      prompter.release();
    },
  };
}
