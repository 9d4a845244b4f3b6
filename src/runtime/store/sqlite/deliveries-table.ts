import type { SqliteConnection } from "./sqlite-connection.ts";

// GitHub lets a delivery be sent again for three days.
const keptMs = 30 * 24 * 60 * 60_000;

/** What was delivered, and what each part of it came to, so that nothing counts twice. */
export interface DeliveriesTable {
  /** The result noted at the first time; null when there was none to note, undefined when it is new. */
  resultOf(delivery: { guid: string; part: string }): string | null | undefined;
  note(delivery: { guid: string; part: string; result: string | null; now: number }): void;
}

export function deliveriesTable(sql: SqliteConnection): DeliveriesTable {
  return {
    resultOf: ({ guid, part }) =>
      sql.get<{ result: string | null }>("select result from deliveries where guid = :guid and part = :part", {
        guid,
        part,
      })?.result,
    note: ({ guid, part, result, now }) => {
      sql.run(
        "insert into deliveries (guid, part, result, received_at) values (:guid, :part, :result, :now) on conflict do nothing",
        { guid, part, result, now },
      );
      // A few at a time, so that no delivery pays for a long pause.
      sql.run(
        `delete from deliveries where (guid, part) in
          (select guid, part from deliveries where received_at < :before order by received_at limit 100)`,
        { before: now - keptMs },
      );
    },
  };
}
