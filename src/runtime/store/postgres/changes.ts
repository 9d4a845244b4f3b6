import type { StepChanges, StoredChange } from "#sandbox/sandbox.ts";
import type { Sql } from "./postgres-connection.ts";

interface Row {
  id: number;
  step: string;
  path: string | null;
  mode: StoredChange["mode"];
  content: Buffer | null;
}

/** The run's change sets, oldest first, the first `upTo` of them. */
export async function readChanges(sql: Pick<Sql, "query">, runId: string, upTo?: number): Promise<StepChanges[]> {
  const rows = await sql.query<Row>(
    `select sets.id, step, path, mode, content
      from (select id, step from change_sets where run_id = $1 order by id limit $2) as sets
      left join changes on changes.change_set = sets.id left join blobs on blobs.hash = changes.blob
      order by sets.id, changes.position`,
    [runId, upTo ?? null],
  );
  return [...Map.groupBy(rows, ({ id }) => id).values()].map((of) => ({
    step: of[0]?.step ?? "",
    changes: of.flatMap(({ path, mode, content }) =>
      path === null ? [] : [{ path, mode, content: content ? new Uint8Array(content) : undefined }],
    ),
  }));
}
