import type { ReportedLocation, RepositoryLocation } from "#domain/repository-location.ts";
import { resolveLocation } from "#runtime/store/resolve-location.ts";

import type { Outcome, Sql } from "./postgres-connection.ts";

export async function findLocation(
  sql: Pick<Sql, "query">,
  repositoryId: number,
): Promise<RepositoryLocation | undefined> {
  const [place] = await sql.query<RepositoryLocation>(
    `select id as "repositoryId", installation_id as "installationId", owner_id as "ownerId", owner, repo, since
      from repositories where id = $1`,
    [repositoryId],
  );
  return place;
}

/** True when noting it would change nothing: then no transaction is needed, and nobody has to wait for one. */
export async function isLocationCurrent(sql: Pick<Sql, "query">, heard: ReportedLocation): Promise<boolean> {
  const before = await findLocation(sql, heard.repositoryId);
  const settled = resolveLocation(before, heard);
  if (!settled) return true;
  if (settled.location !== before) return false;

  const { owner, repo, since } = settled.name;
  const unplaced = await sql.query(
    "select 1 from runs where repository_id is null and owner = lower($1) and repo = lower($2) and created_at >= $3 limit 1",
    [owner, repo, since],
  );
  return unplaced.length === 0;
}

/** Notes where a repository is, and gives it the runs without a number that were made there. */
export async function saveLocation(sql: Sql, heard: ReportedLocation): Promise<Outcome<void>> {
  // Of several that hear of a repository for the first time, one after the other decides.
  await sql.query("select pg_advisory_xact_lock(hashtext('golem_forge repository ' || $1::text))", [
    String(heard.repositoryId),
  ]);
  const settled = resolveLocation(await findLocation(sql, heard.repositoryId), heard);
  if (!settled) return { result: undefined };

  const { owner, repo, since } = settled.name;
  await sql.query(
    `update runs set repository_id = $1 where id in (
        select id from runs where repository_id is null and owner = lower($2) and repo = lower($3) and created_at >= $4
          order by id for no key update)`,
    [heard.repositoryId, owner, repo, since],
  );
  const { location: there } = settled;
  await sql.query(
    `insert into repositories (id, installation_id, owner_id, owner, repo, since) values ($1, $2, $3, $4, $5, $6)
      on conflict (id) do update set installation_id = $2, owner_id = $3, owner = $4, repo = $5, since = $6`,
    [there.repositoryId, there.installationId, there.ownerId, there.owner, there.repo, there.since],
  );
  return { result: undefined };
}
