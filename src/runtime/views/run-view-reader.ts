import { z } from "zod";
import { type Approval, isRevocable } from "#domain/approval.ts";
import type { LoggedEvent } from "#domain/events.ts";
import type { OpenCall, RunSpec, RunState, TokenUsage } from "#domain/run.ts";
import { UnreadableDataError } from "#domain/stored-data.ts";
import type { LiveOutput } from "#runtime/scheduler/live-output.ts";
import type { DailyCost, EffectProblem, Store, StoredRun } from "#runtime/store/store.ts";
import { redactDeep } from "#text/redact.ts";
import { truncateText } from "#text/truncate.ts";
import {
  currentSpec,
  emptySummary,
  progressOf,
  type RunProgress,
  type RunSummary,
  summarize,
  type TimeSpan,
} from "./run-summary.ts";

/** A call without its result, in one line, for results that are shown far below it. */
export interface CallLine {
  tool: string;
  /** In one line. */
  args: string;
  /** Truncated JSON. */
  input: string;
  /** The question and suggested answers, for a call of `ask_user`. */
  question?: Question | undefined;
}

const Question = z.object({ question: z.string(), options: z.array(z.string()).optional() });
type Question = z.infer<typeof Question>;

/** A tool call whose arguments the model is writing. */
export interface WritingCall {
  tool: string;
  /** The file that the call is about, if already known. */
  path: string | undefined;
  /** The characters of the arguments so far. */
  length: number;
}

/** A run of a tree, as shown on its page. */
export interface RunNode extends RunProgress {
  spec: RunSpec;
  usage: TokenUsage;
  /** The branch that the run started from; undefined until the repository was opened. */
  base: string | undefined;
  timeline: readonly TimeSpan[];
  /** By call id. */
  calls: ReadonlyMap<string, CallLine>;
  /** The id of the newest event; 0 if there is none. */
  newest: number;
  /** The latest live output, if the run is performed in this process. */
  live: { text: string; writing: WritingCall | undefined; version: number } | undefined;
}

/** A root run in a list, without the parts that only its log contains. */
export interface ListedRun extends Pick<RunProgress, "state" | "outcome" | "pullRequest" | "cost" | "tokens"> {
  spec: RunSpec;
}

/** A root run with its descendants, each after its parent. */
export interface RunTree {
  runs: RunNode[];
  /** Oldest first. */
  approvals: Approval[];
}

export interface EventsPage {
  /** Oldest first. */
  events: LoggedEvent[];
  earlier: number;
}

/** The time for which a tree is shown again without reading the store. */
const freshMs = 250;
/** The time after which an unread tree is evicted. */
const idleMs = 60_000;
const maxTrees = 200;
const eventsPerRead = 500;
const maxArgumentsLength = 400;
const maxInputLength = 4_000;
/** The maximum characters and lines of live output. */
const maxLiveLength = 4_000;
const maxLiveLines = 20;

interface CachedRun {
  run: StoredRun;
  spec: RunSpec;
  eventIds: number[];
  calls: Map<string, CallLine>;
  summary: RunSummary;
  problem: EffectProblem | undefined;
}

interface CachedTree {
  runs: Map<string, CachedRun>;
  approvals: Approval[];
  readAt: number;
  /** True if something was stored since the last read. */
  isStale: boolean;
  usedAt: number;
  /** Resolves to false if there is no such tree. */
  reading: Promise<boolean>;
}

export interface RunViewReaderOptions {
  store: Pick<Store, "findRun" | "latestRuns" | "dailyCosts" | "log" | "childrenOf" | "approvalsOf" | "effectProblem">;
  live: Pick<LiveOutput, "read">;
  /** Applied to all text before it is shortened. */
  redact: (text: string) => string;
  now: () => number;
}

/**
 * Reads trees of runs for people who watch them. However many people watch, the store is read a few times a second at
 * most, and only for new data. It works for the runs of all replicas, apart from live output.
 */
export class RunViewReader {
  readonly #options: RunViewReaderOptions;
  /** The least recently used first. */
  readonly #trees = new Map<string, CachedTree>();

  constructor(options: RunViewReaderOptions) {
    this.#options = options;
  }

  /** Returns undefined if there is no root run with this id, or nothing of it can be shown. */
  async readTree(rootId: string): Promise<RunTree | undefined> {
    const tree = this.#useTree(rootId);
    // One update at a time. Callers that arrive during one share the next.
    tree.reading = tree.reading.catch(() => true).then(() => this.#update(tree, rootId));
    if (!(await tree.reading)) {
      this.#trees.delete(rootId);
      return undefined;
    }
    return {
      runs: parentsFirst([...tree.runs.values()]).map((cached) => this.#toNode(cached)),
      approvals: tree.approvals,
    };
  }

  /** Returns root runs of all repositories, newest first, starting after the given one. */
  async listRuns(query: Parameters<Store["latestRuns"]>[0]): Promise<ListedRun[]> {
    const runs = await this.#options.store.latestRuns(query);
    return runs.flatMap((run) => {
      const spec = displaySpec(run);
      if (!spec) return [];
      const { state, outcome, pullRequest, cost, tokens } = progressOf(run, emptySummary, undefined);
      const { task, threadTitle } = redactDeep(
        { task: spec.task, threadTitle: spec.threadTitle },
        this.#options.redact,
      );
      const shown = { ...spec, ...(task !== undefined && { task }), ...(threadTitle !== undefined && { threadTitle }) };
      return [{ spec: shown, state, outcome: redactDeep(outcome, this.#options.redact), pullRequest, cost, tokens }];
    });
  }

  /** Returns the costs of all repositories in these days. */
  readCosts(days: Parameters<Store["dailyCosts"]>[0]): Promise<DailyCost[]> {
    return this.#options.store.dailyCosts(days);
  }

  /** Something was stored for the tree, so the next reader gets a new view. */
  invalidate(rootId: string): void {
    const tree = this.#trees.get(rootId);
    if (tree) tree.isStale = true;
  }

  /** Returns the last events of a run before the given one, or the first ones after the given one. */
  async readEvents(
    rootId: string,
    runId: string,
    { before, after, limit }: { before?: number | undefined; after?: number | undefined; limit: number },
  ): Promise<EventsPage> {
    const ids = this.#trees.get(rootId)?.runs.get(runId)?.eventIds ?? [];
    if (after !== undefined) {
      return { events: await this.#readLog(runId, after, limit), earlier: indexOf(ids, after + 1) };
    }
    const end = before === undefined ? ids.length : indexOf(ids, before);
    const start = Math.max(0, end - limit);
    if (end === start) return { events: [], earlier: 0 };
    return { events: await this.#readLog(runId, ids[start - 1] ?? 0, end - start), earlier: start };
  }

  async #readLog(runId: string, after: number, limit: number): Promise<LoggedEvent[]> {
    const { value } = await tolerant(() => this.#options.store.log(runId, after, limit));
    return redactDeep(value ?? [], this.#options.redact);
  }

  #useTree(rootId: string): CachedTree {
    const now = this.#options.now();
    for (const [id, { usedAt }] of this.#trees) {
      if (now - usedAt > idleMs || this.#trees.size > maxTrees) this.#trees.delete(id);
    }
    const tree = this.#trees.get(rootId) ?? {
      runs: new Map(),
      approvals: [],
      readAt: Number.NEGATIVE_INFINITY,
      isStale: false,
      usedAt: now,
      reading: Promise.resolve(true),
    };
    tree.usedAt = now;
    this.#trees.delete(rootId);
    this.#trees.set(rootId, tree);
    return tree;
  }

  async #update(tree: CachedTree, rootId: string): Promise<boolean> {
    if (!tree.isStale && this.#options.now() - tree.readAt < freshMs) return true;
    tree.isStale = false;
    const root = await this.#options.store.findRun(rootId);
    if (!root || root.id !== root.rootId || !displaySpec(root)) return false;

    // An answer of one of several approvers, or a revocation, adds no event.
    const isOpen = tree.approvals.some((approval) => approval.status === "pending" || isRevocable(approval));
    if ((await this.#updateRun(tree, root)) || isOpen) {
      const { value = [], problem } = await tolerant(() => this.#options.store.approvalsOf(rootId));
      tree.approvals = redactDeep(value, this.#options.redact);
      const cached = tree.runs.get(rootId);
      if (problem && cached) cached.problem = problem;
    }
    tree.readAt = this.#options.now();
    return true;
  }

  /** Returns true if there is something new in this run or its descendants. */
  async #updateRun(tree: CachedTree, run: StoredRun): Promise<boolean> {
    const spec = displaySpec(run);
    if (!spec) return false;
    const known = tree.runs.get(run.id);
    // Every later event increments the version of a run that has ended.
    if (known && known.run.status === "done" && versionOf(known.run) === versionOf(run)) return false;

    const cached = known ?? { run, spec, eventIds: [], calls: new Map(), summary: emptySummary, problem: undefined };
    tree.runs.set(run.id, cached);
    const eventsBefore = cached.eventIds.length;
    cached.problem = (await this.#readNewEvents(cached)) ?? (await this.#options.store.effectProblem(run.id));
    const isChanged = !known || versionOf(known.run) !== versionOf(run) || cached.eventIds.length > eventsBefore;
    cached.run = run;
    cached.spec = spec;

    const children = await this.#options.store.childrenOf(run.id);
    const changedChildren = await Array.fromAsync(children, (child) => this.#updateRun(tree, child));
    return isChanged || changedChildren.some(Boolean);
  }

  /** Returns the problem if the log cannot be read to its end. */
  async #readNewEvents(cached: CachedRun): Promise<EffectProblem | undefined> {
    for (;;) {
      const read = () => this.#options.store.log(cached.run.id, cached.eventIds.at(-1), eventsPerRead);
      const { value: events, problem } = await tolerant(read);
      if (!events) return problem;
      for (const logged of events) this.#addEvent(cached, logged);
      if (events.length < eventsPerRead) return undefined;
    }
  }

  #addEvent(cached: CachedRun, logged: LoggedEvent): void {
    const { id, event } = logged;
    cached.eventIds.push(id);
    cached.summary = summarize(cached.summary, logged);
    if (event.type !== "model.answered") return;
    for (const { callId, tool, args } of event.calls) {
      const redacted = redactDeep(args, this.#options.redact);
      const question = tool === "ask_user" ? Question.safeParse(redacted).data : undefined;
      cached.calls.set(callId, {
        tool: this.#options.redact(tool),
        args: describeArguments(redacted),
        input: truncateText(JSON.stringify(redacted, null, 2) ?? "", maxInputLength),
        question,
      });
    }
  }

  #toNode({ run, spec, eventIds, calls, summary, problem }: CachedRun): RunNode {
    const progress = progressOf(run, summary, problem);
    const shown = currentSpec(run, summary) ?? spec;
    const { threadTitle } = shown;
    return {
      ...progress,
      spec: threadTitle === undefined ? shown : { ...shown, threadTitle: this.#options.redact(threadTitle) },
      activity: this.#options.redact(progress.activity),
      outcome: redactDeep(progress.outcome, this.#options.redact),
      usage: summary.usage,
      tasks: redactDeep(progress.tasks, this.#options.redact),
      base: summary.base,
      timeline: summary.timeline,
      calls,
      newest: eventIds.at(-1) ?? 0,
      live: this.#liveOutput(run.id, progress),
    };
  }

  /** Output of an earlier step is already in the log. */
  #liveOutput(runId: string, { state, openCalls }: { state: RunState; openCalls: OpenCall[] }): RunNode["live"] {
    const output = this.#options.live.read(runId);
    if (!output) return undefined;
    const isCurrent = output.source.startsWith("model/")
      ? state === "callingModel"
      : openCalls.some(({ callId, status }) => callId === output.source && status === "running");
    if (!isCurrent) return undefined;
    const { call, version } = output;
    const path = call && /"path"\s*:\s*"([^"\\]{1,200})"/.exec(this.#options.redact(call.start))?.[1];
    const writing = call && { tool: this.#options.redact(call.tool), path, length: call.length };
    return { text: lastLines(this.#options.redact(output.text)), writing, version };
  }
}

function displaySpec(run: StoredRun): RunSpec | undefined {
  return run.unreadable ? run.displaySpec : run.spec;
}

function versionOf(run: StoredRun): number | undefined {
  return run.unreadable ? undefined : run.version;
}

async function tolerant<Value>(
  read: () => Promise<Value>,
): Promise<{ value: Value; problem?: undefined } | { value?: undefined; problem: EffectProblem }> {
  try {
    return { value: await read() };
  } catch (error) {
    if (!(error instanceof UnreadableDataError)) throw error;
    return { problem: { kind: "unreadable", reason: error.message } };
  }
}

/** Returns complete words only, since half of a secret would not be redacted. */
function lastLines(text: string): string {
  const complete = text.slice(0, Math.max(text.lastIndexOf("\n"), text.lastIndexOf(" ")) + 1);
  const tail = complete.slice(-maxLiveLength).split("\n").slice(-maxLiveLines);
  return (complete.length > maxLiveLength ? tail.slice(1) : tail).join("\n");
}

/** Returns the arguments in one line. Text is shown without its name. */
function describeArguments(args: unknown): string {
  const values = args !== null && typeof args === "object" ? Object.entries(args) : [["", args]];
  const parts = values.map(([name, value]) =>
    typeof value === "string" ? value : `${name} ${(JSON.stringify(value) ?? "").slice(0, 2_000)}`.trim(),
  );
  return parts.join(" · ").replaceAll(/\s+/g, " ").slice(0, maxArgumentsLength);
}

/** Returns the index of the first id that is not below the given one. */
function indexOf(ids: readonly number[], id: number): number {
  let [low, high] = [0, ids.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ids[middle] ?? 0) < id) low = middle + 1;
    else high = middle;
  }
  return low;
}

function parentsFirst(runs: readonly CachedRun[]): CachedRun[] {
  const childrenOf = (parentId: string | undefined): CachedRun[] =>
    runs.filter(({ spec }) => spec.parentId === parentId).flatMap((run) => [run, ...childrenOf(run.spec.id)]);
  return childrenOf(undefined);
}
