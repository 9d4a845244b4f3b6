import { z } from "zod";
import type { Sql } from "./postgres-connection.ts";

const LockedRun = z.object({ id: z.string(), version: z.number(), holder: z.number().nullable() });
export type LockedRun = z.infer<typeof LockedRun>;

/**
 * Locks the rows of these runs, and of the runs these effects belong to, until the transaction ends. All transactions lock
 * in the same order, to avoid deadlocks. A run must be locked before an event is appended: ids are assigned before the
 * commit, and a reader that has seen a later id would never look for an earlier one. Throws if a run does not exist.
 */
export async function lockRuns(
  sql: Sql,
  runIds: readonly string[],
  effectKeys: readonly string[] = [],
): Promise<Map<string, LockedRun>> {
  const ids = [...new Set(runIds)];
  if (ids.length === 0 && effectKeys.length === 0) return new Map();

  const rows = await sql.query(
    LockedRun,
    `select id, version, holder from runs
      where id = any ($1::text[] || array(select run_id from effects where key = any ($2::text[]))) order by id for no key update`,
    [ids, effectKeys],
  );
  const locked = new Map(rows.map((row) => [row.id, row]));
  const missing = ids.find((id) => !locked.has(id));
  if (missing !== undefined) throw new Error(`There is no run ${missing}.`);
  return locked;
}
