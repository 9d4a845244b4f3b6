import { OutageError, UserError } from "#domain/errors.ts";
import type { LoggedEvent } from "#domain/events.ts";
import { isScheduled, type RunOutcome, type RunSpec, type RunView } from "#domain/run.ts";
import { statusEffect } from "#runtime/apply-events.ts";
import type { ToolReply } from "#runtime/front-end.ts";
import { answerAt, readBaseCommit, stepsOf } from "#runtime/read-log.ts";
import type { EffectResult } from "#runtime/run-environment.ts";
import type { EffectOf } from "#runtime/runtime-effect.ts";
import type { ActiveRun } from "#runtime/scheduler/active-run.ts";
import { requireRun, type Store } from "#runtime/store/store.ts";
import { isQuiet, readView } from "#runtime/views/read-view.ts";
import { describeRemovedLog } from "#runtime/views/run-summary.ts";
import { childStep, type StoredChange } from "#sandbox/sandbox.ts";
import {
  type EffectHandler,
  type EffectServices,
  isFirst,
  PostponedError,
  post,
  postRequest,
} from "./effect-handler.ts";

/** The result of a run is posted again for about four minutes while GitHub refuses it; then the status shows it. */
const maxRefusals = 9;

/** Posts or edits the status comment of a root run, at most once in every interval. */
export function showStatus({
  store,
  frontEnd,
  now,
  statusIntervalMs,
}: Pick<EffectServices, "store" | "frontEnd" | "now" | "statusIntervalMs">): EffectHandler<EffectOf<"status.show">> {
  return {
    maxAttempts: 12,
    async perform({ runId, attempts }, run) {
      const { showStatus } = frontEnd;
      if (!showStatus) return {};
      const name = `status/${runId}`;
      const known = await store.findPost(name);
      // A time in the future comes from a clock that was ahead.
      const isRecent = known !== undefined && known.updatedAt <= now() && known.updatedAt + statusIntervalMs > now();
      if (isRecent) throw new PostponedError(known.updatedAt + statusIntervalMs);

      const view = await readStatus(store, runId, run);
      if (!view) return {};
      // A scheduled run is shown once it asks people or has opened a pull request.
      const { spec } = run;
      if (!known && (isQuiet(view) || (isOvertaken(view) && (await isFirst(store, { attempts, spec }))))) return {};
      // The comment may have to wait for GitHub's rate limits, and should show the run's state at that time.
      const latest = async () => (await readStatus(store, runId, run)) ?? view;
      return post(store, { name, attempts, spec }, (options) => showStatus(view, { ...options, latest })).catch(
        (error) => {
          const isLimited = error instanceof OutageError && error.retryAt !== undefined;
          throw isLimited ? new PostponedError(error.retryAt, { cause: error }) : error;
        },
      );
    },
    onFailure: async () => ({}),
  };
}

/** True if a comment that asks people, or that reports the outcome, says all that a first status would say after it. */
function isOvertaken({ state, outcome, unposted }: RunView): boolean {
  if (unposted !== undefined) return false;
  return outcome !== undefined || ["awaitingApproval", "awaitingAnswer", "awaitingBudget"].includes(state);
}

/** Reads the view of a run for its status, with the run's last result if that could not be posted. */
async function readStatus(store: Store, runId: string, run: ActiveRun): Promise<RunView | undefined> {
  let log: readonly LoggedEvent[] = [];
  const view = await readView(store, runId, async () => {
    log = await run.ownLog();
    return log;
  });
  const step = stepsOf(log);
  if (!view || !(await store.findPost(unpostedName(runId, step)))) return view;
  return { ...view, unposted: view.outcome ? textOf(view.outcome) : answerAt(log, step)?.text };
}

/** Returns the text of an outcome; empty for one that the headline of the status says. */
function textOf(outcome: RunOutcome): string {
  switch (outcome.kind) {
    case "answered":
      return outcome.text;
    case "failed":
    case "limited":
      return outcome.reason;
    case "cancelled":
      return "";
  }
}

/** Lets the status show the result of a step that could not be posted. */
function showInStatus(runId: string, step: number): EffectResult {
  return { posts: [{ name: unpostedName(runId, step), commentId: 0 }], effects: [statusEffect(runId)] };
}

/** The name of the record that the result of a step could not be posted. */
function unpostedName(runId: string, step: number): string {
  return `unposted/${runId}/${step}`;
}

/** Posts that a run has used up its cost limit, and how to raise it. */
export function postBudget({
  store,
  frontEnd,
}: Pick<EffectServices, "store" | "frontEnd">): EffectHandler<EffectOf<"budget.post">> {
  return {
    maxAttempts: 12,
    async perform({ attempts }, { spec }) {
      const { id } = spec;
      const view = await readView(store, id);
      const { askForBudget } = frontEnd;
      if (!view || !askForBudget) return {};
      const name = `budget/${id}/${view.spec.worker.limits.cost}`;
      return post(store, { name, attempts, spec }, (options) => askForBudget(view, options));
    },
    onFailure: async () => ({}),
  };
}

/** Posts an answer of a run that stays idle. By the time it is posted, the run may have gone on. */
export function postAnswer({
  store,
  frontEnd,
}: Pick<EffectServices, "store" | "frontEnd">): EffectHandler<EffectOf<"answer.post">> {
  return {
    maxAttempts: 12,
    maxRefusals,
    async perform({ attempts, request }, run) {
      const log = await run.ownLog();
      const { step = stepsOf(log) } = request;
      const { text = "" } = answerAt(log, step) ?? {};
      const view = await readView(store, run.spec.id);
      const { showAnswer } = frontEnd;
      if (!view || !text.trim() || !showAnswer) return {};
      const name = `answer/${run.spec.id}/${step}`;
      return post(store, { name, attempts, spec: run.spec }, (options) => showAnswer(view, text, options));
    },
    onFailure: async ({ runId, request: { step } }, run) => showInStatus(runId, step ?? stepsOf(await run.ownLog())),
  };
}

/** Replies to a person's call of a tool. One comment shows it as queued, and later with its result. */
export function postToolReply({
  store,
  frontEnd,
}: Pick<EffectServices, "store" | "frontEnd">): EffectHandler<EffectOf<"tool.reply">> {
  return {
    maxAttempts: 12,
    async perform({ runId, attempts, request }, run) {
      const reply = findResult(await run.log(), request.callId) ?? request.reply;
      const view = await readView(store, runId);
      if (!reply || !view) return {};
      const { thread, callId } = request;
      const name = `tool/${runId}/${callId}`;
      const alias = reply.kind === "confirm" ? confirmationName(runId, reply.word) : undefined;
      return postRequest(store, { name, attempts, spec: run.spec, alias }, (options) =>
        frontEnd.showToolReply(view, reply, { ...options, thread }),
      );
    },
    onFailure: async () => ({}),
  };
}

/** The name of the comment that shows a call which this word confirms. */
export function confirmationName(runId: string, word: string): string {
  return `confirm/${runId}/${word}`;
}

/** Posts the changes of a run for a person who asked for them. */
export function postChanges({
  store,
  frontEnd,
}: Pick<EffectServices, "store" | "frontEnd">): EffectHandler<EffectOf<"changes.show">> {
  return {
    maxAttempts: 4,
    async perform({ runId, attempts, request: { by, callId, thread } }, run, signal) {
      const view = await readView(store, runId);
      if (!view) return {};
      const reply = await readChanges(store, run, by, signal);
      return postRequest(store, { name: `tool/${runId}/${callId}`, attempts, spec: run.spec }, (options) =>
        frontEnd.showToolReply(view, reply, { ...options, thread }),
      );
    },
    onFailure: async ({ key, runId, request: { by, callId, thread } }, _run, error) => {
      const message = error instanceof UserError ? error.message : "The changes could not be read. Try again.";
      const request = { kind: "tool.reply" as const, callId, thread, reply: { kind: "refused" as const, by, message } };
      return { effects: [{ key: `${key}/reply`, runId, queue: "thread", request }] };
    },
  };
}

async function readChanges(store: Store, run: ActiveRun, by: string, signal: AbortSignal): Promise<ToolReply> {
  if (!readBaseCommit(await run.log())) {
    const removed = describeRemovedLog(await requireRun(store, run.spec.id));
    const message = removed ?? "The repository is still being opened, so there are no changes yet.";
    return { kind: "refused", by, message };
  }
  const { diff } = await run.workspace(signal);
  return { kind: "changes", by, diff: (await diff?.()) ?? "" };
}

function findResult(log: readonly LoggedEvent[], callId: string): ToolReply | undefined {
  for (const { event } of log) {
    if (event.type === "tool.invoked" && event.callId === callId) {
      const { by, tool, args, result } = event;
      return { kind: "result", by, tool, args, result };
    }
  }
  return undefined;
}

type ReportServices = Pick<EffectServices, "store" | "frontEnd" | "now">;

/** The time that the outcome of a child waits for those of its own children, which were cancelled when it ended. */
const maxReportDelayMs = 60_000;

/** Posts the outcome of a root run, or hands the outcome and the changes of a child to its parent. */
export function reportOutcome(services: ReportServices): EffectHandler<EffectOf<"outcome.report">> {
  return {
    maxAttempts: 12,
    maxRefusals,
    perform: ({ attempts }, { spec }) =>
      spec.parentId ? reportToParent(services, spec) : reportToPeople(services, spec, attempts),
    onFailure: async ({ runId }, run) => (run.spec.parentId ? {} : showInStatus(runId, stepsOf(await run.ownLog()))),
  };
}

async function reportToPeople(
  { store, frontEnd }: ReportServices,
  spec: RunSpec,
  attempts: number,
): Promise<EffectResult> {
  const { id, origin, worker, createdAt } = spec;
  const view = await readView(store, id);
  if (!view || isQuiet(view)) return {};
  // All failures of runs that were started on a day share the comment of the first one.
  const hasFailed = view.outcome?.kind === "failed" || view.outcome?.kind === "limited";
  const where = `${origin.repositoryId ?? `${origin.owner}/${origin.repo}`}#${origin.thread}`;
  const day = new Date(createdAt).toISOString().slice(0, 10);
  const name = isScheduled(origin) && hasFailed ? `outcome/${where}/${worker.name}/${day}` : `outcome/${id}`;
  return post(store, { name, attempts, spec }, (options) => frontEnd.showOutcome(view, options));
}

async function reportToParent({ store, now }: ReportServices, spec: RunSpec): Promise<EffectResult> {
  // Its parent adds what they have cost, and is told only once.
  if (await isAwaitingChildren(store, spec.id, now())) throw new PostponedError(now() + 1_000);
  const view = await readView(store, spec.id);
  const { parentId, parentCallId } = spec;
  if (!view?.outcome || !parentId || !parentCallId) return {};

  const isAnswered = view.outcome.kind === "answered";
  const { changes, conflicts, mergedWith } = isAnswered
    ? await mergeChanges(store, spec, parentId)
    : { changes: [], conflicts: [], mergedWith: 0 };
  const { usage, cost } = view;
  const outcome = withConflicts(view.outcome, conflicts);
  const event = { type: "child.finished" as const, callId: parentCallId, childId: spec.id, outcome, usage, cost };
  return {
    events: [{ runId: parentId, event, dedupe: `${spec.id}/finished` }],
    ...(changes.length > 0 && {
      parentChanges: { runId: parentId, changes: { step: childStep(spec.id), changes }, mergedWith },
    }),
  };
}

/** True if a run that has just ended has children whose costs it has not added to its own. */
async function isAwaitingChildren(store: Store, runId: string, now: number): Promise<boolean> {
  const children = await store.childrenOf(runId);
  if (children.length === 0) return false;
  const [log, inbox] = await Promise.all([store.log(runId), store.inbox(runId)]);
  if (Math.abs(now - (log.at(-1)?.at ?? 0)) > maxReportDelayMs) return false;
  const waiting = new Set(inbox.map(({ id }) => id));
  const added = log.flatMap(({ id, event }) =>
    event.type === "child.finished" && !waiting.has(id) ? event.childId : [],
  );
  return children.some(({ id, unreadable }) => !unreadable && !added.includes(id));
}

/** Returns the child's last change of each path, except for paths that its parent has changed since the spawn. */
async function mergeChanges(
  store: Store,
  spec: RunSpec,
  parentId: string,
): Promise<{ changes: StoredChange[]; conflicts: string[]; mergedWith: number }> {
  const [own, parents] = await Promise.all([store.changesOf(spec.id), store.changesOf(parentId)]);
  const changedByParent = new Set(
    parents.slice(spec.parentChanges ?? 0).flatMap(({ changes }) => changes.map(({ path }) => path)),
  );
  const last = new Map(own.flatMap(({ changes }) => changes).map((change) => [change.path, change]));
  return {
    changes: [...last.values()].filter(({ path }) => !changedByParent.has(path)),
    conflicts: [...last.keys()].filter((path) => changedByParent.has(path)),
    mergedWith: parents.length,
  };
}

function withConflicts(outcome: RunOutcome, conflicts: string[]): RunOutcome {
  if (conflicts.length === 0 || outcome.kind !== "answered") return outcome;
  const note = `These files were also changed by the calling worker or another one, so this worker's changes to them were dropped: ${conflicts.join(", ")}`;
  return { ...outcome, text: `${outcome.text}\n\n${note}` };
}
