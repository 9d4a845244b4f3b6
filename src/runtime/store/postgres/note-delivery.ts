import type { Sql } from "./postgres-connection.ts";

// GitHub lets a delivery be sent again for three days.
const keptMs = 30 * 24 * 60 * 60_000;

export interface DeliveryPart {
  guid: string;
  part: string;
}

/** Notes what was delivered; false when it was noted before. Whoever notes the same at the same time waits for the first. */
export async function noteDelivery(sql: Sql, { guid, part }: DeliveryPart, now: number): Promise<boolean> {
  const noted = await sql.query(
    `with old as (
        delete from deliveries where (guid, part) in
          -- A few at a time, so that no delivery pays for a long pause.
          (select guid, part from deliveries where received_at < $4 order by received_at limit 100 for update skip locked)
      )
      insert into deliveries (guid, part, received_at) values ($1, $2, $3) on conflict do nothing returning 1`,
    [guid, part, now, now - keptMs],
  );
  return noted.length > 0;
}
