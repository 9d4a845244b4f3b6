import type { RunSpec } from "#domain/run.ts";
import type { Advance, RunRow, Store } from "#runtime/store/store.ts";
import { readRun, type StoredRun } from "#runtime/store/stored-run.ts";
import type { SqliteConnection } from "./sqlite-connection.ts";

/** One row for each run that ever was; what never changes of it stands apart in `specs`. */
export interface RunsTable {
  /** False when there is a run of this id. */
  insert(run: { spec: RunSpec; snapshot: unknown }): boolean;
  find(id: string): RunRow | undefined;
  ofThread(thread: Parameters<Store["runsOfThread"]>[0]): RunRow[];
  childrenOf(runId: string): RunRow[];
  live(where: Parameters<Store["liveRuns"]>[0]): RunRow[];
  count(query: Parameters<Store["countRuns"]>[0]): number;
  cost(query: Parameters<Store["costOfRuns"]>[0]): number;
  /** False when the version has moved on. Throws when there is no such run. */
  isAt(runId: string, version: number): boolean;
  advance(step: Advance, now: number): void;
}

const select = `select runs.id, status, snapshot, version, change_sets, updated_at, spec,
    repository_id, installation_id, repositories.owner, repositories.repo
  from runs join specs on specs.run_id = runs.id left join repositories on repositories.id = repository_id`;

export function runsTable(sql: SqliteConnection): RunsTable {
  return {
    insert: ({ spec, snapshot }) => {
      const { repositoryId, owner, repo, thread, requestedBy } = spec.origin;
      const inserted = sql.run(
        `insert into runs
          (id, root_id, parent_id, repository_id, owner, repo, thread, requested_by, created_at, updated_at, status, snapshot)
          values (:id, :rootId, :parentId, :repositoryId, :owner, :repo, :thread, :requestedBy, :at, :at, 'active', :snapshot)
          on conflict do nothing`,
        {
          id: spec.id,
          rootId: spec.rootId,
          parentId: spec.parentId ?? null,
          repositoryId: repositoryId ?? null,
          owner,
          repo,
          thread,
          requestedBy,
          at: spec.createdAt,
          snapshot: JSON.stringify(snapshot) ?? null,
        },
      );
      if (inserted === 0) return false;

      sql.run("insert into specs (run_id, spec) values (:id, :spec)", { id: spec.id, spec: JSON.stringify(spec) });
      return true;
    },
    find: (id) => sql.all<StoredRun>(`${select} where runs.id = :id`, { id }).map(runRow)[0],
    ofThread: ({ repositoryId, owner, repo, thread }) => {
      const isThere = "thread = :thread and parent_id is null order by runs.rowid desc";
      const rows =
        repositoryId === undefined
          ? sql.all<StoredRun>(
              `${select} where repository_id is null and runs.owner = :owner and runs.repo = :repo and ${isThere}`,
              {
                owner,
                repo,
                thread,
              },
            )
          : sql.all<StoredRun>(`${select} where repository_id = :repositoryId and ${isThere}`, {
              repositoryId,
              thread,
            });
      return rows.map(runRow);
    },
    live: ({ installationId, repositoryIds }) => {
      const isLive = "parent_id is null and status <> 'done'";
      const rows = sql.all<StoredRun>(
        `${select} where repository_id in (select id from repositories where installation_id = :installationId) and ${isLive}`,
        { installationId },
      );
      if (repositoryIds) {
        return rows.filter((row) => repositoryIds.includes(row.repository_id ?? 0)).map(runRow);
      }
      const unplaced = sql.all<StoredRun>(
        `${select} where repository_id is null and ${isLive}
          and json_extract(spec, '$.origin.installationId') = :installationId`,
        { installationId },
      );
      return [...rows, ...unplaced].map(runRow);
    },
    childrenOf: (runId) =>
      sql.all<StoredRun>(`${select} where parent_id = :runId order by runs.rowid`, { runId }).map(runRow),
    cost: ({ repositoryId, since }) => {
      const [row] = sql.all<{ cost: number }>(
        `select coalesce(sum(json_extract(snapshot, '$.context.cost')), 0) as cost from runs
          where parent_id is null and created_at >= :since and (:repositoryId is null or repository_id = :repositoryId)`,
        { since, repositoryId: repositoryId ?? null },
      );
      return row?.cost ?? 0;
    },
    count: ({ requestedBy, repositoryId, owner, repo, since }) => {
      const given = Object.entries({ requested_by: requestedBy, repository_id: repositoryId, owner, repo }).filter(
        ([, value]) => value !== undefined,
      );
      const equal = given.map(([column]) => `and ${column} = :${column}`).join(" ");
      const values = Object.fromEntries(given) as Record<string, string | number>;
      const counted = sql.get<{ runs: number }>(
        `select count(*) as runs from runs where parent_id is null and created_at >= :since ${equal}`,
        { ...values, since },
      );
      return counted?.runs ?? 0;
    },
    isAt: (runId, version) => {
      const row = sql.get<{ version: number }>("select version from runs where id = :runId", { runId });
      if (!row) throw new Error(`There is no run ${runId}.`);
      return row.version === version;
    },
    advance: ({ runId, seen, snapshot, status }, now) => {
      sql.run(
        `update runs set version = version + 1, seen = max(seen, :seen), snapshot = :snapshot, status = :status,
          updated_at = max(updated_at, :now) where id = :runId`,
        { runId, seen, snapshot: JSON.stringify(snapshot) ?? null, status, now },
      );
    },
  };
}

function runRow(row: StoredRun): RunRow {
  return readRun(row, "specs");
}
