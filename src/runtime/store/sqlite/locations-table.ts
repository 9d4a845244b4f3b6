import type { ReportedLocation, RepositoryLocation } from "#domain/github.ts";
import { resolveLocation } from "#runtime/store/resolve-location.ts";
import { LocationColumns } from "#runtime/store/stored-rows.ts";
import type { SqliteConnection } from "./sqlite-connection.ts";

/** The current location of each repository, by its id. */
export class LocationsTable {
  readonly #sql: SqliteConnection;

  constructor(sql: SqliteConnection) {
    this.#sql = sql;
  }

  find(repositoryId: number): RepositoryLocation | undefined {
    return this.#sql.get(
      LocationColumns,
      `select id as repositoryId, installation_id as installationId, owner_id as ownerId, owner, repo, since
        from repositories where id = :repositoryId`,
      { repositoryId },
    );
  }

  /** Saves the location, and assigns the runs stored there without a repository id to the repository. */
  save(reported: ReportedLocation): void {
    const known = this.find(reported.repositoryId);
    const resolved = resolveLocation(known, reported);
    if (!resolved) return;

    const { location, name } = resolved;
    this.#sql.run(
      `update runs set repository_id = :repositoryId
        where repository_id is null and owner = :owner and repo = :repo and created_at >= :since`,
      { repositoryId: reported.repositoryId, owner: name.owner, repo: name.repo, since: name.since },
    );
    if (location === known) return;
    this.#sql.run(
      `insert into repositories (id, installation_id, owner_id, owner, repo, since)
        values (:repositoryId, :installationId, :ownerId, :owner, :repo, :since)
        on conflict (id) do update set installation_id = :installationId, owner_id = :ownerId, owner = :owner,
          repo = :repo, since = :since`,
      { ...location },
    );
  }
}
