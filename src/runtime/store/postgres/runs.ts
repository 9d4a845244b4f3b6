import { RunSpec } from "#run.ts";
import { parseStored, readJson } from "#runtime/store/parse-stored.ts";
import type { RunRow, RunStatus, Store } from "#runtime/store/store.ts";
import type { Sql } from "./postgres-connection.ts";

interface Row {
  id: string;
  status: string;
  snapshot: string | null;
  version: number;
  change_sets: number;
  updated_at: number;
  spec: string;
}

const conditions = {
  id: "id = $1",
  thread: "owner = lower($1) and repo = lower($2) and thread = $3 and parent_id is null order by number desc",
  parent: "parent_id = $1 order by number",
};

export async function findRuns(
  sql: Pick<Sql, "query">,
  by: keyof typeof conditions,
  values: readonly unknown[],
): Promise<RunRow[]> {
  const rows = await sql.query<Row>(
    `select id, status, snapshot, version, change_sets, updated_at, spec from runs where ${conditions[by]}`,
    values,
  );
  return rows.map((row) => ({
    spec: parseStored(RunSpec, row.spec, { table: "runs", id: row.id }),
    status: row.status as RunStatus,
    snapshot: readJson(row.snapshot, { table: "runs", id: row.id }),
    version: row.version,
    changeSets: row.change_sets,
    updatedAt: row.updated_at,
  }));
}

/** Root runs that someone asked for since then. */
export async function countRuns(sql: Pick<Sql, "query">, query: Parameters<Store["countRuns"]>[0]): Promise<number> {
  const { requestedBy, owner, repo, since } = query;
  const given = Object.entries({ requested_by: requestedBy, owner, repo }).filter(([, value]) => value !== undefined);
  const equal = given.map(([column], index) => `and ${column} = lower($${index + 2})`).join(" ");
  const [counted] = await sql.query<{ runs: number }>(
    `select count(*) as runs from runs where parent_id is null and created_at >= $1 ${equal}`,
    [since, ...given.map(([, value]) => value)],
  );
  return counted?.runs ?? 0;
}
