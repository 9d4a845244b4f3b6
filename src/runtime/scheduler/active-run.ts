import { SerialQueue } from "#domain/async-work.ts";
import type { LoggedEvent } from "#domain/events.ts";
import type { RunSpec } from "#domain/run.ts";
import { finishedCalls, readBaseCommit } from "#runtime/read-log.ts";
import type { EffectResult, RepositoryAccess, RunEnvironment, RunWorkspace } from "#runtime/run-environment.ts";
import { readable, type Store } from "#runtime/store/store.ts";
import type { BaseCommit, StepChanges } from "#sandbox/sandbox.ts";
import type { CallContext } from "#toolsets/review-call.ts";
import type { Toolbox } from "#toolsets/toolbox.ts";
import type { LiveOutput } from "./live-output.ts";

export interface ActiveRunOptions {
  store: Store;
  environment: RunEnvironment;
  live: LiveOutput;
}

/** Opens a run. Throws if no run has this id. */
export async function openActiveRun(runId: string, options: ActiveRunOptions): Promise<ActiveRun> {
  const run = await options.store.findRun(runId);
  // The status of an unreadable run is still shown; the session performs nothing else of it.
  const spec = run?.unreadable ? run.displaySpec : run?.spec;
  if (!spec) throw run?.unreadable ?? new Error(`Run ${runId} not found.`);
  return new ActiveRun(spec, options);
}

/** The resources of an active run. Each is opened on first use; all are closed when the run waits or ends. */
export class ActiveRun {
  readonly spec: RunSpec;
  readonly repository: RepositoryAccess;
  /** Receives the output of tools and models while it is produced. */
  readonly live: LiveOutput;
  readonly #store: Store;
  readonly #environment: RunEnvironment;
  /** Appended to in place, since derived values are updated with the appended events. */
  readonly #events: LoggedEvent[] = [];
  readonly #reads = new SerialQueue();
  #workspace: Promise<RunWorkspace> | undefined;
  /** The number of the run's change sets that the files of a workspace contain, if it has stored some itself. */
  readonly #changeSets = new WeakMap<RunWorkspace, number>();
  #toolbox: Promise<Toolbox> | undefined;

  constructor(spec: RunSpec, { store, environment, live }: ActiveRunOptions) {
    this.spec = spec;
    this.repository = environment.repository(spec);
    this.live = live;
    this.#store = store;
    this.#environment = environment;
  }

  /** Returns the whole log, including the conversation this run continues. Reads only new events. */
  log(): Promise<readonly LoggedEvent[]> {
    // One read at a time, so that no event is added twice.
    return this.#reads.run(async () => {
      await this.#readLog();
      return this.#events;
    });
  }

  /** Returns the log without the conversation that this run continues. */
  async ownLog(): Promise<readonly LoggedEvent[]> {
    const log = await this.log();
    return this.spec.continues === undefined ? log : log.filter(({ runId }) => runId === this.spec.id);
  }

  /** Opens the workspace for the first time and returns its base. */
  async openBase(signal: AbortSignal): Promise<BaseCommit> {
    return (await this.#keep(this.#environment.openWorkspace(this.spec, undefined, signal))).base;
  }

  /** Returns the workspace at the run's base with its stored changes. */
  async workspace(signal: AbortSignal): Promise<RunWorkspace> {
    if (this.#workspace) return this.#workspace;
    const base = readBaseCommit(await this.log());
    if (!base) throw new Error(`Run ${this.spec.id} has no base commit yet`);
    return this.#workspace ?? this.#keep(this.#environment.openWorkspace(this.spec, base, signal));
  }

  /** Returns the tools. Their history of calls is that of the log when it was last read. */
  async tools(signal: AbortSignal): Promise<Toolbox> {
    const workspace = await this.workspace(signal);
    const toolbox = this.#toolbox ?? workspace.openToolbox(() => finishedCalls(this.#events));
    this.#toolbox = toolbox;
    toolbox.catch(() => {
      if (this.#toolbox === toolbox) this.#toolbox = undefined;
    });
    return toolbox;
  }

  /**
   * Does work that may change files, and returns its result with the changes to store. First drops changes of an
   * earlier attempt that were never stored. If the work is interrupted, drops its changes and throws the signal's
   * reason. `toResult` returns what to store with the changes; `overwritten` are the changed files that a child, which
   * finished meanwhile, has changed as well.
   */
  async change<Result>(
    work: () => Promise<Result>,
    {
      step,
      signal,
      toResult,
    }: { step: string; signal: AbortSignal; toResult: (result: Result, overwritten: string[]) => EffectResult },
  ): Promise<EffectResult> {
    const workspace = await this.workspace(signal);
    const { tracking, shared } = workspace;
    const release = await shared?.begin();
    try {
      tracking.rollback();
      const result = await work();
      signal.throwIfAborted();
      const changes = tracking.pendingChanges(step);
      const stored = this.#stored(changes, shared);
      const resultOver = (changeSets: number | undefined, overwritten: string[]): EffectResult => ({
        ...toResult(result, overwritten),
        ...stored,
        ...(stored.changes && { mergedWith: changeSets }),
        afterCommit: () => {
          tracking.markStored();
          if (stored.changes && changeSets !== undefined) this.#changeSets.set(workspace, changeSets + 1);
          release?.();
        },
        afterCancel: () => {
          tracking.rollback();
          release?.();
        },
      });
      const known = this.#changeSets.get(workspace) ?? workspace.changeSets;
      return {
        ...resultOver(known, []),
        mergeAgain: async () => {
          const sets = await this.#store.changesOf(this.spec.id);
          const added = new Set(sets.slice(known).flatMap((set) => set.changes.map(({ path }) => path)));
          const paths = changes?.changes.map(({ path }) => path) ?? [];
          return resultOver(
            sets.length,
            paths.filter((path) => added.has(path)),
          );
        },
      };
    } catch (error) {
      tracking.rollback();
      release?.();
      throw error;
    }
  }

  /** Returns the context in which a call is reviewed and executed. */
  callContext({ callId, step, signal }: { callId: string; step: number; signal: AbortSignal }): CallContext {
    const { id, worker, depth } = this.spec;
    return {
      abortSignal: signal,
      messages: [],
      run: { id, worker: worker.name, depth, step },
      idempotencyKey: `${id}/${step}/${callId}`,
      output: (text) => this.live.add(id, { source: callId, text }),
    };
  }

  instructions(): string {
    return this.#environment.instructions(this.spec);
  }

  /** Closes the workspace and its tools, so that the next use sees changes that others have stored. */
  async discardWorkspace(): Promise<void> {
    const toolbox = this.#toolbox;
    this.#workspace = undefined;
    this.#toolbox = undefined;
    await (await toolbox)?.close();
  }

  async close(): Promise<void> {
    this.live.forget(this.spec.id);
    await this.discardWorkspace();
  }

  #stored(
    changes: StepChanges | undefined,
    shared: RunWorkspace["shared"],
  ): Pick<EffectResult, "changes" | "parentChanges"> {
    const { id, rootId } = this.spec;
    if (!changes || shared?.storesChanges === false) return {};
    return shared && id !== rootId ? { parentChanges: { runId: rootId, changes } } : { changes };
  }

  /** Keeps a workspace while it opens. A failed one is dropped, so that the next use tries again. */
  #keep(opening: Promise<RunWorkspace>): Promise<RunWorkspace> {
    this.#workspace = opening;
    opening.catch(() => {
      if (this.#workspace === opening) this.#workspace = undefined;
    });
    return opening;
  }

  async #readLog(): Promise<void> {
    const last = this.#events.at(-1)?.id;
    const earlier = last === undefined ? await continuedLog(this.#store, this.spec) : [];
    const added = await this.#store.log(this.spec.id, last);
    for (const event of [...earlier, ...added]) this.#events.push(event);
  }
}

async function continuedLog(store: Store, { continues }: RunSpec): Promise<LoggedEvent[]> {
  const run = continues === undefined ? undefined : await store.findRun(continues);
  if (!run) return [];
  return [...(await continuedLog(store, readable(run).spec)), ...(await store.log(run.id))];
}
