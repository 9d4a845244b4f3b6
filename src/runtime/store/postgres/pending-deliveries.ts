import { readJson } from "#runtime/store/parse-stored.ts";
import type { Delivery, NewDelivery } from "#runtime/store/store.ts";
import { noteDelivery } from "./note-delivery.ts";
import type { Outcome, Sql } from "./postgres-connection.ts";

interface Row {
  key: string;
  queue: string;
  content: string;
  received_at: number;
  attempts: number;
}

export async function saveDelivery(sql: Sql, { key, queue, content }: NewDelivery): Promise<Outcome<boolean>> {
  const now = Date.now();
  if (!(await noteDelivery(sql, { guid: key, part: "" }, now))) return { undo: true, result: false };
  await sql.query("insert into pending_deliveries (key, queue, content, received_at) values ($1, $2, $3, $4)", [
    key,
    queue,
    JSON.stringify(content),
    now,
  ]);
  return { result: true };
}

/** Claims the first delivery that is due and the oldest of its queue; of several replicas, one gets it. */
export async function claimDelivery(
  sql: Pick<Sql, "query">,
  now: number,
  until: number,
): Promise<Delivery | undefined> {
  const [row] = await sql.query<Row>(
    `update pending_deliveries set due_at = $2, attempts = attempts + 1 where number =
      (select number from pending_deliveries as a where due_at <= $1
          and not exists (select 1 from pending_deliveries as b where b.queue = a.queue and b.number < a.number)
        order by due_at, number limit 1 for update skip locked)
      returning key, queue, content, received_at, attempts`,
    [now, until],
  );
  if (!row) return undefined;
  const { key, queue, received_at: receivedAt, attempts } = row;
  return { key, queue, content: readJson(row.content, { table: "pending_deliveries", id: key }), receivedAt, attempts };
}

export async function nextDeliveryAt(sql: Pick<Sql, "query">): Promise<number | undefined> {
  const [row] = await sql.query<{ due: number | null }>(
    `select min(due_at) as due from pending_deliveries as a
      where not exists (select 1 from pending_deliveries as b where b.queue = a.queue and b.number < a.number)`,
  );
  return row?.due ?? undefined;
}
