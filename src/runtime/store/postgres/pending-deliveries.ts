import { z } from "zod";
import type { Delivery, NewDelivery } from "#runtime/store/store.ts";
import { DeliveryColumns, readDelivery } from "#runtime/store/stored-rows.ts";
import { addDelivery } from "./ingest.ts";
import type { Outcome, Sql } from "./postgres-connection.ts";

const Due = z.object({ due: z.number().nullable() });

export async function saveDelivery(sql: Sql, { key, queue, content }: NewDelivery): Promise<Outcome<boolean>> {
  const now = Date.now();
  if (!(await addDelivery(sql, { guid: key, part: "" }, now))) return { undo: true, result: false };
  await sql.run("insert into pending_deliveries (key, queue, content, received_at) values ($1, $2, $3, $4)", [
    key,
    queue,
    JSON.stringify(content),
    now,
  ]);
  return { result: true };
}

/** Claims the first delivery that is due and the oldest of its queue. One of several replicas gets it. */
export async function claimDelivery(
  sql: Pick<Sql, "query">,
  now: number,
  until: number,
): Promise<Delivery | undefined> {
  const [row] = await sql.query(
    DeliveryColumns,
    `update pending_deliveries set due_at = $2, attempts = attempts + 1 where number =
      (select number from pending_deliveries as a where due_at <= $1
          and not exists (select 1 from pending_deliveries as b where b.queue = a.queue and b.number < a.number)
        order by due_at, number limit 1 for update skip locked)
      returning key, queue, content, received_at, attempts`,
    [now, until],
  );
  return row && readDelivery(row);
}

export async function nextDeliveryAt(sql: Pick<Sql, "query">): Promise<number | undefined> {
  const [row] = await sql.query(
    Due,
    `select min(due_at) as due from pending_deliveries as a
      where not exists (select 1 from pending_deliveries as b where b.queue = a.queue and b.number < a.number)`,
  );
  return row?.due ?? undefined;
}
