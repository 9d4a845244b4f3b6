import type { RunRow, Store } from "#runtime/store/store.ts";
import { readRun, type StoredRun } from "#runtime/store/stored-run.ts";
import type { Sql } from "./postgres-connection.ts";

const isLive = "parent_id is null and status <> 'done'";
const conditions = {
  id: "runs.id = $1",
  thread: "repository_id = $1 and thread = $2 and parent_id is null order by number desc",
  name: "repository_id is null and runs.owner = lower($1) and runs.repo = lower($2) and thread = $3 and parent_id is null order by number desc",
  parent: "parent_id = $1 order by number",
  live: `repository_id in (select id from repositories where installation_id = $1) and ${isLive}`,
  liveIn: `repository_id in (select id from repositories where installation_id = $1 and id = any ($2::bigint[])) and ${isLive}`,
  liveUnplaced: `repository_id is null and (spec->'origin'->>'installationId')::bigint = $1 and ${isLive}`,
};

export async function findRuns(
  sql: Pick<Sql, "query">,
  by: keyof typeof conditions,
  values: readonly unknown[],
): Promise<RunRow[]> {
  const rows = await sql.query<StoredRun>(
    `select runs.id, status, snapshot, version, change_sets, updated_at, spec,
        repository_id, installation_id, repositories.owner, repositories.repo
      from runs left join repositories on repositories.id = repository_id where ${conditions[by]}`,
    values,
  );
  return rows.map((row) => readRun(row, "runs"));
}

/** Root runs that are not done, of an installation as it is today. */
export async function findLive(
  sql: Pick<Sql, "query">,
  { installationId, repositoryIds }: Parameters<Store["liveRuns"]>[0],
): Promise<RunRow[]> {
  if (repositoryIds) return findRuns(sql, "liveIn", [installationId, repositoryIds]);
  const found = await Promise.all([
    findRuns(sql, "live", [installationId]),
    findRuns(sql, "liveUnplaced", [installationId]),
  ]);
  return found.flat();
}

/** Root runs that someone asked for since then. */
export async function countRuns(sql: Pick<Sql, "query">, query: Parameters<Store["countRuns"]>[0]): Promise<number> {
  const { requestedBy, repositoryId, owner, repo, since } = query;
  const given = Object.entries({ requested_by: requestedBy, owner, repo, repository_id: repositoryId }).filter(
    ([, value]) => value !== undefined,
  );
  const equal = given
    .map(
      ([column], index) => `and ${column} = ${column === "repository_id" ? `$${index + 2}` : `lower($${index + 2})`}`,
    )
    .join(" ");
  const [counted] = await sql.query<{ runs: number }>(
    `select count(*) as runs from runs where parent_id is null and created_at >= $1 ${equal}`,
    [since, ...given.map(([, value]) => value)],
  );
  return counted?.runs ?? 0;
}

/** See `Store.costOfRuns`. */
export async function costOfRuns(
  sql: Pick<Sql, "query">,
  { repositoryId, since }: Parameters<Store["costOfRuns"]>[0],
): Promise<number> {
  const [row] = await sql.query<{ cost: number }>(
    `select coalesce(sum((snapshot -> 'context' ->> 'cost')::double precision), 0) as cost from runs
      where parent_id is null and created_at >= $1 and ($2::bigint is null or repository_id = $2)`,
    [since, repositoryId ?? null],
  );
  return row?.cost ?? 0;
}
