import type { Store } from "#runtime/store/store.ts";
import { addEffects } from "./add-effects.ts";
import { addRun } from "./add-run.ts";
import { appendEvents } from "./append-events.ts";
import { lockRuns } from "./lock-runs.ts";
import { noteDelivery } from "./note-delivery.ts";
import type { Outcome, Sql } from "./postgres-connection.ts";

/** Takes in what a front end heard; false when the delivery was taken in before. */
export async function ingest(sql: Sql, heard: Parameters<Store["ingest"]>[0]): Promise<Outcome<boolean>> {
  const { deliveryId, run, events, effects = [] } = heard;
  const now = Date.now();
  if (deliveryId !== undefined && !(await noteDelivery(sql, { guid: deliveryId, part: "" }, now))) {
    return { undo: true, result: false };
  }
  if (run) await addRun(sql, run);
  await lockRuns(
    sql,
    [...events, ...effects].map(({ runId }) => runId),
  );
  await Promise.all([appendEvents(sql, events, now), addEffects(sql, effects)]);
  return { result: true };
}
