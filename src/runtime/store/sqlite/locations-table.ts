import type { ReportedLocation, RepositoryLocation } from "#domain/repository-location.ts";
import { resolveLocation } from "#runtime/store/resolve-location.ts";
import type { SqliteConnection } from "./sqlite-connection.ts";

/** Where each repository is today, by its number. */
export interface LocationsTable {
  find(repositoryId: number): RepositoryLocation | undefined;
  /** Notes where it is, and gives it the runs without a number that were made there. */
  save(heard: ReportedLocation): void;
}

export function locationsTable(sql: SqliteConnection): LocationsTable {
  const find = (repositoryId: number) =>
    sql.get<RepositoryLocation>(
      `select id as repositoryId, installation_id as installationId, owner_id as ownerId, owner, repo, since
        from repositories where id = :repositoryId`,
      { repositoryId },
    );

  return {
    find,
    save: (heard) => {
      const before = find(heard.repositoryId);
      const settled = resolveLocation(before, heard);
      if (!settled) return;

      const { location: place, name: held } = settled;
      sql.run(
        `update runs set repository_id = :repositoryId
          where repository_id is null and owner = :owner and repo = :repo and created_at >= :since`,
        { repositoryId: heard.repositoryId, owner: held.owner, repo: held.repo, since: held.since },
      );
      if (place === before) return;
      sql.run(
        `insert into repositories (id, installation_id, owner_id, owner, repo, since)
          values (:repositoryId, :installationId, :ownerId, :owner, :repo, :since)
          on conflict (id) do update set installation_id = :installationId, owner_id = :ownerId, owner = :owner,
            repo = :repo, since = :since`,
        { ...place },
      );
    },
  };
}
