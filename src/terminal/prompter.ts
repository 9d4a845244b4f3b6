import { createInterface, type Interface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { isCommand } from "#ui/command.ts";
import { isTerminal } from "./paint.ts";

/** What is typed, line by line, for whoever asked. Several may wait; the first in line is asked first. */
export interface Prompter {
  /**
   * Asks, and resolves to the line; undefined when the signal is aborted or there will be no more lines. A command is
   * for whoever listens, unless the answer is wanted `verbatim`. One who is `patient` lets everybody else ask first.
   */
  ask(
    question: string,
    options?: { signal?: AbortSignal; verbatim?: boolean; patient?: boolean },
  ): Promise<string | undefined>;
  /** Writes above the question that is open. */
  print(text: string): void;
  /** Whether somebody waits for a line. */
  isAsking(): boolean;
  /** How often somebody asked. */
  asked(): number;
  /** Hears lines that nobody asked for, and Ctrl+C. The last to listen hears them. */
  listen(listener: { line(line: string): void; interrupt(): void }): () => void;
  /** Lets go of the input when everybody has. */
  release(): void;
}

interface Question {
  text: string;
  verbatim: boolean;
  yields: boolean;
  resolve(line: string | undefined): void;
}

const open = new WeakMap<Readable, Prompter & { hold(): void }>();
/** Lines that were there before anybody asked, kept for who asks next. */
const early = new WeakMap<Readable, string[]>();

/** The one prompter of an input: whoever asks there shares it, so that no line is heard twice. */
export function openPrompter(input: Readable, output: Writable, { raw = true }: { raw?: boolean } = {}): Prompter {
  const known = open.get(input);
  if (known) {
    known.hold();
    return known;
  }
  const created = createPrompter(input, output, raw);
  open.set(input, created);
  return created;
}

function createPrompter(input: Readable, output: Writable, raw: boolean): Prompter & { hold(): void } {
  const terminal = raw && isTerminal(input) && isTerminal(output);
  let lines: Interface | undefined = createInterface({ input, output, terminal, prompt: "" });
  let holders = 1;
  let isEnded = false;
  let asked = 0;
  let shown: Question | undefined;
  let questions: Question[] = [];
  const listeners: Parameters<Prompter["listen"]>[0][] = [];
  const unheard = early.get(input) ?? [];
  early.set(input, unheard);

  const interrupt = () => listeners.at(-1)?.interrupt();
  const onData = (chunk: Buffer | string) => {
    if (!terminal && String(chunk).includes("\u0003")) interrupt();
  };
  input.on("data", onData);

  lines.on("SIGINT", interrupt);
  lines.on("line", (raw) => {
    const line = raw.replaceAll("\u0003", "");
    const [question] = questions;
    const isForListener = listeners.length > 0 && isCommand(line);
    if (question && (question.verbatim || !isForListener)) return finish(question, line);
    if (question === undefined && listeners.length === 0) unheard.push(line);
    else if (line.trim() !== "") listeners.at(-1)?.line(line);
    show();
  });
  lines.on("close", () => {
    isEnded = true;
    for (const question of questions.splice(0)) question.resolve(undefined);
  });

  function finish(question: Question, line: string | undefined): void {
    const wasShown = questions[0] === question;
    questions = questions.filter((other) => other !== question);
    if (wasShown && line === undefined) write("\n");
    question.resolve(line);
    // Others may be withdrawn with it.
    if (wasShown) queueMicrotask(() => questions[0] !== shown && show());
  }

  function show(): void {
    const [question] = questions;
    shown = question;
    if (!question || isEnded) return;
    const [last = "", ...above] = question.text.split("\n").reverse();
    if (above.length > 0) write(`${above.reverse().join("\n")}\n`);
    lines?.setPrompt(last);
    lines?.prompt(true);
  }

  function write(text: string): void {
    output.write(text);
  }

  return {
    hold: () => {
      holders += 1;
    },
    ask(text, { signal, verbatim = false, patient = false } = {}) {
      const typed = unheard.shift();
      if (typed !== undefined) return Promise.resolve(typed);
      if (isEnded || signal?.aborted) return Promise.resolve(undefined);

      return new Promise((resolve) => {
        const question: Question = {
          text,
          verbatim,
          yields: patient,
          resolve: (line) => {
            signal?.removeEventListener("abort", abort);
            resolve(line);
          },
        };
        const abort = () => finish(question, undefined);
        signal?.addEventListener("abort", abort, { once: true });
        asked += 1;
        const before = questions[0];
        const [urgent, others] = [questions.filter((one) => !one.yields), questions.filter((one) => one.yields)];
        questions = patient ? [...urgent, ...others, question] : [...urgent, question, ...others];
        if (before && questions[0] === question) write(terminal ? "\r\u001b[K" : "\n");
        if (questions[0] === question) show();
      });
    },
    print(text) {
      if (questions.length === 0 || !terminal) return write(text);
      // The line that is being typed goes down with the text.
      write(`\r\u001b[K${text}`);
      lines?.prompt(true);
    },
    isAsking: () => questions.length > 0,
    asked: () => asked,
    listen(listener) {
      listeners.push(listener);
      for (const line of unheard.splice(0)) listener.line(line);
      return () => {
        const index = listeners.indexOf(listener);
        if (index >= 0) listeners.splice(index, 1);
      };
    },
    release() {
      holders -= 1;
      if (holders > 0) return;
      open.delete(input);
      input.off("data", onData);
      lines?.close();
      lines = undefined;
      input.pause();
    },
  };
}
