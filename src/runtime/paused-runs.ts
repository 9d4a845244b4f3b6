import { UnreadableDataError } from "#domain/stored-data.ts";
import { stateName } from "./apply-events.ts";
import type { ThreadPause, ThreadRef } from "./runs.ts";
import type { RunsOptions } from "./runs-options.ts";
import type { Store, StoredRun } from "./store/store.ts";

/** Divides live runs into those that are or will be paused when they have applied their inbox, and the others. */
export async function dividePaused(
  store: Store,
  live: readonly StoredRun[],
): Promise<{ paused: StoredRun[]; running: StoredRun[] }> {
  const paused = new Set<string>();
  for (const { id } of live.filter((run) => !run.unreadable)) {
    // Read before the state, so that a stop is found in one of them. A run whose inbox is unreadable applies none of it.
    const inbox = await store.inbox(id).catch((error: unknown) => {
      if (error instanceof UnreadableDataError) return [];
      throw error;
    });
    const pending = inbox.findLast(({ event: { type } }) => type === "run.stop" || type === "run.resume");
    const run = pending ? undefined : await store.findRun(id);
    const isInterrupted = run && !run.unreadable && stateName(run.snapshot) === "interrupted";
    if (pending ? pending.event.type === "run.stop" : isInterrupted) paused.add(id);
  }
  return {
    paused: live.filter(({ id }) => paused.has(id)),
    running: live.filter(({ id }) => !paused.has(id)),
  };
}

/**
 * Finds a run of the thread that a person has paused. It keeps events and schedules from starting workers in this thread,
 * until the run is resumed or cancelled, or a person starts another one.
 */
export async function findThreadPause(
  { store }: Pick<RunsOptions, "store">,
  thread: ThreadRef,
): Promise<ThreadPause | undefined> {
  const roots = (await store.runsOfThread(thread)).flatMap((run) => (run.unreadable ? [] : [run]));
  const { paused } = await dividePaused(
    store,
    roots.filter(({ status }) => status !== "done"),
  );
  const startedAt = Math.max(0, ...roots.map(({ spec }) => (spec.origin.trigger === undefined ? spec.createdAt : 0)));
  for (const { id, spec } of roots.filter((run) => paused.includes(run))) {
    // Read before the log, so that an event that is applied meanwhile is found in one of them.
    const inbox = await store.inbox(id);
    const stop = [...(await store.log(id)), ...inbox].findLast(({ event: { type } }) => type === "run.stop");
    if (stop?.event.type !== "run.stop" || stop.event.reason !== undefined || stop.at < startedAt) continue;
    const { name } = spec.worker;
    return {
      key: `paused/${id}/${stop.id}`,
      text: `@${stop.event.by} paused ${name} in this thread, so events and schedules start no worker here. \`/resume\` continues ${name}, \`/cancel\` ends it, and \`/run\` starts another worker; after any of these, events start workers again.`,
    };
  }
  return undefined;
}
