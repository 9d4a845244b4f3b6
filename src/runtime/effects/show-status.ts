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
      // A time in the future comes from a clock that was ahead.
      const isRecent = known !== undefined && known.updatedAt <= now() && known.updatedAt + statusIntervalMs > now();
      if (isRecent) throw new Postponed(known.updatedAt + statusIntervalMs);

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
