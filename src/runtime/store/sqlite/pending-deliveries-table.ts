import { z } from "zod";
import type { Delivery, NewDelivery } from "#runtime/store/store.ts";
import { BacklogColumns, DeliveryColumns, readDelivery } from "#runtime/store/stored-rows.ts";
import type { SqliteConnection } from "./sqlite-connection.ts";

const isFirst = "not exists (select 1 from pending_deliveries as b where b.queue = a.queue and b.number < a.number)";

const Due = z.object({ due: z.number().nullable() });

/** The deliveries that are waiting or being processed. */
export class PendingDeliveriesTable {
  readonly #sql: SqliteConnection;

  constructor(sql: SqliteConnection) {
    this.#sql = sql;
  }

  insert({ key, queue, content }: NewDelivery, now: number): void {
    this.#sql.run(
      "insert into pending_deliveries (key, queue, content, received_at) values (:key, :queue, :content, :now)",
      { key, queue, content: JSON.stringify(content), now },
    );
  }

  claim(now: number, until: number): Delivery | undefined {
    const row = this.#sql.get(
      DeliveryColumns,
      `update pending_deliveries set due_at = :until, attempts = attempts + 1 where number =
        (select number from pending_deliveries as a where due_at <= :now and ${isFirst} order by due_at, number limit 1)
        returning key, queue, content, received_at, attempts, failures`,
      { now, until },
    );
    return row && readDelivery(row);
  }

  postpone(key: string, dueAt: number, { hasFailed }: { hasFailed?: boolean } = {}): void {
    this.#sql.run("update pending_deliveries set due_at = :dueAt, failures = failures + :failed where key = :key", {
      key,
      dueAt,
      failed: hasFailed ? 1 : 0,
    });
  }

  remove(key: string): void {
    this.#sql.run("delete from pending_deliveries where key = :key", { key });
  }

  nextDueAt(): number | undefined {
    const sql = `select min(due_at) as due from pending_deliveries as a where ${isFirst}`;
    return this.#sql.get(Due, sql)?.due ?? undefined;
  }

  count(): z.infer<typeof BacklogColumns.deliveries> | undefined {
    const sql = "select count(*) as waiting, min(received_at) as oldest from pending_deliveries";
    return this.#sql.get(BacklogColumns.deliveries, sql);
  }

  /** Makes every delivery due, since the process that claimed it has ended. */
  releaseAll(): void {
    this.#sql.run("update pending_deliveries set due_at = 0 where due_at > 0");
  }
}
