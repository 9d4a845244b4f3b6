import type { RunOutcome, RunSpec } from "#domain/run.ts";
import type { ActiveRun } from "#runtime/active-run.ts";
import type { EffectHandler, EffectResult } from "#runtime/effects/effect-handler.ts";
import type { Store } from "#runtime/store/store.ts";
import { readView } from "#runtime/views/read-view.ts";
import type { StoredChange } from "#sandbox/sandbox.ts";
import type { EffectServices } from "./effect-services.ts";

/** Tells people how a root run ended, or hands a child's work to its parent. */
export function reportOutcome(services: EffectServices): EffectHandler {
  return {
    maxAttempts: 12,
    perform: (effect, desk) =>
      desk.spec.parentId ? reportToParent(services, desk) : reportToPeople(services, desk, effect.attempts > 1),
    onFailure: async () => ({}),
  };
}

async function reportToPeople(
  { store, frontEnd }: EffectServices,
  { spec }: ActiveRun,
  repeated: boolean,
): Promise<EffectResult> {
  const view = await readView(store, spec.id);
  if (!view) return {};

  const name = `outcome/${spec.id}`;
  const post = await store.findPost(name);
  const commentId = await frontEnd.showOutcome(view, { name, repeated, commentId: post?.commentId });
  return { post: { name, commentId } };
}

async function reportToParent({ store }: EffectServices, { spec }: ActiveRun): Promise<EffectResult> {
  const view = await readView(store, spec.id);
  const { parentId, parentCallId } = spec;
  if (!view?.outcome || !parentId || !parentCallId) return {};

  const work = view.outcome.kind === "answered" ? await workOf(store, spec, parentId) : { changes: [], conflicts: [] };
  const { usage, cost } = view;
  const outcome = withConflicts(view.outcome, work.conflicts);
  const event = { type: "child.finished" as const, callId: parentCallId, childId: spec.id, outcome, usage, cost };
  return {
    events: [{ runId: parentId, event, dedupe: `${spec.id}/finished` }],
    ...(work.changes.length > 0
      ? { parentChanges: { runId: parentId, changes: { step: `child/${spec.id}`, changes: work.changes } } }
      : {}),
  };
}

/** The child's last word on each path it touched, less the paths its parent has changed since. */
async function workOf(
  store: Store,
  spec: RunSpec,
  parentId: string,
): Promise<{ changes: StoredChange[]; conflicts: string[] }> {
  const [own, parents] = await Promise.all([store.changesOf(spec.id), store.changesOf(parentId)]);
  const theirs = new Set(
    parents.slice(spec.parentChanges ?? 0).flatMap(({ changes }) => changes.map(({ path }) => path)),
  );
  const last = new Map(own.flatMap(({ changes }) => changes).map((change) => [change.path, change]));
  return {
    changes: [...last.values()].filter(({ path }) => !theirs.has(path)),
    conflicts: [...last.keys()].filter((path) => theirs.has(path)),
  };
}

function withConflicts(outcome: RunOutcome, conflicts: string[]): RunOutcome {
  if (conflicts.length === 0 || outcome.kind !== "answered") return outcome;
  const note = `These files were changed elsewhere meanwhile, so this worker's changes to them were not taken over: ${conflicts.join(", ")}`;
  return { ...outcome, text: `${outcome.text}\n\n${note}` };
}
