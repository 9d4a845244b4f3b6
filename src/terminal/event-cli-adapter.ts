import type { Readable, Writable } from "node:stream";
import { truncateLine } from "#text/truncate.ts";
import type { DisplayEvents, UIEventBus, Unsubscribe } from "#ui/ui-event-bus.ts";
import { askApproval, type PromptedCall } from "./ask-approval.ts";
import { completableCommands, handleLine, type Screen } from "./handle-line.ts";
import { markdownToAnsi } from "./markdown-to-ansi.ts";
import { openPrompter, type Prompter } from "./prompter.ts";
import { columnsOf, createStyle, isTerminal, type Style, visible } from "./style.ts";
import { describeCall, oneLine, printableLines, renderCall, styleDiffLine } from "./value-to-text.ts";

/** The level of output: answers and errors only; plus one line per tool call; plus tool results; everything. */
export type TraceLevel = "quiet" | "summary" | "normal" | "debug";

/** The reason of the interrupt when a person enters /exit. */
export const userExited = "The user exited.";

const spinnerFrames = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

const levels: readonly TraceLevel[] = ["quiet", "summary", "normal", "debug"];

export interface EventCLIAdapterOptions {
  /** Default: the output of the process. */
  output?: Writable;
  /** Default: the input of the process. */
  input?: Readable;
  /** Reads single keys if input and output are a terminal, so that Ctrl+C interrupts the worker. Default: true. */
  enableRawMode?: boolean;
  /** Default: `normal`. */
  traceLevel?: TraceLevel;
  /** False leaves out the worker's answers, which the caller prints. Default: true. */
  showsAnswers?: boolean;
  /** Stores the messages that a person typed, so that the arrow keys recall them in later sessions. */
  historyFile?: string;
  /** Lists the paths that can complete a word that begins with `@`. */
  files?: () => Promise<readonly string[]>;
}

/** Creates a terminal for a bus: it shows display events, asks for approvals and input, and handles slash commands. */
export function createEventCLIAdapter(bus: UIEventBus, options: EventCLIAdapterOptions = {}): EventCLIAdapter {
  return new EventCLIAdapter(bus, options);
}

/** Shows the events of a bus in a terminal, and emits a person's answers and commands. */
export class EventCLIAdapter {
  readonly bus: UIEventBus;
  readonly #options: EventCLIAdapterOptions;
  readonly #input: Readable;
  readonly #output: Writable;
  readonly #style: Style;
  readonly #screen: Screen = { tools: [], workers: new Map(), context: undefined };
  #prompter: Prompter | undefined;
  #subscriptions: Unsubscribe[] = [];
  /** Aborted when all open questions are withdrawn. */
  #asking = new AbortController();
  #leaving = new AbortController();
  /** The arguments of running calls, by call id: a result need not repeat them. */
  readonly #startedArgs = new Map<string, Record<string, unknown>>();
  /** Open questions by request id. */
  readonly #requests = new Map<string, AbortController>();
  /** The answer that is being streamed, and the number of characters already printed. */
  #streamed: { id: string; text: string; printed: number } | undefined;
  #activity: { label: string; startedAt: number } | undefined;
  #ticker: NodeJS.Timeout | undefined;

  constructor(bus: UIEventBus, options: EventCLIAdapterOptions) {
    const { input = process.stdin, output = process.stdout } = options;
    this.bus = bus;
    this.#options = options;
    this.#input = input;
    this.#output = output;
    this.#style = createStyle(output);
  }

  /** Starts to show events and to read input. A second call has no effect. */
  async initialize(): Promise<void> {
    if (this.#prompter) return;
    const { enableRawMode: raw, historyFile, files = async () => [] } = this.#options;
    const prompter = openPrompter(this.#input, this.#output, { raw, historyFile });
    this.#prompter = prompter;
    this.#leaving = new AbortController();
    const stopListening = prompter.listen({
      line: (line) => void this.#handleLine(line, prompter),
      interrupt: () => this.#interrupt("User interrupted"),
      complete: async (line) => [
        ...(line.startsWith("/") ? completableCommands(this.#screen.tools) : []),
        // Readline would write the others to the terminal as they are.
        ...(await files()).filter((path) => visible(path) === path).map((path) => `@${path}`),
      ],
    });
    this.#subscriptions = [...this.#subscribe(), stopListening];
  }

  /** Releases the bus and the input, and ends open questions. */
  async shutdown(): Promise<void> {
    for (const unsubscribe of this.#subscriptions.splice(0)) unsubscribe();
    this.#withdrawAll();
    this.#showActivity(undefined);
    this.#prompter?.release();
    this.#prompter = undefined;
  }

  /** Resolves to the next line that is not a command; to undefined after `/exit` and at the end of the input. */
  async readLine(prompt = "> "): Promise<string | undefined> {
    if (this.#leaving.signal.aborted) return undefined;
    return this.#prompter?.readLine(prompt, { signal: this.#leaving.signal });
  }

  #subscribe(): Unsubscribe[] {
    const { bus } = this;
    return [
      bus.on("message", (event) => this.#showMessage(event)),
      bus.on("streaming", (event) => this.#showStream(event)),
      bus.on("status", (event) => this.#showStatus(event)),
      bus.on("toolStarted", (event) => this.#showStarted(event)),
      bus.on("toolResult", (event) => this.#showResult(event)),
      bus.on("workerUpdate", (event) => this.#showWorker(event)),
      bus.on("approvalRequired", (event) => this.#answerApproval(event)),
      bus.on("inputPrompt", (event) => this.#answerInput(event)),
      bus.on("requestWithdrawn", ({ requestId }) => this.#requests.get(requestId)?.abort()),
      bus.on("manualToolsAvailable", ({ tools }) => {
        this.#screen.tools = tools;
      }),
      bus.on("contextUsage", (event) => this.#showUsage(event)),
      bus.on("diffSummary", (event) => this.#showDiffs(event)),
      bus.on("diffContent", (event) => this.#showDiff(event)),
      bus.on("sessionEnd", (event) => this.#showEnd(event)),
    ];
  }

  #shows(level: TraceLevel): boolean {
    return levels.indexOf(this.#options.traceLevel ?? "normal") >= levels.indexOf(level);
  }

  #print(...lines: string[]): void {
    if (lines.length > 0) this.#prompter?.print(lines.map((line) => `${line}\n`).join(""));
  }

  /** Shows the worker's activity and its duration, if the output is a terminal. Undefined clears it. */
  #showActivity(label: string | undefined): void {
    if (label === undefined || !this.#shows("normal") || !isTerminal(this.#output)) {
      clearInterval(this.#ticker);
      this.#ticker = undefined;
      this.#activity = undefined;
      this.#prompter?.setStatus(undefined);
      return;
    }
    if (this.#activity?.label !== label) this.#activity = { label, startedAt: performance.now() };
    this.#ticker ??= setInterval(() => this.#drawActivity(), 200).unref();
    this.#drawActivity();
  }

  #drawActivity(): void {
    if (!this.#activity) return;
    const { label, startedAt } = this.#activity;
    const elapsedMs = performance.now() - startedAt;
    const frame = spinnerFrames[Math.floor(elapsedMs / 200) % spinnerFrames.length];
    const elapsed = elapsedMs < 1_000 ? "" : ` ${Math.floor(elapsedMs / 1_000)}s`;
    this.#prompter?.setStatus(`${this.#style("gray", `${frame} ${label}${elapsed}`)} › `);
  }

  /** Formats an answer, which is Markdown, for a terminal. A program that reads the output gets it unchanged. */
  #answerLines(text: string): string[] {
    if (!isTerminal(this.#output)) return printableLines(text);
    return markdownToAnsi(text, { style: this.#style, columns: columnsOf(this.#output) });
  }

  #handleLine(line: string, prompter: Prompter): Promise<void> {
    return handleLine(line, {
      bus: this.bus,
      screen: this.#screen,
      style: this.#style,
      prompter,
      print: (...lines) => this.#print(...lines),
      leave: () => {
        this.#leaving.abort();
        this.#interrupt(userExited);
      },
      signal: this.#asking.signal,
    });
  }

  #interrupt(reason: string): void {
    const wasAsking = this.#requests.size > 0;
    this.#withdrawAll();
    if (reason !== userExited && wasAsking) this.#print(this.#style("yellow", "Interrupting the worker…"));
    this.bus.emit("interrupt", { reason });
  }

  #withdrawAll(): void {
    this.#asking.abort();
    this.#asking = new AbortController();
  }

  /** Runs a question until it is answered, or its request is withdrawn. */
  async #question<Result>(requestId: string, ask: (signal: AbortSignal) => Promise<Result>): Promise<Result> {
    const withdrawal = new AbortController();
    this.#requests.set(requestId, withdrawal);
    try {
      return await ask(AbortSignal.any([this.#asking.signal, withdrawal.signal]));
    } finally {
      this.#requests.delete(requestId);
    }
  }

  async #answerApproval(event: DisplayEvents["approvalRequired"]): Promise<void> {
    const { requestId } = event;
    const prompter = this.#prompter;
    if (!prompter) return;
    const answer = await this.#question(requestId, (signal) =>
      askApproval(toShownRequest(event), { prompter, style: this.#style, signal }),
    );
    if (answer.approved) {
      const { remember, modifiedArgs } = answer;
      this.bus.emit("approvalResponse", {
        requestId,
        approved: remember === "session" ? "always" : true,
        ...(modifiedArgs && { modifiedArgs }),
      });
      return;
    }
    const { reason } = answer;
    this.bus.emit("approvalResponse", { requestId, approved: false, ...(reason !== undefined && { reason }) });
  }

  async #answerInput({ requestId, prompt }: DisplayEvents["inputPrompt"]): Promise<void> {
    const question = /^(.*)\n(?:> )?$/s.exec(prompt)?.[1];
    const lines = question === undefined ? printableLines(prompt) : [...this.#answerLines(question), "> "];
    const text = lines.join("\n");
    await this.#question(requestId, async (signal) => {
      const content = await this.#prompter?.ask(text, { signal });
      if (content !== undefined) this.bus.emit("userInput", { requestId, content });
      else if (!signal.aborted) this.bus.emit("interrupt", { reason: "The input has ended." });
    });
  }

  #showStarted(call: DisplayEvents["toolStarted"]): void {
    this.#startedArgs.set(call.toolCallId, call.args);
    // Half of the line is left for what a person types.
    const maxLength = Math.max(20, Math.floor(columnsOf(this.#output) / 2));
    const label = describeCall(call);
    this.#showActivity(truncateLine(label, maxLength));
  }

  #showResult(shown: DisplayEvents["toolResult"]): void {
    const { toolCallId, args = this.#startedArgs.get(toolCallId) ?? {} } = shown;
    this.#startedArgs.delete(toolCallId);
    if (!this.#shows("summary")) return;
    const columns = isTerminal(this.#output) ? columnsOf(this.#output) : undefined;
    this.#print(...renderCall({ ...shown, args }, { style: this.#style, columns, details: this.#shows("normal") }));
    if (this.#activity) this.#showActivity("Thinking");
  }

  #showStream({ requestId, delta, done }: DisplayEvents["streaming"]): void {
    if (!this.#shows("normal")) return;
    if (this.#streamed?.id !== requestId) this.#streamed = { id: requestId, text: "", printed: 0 };
    const streamed = this.#streamed;
    streamed.text += delta;
    if (isTerminal(this.#output)) {
      this.#showBlocks(streamed, done);
      return;
    }
    const text = printableLines(delta).join("\n") + (delta.endsWith("\n") ? "\n" : "");
    if (delta !== "") this.#prompter?.print(text);
    if (done && streamed.text !== "") this.#prompter?.print("\n");
  }

  /** Prints the blocks of Markdown that are complete. */
  #showBlocks(streamed: { text: string; printed: number }, done: boolean): void {
    const open = streamed.text.slice(streamed.printed);
    const end = done ? open.length : endOfBlocks(open);
    if (end > 0) {
      streamed.printed += end;
      this.#print(...this.#answerLines(open.slice(0, end)), ...(done ? [] : [""]));
    }
    this.#showActivity(done ? "Thinking" : "Writing");
  }

  #showMessage({ message: { role, content } }: DisplayEvents["message"]): void {
    // It was already shown while it was streamed.
    if (role === "assistant" && this.#streamed?.text.trim() === content.trim() && content.trim() !== "") {
      this.#streamed = undefined;
      return;
    }
    if (role === "system" && !this.#shows("debug")) return;
    if (role === "assistant" && this.#options.showsAnswers === false) return;
    if (role === "user" && !this.#shows("summary")) return;
    const speaker = {
      user: this.#style("blue", "You: "),
      system: this.#style("gray", "System: "),
      assistant: "",
    }[role];
    const [first = "", ...rest] = role === "assistant" ? this.#answerLines(content) : printableLines(content);
    this.#print(`${speaker}${first}`, ...rest);
  }

  #showStatus({ type, message }: DisplayEvents["status"]): void {
    if (type === "info" && !this.#shows("normal")) return;
    if (type === "warning" && !this.#shows("summary")) return;
    const mark = {
      info: this.#style("blue", "ℹ"),
      warning: this.#style("yellow", "⚠"),
      error: this.#style("red", "✗"),
    }[type];
    this.#print(`${mark} ${printableLines(message).join("\n  ")}`);
  }

  #showWorker(update: DisplayEvents["workerUpdate"]): void {
    const known = this.#screen.workers.get(update.workerId);
    const { model = known?.model, tools = known?.tools, parentId = known?.parentId } = update;
    this.#screen.workers.set(update.workerId, { ...update, model, tools, parentId });
    if (update.depth === 0) this.#showActivity(update.status === "running" ? "Thinking" : undefined);
    const hasChanged = update.depth > 0 && known?.status !== update.status;
    if (this.#shows("debug") || (hasChanged && this.#shows("normal"))) {
      this.#print(this.#style("gray", `${"  ".repeat(update.depth)}◆ ${oneLine(update.task)}: ${update.status}`));
    }
  }

  #showUsage(usage: DisplayEvents["contextUsage"]): void {
    this.#screen.context = usage;
    if (!usage.exceeded) return;
    const message = "The conversation is longer than the worker can remember. Start a new one with /clear.";
    this.#showStatus({ type: "warning", message });
  }

  #showDiffs({ summaries }: DisplayEvents["diffSummary"]): void {
    if (!this.#shows("summary")) return;
    const style = this.#style;
    const marks = { create: style("green", "A"), update: style("yellow", "M"), delete: style("red", "D") };
    const lines = summaries.map(({ path, operation, additions, deletions }) => {
      const counts = `${style("green", `+${additions}`)} ${style("red", `−${deletions}`)}`;
      return `${marks[operation]} ${oneLine(path)} ${counts}`;
    });
    this.#print(...lines);
  }

  #showDiff({ path, original, modified, isNew }: DisplayEvents["diffContent"]): void {
    const title = this.#style("bold", `${isNew ? "new" : "now"}: ${oneLine(path)}`);
    const removed = original === undefined ? [] : printableLines(original).map((line) => `-${line}`);
    const added = printableLines(modified).map((line) => `+${line}`);
    this.#print(title, ...[...removed, ...added].map((line) => styleDiffLine(line, this.#style)));
  }

  #showEnd({ reason, message }: DisplayEvents["sessionEnd"]): void {
    this.#showActivity(undefined);
    if (reason === "interrupted") {
      this.#withdrawAll();
      this.#print(this.#style("yellow", "Interrupted."));
    } else if (this.#shows("debug")) {
      const why = message ? `, ${oneLine(message)}` : "";
      this.#print(this.#style("gray", `The session has ended: ${reason}${why}.`));
    }
  }
}

/** Returns the length of the complete Markdown blocks: everything before the last blank line outside a code fence. */
function endOfBlocks(text: string): number {
  let end = 0;
  let offset = 0;
  let fence: string | undefined;
  for (const line of text.split(/(?<=\n)/)) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (mark && (fence === undefined || mark.startsWith(fence))) fence = fence === undefined ? mark : undefined;
    offset += line.length;
    if (fence === undefined && line === "\n") end = offset;
  }
  return end;
}

/** Converts an event to a request. Its details come from the runtime, or in any form from another program. */
function toShownRequest({
  description,
  details,
  risk,
  workerPath = [],
}: DisplayEvents["approvalRequired"]): PromptedCall {
  const path = workerPath.map(({ task }) => task);
  const given = details !== null && typeof details === "object" ? details : { ...(details != null && { details }) };
  if (!("toolName" in given) || typeof given.toolName !== "string") {
    return { description, risk, path, toolArgs: { ...given } };
  }
  return { ...(given as Omit<PromptedCall, "description" | "path">), description, risk, path };
}
