import { readJson } from "#runtime/store/parse-stored.ts";
import type { Delivery, NewDelivery } from "#runtime/store/store.ts";
import type { SqliteConnection } from "./sqlite-connection.ts";

interface Row {
  key: string;
  queue: string;
  content: string;
  received_at: number;
  attempts: number;
}

/** The deliveries that wait to be processed, or are being processed. */
export interface PendingDeliveriesTable {
  insert(delivery: NewDelivery, now: number): void;
  claim(now: number, until: number): Delivery | undefined;
  postpone(key: string, dueAt: number): void;
  remove(key: string): void;
  nextDueAt(): number | undefined;
  /** Makes every delivery due: whatever claimed one before is gone. */
  releaseAll(): void;
}

const isHead = "not exists (select 1 from pending_deliveries as b where b.queue = a.queue and b.number < a.number)";

export function pendingDeliveriesTable(sql: SqliteConnection): PendingDeliveriesTable {
  return {
    insert: ({ key, queue, content }, now) => {
      sql.run(
        "insert into pending_deliveries (key, queue, content, received_at) values (:key, :queue, :content, :now)",
        { key, queue, content: JSON.stringify(content), now },
      );
    },
    claim: (now, until) => {
      const row = sql.get<Row>(
        `update pending_deliveries set due_at = :until, attempts = attempts + 1 where number =
          (select number from pending_deliveries as a where due_at <= :now and ${isHead} order by due_at, number limit 1)
          returning key, queue, content, received_at, attempts`,
        { now, until },
      );
      if (!row) return undefined;
      const { key, queue, received_at: receivedAt, attempts } = row;
      const content = readJson(row.content, { table: "pending_deliveries", id: key });
      return { key, queue, content, receivedAt, attempts };
    },
    postpone: (key, dueAt) => {
      sql.run("update pending_deliveries set due_at = :dueAt where key = :key", { key, dueAt });
    },
    remove: (key) => {
      sql.run("delete from pending_deliveries where key = :key", { key });
    },
    nextDueAt: () =>
      sql.get<{ due: number | null }>(`select min(due_at) as due from pending_deliveries as a where ${isHead}`)?.due ??
      undefined,
    releaseAll: () => {
      sql.run("update pending_deliveries set due_at = 0 where due_at > 0");
    },
  };
}
