import { createHash } from "node:crypto";
import { z } from "zod";
import { type ChangesOfRun, OutdatedMergeError } from "#runtime/store/store.ts";
import { ChangeColumns, readChange } from "#runtime/store/stored-rows.ts";
import type { StepChanges } from "#sandbox/sandbox.ts";
import type { Sql } from "./postgres-connection.ts";

const Id = z.object({ id: z.string() });
const ChangeSet = z.object({ id: z.number(), step: z.string() });
const SetRow = z.union([
  z.object({ ...ChangeSet.shape, ...ChangeColumns.shape }),
  /** A set without changes. */
  z.object({ ...ChangeSet.shape, path: z.null() }),
]);

/** Returns the run's change sets, oldest first: all, or the first `upTo`. */
export async function readChanges(sql: Pick<Sql, "query">, runId: string, upTo?: number): Promise<StepChanges[]> {
  const rows = await sql.query(
    SetRow,
    `select sets.id, step, path, mode, content
      from (select id, step from change_sets where run_id = $1 order by id limit $2) as sets
      left join changes on changes.change_set = sets.id left join blobs on blobs.hash = changes.blob
      order by sets.id, changes.position`,
    [runId, upTo ?? null],
  );
  return [...Map.groupBy(rows, ({ id }) => id).values()].map((set) => ({
    step: set[0]?.step ?? "",
    changes: set.flatMap((row) => ("mode" in row ? [readChange(row)] : [])),
  }));
}

/** Throws if a run has another number of change sets than those that changes were merged with. The runs must be locked. */
export async function checkMerges(sql: Sql, sets: readonly ChangesOfRun[]): Promise<void> {
  const merged = sets.filter(({ mergedWith }) => mergedWith !== undefined);
  if (merged.length === 0) return;
  const [outdated] = await sql.query(
    Id,
    `select runs.id from runs join unnest($1::text[], $2::bigint[]) as given (id, merged_with) on given.id = runs.id
      where change_sets <> merged_with`,
    [merged.map(({ runId }) => runId), merged.map(({ mergedWith }) => mergedWith)],
  );
  if (outdated) throw new OutdatedMergeError(outdated.id);
}

/** Stores change sets in order. Identical contents are stored once. The runs must be locked. */
export async function addChanges(sql: Sql, sets: readonly ChangesOfRun[]): Promise<void> {
  await addBlobs(
    sql,
    sets.flatMap(({ changes }) => changes.changes.map(({ content }) => content)),
  );
  // Executed in this order, in one round trip.
  const added = sets.map(({ runId, changes }) =>
    sql.run(
      `with set as (
          insert into change_sets (run_id, step) values ($1, $2) returning id
        ), added as (
          insert into changes (change_set, position, path, mode, blob)
            select set.id, position, path, mode, blob
              from set, unnest($3::text[], $4::text[], $5::bytea[]) with ordinality as given (path, mode, blob, position)
        )
        update runs set change_sets = change_sets + 1 where id = $1`,
      [
        runId,
        changes.step,
        changes.changes.map(({ path }) => path),
        changes.changes.map(({ mode }) => mode),
        changes.changes.map(({ content }) => (content === undefined ? null : hashOf(content))),
      ],
    ),
  );
  await Promise.all(added);
}

/** Adds contents in the order of their hashes, so that two transactions with the same contents do not deadlock. */
async function addBlobs(sql: Sql, contents: readonly (Uint8Array | undefined)[]): Promise<void> {
  const blobs = new Map<string, { hash: Buffer; content: Buffer }>();
  for (const content of contents) {
    if (content === undefined) continue;
    const hash = hashOf(content);
    blobs.set(hash.toString("hex"), {
      hash,
      content: Buffer.from(content.buffer, content.byteOffset, content.byteLength),
    });
  }
  const sorted = [...blobs.values()].sort((a, b) => Buffer.compare(a.hash, b.hash));
  await Promise.all(
    sorted.map(({ hash, content }) =>
      sql.run("insert into blobs (hash, content) values ($1, $2) on conflict do nothing", [hash, content]),
    ),
  );
}

function hashOf(content: Uint8Array): Buffer {
  return createHash("sha256").update(content).digest();
}
