import type { Store } from "#runtime/store/store.ts";
import { addEffects } from "./effects.ts";
import { appendEvents } from "./events.ts";
import { lockRuns } from "./lock-runs.ts";
import type { Outcome, Sql } from "./postgres-connection.ts";
import { addRun } from "./runs.ts";

export interface DeliveryPart {
  guid: string;
  part: string;
}

/** Stores a delivery. Returns false if it was already stored. */
export async function ingest(sql: Sql, delivery: Parameters<Store["ingest"]>[0]): Promise<Outcome<boolean>> {
  const { deliveryId, run, events, effects = [] } = delivery;
  const now = Date.now();
  if (deliveryId !== undefined && !(await addDelivery(sql, { guid: deliveryId, part: "" }, now))) {
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

/** Adds a delivery. Returns false if it is known. A concurrent transaction that adds the same one waits. */
export async function addDelivery(sql: Sql, { guid, part }: DeliveryPart, now: number): Promise<boolean> {
  const added = await sql.run(
    "insert into deliveries (guid, part, received_at) values ($1, $2, $3) on conflict do nothing",
    [guid, part, now],
  );
  return added > 0;
}
