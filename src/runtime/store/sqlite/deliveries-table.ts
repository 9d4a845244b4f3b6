import { z } from "zod";
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
