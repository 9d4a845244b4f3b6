import { randomUUID } from "node:crypto";
import { adaptTool } from "#compat/adapt-tool.ts";
import { UserError } from "#domain/errors.ts";
import type { Attachment, ModelCall } from "#domain/events.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { WorkerDefinition } from "#domain/worker.ts";
import type { Workspace } from "#domain/workspace.ts";
import { modelMatches } from "#models/model-matches.ts";
import type { Models } from "#models/models.ts";
import { modelFor } from "#runtime/start/admit-worker.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import { ApprovalController } from "#ui/approval-controller.ts";
import { InterruptError } from "#ui/interrupt-signal.ts";
import { createRuntimeUI, type RuntimeUI } from "#ui/runtime-ui.ts";
import type { Unsubscribe } from "#ui/ui-event-bus.ts";
import { approveOnBus } from "./approve-on-bus.ts";
import { checkAttachments } from "./check-attachments.ts";
import { chooseModels } from "./choose-models.ts";
import { type OngoingRun, person, type RunEnd } from "./drive.ts";
import { driveRun } from "./drive-run.ts";
import { invokeTool } from "./invoke-tool.ts";
import { newSpec, withDepth } from "./new-spec.ts";
import type { RunAttachment, RunInput, RunResult, WorkerRuntimeOptions } from "./options.ts";
import { readWorker } from "./read-worker.ts";
import { openSession, type Session } from "./session.ts";
import { showDiff, summarizeChanges } from "./show-changes.ts";

const nothing: Pick<RunResult, "toolCallCount" | "tokens"> = { toolCallCount: 0, tokens: { input: 0, output: 0 } };

/**
 * Runs one worker in this process, in memory: no GitHub, and nothing that outlives the process. It is the same machine,
 * the same tools and the same rules as a run on GitHub has. Make it, `initialize()` it, `run()` it as often as you like,
 * and `dispose()` of it.
 */
export class WorkerRuntime {
  readonly #options: WorkerRuntimeOptions;
  readonly #worker: WorkerDefinition;
  readonly #directory: string | undefined;
  readonly #depth: number;
  readonly #models: Models;
  readonly #ui: RuntimeUI | undefined;
  readonly #approvals: ApprovalController;
  readonly #sandbox: Workspace;
  #session: Session | undefined;
  #subscriptions: Unsubscribe[] = [];
  #ongoing: { run: OngoingRun; stop: AbortController } | undefined;
  #busy = false;
  /** What was last shown of the changed files: it is shown again when it is another. */
  #toldChanges = "[]";
  /** What ends when the runtime is disposed of: a person's own tool call. */
  readonly #life = new AbortController();

  /** Throws a UserError for a worker that is none, a model it does not work with, or `interactive` with nobody to ask. */
  constructor(options: WorkerRuntimeOptions) {
    const { depth = 0, maxIterations, maxDelegationDepth } = options;
    checkWhole({ depth }, 0);
    checkWhole({ maxIterations }, 1);
    checkWhole({ maxDelegationDepth }, 0);
    const { worker, directory } = readWorker(options.worker);
    const bus = options.bus ?? options.uiAdapter?.bus;

    this.#options = options;
    this.#worker = worker;
    this.#directory = options.workerDirectory ?? directory;
    this.#depth = depth;
    this.#models = chooseModels(options.models);
    this.#ui = bus && createRuntimeUI(bus);
    this.#approvals = options.approvalController ?? this.#createApprovals();
    this.#sandbox = options.sandbox ?? createMemoryWorkspace();
    checkCompatible(worker, this.#modelName());
  }

  /**
   * Opens the worker's tools and listens to the bus. Rejects with a UserError when there is no model to call, or a
   * toolset cannot be opened. Doing it twice changes nothing.
   */
  async initialize(): Promise<void> {
    if (this.#session) return;
    const { tools = [], maxIterations, maxDelegationDepth, onEvent, toolEvents, workers } = this.#options;
    const { omitToolsets = [], briefing, executors, web } = this.#options;
    const worker = withDepth(this.#worker, maxDelegationDepth);
    const limits = { ...worker.limits, ...(maxIterations !== undefined && { steps: maxIterations }) };
    const model = modelFor(worker, this.#modelName(), this.#models);
    const spec = newSpec({ ...worker, limits }, { depth: this.#depth, model });
    const session = await openSession({
      spec,
      around: {
        root: spec,
        models: this.#models,
        approvals: this.#approvals,
        ui: this.#ui,
        onEvent,
        toolEvents,
        catalogue: workers,
        maxDelegationDepth,
        omitToolsets,
        briefing,
        lent: { ...(executors && { executors }), ...(web && { web }) },
      },
      tree: this.#sandbox,
      tools: Object.values(tools).map(adaptTool),
      workerDirectory: this.#directory,
    });
    this.#session = session;
    this.#listen(session);
    session.report.manualTools(session.toolbox.tools);
  }

  /**
   * Runs the worker with these words. Resolves to how it ended, also when it failed; rejects when it is not
   * initialized, or is running already. In mode `chat` a root worker remembers the runs before.
   */
  async run(input: RunInput = "", attachments: readonly RunAttachment[] = []): Promise<RunResult> {
    const session = this.#session;
    if (!session) throw new UserError("WorkerRuntime.run() called before initialize(): await initialize() first.");
    if (this.#busy) throw new UserError("This worker is running already: wait for its end, or interrupt it.");

    this.#busy = true;
    try {
      return await this.#run(session, typeof input === "string" ? { content: input, attachments } : input);
    } finally {
      this.#busy = false;
    }
  }

  /** Every tool by name, those of people included. Empty before `initialize()`. */
  getTools(): Record<string, NamedTool> {
    return Object.fromEntries((this.#session?.toolbox.tools ?? []).map((tool) => [tool.name, tool]));
  }

  /** 0 for a root worker. */
  getDepth(): number {
    return this.#depth;
  }

  isRoot(): boolean {
    return this.#depth === 0;
  }

  /** `provider:model`; undefined when none was named. */
  getModelId(): string | undefined {
    return this.#modelName();
  }

  getSandbox(): Workspace {
    return this.#sandbox;
  }

  getApprovalController(): ApprovalController {
    return this.#approvals;
  }

  /** Forgets the conversation of a chat. */
  clearHistory(): void {
    this.#session?.forgetBefore(this.#session.log().length);
  }

  /** Interrupts what is running, closes the tools and leaves the bus. */
  async dispose(): Promise<void> {
    for (const unsubscribe of this.#subscriptions.splice(0)) unsubscribe();
    this.#life.abort(new InterruptError("The runtime was disposed of."));
    this.#ongoing?.stop.abort(new InterruptError("The runtime was disposed of."));
    await this.#ongoing?.run.ended.catch(() => {});
    const session = this.#session;
    this.#session = undefined;
    await session?.close();
  }

  /** The same as `dispose`. */
  close(): Promise<void> {
    return this.dispose();
  }

  async #run(session: Session, input: Exclude<RunInput, string>): Promise<RunResult> {
    const { interruptSignal } = this.#options;
    const { report, spec } = session;
    if (interruptSignal?.interrupted) return { success: true, response: "[Interrupted]", ...nothing };

    let files: Attachment[];
    try {
      this.#checkInput(input);
      files = checkAttachments(this.#worker, input.attachments ?? []);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      report.status("error", error.message);
      return { success: false, error: error.message, ...nothing };
    }

    const stop = new AbortController();
    const interrupt = () => stop.abort(new InterruptError());
    interruptSignal?.signal.addEventListener("abort", interrupt, { once: true });
    const startedAt = Date.now();
    report.worker("running", spec.model, session.toolbox.tools);
    report.trace({ type: "execution_start", workerName: spec.worker.name, model: spec.model });
    // Whatever the program itself wrote meanwhile is how things are now.
    session.steps.markStored();
    try {
      const text = input.content.trim() === "" && files.length === 0 ? "Begin." : input.content;
      const words = { type: "message.received" as const, kind: "prompt" as const, text, by: person };
      const run = driveRun(session, files.length > 0 ? { ...words, attachments: files } : words, stop.signal);
      this.#ongoing = { run, stop };
      const end = await run.ended;
      await this.#showChanges(session);
      report.end(end, startedAt);
      return resultOf(end);
    } finally {
      this.#ongoing = undefined;
      interruptSignal?.signal.removeEventListener("abort", interrupt);
      // Only a root that chats remembers.
      if (this.#worker.mode !== "chat" || !this.isRoot()) session.forgetBefore(session.log().length);
    }
  }

  async #showChanges({ workspace, report }: Session): Promise<void> {
    if (!this.#ui) return;
    const summaries = await summarizeChanges(workspace);
    const told = JSON.stringify(summaries);
    if (told === this.#toldChanges) return;
    this.#toldChanges = told;
    report.changed(summaries);
  }

  #checkInput({ content, attachments = [] }: Exclude<RunInput, string>): void {
    const { name, allow_empty_input: mayBeEmpty } = this.#worker;
    if (mayBeEmpty || content.trim() !== "" || attachments.length > 0) return;
    throw new UserError(
      `No input provided for worker "${name}": give it a task or an attachment, or set allow_empty_input: true in its front matter.`,
    );
  }

  #createApprovals(): ApprovalController {
    const { approvalMode, approvalCallback } = this.#options;
    const callback =
      approvalCallback ?? (this.#ui && approveOnBus(this.#ui, () => this.#ongoing?.stop.signal ?? this.#life.signal));
    return new ApprovalController({
      mode: approvalMode ?? (callback ? "interactive" : "auto_deny"),
      ...(callback && { approvalCallback: callback }),
    });
  }

  #modelName(): string | undefined {
    return this.#options.model ?? this.#worker.model ?? this.#models.defaultModel;
  }

  #clear(): void {
    this.clearHistory();
    this.#ui?.showStatus("info", "The conversation begins anew.");
  }

  #useModel(session: Session, model: string): void {
    try {
      session.spec.model = modelFor(this.#worker, model, this.#models);
      this.#ui?.showStatus("info", `From now on ${session.spec.model} is asked.`);
      session.report.worker("pending", session.spec.model, session.toolbox.tools);
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      this.#ui?.showStatus("error", error.message);
    }
  }

  #listen(session: Session): void {
    const ui = this.#ui;
    if (!ui) return;
    this.#subscriptions.push(
      ui.bus.on("command", ({ name, args }) => {
        if (name === "clear") this.#clear();
        else this.#useModel(session, args[0] ?? "");
      }),
      ui.onInterrupt((reason) => this.#ongoing?.stop.abort(new InterruptError(reason))),
      ui.onGetDiff((requestId, path) => void showDiff(session.workspace, ui, { requestId, path })),
      ui.onManualToolInvoke((tool, args) => {
        const call: ModelCall = { callId: `manual-${randomUUID().slice(0, 8)}`, tool, args };
        void invokeTool(session, call, {
          signal: this.#life.signal,
          tell: (event) => (this.#ongoing ? this.#ongoing.run.tell(event) : session.record(event)),
        });
      }),
    );
  }
}

function resultOf({ outcome, usage, cost, calls }: RunEnd): RunResult {
  const spent = {
    toolCallCount: calls,
    tokens: { input: usage.inputTokens, output: usage.outputTokens },
    ...(cost > 0 && { cost }),
  };
  switch (outcome.kind) {
    case "answered":
      return { success: true, response: outcome.text, ...spent };
    case "interrupted":
    case "cancelled":
      return { success: true, response: "[Interrupted]", ...spent };
    case "limited":
    case "failed":
      return { success: false, error: outcome.reason, ...spent };
  }
}

function checkWhole(option: Record<string, number | undefined>, least: number): void {
  for (const [name, value] of Object.entries(option)) {
    if (value === undefined || (Number.isInteger(value) && value >= least)) continue;
    throw new UserError(`${name} is a whole number from ${least} on, and not ${value}.`);
  }
}

function checkCompatible({ name, compatible_models: patterns }: WorkerDefinition, model: string | undefined): void {
  if (model === undefined || modelMatches(patterns, model)) return;
  throw new UserError(
    `The model ${model} is not compatible with the worker ${name}, which works with ${patterns?.join(", ")}.`,
  );
}
