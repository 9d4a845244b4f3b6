import type { NewDelivery, Store } from "#runtime/store/store.ts";
import { insertRun } from "./insert-run.ts";
import type { SqliteTables } from "./sqlite-tables.ts";

/** Takes in what a front end heard; false when the delivery was taken in before. */
export function ingest(tables: SqliteTables, heard: Parameters<Store["ingest"]>[0]): boolean {
  const { deliveries, events, effects } = tables;
  const now = Date.now();
  if (heard.deliveryId !== undefined) {
    const delivery = { guid: heard.deliveryId, part: "" };
    if (deliveries.resultOf(delivery) !== undefined) return false;
    deliveries.note({ ...delivery, result: null, now });
  }

  if (heard.run) insertRun(tables, heard.run);
  for (const event of heard.events) events.append(event, now);
  for (const effect of heard.effects ?? []) effects.insert(effect);
  return true;
}

/** Stores a delivery to be processed; false when it was stored before. */
export function saveDelivery({ deliveries, pendingDeliveries }: SqliteTables, delivery: NewDelivery): boolean {
  const now = Date.now();
  const noted = { guid: delivery.key, part: "" };
  if (deliveries.resultOf(noted) !== undefined) return false;
  deliveries.note({ ...noted, result: null, now });
  pendingDeliveries.insert(delivery, now);
  return true;
}
