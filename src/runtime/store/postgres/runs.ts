import { z } from "zod";
import type { NewRun, Store, StoredRun } from "#runtime/store/store.ts";
import { RunColumns, readRun, serializeRecord } from "#runtime/store/stored-rows.ts";
import { addEffects } from "./effects.ts";
import type { Sql } from "./postgres-connection.ts";

const isLive = "parent_id is null and status <> 'done'";
const ofInstallation = "repository_id in (select id from repositories where installation_id = $1";
const conditions = {
  id: "runs.id = $1",
  ids: "runs.id = any ($1::text[])",
  thread: "repository_id = $1 and (thread = $2 or pull_request = $2) and parent_id is null order by number desc",
  name: "repository_id is null and runs.owner = lower($1) and runs.repo = lower($2) and thread = $3 and parent_id is null order by number desc",
  parent: "parent_id = $1 order by number",
  live: `${ofInstallation}) and ${isLive}`,
  liveIn: `${ofInstallation} and id = any ($2::bigint[])) and ${isLive}`,
  latest: `parent_id is null and (created_at, runs.id collate "C") < ($1, $2) order by created_at desc, runs.id collate "C" desc limit $3`,
  liveWithoutLocation: `repository_id is null and (spec->'origin'->>'installationId')::bigint = $1 and ${isLive}`,
};

const Cost = z.object({ cost: z.number() });
const Count = z.object({ runs: z.number() });

/** Creates the run with its first effects. Does not change an existing run. */
export async function addRun(sql: Sql, { spec, snapshot, effects }: NewRun): Promise<void> {
  const { repositoryId, owner, repo, thread, requestedBy } = spec.origin;
  const added = await sql.run(
    `insert into runs (id, root_id, parent_id, owner, repo, thread, requested_by, created_at, updated_at, status, snapshot, spec, repository_id)
      values ($1, $2, $3, lower($4), lower($5), $6, lower($7), $8, $8, 'active', $9, $10, $11)
      on conflict (id) do nothing`,
    [
      spec.id,
      spec.rootId,
      spec.parentId ?? null,
      owner,
      repo,
      thread,
      requestedBy,
      spec.createdAt,
      JSON.stringify(snapshot),
      serializeRecord(spec),
      repositoryId ?? null,
    ],
  );
  if (added > 0) await addEffects(sql, effects);
}

export async function findRuns(
  sql: Pick<Sql, "query">,
  by: keyof typeof conditions,
  values: readonly unknown[],
): Promise<StoredRun[]> {
  const rows = await sql.query(
    RunColumns,
    `select runs.id, root_id, status, snapshot, version, change_sets, updated_at, spec,
        repository_id, installation_id, repositories.owner, repositories.repo, log_removed_at
      from runs left join repositories on repositories.id = repository_id where ${conditions[by]}`,
    values,
  );
  return rows.map(readRun);
}

/** Returns the root runs that have not ended and currently belong to an installation. */
export async function findLiveRuns(
  sql: Pick<Sql, "query">,
  { installationId, repositoryIds }: Parameters<Store["liveRuns"]>[0],
): Promise<StoredRun[]> {
  if (repositoryIds) return findRuns(sql, "liveIn", [installationId, repositoryIds]);
  const found = await Promise.all([
    findRuns(sql, "live", [installationId]),
    findRuns(sql, "liveWithoutLocation", [installationId]),
  ]);
  return found.flat();
}

export async function countRuns(sql: Pick<Sql, "query">, query: Parameters<Store["countRuns"]>[0]): Promise<number> {
  const { requestedBy, repositoryId, owner, repo, since } = query;
  const values: (string | number)[] = [since];
  let condition = "created_at >= $1";
  for (const [column, value] of Object.entries({
    requested_by: requestedBy,
    owner,
    repo,
    repository_id: repositoryId,
  })) {
    if (value === undefined) continue;
    const parameter = `$${values.push(value)}`;
    condition += ` and ${column} = ${typeof value === "string" ? `lower(${parameter})` : parameter}`;
  }
  const [counted] = await sql.query(
    Count,
    `select count(*) as runs from runs where parent_id is null and ${condition}`,
    values,
  );
  return counted?.runs ?? 0;
}

export async function costOfRuns(
  sql: Pick<Sql, "query">,
  { repositoryId, since }: Parameters<Store["costOfRuns"]>[0],
): Promise<number> {
  const [row] = await sql.query(
    Cost,
    `select coalesce(sum((snapshot -> 'context' ->> 'cost')::double precision), 0) as cost from runs
      where parent_id is null and created_at >= $1 and ($2::bigint is null or repository_id = $2)`,
    [since, repositoryId ?? null],
  );
  return row?.cost ?? 0;
}

export async function costsOfWorker(
  sql: Pick<Sql, "query">,
  { repositoryId, worker, limit }: Parameters<Store["costsOfWorker"]>[0],
): Promise<number[]> {
  const rows = await sql.query(
    Cost,
    `select (snapshot -> 'context' ->> 'cost')::double precision as cost from runs
      where parent_id is null and repository_id = $1 and status = 'done' and spec -> 'worker' ->> 'name' = $2
        and (snapshot -> 'context' ->> 'cost')::double precision > 0
      order by created_at desc limit $3`,
    [repositoryId, worker, limit],
  );
  return rows.map(({ cost }) => cost);
}
