import { z } from "zod";
import type { ReportedLocation, RepositoryLocation } from "#domain/github.ts";
import { resolveLocation } from "#runtime/store/resolve-location.ts";
import type { NewRun, Store, StoredRun } from "#runtime/store/store.ts";
import {
  hourOf,
  LocationColumns,
  RunColumns,
  readRun,
  serializeRecord,
  serializeSnapshot,
} from "#runtime/store/stored-rows.ts";
import { addEffects } from "./effects.ts";
import { type Outcome, readableJson, type Sql } from "./postgres-connection.ts";

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
export async function addRun(sql: Sql, { spec, snapshot, effects }: NewRun): Promise<boolean> {
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
      serializeSnapshot(snapshot),
      serializeRecord(spec),
      repositoryId ?? null,
    ],
  );
  if (added > 0) await addEffects(sql, effects);
  return added > 0;
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

export async function costSince(
  sql: Pick<Sql, "query">,
  { repositoryId, since }: Parameters<Store["costSince"]>[0],
): Promise<number> {
  const [row] = await sql.query(
    Cost,
    `select coalesce(sum(cost), 0) as cost from usage
      where hour >= $1 and ($2::bigint is null or repository_id = $2)`,
    [hourOf(since), repositoryId ?? null],
  );
  return row?.cost ?? 0;
}

export async function costsOfWorker(
  sql: Pick<Sql, "query">,
  { repositoryId, worker, limit }: Parameters<Store["costsOfWorker"]>[0],
): Promise<number[]> {
  const cost = `(${readableJson("snapshot")} -> 'context' ->> 'cost')::double precision`;
  const rows = await sql.query(
    Cost,
    `select ${cost} as cost from runs
      where parent_id is null and repository_id = $1 and status = 'done'
        and ${readableJson("spec")} -> 'worker' ->> 'name' = $2 and ${cost} > 0
      order by created_at desc limit $3`,
    [repositoryId, worker, limit],
  );
  return rows.map(({ cost }) => cost);
}

const LockedRun = z.object({ id: z.string(), version: z.number(), holder: z.number().nullable() });
export type LockedRun = z.infer<typeof LockedRun>;

/**
 * Locks the rows of these runs until the transaction ends. All transactions lock
 * in the same order, to avoid deadlocks. A run must be locked before an event is appended: ids are assigned before the
 * commit, and a reader that has seen a later id would never look for an earlier one. Throws if a run does not exist.
 */
export async function lockRuns(sql: Sql, runIds: readonly string[]): Promise<Map<string, LockedRun>> {
  const ids = [...new Set(runIds)];
  if (ids.length === 0) return new Map();

  const rows = await sql.query(
    LockedRun,
    "select id, version, holder from runs where id = any ($1::text[]) order by id for no key update",
    [ids],
  );
  const locked = new Map(rows.map((row) => [row.id, row]));
  const missing = ids.find((id) => !locked.has(id));
  if (missing !== undefined) throw new Error(`Run ${missing} not found.`);
  return locked;
}

export async function findLocation(
  sql: Pick<Sql, "query">,
  repositoryId: number,
): Promise<RepositoryLocation | undefined> {
  const [location] = await sql.query(
    LocationColumns,
    `select id as "repositoryId", installation_id as "installationId", owner_id as "ownerId", owner, repo, since
      from repositories where id = $1`,
    [repositoryId],
  );
  return location;
}

/** Returns true if saving the report would change nothing, so that no transaction and no lock are needed. */
export async function isLocationCurrent(sql: Pick<Sql, "query" | "run">, reported: ReportedLocation): Promise<boolean> {
  const known = await findLocation(sql, reported.repositoryId);
  const resolved = resolveLocation(known, reported);
  if (!resolved) return true;
  if (resolved.location !== known) return false;

  const { owner, repo, since } = resolved.name;
  const unassigned = await sql.run(
    "select 1 from runs where repository_id is null and owner = lower($1) and repo = lower($2) and created_at >= $3 limit 1",
    [owner, repo, since],
  );
  return unassigned === 0;
}

/** Saves the location, and assigns the runs stored there without a repository id to the repository. */
export async function saveLocation(sql: Sql, reported: ReportedLocation): Promise<Outcome<void>> {
  // Concurrent first reports of a repository are processed one after another.
  await sql.run("select pg_advisory_xact_lock(hashtext('golem_forge repository ' || $1::text))", [
    String(reported.repositoryId),
  ]);
  const resolved = resolveLocation(await findLocation(sql, reported.repositoryId), reported);
  if (!resolved) return { result: undefined };

  const { location, name } = resolved;
  await sql.run(
    `update runs set repository_id = $1 where id in (
        select id from runs where repository_id is null and owner = lower($2) and repo = lower($3) and created_at >= $4
          order by id for no key update)`,
    [reported.repositoryId, name.owner, name.repo, name.since],
  );
  await sql.run(
    `insert into repositories (id, installation_id, owner_id, owner, repo, since) values ($1, $2, $3, $4, $5, $6)
      on conflict (id) do update set installation_id = $2, owner_id = $3, owner = $4, repo = $5, since = $6`,
    [location.repositoryId, location.installationId, location.ownerId, location.owner, location.repo, location.since],
  );
  return { result: undefined };
}
