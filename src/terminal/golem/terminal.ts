import { Readable } from "node:stream";
import { createEventCLIAdapter, userExited } from "#terminal/event-cli-adapter.ts";
import { createPaint, isTerminal, type Paint } from "#terminal/paint.ts";
import { openPrompter } from "#terminal/prompter.ts";
import { createUIEventBus, type UIEventBus, type Unsubscribe } from "#ui/ui-event-bus.ts";
import type { CommandContext } from "./command-context.ts";

/** Where a person sits while a worker is at work: what they are shown, and what they are asked. */
export interface Terminal {
  readonly bus: UIEventBus;
  readonly paint: Paint;
  /** Whether somebody can answer. */
  readonly isInteractive: boolean;
  print(...lines: string[]): void;
  /**
   * The line that was typed; undefined when nobody can answer, the input has ended, or Ctrl+C was pressed instead. With
   * `commands` a slash command is obeyed meanwhile.
   */
  ask(question: string, options?: { commands?: boolean }): Promise<string | undefined>;
  /** Aborted by an interruption. */
  interruptSignal(): AbortSignal;
  /** Forgets the last interruption: the next one is a first one again. */
  resetInterrupt(): void;
  /** Hears of an interruption that comes before the last one was forgotten. */
  onSecondInterrupt(hear: () => void): Unsubscribe;
  /** Whether the person said /exit. */
  hasExited(): boolean;
  close(): Promise<void>;
}

/** Opens the terminal. For scripts (`json`) all that is meant for people goes to standard error. */
export async function openTerminal(
  { input, output, errors }: CommandContext,
  { json }: { json: boolean },
): Promise<Terminal> {
  const isInteractive = !json && isTerminal(input);
  // Nobody types where nobody can be asked, and an input that never ends must not keep the process.
  const typed = isInteractive ? input : Readable.from([]);
  const shown = json ? errors : output;
  const bus = createUIEventBus();
  const adapter = createEventCLIAdapter(bus, { input: typed, output: shown, traceLevel: json ? "quiet" : "normal" });
  await adapter.initialize();
  const prompter = openPrompter(typed, shown);
  const impatient = new Set<() => void>();
  let interruption = new AbortController();
  let hasExited = false;
  bus.on("interrupt", ({ reason }) => {
    if (reason === userExited) hasExited = true;
    if (interruption.signal.aborted) for (const hear of impatient) hear();
    interruption.abort();
  });

  return {
    bus,
    paint: createPaint(shown),
    isInteractive,
    print: (...lines) => {
      if (lines.length > 0) prompter.print(lines.map((line) => `${line}\n`).join(""));
    },
    ask: async (question, { commands = false } = {}) =>
      isInteractive ? prompter.ask(question, { signal: interruption.signal, verbatim: !commands }) : undefined,
    interruptSignal: () => interruption.signal,
    resetInterrupt: () => {
      interruption = new AbortController();
    },
    onSecondInterrupt: (hear) => {
      impatient.add(hear);
      return () => impatient.delete(hear);
    },
    hasExited: () => hasExited,
    close: async () => {
      await adapter.shutdown();
      prompter.release();
    },
  };
}
