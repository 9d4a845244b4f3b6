import { readJson } from "#runtime/store/parse-stored.ts";
import type { Effect, EffectQueue } from "#runtime/store/store.ts";
import type { Sql } from "./postgres-connection.ts";

interface Row {
  key: string;
  kind: string;
  due_at: number;
  attempts: number;
  input: string | null;
}

/** Begins the oldest effect of the queue, if it is due and no other replica than `holder` drives the run. */
export async function claimEffect(
  sql: Pick<Sql, "query">,
  { runId, queue, now, holder }: { runId: string; queue: EffectQueue; now: number; holder: number | undefined },
): Promise<Effect | undefined> {
  const [begun] = await sql.query<Row>(
    `update effects set attempts = attempts + 1, under_way = true
      where id = (select id from effects where run_id = $1 and queue = $2 order by id limit 1) and due_at <= $3
        and ($4::bigint is null or exists (select 1 from runs where id = $1 and holder = $4))
      returning key, kind, due_at, attempts, input`,
    [runId, queue, now, holder ?? null],
  );
  if (!begun) return;
  const { key, kind, due_at, attempts, input } = begun;
  return {
    key,
    runId,
    queue,
    kind,
    input: readJson(input, { table: "effects", id: key }),
    dueAt: due_at,
    attempts,
  };
}
