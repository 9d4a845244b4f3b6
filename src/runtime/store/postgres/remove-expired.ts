import { z } from "zod";
import type { ExpiredData } from "#runtime/store/store.ts";
import { expiredRun, maxRemovedDeliveries } from "#runtime/store/stored-rows.ts";
import type { Outcome, Sql } from "./postgres-connection.ts";
import { lockRuns } from "./runs.ts";

const Id = z.object({ id: z.string() });
const Blob = z.object({ blob: z.instanceof(Uint8Array) });
const Locked = z.object({ locked: z.boolean() });

/** Removes expired deliveries, and the log of one run. If several replicas do this at the same time, only one does it. */
export async function removeExpired(
  sql: Sql,
  { runsEndedBefore, deliveriesBefore }: ExpiredData,
): Promise<Outcome<boolean>> {
  const [lock] = await sql.query(Locked, "select pg_try_advisory_xact_lock(hashtext('golem_forge expired')) as locked");
  if (!lock?.locked) return { undo: true, result: false };
  const deliveries = await sql.run(
    `delete from deliveries where (guid, part) in
      (select guid, part from deliveries where received_at < $1 order by received_at limit $2 for update skip locked)`,
    [deliveriesBefore, maxRemovedDeliveries],
  );
  const expired = runsEndedBefore === undefined ? undefined : await findExpired(sql, runsEndedBefore);
  if (runsEndedBefore === undefined || !expired) return { result: deliveries > 0 };
  const { runId } = expired;
  await lockRuns(sql, [runId, expired.rootId]);
  // Before it was locked, its pull request may have been reopened, or a person may have called one of its tools.
  if ((await findExpired(sql, runsEndedBefore))?.runId !== runId) return { result: true };
  await sql.run("delete from inbox where run_id = $1", [runId]);
  await sql.run("delete from events where run_id = $1", [runId]);
  await sql.run("delete from approvals where run_id = $1 and root_id = (select root_id from runs where id = $1)", [
    runId,
  ]);
  await removeChanges(sql, runId);
  await sql.run("update runs set log_removed_at = $2 where id = $1", [runId, Date.now()]);
  return { result: true };
}

/** Returns a run of a tree that ended before this time and has no effects left. Children come before their root. */
async function findExpired(sql: Sql, endedBefore: number): Promise<{ runId: string; rootId: string } | undefined> {
  const [root] = await sql.query(Id, expiredRun.root("$1"), [endedBefore]);
  if (!root) return undefined;
  const [child] = await sql.query(Id, expiredRun.child("$1"), [root.id]);
  return { runId: child?.id ?? root.id, rootId: root.id };
}

/** Removes the changes of a run, and contents that no other run uses. */
async function removeChanges(sql: Sql, runId: string): Promise<void> {
  const ofRun = "change_set in (select id from change_sets where run_id = $1)";
  const blobs = await sql.query(Blob, `select distinct blob from changes where ${ofRun} and blob is not null`, [runId]);
  await sql.run(`delete from changes where ${ofRun}`, [runId]);
  await sql.run("delete from change_sets where run_id = $1", [runId]);
  // A transaction that adds changes adds their contents first, and may be about to refer to these.
  await sql.run("lock table blobs in share row exclusive mode");
  await sql.run(
    "delete from blobs where hash = any ($1::bytea[]) and not exists (select 1 from changes where blob = blobs.hash)",
    [blobs.map(({ blob }) => blob)],
  );
}
