import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { mkdtempDisposable, readFile, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface, type Interface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import { SerialQueue } from "#domain/async-work.ts";
import { isCommand } from "#ui/command.ts";
import { columnsOf, isTerminal, wrapLines } from "./style.ts";

export interface QuestionOptions {
  /** Ends the question, which then resolves to undefined. */
  signal?: AbortSignal | undefined;
  /** Accepts commands as answers instead of passing them to the listener. */
  verbatim?: boolean;
  /** Ignores input typed before the question was shown. */
  fresh?: boolean;
  /** Adds the line to the history. A backslash at its end continues it on the next line. */
  isProse?: boolean;
}

/** Asks one question. Resolves to the line, or to undefined if the signal is aborted, on Ctrl+C, or at the end of the input. */
export type AskQuestion = (question: string, options?: QuestionOptions) => Promise<string | undefined>;

/** True only if the whole line is `y` or `yes`. */
export function isYes(line: string | undefined): boolean {
  return /^\s*y(es)?\s*$/i.test(line ?? "");
}

export interface InputListener {
  /** Resolves to the completions of the last word of a line. */
  complete?(line: string): Promise<string[]>;
  /** Called with each line that answers no question. */
  line(line: string): void;
  /** Called on Ctrl+C. */
  interrupt(): void;
}

interface Question extends QuestionOptions {
  text: string;
  resolve(line: string | undefined): void;
}

const prompters = new WeakMap<Readable, Prompter>();
/** Lines that arrived before a question was asked, for the next prompter of the same input. */
const earlyLines = new WeakMap<Readable, string[]>();

export interface PrompterOptions {
  /** Reads single keys if input and output are a terminal. Default: true. */
  raw?: boolean;
  /** Stores lines typed as prose for later prompters. */
  historyFile?: string | undefined;
}

type CompleterDone = (error: Error | null, found?: [string[], string]) => void;

const maxHistory = 500;

/** Opens the prompter of an input. All callers share it, so that no line is read twice. */
export function openPrompter(
  input: Readable,
  output: Writable,
  { raw = true, historyFile }: PrompterOptions = {},
): Prompter {
  const known = prompters.get(input);
  if (known) {
    known.hold();
    return known;
  }
  const created = new Prompter(input, output, { raw, historyFile });
  prompters.set(input, created);
  return created;
}

/** Reads lines from one input that several callers share. */
export class Prompter {
  readonly #input: Readable;
  readonly #output: Writable;
  readonly #isTerminal: boolean;
  readonly #lines: Interface;
  readonly #early: string[];
  readonly #dialogues = new SerialQueue();
  readonly #listeners: InputListener[] = [];
  #holders = 1;
  #isEnded = false;
  /** The question currently shown. */
  #open: Question | undefined;
  /** The prompt of the conversation, which gives way to questions. */
  #conversation: Question | undefined;
  #waitingDialogues = 0;
  #status: string | undefined;
  /** The preceding lines, each of which ended with a backslash. */
  #continued: string[] = [];

  constructor(input: Readable, output: Writable, { raw = true, historyFile }: PrompterOptions) {
    this.#input = input;
    this.#output = output;
    this.#isTerminal = raw && isTerminal(input) && isTerminal(output);
    this.#lines = createInterface({
      input,
      output,
      terminal: this.#isTerminal,
      prompt: "",
      history: this.#isTerminal ? readHistory(historyFile) : [],
      historySize: maxHistory,
      removeHistoryDuplicates: true,
      completer: (line: string, done: CompleterDone) => {
        this.#complete(line).then((found) => done(null, found), done);
      },
    });
    // Answers to single questions, such as `y`, do not belong in the history.
    this.#lines.on("history", (history) => {
      if (!this.#takesProse()) history.shift();
      else if (historyFile) writeHistory(historyFile, history);
    });
    this.#early = earlyLines.getOrInsert(input, []);

    input.on("data", this.#onData);
    this.#lines.on("SIGINT", () => this.#interrupt());
    // After Ctrl+Z and fg, Node leaves the input paused until the next prompt, which has to come after the pause.
    this.#lines.on("SIGCONT", () => {
      setImmediate(() => {
        if (!this.#isEnded) this.#lines.prompt(true);
      });
    });
    this.#lines.on("line", (line) => this.#onLine(line.replaceAll("\u0003", "")));
    this.#lines.on("close", () => {
      this.#isEnded = true;
      this.#open?.resolve(undefined);
      this.#conversation?.resolve(undefined);
    });
  }

  hold(): void {
    this.#holders += 1;
  }

  /** Asks after all earlier questions have been answered. */
  ask: AskQuestion = (text, options) => this.dialogue((ask) => ask(text, options));

  /** Asks for the next line of a conversation. Other questions take precedence, and the prompt is shown again after each. */
  readLine: AskQuestion = (text, options = {}) => {
    const early = this.#early.shift();
    if (early !== undefined) return Promise.resolve(early);
    if (this.#isEnded || options.signal?.aborted) return Promise.resolve(undefined);
    return this.#settle({ ...options, text }, (question) => {
      this.#conversation = question;
      if (!this.#open && this.#waitingDialogues === 0) this.#show(question);
      return () => {
        if (this.#conversation === question) this.#conversation = undefined;
      };
    });
  };

  /** Reserves the input for several related questions: no other question is asked in between. */
  dialogue<Result>(talk: (ask: AskQuestion) => Promise<Result>): Promise<Result> {
    this.#waitingDialogues += 1;
    return this.#dialogues.run(async () => {
      try {
        return await talk((text, options = {}) => this.#askNow({ ...options, text }));
      } finally {
        this.#waitingDialogues -= 1;
        if (this.#waitingDialogues === 0 && this.#conversation) this.#show(this.#conversation);
      }
    });
  }

  async #askNow(asked: QuestionOptions & { text: string }): Promise<string | undefined> {
    if (asked.fresh) await this.#discardTyped();
    const early = this.#early.shift();
    if (early !== undefined) return early;
    if (this.#isEnded || asked.signal?.aborted) return undefined;
    return this.#settle(asked, (question) => {
      if (this.#open === undefined && this.#conversation) this.#output.write(this.#isTerminal ? "\r\u001b[K" : "\n");
      this.#open = question;
      this.#show(question);
      return () => {
        if (this.#open === question) this.#open = undefined;
      };
    });
  }

  /** Resolves when a question was answered or withdrawn. */
  #settle(
    asked: QuestionOptions & { text: string },
    begin: (question: Question) => () => void,
  ): Promise<string | undefined> {
    return new Promise((resolve) => {
      const abort = () => question.resolve(undefined);
      const question: Question = {
        ...asked,
        resolve: (line) => {
          asked.signal?.removeEventListener("abort", abort);
          const wasOpen = this.#shown() === question;
          end();
          if (wasOpen && line === undefined) this.#output.write("\n");
          resolve(line);
        },
      };
      asked.signal?.addEventListener("abort", abort, { once: true });
      const end = begin(question);
    });
  }

  /** Discards all earlier input, including input that has not been read yet. */
  async #discardTyped(): Promise<void> {
    // Two turns of the event loop drain the operating system's buffer.
    await nextTurn();
    await nextTurn();
    const ignored = this.#early.splice(0).some((line) => line.trim() !== "");
    if (this.#isTerminal) {
      this.#lines.write(null, { ctrl: true, name: "e" });
      this.#lines.write(null, { ctrl: true, name: "u" });
    }
    if (ignored) this.#output.write("Input from before this question is ignored.\n");
  }

  /** The width of the output. */
  get columns(): number {
    return columnsOf(this.#output);
  }

  /** True where an editor can be opened: at a terminal, with `VISUAL` or `EDITOR` set. */
  get canEdit(): boolean {
    return this.#isTerminal && this.#input === process.stdin && Boolean(process.env.VISUAL || process.env.EDITOR);
  }

  /** Opens the person's editor on a text. Resolves to the saved text, or to undefined if the editor failed. */
  async edit(text: string): Promise<string | undefined> {
    await using folder = await mkdtempDisposable(join(tmpdir(), "golem-forge-edit-"));
    const file = join(folder.path, "arguments.json");
    this.#lines.pause();
    process.stdin.setRawMode(false);
    try {
      await writeFile(file, text);
      const [command = "vi", ...args] = (process.env.VISUAL || process.env.EDITOR || "").split(/\s+/);
      const editor = spawn(command, [...args, file], { stdio: "inherit" });
      const [code] = await once(editor, "close");
      return code === 0 ? await readFile(file, "utf8") : undefined;
    } catch {
      return undefined;
    } finally {
      process.stdin.setRawMode(true);
      this.#lines.resume();
    }
  }

  /** Shows a status on the last line while no question is open. Undefined clears it. */
  setStatus(status: string | undefined): void {
    if (!this.#isTerminal || this.#isEnded || status === this.#status) return;
    this.#status = status;
    if (this.#shown()) return;
    this.#lines.setPrompt(status ?? "");
    if (status === undefined) this.#output.write("\r\u001b[K");
    else this.#lines.prompt(true);
  }

  /** Writes above the open question. */
  print(text: string): void {
    const hasPrompt = this.#shown() !== undefined || this.#status !== undefined;
    if (!hasPrompt || !this.#isTerminal) {
      this.#output.write(this.#fit(text));
      return;
    }
    // Redraw the line that is being typed below the text.
    this.#output.write(`\r\u001b[K${this.#fit(text)}`);
    this.#lines.prompt(true);
  }

  /** Wraps text for a terminal. A program that reads the output gets it unchanged. */
  #fit(text: string): string {
    return isTerminal(this.#output) ? wrapLines(text, columnsOf(this.#output)) : text;
  }

  /** Listens to lines that answer no question, and to Ctrl+C. The last listener gets them. */
  listen(listener: InputListener): () => void {
    this.#listeners.push(listener);
    for (const line of this.#early.splice(0)) listener.line(line);
    return () => {
      const index = this.#listeners.indexOf(listener);
      if (index >= 0) this.#listeners.splice(index, 1);
    };
  }

  /** Closes the input once every caller that opened it has released it. */
  release(): void {
    this.#holders -= 1;
    if (this.#holders > 0) return;
    prompters.delete(this.#input);
    this.#input.off("data", this.#onData);
    this.#lines.close();
    this.#input.pause();
  }

  #shown(): Question | undefined {
    return this.#open ?? (this.#waitingDialogues === 0 ? this.#conversation : undefined);
  }

  #show(question: Question): void {
    if (this.#isEnded) return;
    const [last = "", ...above] = question.text.split("\n").reverse();
    if (this.#status !== undefined) this.#output.write("\r\u001b[K");
    if (above.length > 0) this.#output.write(this.#fit(`${above.reverse().join("\n")}\n`));
    this.#lines.setPrompt(last);
    this.#lines.prompt(true);
  }

  #takesProse(): boolean {
    const question = this.#shown();
    return question ? question === this.#conversation || question.isProse === true : this.#waitingDialogues === 0;
  }

  #onLine(typed: string): void {
    if (this.#isTerminal && this.#takesProse() && typed.endsWith("\\")) {
      this.#continued.push(typed.slice(0, -1));
      this.#lines.setPrompt("… ");
      this.#lines.prompt();
      return;
    }
    const line = [...this.#continued.splice(0), typed].join("\n");
    this.#lines.setPrompt(this.#status ?? "");
    const question = this.#shown();
    const isForListener = this.#listeners.length > 0 && isCommand(line);
    if (question && (question.verbatim || !isForListener)) {
      question.resolve(line);
      return;
    }
    if (this.#listeners.length === 0) this.#early.push(line);
    // A line between two questions of a dialogue answers neither.
    else if (line.trim() !== "" && (isForListener || this.#waitingDialogues === 0)) this.#listeners.at(-1)?.line(line);
    if (question) this.#show(question);
  }

  async #complete(line: string): Promise<[string[], string]> {
    const word = /\S*$/.exec(line)?.[0] ?? "";
    const known = this.#takesProse() ? ((await this.#listeners.at(-1)?.complete?.(line)) ?? []) : [];
    return [known.filter((one) => one.startsWith(word)), word];
  }

  #onData = (chunk: Buffer | string): void => {
    // In raw mode, readline reports Ctrl+C itself.
    if (!this.#isTerminal && String(chunk).includes("\u0003")) this.#interrupt();
  };

  #interrupt(): void {
    const listener = this.#listeners.at(-1);
    if (listener) {
      listener.interrupt();
      return;
    }
    if (!this.#open && !this.#conversation) return;
    this.#output.write("\nInterrupted.");
    this.#open?.resolve(undefined);
    this.#conversation?.resolve(undefined);
    // In raw mode, Ctrl+C does not send a signal by itself.
    if (this.#isTerminal && this.#input === process.stdin) process.kill(process.pid, "SIGINT");
  }
}

function readHistory(file: string | undefined): string[] {
  if (!file) return [];
  try {
    return readFileSync(file, "utf8").split("\n").filter(Boolean).slice(0, maxHistory);
  } catch {
    return [];
  }
}

/** Writes the history. Ignores errors, since the history is not essential. */
function writeHistory(file: string, history: readonly string[]): void {
  try {
    mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
    writeFileSync(file, `${history.slice(0, maxHistory).join("\n")}\n`, { mode: 0o600 });
  } catch {}
}
