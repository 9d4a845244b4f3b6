import type { Sql } from "./postgres-connection.ts";

export interface LockedRun {
  id: string;
  version: number;
  holder: number | null;
}

/**
 * Takes the rows of these runs, and of the run an effect belongs to, until the transaction ends: in one order for all, so
 * that nobody waits in a circle. Whoever appends an event has the run's row first: ids are given out before a commit, and
 * a reader that saw the later one would never look for the earlier. Throws when a run is not there.
 */
export async function lockRuns(
  sql: Sql,
  runIds: readonly string[],
  effectKey: string | null = null,
): Promise<Map<string, LockedRun>> {
  const asked = [...new Set(runIds)];
  if (asked.length === 0 && effectKey === null) return new Map();

  const rows = await sql.query<LockedRun>(
    `select id, version, holder from runs
      where id = any ($1::text[] || array(select run_id from effects where key = $2)) order by id for no key update`,
    [asked, effectKey],
  );
  const locked = new Map(rows.map((row) => [row.id, row]));
  const missing = asked.find((id) => !locked.has(id));
  if (missing !== undefined) throw new Error(`There is no run ${missing}.`);
  return locked;
}
