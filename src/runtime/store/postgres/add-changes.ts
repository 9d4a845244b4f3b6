import { createHash } from "node:crypto";
import type { StepChanges } from "#sandbox/sandbox.ts";
import type { Sql } from "./postgres-connection.ts";

export interface Changed {
  runId: string;
  changes: StepChanges;
}

/** Stores change sets in order; equal contents are stored once. The runs must be locked. */
export async function addChanges(sql: Sql, sets: readonly Changed[]): Promise<void> {
  await addBlobs(
    sql,
    sets.flatMap(({ changes }) => changes.changes.map(({ content }) => content)),
  );
  for (const { runId, changes } of sets) {
    await sql.query(
      `with set as (
          insert into change_sets (run_id, step) values ($1, $2) returning id
        ), kept as (
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
    );
  }
}

/** In the order of their hashes, so that two who store the same contents do not wait in a circle. */
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
  const sorted = [...blobs.values()].sort((one, other) => Buffer.compare(one.hash, other.hash));
  await Promise.all(
    sorted.map(({ hash, content }) =>
      sql.query("insert into blobs (hash, content) values ($1, $2) on conflict do nothing", [hash, content]),
    ),
  );
}

function hashOf(content: Uint8Array): Buffer {
  return createHash("sha256").update(content).digest();
}
