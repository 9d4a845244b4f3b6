import { z } from "zod";
import type { Delivery, DeliveryQuery, NewDelivery } from "#runtime/store/store.ts";
import { BacklogColumns, DeliveryColumns, readDelivery } from "#runtime/store/stored-rows.ts";
import type { SqliteConnection } from "./sqlite-connection.ts";

const Result = z.object({ result: z.string().nullable() });

/** The stored deliveries, with the result of each part, so that nothing is processed twice. */
export class DeliveriesTable {
  readonly #sql: SqliteConnection;

  constructor(sql: SqliteConnection) {
    this.#sql = sql;
  }

  /** Returns the stored result: null if there is none, undefined if the delivery is new. */
  resultOf({ guid, part }: { guid: string; part: string }): string | null | undefined {
    const sql = "select result from deliveries where guid = :guid and part = :part";
    return this.#sql.get(Result, sql, { guid, part })?.result;
  }

  add({ guid, part, result, now }: { guid: string; part: string; result: string | null; now: number }): void {
    this.#sql.run(
      "insert into deliveries (guid, part, result, received_at) values (:guid, :part, :result, :now) on conflict do nothing",
      { guid, part, result, now },
    );
  }

  /** Removes a batch of the oldest deliveries that were stored before this time. Returns their number. */
  removeBefore(before: number, limit: number): number {
    return this.#sql.run(
      `delete from deliveries where (guid, part) in
        (select guid, part from deliveries where received_at < :before order by received_at limit :limit)`,
      { before, limit },
    );
  }
}

const isFirst = "not exists (select 1 from pending_deliveries as b where b.queue = a.queue and b.number < a.number)";

const ClaimedColumns = DeliveryColumns.extend({ number: z.number() });
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

  claim({ leaseMs, limit, except }: DeliveryQuery): Delivery[] {
    const { installations = [], repositories = [] } = except ?? {};
    const now = Date.now();
    const rows = this.#sql.all(
      ClaimedColumns,
      `update pending_deliveries set due_at = :until, attempts = attempts + 1 where number in
        (select number from pending_deliveries as a where due_at <= :now and ${isFirst}
            and substr(queue, 1, instr(queue || ' ', ' ') - 1) not in (select value from json_each(:installations))
            and substr(queue, 1, instr(queue || '#', '#') - 1) not in (select value from json_each(:repositories))
          order by due_at, number limit :limit)
        returning number, key, queue, content, received_at, attempts, failures`,
      {
        now,
        until: now + leaseMs,
        limit,
        installations: JSON.stringify(installations),
        repositories: JSON.stringify(repositories),
      },
    );
    return rows.sort((a, b) => a.number - b.number).map(readDelivery);
  }

  postpone(key: string, delayMs: number, { hasFailed }: { hasFailed?: boolean } = {}): void {
    this.#sql.run("update pending_deliveries set due_at = :dueAt, failures = failures + :failed where key = :key", {
      key,
      dueAt: Date.now() + delayMs,
      failed: hasFailed ? 1 : 0,
    });
  }

  remove(key: string): void {
    this.#sql.run("delete from pending_deliveries where key = :key", { key });
  }

  nextInMs(): number | undefined {
    const sql = `select min(due_at) - :now as due from pending_deliveries as a where ${isFirst}`;
    return this.#sql.get(Due, sql, { now: Date.now() })?.due ?? undefined;
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
