import { isScheduled } from "#domain/run.ts";
import type { EffectOf } from "#runtime/runtime-effect.ts";
import { isQuiet, readView } from "#runtime/views/read-view.ts";
import { type EffectHandler, type EffectServices, Postponed, post } from "./effect-handler.ts";

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
      // The clock may have been set back, or another process may have a clock that is ahead.
      const earliest = known ? Math.min(known.updatedAt, now()) + statusIntervalMs : 0;
      if (earliest > now()) throw new Postponed(earliest);

      const view = await readView(store, runId, () => run.ownLog());
      if (!view) return {};
      // A scheduled run is shown once it asks people or has opened a pull request. Its outcome is a comment anyway.
      if (!known && (isQuiet(view) || (view.outcome && isScheduled(view.spec.origin)))) return {};
      // The comment may have to wait for GitHub's rate limits, and should show the run's state at that time.
      const latest = async () => (await readView(store, runId, () => run.ownLog())) ?? view;
      return post(store, { name, attempts }, (options) => showStatus(view, { ...options, latest }));
    },
    onFailure: async () => ({}),
  };
}
