import { adaptTool } from "#compat/adapt-tool.ts";
import { messageOf, UserError } from "#domain/errors.ts";
import type { Attachment, RunEvent } from "#domain/events.ts";
import type { RunSpec } from "#domain/run.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { WorkerDefinition } from "#domain/worker.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { Models } from "#models/models.ts";
import { initialRun, stateName } from "#runtime/apply-events.ts";
import { modelFor } from "#runtime/start/admit-worker.ts";
import { checkAttachments } from "#runtime/start/attachments.ts";
import { type MemoryStore, openMemoryStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import { readable, type Store } from "#runtime/store/store.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import { ApprovalController } from "#ui/approval-controller.ts";
import { getManualToolInfos } from "#ui/form-fields.ts";
import { InterruptError } from "#ui/interrupt-signal.ts";
import { createRuntimeUI, type RuntimeUI } from "#ui/runtime-ui.ts";
import type { Unsubscribe } from "#ui/ui-event-bus.ts";
import {
  checkCompatible,
  checkUnchanged,
  checkWhole,
  chooseModels,
  type RunAttachment,
  type RunInput,
  type RunResult,
  toFile,
  toRunResult,
  type WorkerRuntimeOptions,
} from "./options.ts";
import type { Program } from "./program.ts";
import { changeTracking, ProgramEnvironment, withDepth, withoutToolsets } from "./program-environment.ts";
import { approveOnBus, person } from "./program-front-end.ts";
import { localOrigin, ProgramHost, revokeFromBus, rootSpec } from "./program-host.ts";
import { readWorker } from "./read-worker.ts";
import { type RunEnd, RunReporter } from "./run-reporter.ts";
import { showDiff, summarizeChanges } from "./show-changes.ts";

const nothingUsed: Pick<RunResult, "toolCallCount" | "tokens"> = { toolCallCount: 0, tokens: { input: 0, output: 0 } };

/** The resources that `initialize` opens. */
interface Session {
  /** The template of every root run. */
  spec: RunSpec;
  host: ProgramHost;
  environment: ProgramEnvironment;
  workspace: Workspace;
  tools: readonly NamedTool[];
}

/**
 * Runs one worker in this process on the runtime that also runs workers on GitHub: the same machine, tools, approvals and
 * limits, over a store in memory. Call `initialize()`, then `run()` any number of times, then `dispose()`.
 */
export class WorkerRuntime {
  readonly #options: WorkerRuntimeOptions;
  readonly #worker: WorkerDefinition;
  readonly #directory: string | undefined;
  readonly #program: Program | undefined;
  readonly #depth: number;
  readonly #models: Models;
  readonly #ui: RuntimeUI | undefined;
  readonly #approvals: ApprovalController;
  readonly #sandbox: Workspace;
  readonly #store: Store;
  /** The same store, if nothing outlives this process. */
  readonly #memory: MemoryStore | undefined;
  readonly #reporter: RunReporter;
  #session: Session | undefined;
  #subscriptions: Unsubscribe[] = [];
  #current: { spec: RunSpec; stop: AbortController } | undefined;
  #isBusy = false;
  #ended: Promise<void> = Promise.resolve();
  /** The run that the next one continues. */
  #continues: string | undefined;
  /** The changed files as last shown. They are shown again only if they differ. */
  #shownChanges = "[]";
  readonly #lifetime = new AbortController();

  /**
   * `store` persists the runs and their changes. Throws a UserError for an invalid worker definition, a model that the
   * worker does not support, or `interactive` without a callback or a bus.
   */
  constructor(options: WorkerRuntimeOptions, { store }: { store?: Store } = {}) {
    const { depth = 0, maxIterations, maxDelegationDepth } = options;
    checkWhole({ depth }, 0);
    checkWhole({ maxIterations }, 1);
    checkWhole({ maxDelegationDepth }, 0);
    const { worker, directory, program } = readWorker(options.worker, options.workerDirectory);
    const bus = options.bus ?? options.uiAdapter?.bus;

    this.#options = options;
    this.#worker = worker;
    this.#directory = options.workerDirectory ?? directory;
    this.#program = program;
    this.#depth = depth;
    this.#models = chooseModels(options.models);
    this.#ui = bus && createRuntimeUI(bus);
    this.#approvals = options.approvalController ?? this.#createApprovals();
    this.#sandbox = options.sandbox ?? createMemoryWorkspace();
    if (store) this.#store = store;
    else this.#store = this.#memory = openMemoryStore();
    this.#reporter = new RunReporter({ ui: this.#ui, onEvent: options.onEvent });
    checkCompatible(worker, this.#modelName());
    if (worker.locked) checkUnchanged(worker, { maxIterations, maxDelegationDepth });
  }

  /**
   * Opens the worker's tools and listens to the bus. Rejects with a UserError if there is no model, or if a toolset cannot
   * be opened. A second call has no effect.
   */
  async initialize(): Promise<void> {
    if (this.#session) return;
    const { tools = [], maxIterations, maxDelegationDepth, toolEvents } = this.#options;
    const { workers = this.#program && Object.fromEntries(this.#program.workers()) } = this.#options;
    const { omitToolsets = [], briefing, executors, networkHosts, sandboxTools, web } = this.#options;
    const worker = withDepth(withoutToolsets(this.#worker, omitToolsets), maxDelegationDepth);
    const limits = { ...worker.limits, ...(maxIterations !== undefined && { steps: maxIterations }) };
    const model = modelFor(worker, this.#modelName(), this.#models);
    const spec = rootSpec({ ...worker, limits, mode: "single" }, { depth: this.#depth, model });
    const environment = new ProgramEnvironment({
      store: this.#store,
      root: spec,
      workspace: this.#sandbox,
      storesChanges: this.#memory === undefined,
      tools: Object.values(tools).map(adaptTool),
      toolEvents,
      sources: workers,
      maxDelegationDepth,
      omitToolsets,
      briefing,
      workerDirectory: this.#directory,
      programDirectory: this.#options.programDirectory ?? this.#program?.folder,
      services: {
        ...(executors && { executors }),
        ...(networkHosts && { networkHosts }),
        ...(sandboxTools && { sandboxTools }),
        ...(web && { web }),
      },
    });
    const toolbox = await environment.openRootToolbox();
    const host = new ProgramHost({
      store: this.#store,
      models: this.#models,
      environment,
      approvals: this.#approvals,
      ui: this.#ui,
      reporter: this.#reporter,
    });
    const workspace = await environment.workspaceOf(spec);
    const session = { spec, host, environment, workspace, tools: toolbox.tools };
    this.#session = session;
    this.#listen(session);
    this.#ui?.showManualTools(getManualToolInfos(toolbox.tools));
  }

  /**
   * Runs the worker with this input. Resolves to the result even if the run failed. Rejects if the runtime is not
   * initialized or is already running. A root worker remembers earlier runs in mode `chat`, and an interrupted run in every mode.
   */
  async run(input: RunInput = "", attachments: readonly RunAttachment[] = []): Promise<RunResult> {
    const given = typeof input === "string" ? { content: input, attachments } : input;
    return this.#exclusively("run", (session) => this.#run(session, given));
  }

  /**
   * Continues the newest run in the store that another process left unfinished. Its open approvals and questions are asked
   * again. Resolves to undefined if there is none, or if it was interrupted; then `run()` continues its conversation.
   */
  async resume(): Promise<RunResult | undefined> {
    return this.#exclusively("resume", async (session) => {
      const [newest] = await this.#store.runsOfThread(localOrigin);
      if (!newest) return undefined;
      const { id, spec, status, snapshot } = readable(newest);
      this.#continues = id;
      if (status === "done" || stateName(snapshot) === "interrupted") return undefined;
      await this.#restoreReporter(spec);
      return (await this.#follow(session, spec, (signal) => session.host.resume(spec, signal))).run;
    });
  }

  /** Passes a message to the running worker, which reads it before its next step. Resolves to false if none is running. */
  async send(message: string): Promise<boolean> {
    const session = this.#session;
    const runId = this.#current?.spec.id;
    if (!session || runId === undefined) return false;
    await session.host.message(runId, message);
    return true;
  }

  /** Returns all tools by name, including manual ones. Empty before `initialize()`. */
  getTools(): Record<string, NamedTool> {
    return Object.fromEntries((this.#session?.tools ?? []).map((tool) => [tool.name, tool]));
  }

  /** Returns 0 for a root worker. */
  getDepth(): number {
    return this.#depth;
  }

  isRoot(): boolean {
    return this.#depth === 0;
  }

  /** Returns `provider:model`; undefined if no model was set. */
  getModelId(): string | undefined {
    return this.#modelName();
  }

  getSandbox(): Workspace {
    return this.#sandbox;
  }

  getApprovalController(): ApprovalController {
    return this.#approvals;
  }

  clearHistory(): void {
    let runId = this.#continues;
    this.#continues = undefined;
    while (this.#memory && runId !== undefined) runId = this.#memory.forget(runId)?.continues;
  }

  /** Interrupts a running worker, closes the tools and unsubscribes from the bus. */
  async dispose(): Promise<void> {
    for (const unsubscribe of this.#subscriptions.splice(0)) unsubscribe();
    this.#lifetime.abort(new InterruptError("The runtime was disposed of."));
    this.#current?.stop.abort(new InterruptError("The runtime was disposed of."));
    const session = this.#session;
    this.#session = undefined;
    await this.#ended;
    await session?.host.close();
    await session?.environment.close();
  }

  /** The same as `dispose`. */
  close(): Promise<void> {
    return this.dispose();
  }

  async #exclusively<Result>(method: string, work: (session: Session) => Promise<Result>): Promise<Result> {
    const session = this.#session;
    if (!session) {
      throw new UserError(`WorkerRuntime.${method}() called before initialize(): await initialize() first.`);
    }
    if (this.#isBusy) throw new UserError("This worker is already running: wait until it ends, or interrupt it.");

    this.#isBusy = true;
    const done = work(session);
    this.#ended = done.then(
      () => {},
      () => {},
    );
    try {
      return await done;
    } finally {
      this.#isBusy = false;
    }
  }

  async #run(session: Session, input: Exclude<RunInput, string>): Promise<RunResult> {
    if (this.#options.interruptSignal?.interrupted) {
      return { success: true, response: "[Interrupted]", ...nothingUsed };
    }
    let files: Attachment[];
    try {
      this.#checkInput(input);
      files = checkAttachments(this.#worker, (input.attachments ?? []).map(toFile));
    } catch (error) {
      if (!(error instanceof UserError)) throw error;
      this.#reporter.status("error", error.message);
      return { success: false, error: error.message, ...nothingUsed };
    }

    const spec = this.#newRun(session);
    // Files that the program has written since the last run are not changes of this run.
    changeTracking(session.workspace).markStored();
    const text = input.content.trim() === "" && files.length === 0 ? "Begin." : input.content;
    const message: RunEvent = { type: "message.received", kind: "prompt", text, by: person };
    const events = [files.length > 0 ? { ...message, attachments: files } : message];
    let isInterrupted = false;
    try {
      const result = await this.#follow(session, spec, (signal) => session.host.run(spec, events, signal));
      isInterrupted = result.outcome === "interrupted";
      return result.run;
    } finally {
      // Only a root remembers: a chat, or an interrupted run, which the model may have to sum up.
      if (!this.isRoot() || (this.#worker.mode !== "chat" && !isInterrupted)) this.clearHistory();
    }
  }

  /** Follows a run until it ends or is interrupted. */
  async #follow(
    { tools, workspace }: Session,
    spec: RunSpec,
    run: (interrupt: AbortSignal) => Promise<RunEnd>,
  ): Promise<{ outcome: RunEnd["outcome"]["kind"]; run: RunResult }> {
    const { interruptSignal } = this.#options;
    const stop = new AbortController();
    const interrupt = () => stop.abort(new InterruptError());
    interruptSignal?.signal.addEventListener("abort", interrupt, { once: true });
    this.#current = { spec, stop };
    this.#continues = spec.id;
    try {
      this.#reporter.started(spec, tools);
      const end = await run(stop.signal);
      await this.#showChanges(workspace);
      const toolCallCount = this.#reporter.toolCalls(spec);
      this.#reporter.ended(spec, end);
      return { outcome: end.outcome.kind, run: toRunResult(end, toolCallCount) };
    } finally {
      this.#current = undefined;
      interruptSignal?.signal.removeEventListener("abort", interrupt);
    }
  }

  #newRun({ spec }: Session): RunSpec {
    const continues = this.#continues;
    const { worker, depth, model } = spec;
    return { ...rootSpec(worker, { depth, model }), ...(continues !== undefined && { continues }) };
  }

  async #restoreReporter(spec: RunSpec): Promise<void> {
    const [log, approvals, children] = await Promise.all([
      this.#store.log(spec.id),
      this.#store.approvalsOf(spec.rootId),
      this.#store.childrenOf(spec.id),
    ]);
    this.#reporter.follow(spec, log, approvals);
    for (const child of children) if (child.status !== "done") await this.#restoreReporter(readable(child).spec);
  }

  async #showChanges(workspace: Workspace): Promise<void> {
    if (!this.#ui) return;
    const summaries = await summarizeChanges(workspace);
    const shown = JSON.stringify(summaries);
    if (shown === this.#shownChanges) return;
    this.#shownChanges = shown;
    if (summaries.length > 0) this.#ui.showDiffSummary(this.#continues ?? "", summaries);
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
      approvalCallback ??
      (this.#ui && approveOnBus(this.#ui, () => this.#current?.stop.signal ?? this.#lifetime.signal));
    return new ApprovalController({
      mode: approvalMode ?? (callback ? "interactive" : "auto_deny"),
      ...(callback && { approvalCallback: callback }),
    });
  }

  #modelName(): string | undefined {
    return this.#options.model ?? this.#worker.model ?? this.#program?.config.model ?? this.#models.defaultModel;
  }

  #useModel({ spec, tools }: Session, model: string): void {
    try {
      spec.model = modelFor(this.#worker, model, this.#models);
      this.#ui?.showStatus("info", `The next run uses ${spec.model}.`);
      const { id, worker, depth } = spec;
      const names = tools.map(({ name }) => name);
      this.#ui?.updateWorker(id, worker.name, "pending", undefined, depth, spec.model, names);
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
        switch (name) {
          case "model":
            return this.#useModel(session, args[0] ?? "");
          case "revoke":
            return void revokeFromBus(session.host, args[0], ui);
          case "clear":
            this.clearHistory();
            ui.showStatus("info", "The conversation was cleared.");
        }
      }),
      ui.onInterrupt((reason) => this.#current?.stop.abort(new InterruptError(reason))),
      ui.bus.on("userMessage", ({ content }) => void this.#sendFromBus(content, ui)),
      ui.onGetDiff((requestId, path) => void showDiff(session.workspace, ui, { requestId, path })),
      ui.onManualToolInvoke((tool, args) => {
        this.#invokeTool(session, { tool, args }).catch((error) => ui.showStatus("error", String(error)));
      }),
    );
  }

  async #sendFromBus(content: string, ui: RuntimeUI): Promise<void> {
    try {
      const isSent = await this.send(content);
      ui.showStatus("info", isSent ? "The worker reads your message before its next step." : "No worker is running.");
    } catch (error) {
      ui.showStatus("error", messageOf(error));
    }
  }

  /** Runs a tool for the person in the current conversation. Starts a conversation if there is none. */
  async #invokeTool(session: Session, call: { tool: string; args: unknown }): Promise<void> {
    const runId = this.#current?.spec.id ?? this.#continues ?? (await this.#beginConversation(session));
    await session.host.invokeTool(runId, call);
  }

  /** Starts a conversation with a run that ends immediately, for the person's tool calls before the worker's first run. */
  async #beginConversation(session: Session): Promise<string> {
    const spec = this.#newRun(session);
    const { commit, branch } = changeTracking(session.workspace).base;
    const events: RunEvent[] = [
      { type: "run.cancel", by: person },
      { type: "sandbox.opened", commit, branch },
    ];
    this.#continues = spec.id;
    await this.#store.ingest({
      run: { ...initialRun(spec), effects: [] },
      events: events.map((event) => ({ runId: spec.id, event })),
    });
    return spec.id;
  }
}
