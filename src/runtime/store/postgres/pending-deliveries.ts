import { z } from "zod";
import {
  type Delivery,
  type DeliveryClaim,
  type DeliveryQuery,
  maxPostponedMs,
  type NewDelivery,
} from "#runtime/store/delivery-store.ts";
import { RunLimitError, type Store } from "#runtime/store/store.ts";
import { DeliveryColumns, readDelivery } from "#runtime/store/stored-rows.ts";
import { appendEvents } from "./append-only-tables.ts";
import { addEffects } from "./effects.ts";
import { type Outcome, readableJson, type Sql } from "./postgres-connection.ts";
import { addRun, countRuns, lockRuns } from "./runs.ts";

const Key = z.object({ key: z.string() });
const ClaimedColumns = DeliveryColumns.extend({ number: z.number() });
const Due = z.object({ due: z.number().nullable() });

/** Stores deliveries with different keys in one statement. Returns for each if it is new. */
export async function saveDeliveries(sql: Pick<Sql, "query">, deliveries: readonly NewDelivery[]): Promise<boolean[]> {
  const now = Date.now();
  const added = await sql.query(
    Key,
    `with given as (
        select * from unnest($1::text[], $2::text[], $3::text[]) with ordinality as given (key, queue, content, position)
      ), added as (
        insert into deliveries (guid, part, received_at) select key, '', $4 from given order by key
          on conflict do nothing returning guid
      ), pending as (
        insert into pending_deliveries (key, queue, content, received_at)
          select key, queue, content::json, $4 from given join added on guid = key order by position
      )
      select guid as key from added`,
    [
      deliveries.map(({ key }) => key),
      deliveries.map(({ queue }) => queue),
      deliveries.map(({ content }) => JSON.stringify(content)),
      now,
    ],
  );
  const keys = new Set(added.map(({ key }) => key));
  return deliveries.map(({ key }) => keys.has(key));
}

const Clock = z.object({ now: z.number() });

/** The clock of the database, since those of replicas differ; milliseconds since 1970. */
const clock = "(extract(epoch from now()) * 1000)::bigint";

/** Returns the time of the database's clock. */
export async function latestTime(sql: Pick<Sql, "query">): Promise<number | undefined> {
  const [row] = await sql.query(Clock, `select ${clock} as now`);
  return row?.now;
}

/**
 * Claims deliveries that are due and the oldest of their queues. Only one of several replicas gets each; those of `holder` are due
 * again when it dies.
 */
export async function claimDeliveries(
  sql: Pick<Sql, "query">,
  { leaseMs, limit, except }: DeliveryQuery,
  holder: number | undefined,
): Promise<Delivery[]> {
  const rows = await sql.query(
    ClaimedColumns,
    `update pending_deliveries set due_at = ${clock} + $1, attempts = attempts + 1, claimed_by = $5 where number in
      (select number from pending_deliveries as a where due_at <= ${clock}
          and split_part(queue, ' ', 1) <> all ($3::text[]) and split_part(queue, '#', 1) <> all ($4::text[])
          and not exists (select 1 from pending_deliveries as b where b.queue = a.queue and b.number < a.number)
        order by due_at, number limit $2 for update skip locked)
      returning number, key, queue, content, received_at, attempts, failures`,
    [leaseMs, limit, except?.installations ?? [], except?.repositories ?? [], holder ?? null],
  );
  return rows.sort((a, b) => a.number - b.number).map(readDelivery);
}

export async function holdsDelivery(sql: Pick<Sql, "run">, { key, attempts }: DeliveryClaim): Promise<boolean> {
  const text = `select 1 from pending_deliveries where key = $1 and attempts = $2 and due_at > ${clock}`;
  return (await sql.run(text, [key, attempts])) > 0;
}

export async function postponeDelivery(
  sql: Pick<Sql, "run">,
  { key, attempts, delayMs, hasFailed }: DeliveryClaim & { delayMs: number; hasFailed: boolean },
): Promise<void> {
  await sql.run(
    `update pending_deliveries set due_at = ${clock} + $3, failures = failures + $4 where key = $1 and attempts = $2`,
    [key, attempts, Math.ceil(delayMs), hasFailed ? 1 : 0],
  );
}

/**
 * Makes the deliveries due that these replicas have claimed. Those that another transaction is changing are left to it, since waiting
 * for it could be a deadlock: it claims, postpones or removes several in another order.
 */
export async function releaseDeliveries(sql: Pick<Sql, "run">, holders: readonly number[]): Promise<void> {
  await sql.run(
    `update pending_deliveries set due_at = 0, claimed_by = null where number in
      (select number from pending_deliveries where claimed_by = any ($1::bigint[]) for update skip locked)`,
    [holders],
  );
}

/** Makes deliveries due that a clock that was ahead has postponed. */
export function bringDeliveriesForward(sql: Pick<Sql, "run">): Promise<number> {
  return sql.run(
    `update pending_deliveries set due_at = 0 where due_at > ${clock} + $1 and ${readableJson("content")} ->> 'notBefore' is null`,
    [maxPostponedMs],
  );
}

export async function nextDeliveryInMs(sql: Pick<Sql, "query">): Promise<number | undefined> {
  const [row] = await sql.query(
    Due,
    `select min(due_at) - ${clock} as due from pending_deliveries as a
      where not exists (select 1 from pending_deliveries as b where b.queue = a.queue and b.number < a.number)`,
  );
  return row?.due ?? undefined;
}

/** Stores a delivery. Returns false if it was already stored. */
export async function ingest(sql: Sql, delivery: Parameters<Store["ingest"]>[0]): Promise<Outcome<boolean>> {
  const { deliveryId, run, limits = [], events, effects = [] } = delivery;
  const now = Date.now();
  if (deliveryId !== undefined && !(await addDelivery(sql, { guid: deliveryId, part: "" }, now))) {
    return { undo: true, result: false };
  }
  // Each run that is counted is committed before the next one.
  if (limits.length > 0) await sql.run("select pg_advisory_xact_lock(hashtext('golem_forge run limits'))");
  if (run && (await addRun(sql, run))) {
    for (const limit of limits) {
      const others = (await countRuns(sql, limit)) - 1;
      if (others >= limit.max) throw new RunLimitError(limit, others);
    }
  }
  await lockRuns(
    sql,
    [...events, ...effects].map(({ runId }) => runId),
  );
  await Promise.all([appendEvents(sql, events, now), addEffects(sql, effects)]);
  return { result: true };
}

/** Adds a delivery. Returns false if it is known. A concurrent transaction that adds the same one waits. */
export async function addDelivery(
  sql: Sql,
  { guid, part }: { guid: string; part: string },
  now: number,
): Promise<boolean> {
  const added = await sql.run(
    "insert into deliveries (guid, part, received_at) values ($1, $2, $3) on conflict do nothing",
    [guid, part, now],
  );
  return added > 0;
}
