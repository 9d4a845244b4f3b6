import type { Readable, Writable } from "node:stream";
import type { UIEventBus, Unsubscribe } from "#ui/ui-event-bus.ts";
import type { DisplayEvents, WorkerInfo } from "#ui/ui-events.ts";
import { askApproval } from "./ask-approval.ts";
import { handleLine, type Screen } from "./handle-line.ts";
import { createPaint, isTerminal } from "./paint.ts";
import { openPrompter, type Prompter } from "./prompter.ts";
import { renderCall, renderPill } from "./render-call.ts";
import { linesOf, oneLine, paintDiff } from "./render-value.ts";

/** How much is shown: answers and errors alone; a line for each tool; their results; everything there is. */
export type TraceLevel = "quiet" | "summary" | "normal" | "debug";

/** Why what is running is interrupted when a person says /exit. */
export const userExited = "The person left.";

const levels: readonly TraceLevel[] = ["quiet", "summary", "normal", "debug"];

export interface EventCLIAdapterOptions {
  /** Default: the process's own. */
  output?: Writable;
  input?: Readable;
  /** Whether keys are read one by one where input and output are a terminal, so that Ctrl+C is heard. Default: true. */
  enableRawMode?: boolean;
  /** Default: `normal`. */
  traceLevel?: TraceLevel;
}

/** Shows what happens on a bus in a terminal, and brings back what a person types. */
export interface EventCLIAdapter {
  readonly bus: UIEventBus;
  /** Begins to show and to listen. Twice changes nothing. */
  initialize(): Promise<void>;
  /** Lets go of bus and input. Whoever still waits for an answer is told that there is none. */
  shutdown(): Promise<void>;
  /** The next line that is no command; undefined after `/exit`, and when the input ends. For a conversation. */
  readLine(prompt?: string): Promise<string | undefined>;
}

/** A terminal for a bus: shows its display events, asks for approvals and input, and knows the slash commands. */
export function createEventCLIAdapter(
  bus: UIEventBus,
  {
    output = process.stdout,
    input = process.stdin,
    enableRawMode = true,
    traceLevel = "normal",
  }: EventCLIAdapterOptions = {},
): EventCLIAdapter {
  const paint = createPaint(output);
  const screen: Screen = { tools: [], workers: new Map(), context: undefined };
  const shows = (level: TraceLevel) => levels.indexOf(traceLevel) >= levels.indexOf(level);
  let prompter: Prompter | undefined;
  let subscriptions: Unsubscribe[] = [];
  /** Aborted when what was asked is no longer wanted. */
  let asking = new AbortController();
  let leaving = new AbortController();
  let streamed: { id: string; text: string } | undefined;

  /** The call whose pill is the last line that was written. */
  let lastStarted: { id: string; asked: number } | undefined;

  function print(...lines: string[]): void {
    if (lines.length > 0) write(lines.map((line) => `${line}\n`).join(""));
  }

  function write(text: string): void {
    lastStarted = undefined;
    prompter?.print(text);
  }

  function showStarted(call: DisplayEvents["toolStarted"]): void {
    if (!shows("normal")) return;
    const pill = renderPill(call, "running", paint);
    print(pill);
    const { columns = 80 } = output as { columns?: number };
    const canReplace = isTerminal(output) && prompter?.isAsking() === false && pill.length < columns;
    if (canReplace && prompter) lastStarted = { id: call.toolCallId, asked: prompter.asked() };
  }

  function showResult(shown: DisplayEvents["toolResult"]): void {
    if (!shows("summary")) return;
    // One line tells of a call that was over before anything else happened.
    const isLast = lastStarted?.id === shown.toolCallId && lastStarted.asked === prompter?.asked();
    if (isLast) write("\u001b[1A\r\u001b[2K");
    print(...renderCall(shown, paint, { details: shows("normal") }));
  }

  function withdraw(): void {
    asking.abort();
    asking = new AbortController();
  }

  function interrupt(reason: string): void {
    withdraw();
    bus.emit("interrupt", { reason });
  }

  async function answerApproval({
    requestId,
    description,
    details,
    risk,
    workerPath,
  }: DisplayEvents["approvalRequired"]) {
    if (!prompter) return;
    const { toolName, toolArgs, preview } = (details ?? {}) as {
      toolName?: string;
      toolArgs?: Record<string, unknown>;
      preview?: string;
    };
    const path = workerPath.map(({ task }: WorkerInfo) => task);
    const shown = { description, risk, path, ...(preview !== undefined && { preview }) };
    const asked =
      toolName === undefined ? { ...shown, toolArgs: plainDetails(details) } : { ...shown, toolName, toolArgs };
    const answer = await askApproval(asked, { prompter, paint, signal: asking.signal });
    if (answer.approved) {
      bus.emit("approvalResponse", { requestId, approved: answer.remember === "session" ? "always" : true });
      return;
    }
    const { reason } = answer;
    bus.emit("approvalResponse", { requestId, approved: false, ...(reason !== undefined && { reason }) });
  }

  async function answerInput({ requestId, prompt }: DisplayEvents["inputPrompt"]) {
    const content = await prompter?.ask(linesOf(prompt.endsWith("\n") ? `${prompt}> ` : prompt).join("\n"), {
      signal: asking.signal,
    });
    if (content !== undefined) bus.emit("userInput", { requestId, content });
    else if (!asking.signal.aborted) bus.emit("interrupt", { reason: "The input has ended." });
  }

  function showStream({ requestId, delta, done }: DisplayEvents["streaming"]): void {
    if (!shows("normal")) return;
    const text = linesOf(delta).join("\n") + (delta.endsWith("\n") ? "\n" : "");
    if (streamed?.id !== requestId) streamed = { id: requestId, text: "" };
    streamed.text += delta;
    if (delta !== "") write(text);
    if (done && streamed.text !== "") write("\n");
  }

  function showMessage({ message: { role, content } }: DisplayEvents["message"]): void {
    // It has just been read as it came.
    if (role === "assistant" && streamed?.text.trim() === content.trim() && content.trim() !== "") {
      streamed = undefined;
      return;
    }
    if (role === "system" && !shows("debug")) return;
    if (role === "user" && !shows("summary")) return;
    const who = role === "user" ? paint("blue", "You: ") : role === "system" ? paint("gray", "System: ") : "";
    const [first = "", ...rest] = linesOf(content);
    print(`${who}${first}`, ...rest);
  }

  function showStatus({ type, message }: DisplayEvents["status"]): void {
    if (type === "info" && !shows("normal")) return;
    if (type === "warning" && !shows("summary")) return;
    const mark = { info: paint("blue", "ℹ"), warning: paint("yellow", "⚠"), error: paint("red", "✗") }[type];
    print(`${mark} ${linesOf(message).join("\n  ")}`);
  }

  function showWorker(update: DisplayEvents["workerUpdate"]): void {
    const known = screen.workers.get(update.workerId);
    const { model = known?.model, tools = known?.tools, parentId = known?.parentId } = update;
    screen.workers.set(update.workerId, { ...update, model, tools, parentId });
    const isNews = update.depth > 0 && known?.status !== update.status;
    if (shows("debug") || (isNews && shows("normal"))) {
      print(paint("gray", `${"  ".repeat(update.depth)}◆ ${oneLine(update.task)}: ${update.status}`));
    }
  }

  function showDiffs({ summaries }: DisplayEvents["diffSummary"]): void {
    if (!shows("summary")) return;
    const marks = { create: paint("green", "A"), update: paint("yellow", "M"), delete: paint("red", "D") };
    print(
      ...summaries.map(
        ({ path, operation, additions, deletions }) =>
          `${marks[operation]} ${oneLine(path)} ${paint("green", `+${additions}`)} ${paint("red", `−${deletions}`)}`,
      ),
    );
  }

  function showDiff({ path, original, modified, isNew }: DisplayEvents["diffContent"]): void {
    const head = paint("bold", `${isNew ? "new" : "now"}: ${oneLine(path)}`);
    const before = original === undefined ? [] : linesOf(original).map((line) => paintDiff(`-${line}`, paint));
    print(head, ...before, ...linesOf(modified).map((line) => paintDiff(`+${line}`, paint)));
  }

  function showEnd({ reason, message }: DisplayEvents["sessionEnd"]): void {
    if (reason === "interrupted") {
      withdraw();
      print(paint("yellow", "Interrupted."));
    } else if (shows("debug"))
      print(paint("gray", `The session has ended: ${reason}${message ? `, ${oneLine(message)}` : ""}.`));
  }

  function subscribe(): Unsubscribe[] {
    return [
      bus.on("message", showMessage),
      bus.on("streaming", showStream),
      bus.on("status", showStatus),
      bus.on("toolStarted", showStarted),
      bus.on("toolResult", showResult),
      bus.on("workerUpdate", showWorker),
      bus.on("approvalRequired", answerApproval),
      bus.on("inputPrompt", answerInput),
      bus.on("manualToolsAvailable", ({ tools }) => {
        screen.tools = tools;
      }),
      bus.on("contextUsage", (usage) => {
        screen.context = usage;
        if (usage.exceeded)
          showStatus({
            type: "warning",
            message: "The conversation is longer than the worker can remember: /clear begins anew.",
          });
      }),
      bus.on("diffSummary", showDiffs),
      bus.on("diffContent", showDiff),
      bus.on("sessionEnd", showEnd),
    ];
  }

  function leave(): void {
    leaving.abort();
    interrupt(userExited);
  }

  return {
    bus,
    async initialize() {
      if (prompter) return;
      const opened = openPrompter(input, output, { raw: enableRawMode });
      prompter = opened;
      leaving = new AbortController();
      const stopListening = opened.listen({
        line: (line) =>
          void handleLine(line, { bus, screen, paint, prompter: opened, print, leave, signal: asking.signal }),
        interrupt: () => interrupt("User interrupted"),
      });
      subscriptions = [...subscribe(), stopListening];
    },
    async shutdown() {
      for (const unsubscribe of subscriptions.splice(0)) unsubscribe();
      withdraw();
      prompter?.release();
      prompter = undefined;
    },
    async readLine(prompt = "> ") {
      if (leaving.signal.aborted) return undefined;
      return prompter?.ask(prompt, { signal: leaving.signal, patient: true });
    },
  };
}

function plainDetails(details: unknown): Record<string, unknown> {
  if (details === undefined || details === null) return {};
  return typeof details === "object" ? { ...details } : { details };
}
