import { z } from "zod";
import type { Delivery, DeliveryQuery, NewDelivery } from "#runtime/store/store.ts";
import { DeliveryColumns, readDelivery } from "#runtime/store/stored-rows.ts";
import type { Sql } from "./postgres-connection.ts";

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

/** Claims deliveries that are due and the oldest of their queues. Only one of several replicas gets each. */
export async function claimDeliveries(
  sql: Pick<Sql, "query">,
  { now, until, limit, except }: DeliveryQuery,
): Promise<Delivery[]> {
  const rows = await sql.query(
    ClaimedColumns,
    `update pending_deliveries set due_at = $2, attempts = attempts + 1 where number in
      (select number from pending_deliveries as a where due_at <= $1
          and split_part(queue, ' ', 1) <> all ($4::text[]) and split_part(queue, '#', 1) <> all ($5::text[])
          and not exists (select 1 from pending_deliveries as b where b.queue = a.queue and b.number < a.number)
        order by due_at, number limit $3 for update skip locked)
      returning number, key, queue, content, received_at, attempts, failures`,
    [now, until, limit, except?.installations ?? [], except?.repositories ?? []],
  );
  return rows.sort((a, b) => a.number - b.number).map(readDelivery);
}

export async function nextDeliveryAt(sql: Pick<Sql, "query">): Promise<number | undefined> {
  const [row] = await sql.query(
    Due,
    `select min(due_at) as due from pending_deliveries as a
      where not exists (select 1 from pending_deliveries as b where b.queue = a.queue and b.number < a.number)`,
  );
  return row?.due ?? undefined;
}
