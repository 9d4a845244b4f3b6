import { z } from "zod";
import type { ReportedLocation, RepositoryLocation } from "#domain/github.ts";
import { resolveLocation } from "#runtime/store/resolve-location.ts";
import type { Advance, Backlog, DailyCost, HourlyUsage, NewRun, Store, StoredRun } from "#runtime/store/store.ts";
import {
  BacklogColumns,
  countedState,
  DailyCostColumns,
  hoursOf,
  LocationColumns,
  RunColumns,
  readDailyCosts,
  readRun,
  serializeRecord,
} from "#runtime/store/stored-rows.ts";
import type { SqliteConnection } from "./sqlite-connection.ts";

const selectRuns = `select runs.id, root_id, status, snapshot, version, change_sets, updated_at, spec,
    repository_id, installation_id, repositories.owner, repositories.repo, log_removed_at
  from runs join specs on specs.run_id = runs.id left join repositories on repositories.id = repository_id`;

const Id = z.object({ id: z.string() });
const Cost = z.object({ cost: z.number() });
const Count = z.object({ runs: z.number() });
const Version = z.object({ version: z.number() });

/** All runs. Their specs never change, and have their own table. */
export class RunsTable {
  readonly #sql: SqliteConnection;

  constructor(sql: SqliteConnection) {
    this.#sql = sql;
  }

  /** Returns false if a run with this id exists. */
  insert({ spec, snapshot }: NewRun): boolean {
    const { repositoryId, owner, repo, thread, requestedBy } = spec.origin;
    const inserted = this.#sql.run(
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
        snapshot: JSON.stringify(snapshot),
      },
    );
    if (inserted === 0) return false;

    this.#sql.run("insert into specs (run_id, spec) values (:id, :spec)", { id: spec.id, spec: serializeRecord(spec) });
    return true;
  }

  find(id: string): StoredRun | undefined {
    return this.#select("runs.id = :id", { id })[0];
  }

  ofThread({ repositoryId, owner, repo, thread }: Parameters<Store["runsOfThread"]>[0]): StoredRun[] {
    const inOrder = "parent_id is null order by runs.rowid desc";
    return repositoryId === undefined
      ? this.#select(
          `repository_id is null and runs.owner = :owner and runs.repo = :repo and thread = :thread and ${inOrder}`,
          {
            owner,
            repo,
            thread,
          },
        )
      : this.#select(`repository_id = :repositoryId and (thread = :thread or pull_request = :thread) and ${inOrder}`, {
          repositoryId,
          thread,
        });
  }

  linkPullRequest(runId: string, number: number): void {
    this.#sql.run("update runs set pull_request = :number where id = :runId", { runId, number });
  }

  childrenOf(runId: string): StoredRun[] {
    return this.#select("parent_id = :runId order by runs.rowid", { runId });
  }

  live({ installationId, repositoryIds }: Parameters<Store["liveRuns"]>[0]): StoredRun[] {
    const isLive = "parent_id is null and status <> 'done'";
    const ofInstallation = "select id from repositories where installation_id = :installationId";
    if (repositoryIds) {
      const ids = JSON.stringify(repositoryIds);
      return this.#select(
        `repository_id in (${ofInstallation} and id in (select value from json_each(:ids))) and ${isLive}`,
        { installationId, ids },
      );
    }
    return [
      ...this.#select(`repository_id in (${ofInstallation}) and ${isLive}`, { installationId }),
      ...this.#select(
        `repository_id is null and ${isLive} and json_extract(spec, '$.origin.installationId') = :installationId`,
        { installationId },
      ),
    ];
  }

  latest({ before, limit }: Parameters<Store["latestRuns"]>[0]): StoredRun[] {
    const { id, createdAt } = before ?? { id: "", createdAt: Number.MAX_VALUE };
    return this.#select(
      "parent_id is null and (created_at, runs.id) < (:createdAt, :id) order by created_at desc, runs.id desc limit :limit",
      { id, createdAt, limit },
    );
  }

  count({ requestedBy, repositoryId, owner, repo, since }: Parameters<Store["countRuns"]>[0]): number {
    const values: Record<string, string | number> = { since };
    let condition = "created_at >= :since";
    const columns = { requested_by: requestedBy, repository_id: repositoryId, owner, repo };
    for (const [column, value] of Object.entries(columns)) {
      if (value === undefined) continue;
      values[column] = value;
      condition += ` and ${column} = :${column}`;
    }
    const sql = `select count(*) as runs from runs where parent_id is null and ${condition}`;
    return this.#sql.get(Count, sql, values)?.runs ?? 0;
  }

  cost({ repositoryId, since }: Parameters<Store["costOfRuns"]>[0]): number {
    const row = this.#sql.get(
      Cost,
      `select coalesce(sum(json_extract(snapshot, '$.context.cost')), 0) as cost from runs
        where parent_id is null and created_at >= :since and (:repositoryId is null or repository_id = :repositoryId)`,
      { since, repositoryId: repositoryId ?? null },
    );
    return row?.cost ?? 0;
  }

  costsOfWorker({ repositoryId, worker, limit }: Parameters<Store["costsOfWorker"]>[0]): number[] {
    const rows = this.#sql.all(
      Cost,
      `select json_extract(snapshot, '$.context.cost') as cost from runs join specs on specs.run_id = runs.id
        where parent_id is null and repository_id = :repositoryId and status = 'done'
          and json_extract(spec, '$.worker.name') = :worker and json_extract(snapshot, '$.context.cost') > 0
        order by created_at desc limit :limit`,
      { repositoryId, worker, limit },
    );
    return rows.map(({ cost }) => cost);
  }

  countByState(): Backlog["runs"] {
    return this.#sql.all(
      BacklogColumns.run,
      `select coalesce(state, 'working') as state, count(*) as count from runs indexed by runs_by_state
        where status in ('active', 'waiting') group by coalesce(state, 'working') order by 1`,
    );
  }

  /**
   * Returns a run whose log is no longer needed: its tree ended before this time, and it has no effects left. Children
   * come before their root.
   */
  findExpired(endedBefore: number): string | undefined {
    const root = this.#sql.get(
      Id,
      `select id from runs as root where parent_id is null and status = 'done' and log_removed_at is null
          and updated_at < :endedBefore and not exists (select 1 from effects where run_id = root.id)
          and not exists (select 1 from runs as child where child.root_id = root.id and child.parent_id is not null
            and (child.status <> 'done' or exists (select 1 from effects where run_id = child.id)))
        order by updated_at limit 1`,
      { endedBefore },
    );
    if (!root) return undefined;
    const child = this.#sql.get(
      Id,
      "select id from runs where root_id = :rootId and parent_id is not null and log_removed_at is null limit 1",
      { rootId: root.id },
    );
    return child?.id ?? root.id;
  }

  markLogRemoved(runId: string, at: number): void {
    this.#sql.run("update runs set log_removed_at = :at where id = :runId", { runId, at });
  }

  /** Returns false if the run has another version. Throws if the run does not exist. */
  isAt(runId: string, version: number): boolean {
    const row = this.#sql.get(Version, "select version from runs where id = :runId", { runId });
    if (!row) throw new Error(`There is no run ${runId}.`);
    return row.version === version;
  }

  advance({ runId, seen, snapshot, status }: Advance, now: number): void {
    this.#sql.run(
      `update runs set version = version + 1, last_seen_event = max(last_seen_event, :seen), snapshot = :snapshot,
        status = :status, state = :state, updated_at = max(updated_at, :now) where id = :runId`,
      { runId, seen, snapshot: JSON.stringify(snapshot), status, state: countedState({ status, snapshot }), now },
    );
  }

  #select(condition: string, values: Record<string, string | number>): StoredRun[] {
    return this.#sql.all(RunColumns, `${selectRuns} where ${condition}`, values).map(readRun);
  }
}

/** The model calls of each run and hour. They are kept when the run is deleted. */
export class UsageTable {
  readonly #sql: SqliteConnection;

  constructor(sql: SqliteConnection) {
    this.#sql = sql;
  }

  add(runId: string, { origin, ...usage }: HourlyUsage): void {
    const { repositoryId = null, installationId, owner, repo } = origin;
    this.#sql.run(
      `insert into usage (hour, run_id, root_id, worker, repository_id, installation_id, owner, repo,
          model_calls, input_tokens, output_tokens, cached_input_tokens, cost)
        values (:hour, :runId, :rootId, :worker, :repositoryId, :installationId, :owner, :repo,
          :modelCalls, :inputTokens, :outputTokens, :cachedInputTokens, :cost)
        on conflict (hour, run_id) do update set
          model_calls = model_calls + excluded.model_calls,
          input_tokens = input_tokens + excluded.input_tokens,
          output_tokens = output_tokens + excluded.output_tokens,
          cached_input_tokens = cached_input_tokens + excluded.cached_input_tokens,
          cost = cost + excluded.cost`,
      { runId, repositoryId, installationId, owner, repo, ...usage },
    );
  }

  daily(days: { from: string; to: string }): DailyCost[] {
    return readDailyCosts(
      this.#sql.all(
        DailyCostColumns,
        `select usage.hour / 24 as day, worker, repository_id,
            max(coalesce(repositories.installation_id, usage.installation_id)) as installation_id,
            max(coalesce(repositories.owner, usage.owner)) as owner, max(coalesce(repositories.repo, usage.repo)) as repo,
            count(distinct root_id) as runs, sum(model_calls) as model_calls, sum(input_tokens) as input_tokens,
            sum(output_tokens) as output_tokens, sum(cached_input_tokens) as cached_input_tokens, sum(cost) as cost
          from usage left join repositories on repositories.id = repository_id
          where hour >= :from and hour < :to
          group by usage.hour / 24, worker, coalesce(repository_id, lower(usage.owner || '/' || usage.repo))`,
        hoursOf(days),
      ),
    );
  }
}

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
