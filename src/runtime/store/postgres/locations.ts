import type { ReportedLocation, RepositoryLocation } from "#domain/github.ts";
import { resolveLocation } from "#runtime/store/resolve-location.ts";
import { LocationColumns } from "#runtime/store/stored-rows.ts";
import type { Outcome, Sql } from "./postgres-connection.ts";

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
