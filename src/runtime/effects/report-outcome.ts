import { isScheduled, type RunOutcome, type RunSpec } from "#domain/run.ts";
import type { EffectOf } from "#runtime/runtime-effect.ts";
import type { Store } from "#runtime/store/store.ts";
import { isQuiet, readView } from "#runtime/views/read-view.ts";
import type { StoredChange } from "#sandbox/sandbox.ts";
import { type EffectHandler, type EffectResult, type EffectServices, post } from "./effect-handler.ts";

type ReportServices = Pick<EffectServices, "store" | "frontEnd">;

/** Posts the outcome of a root run, or hands the outcome and the changes of a child to its parent. */
export function reportOutcome(services: ReportServices): EffectHandler<EffectOf<"outcome.report">> {
  return {
    maxAttempts: 12,
    perform: ({ attempts }, { spec }) =>
      spec.parentId ? reportToParent(services, spec) : reportToPeople(services, spec, attempts),
    onFailure: async () => ({}),
  };
}

async function reportToPeople(
  { store, frontEnd }: ReportServices,
  { id, origin, worker }: RunSpec,
  attempts: number,
): Promise<EffectResult> {
  const view = await readView(store, id);
  if (!view || isQuiet(view)) return {};
  // All failures of a day share the comment of the first one.
  const hasFailed = view.outcome?.kind === "failed" || view.outcome?.kind === "limited";
  const where = `${origin.repositoryId ?? `${origin.owner}/${origin.repo}`}#${origin.thread}`;
  const day = new Date().toISOString().slice(0, 10);
  const name = isScheduled(origin) && hasFailed ? `outcome/${where}/${worker.name}/${day}` : `outcome/${id}`;
  return post(store, { name, attempts }, (options) => frontEnd.showOutcome(view, options));
}

async function reportToParent({ store }: ReportServices, spec: RunSpec): Promise<EffectResult> {
  const view = await readView(store, spec.id);
  const { parentId, parentCallId } = spec;
  if (!view?.outcome || !parentId || !parentCallId) return {};

  const isAnswered = view.outcome.kind === "answered";
  const { changes, conflicts } = isAnswered
    ? await mergeChanges(store, spec, parentId)
    : { changes: [], conflicts: [] };
  const { usage, cost } = view;
  const outcome = withConflicts(view.outcome, conflicts);
  const event = { type: "child.finished" as const, callId: parentCallId, childId: spec.id, outcome, usage, cost };
  return {
    events: [{ runId: parentId, event, dedupe: `${spec.id}/finished` }],
    ...(changes.length > 0 && { parentChanges: { runId: parentId, changes: { step: `child/${spec.id}`, changes } } }),
  };
}

/** Returns the child's last change of each path, except for paths that its parent has changed since the spawn. */
async function mergeChanges(
  store: Store,
  spec: RunSpec,
  parentId: string,
): Promise<{ changes: StoredChange[]; conflicts: string[] }> {
  const [own, parents] = await Promise.all([store.changesOf(spec.id), store.changesOf(parentId)]);
  const changedByParent = new Set(
    parents.slice(spec.parentChanges ?? 0).flatMap(({ changes }) => changes.map(({ path }) => path)),
  );
  const last = new Map(own.flatMap(({ changes }) => changes).map((change) => [change.path, change]));
  return {
    changes: [...last.values()].filter(({ path }) => !changedByParent.has(path)),
    conflicts: [...last.keys()].filter((path) => changedByParent.has(path)),
  };
}

function withConflicts(outcome: RunOutcome, conflicts: string[]): RunOutcome {
  if (conflicts.length === 0 || outcome.kind !== "answered") return outcome;
  const note = `These files were also changed by the calling worker or another one, so this worker's changes to them were dropped: ${conflicts.join(", ")}`;
  return { ...outcome, text: `${outcome.text}\n\n${note}` };
}
