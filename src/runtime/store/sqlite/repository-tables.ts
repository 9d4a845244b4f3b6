import { z } from "zod";
import type { ReportedLocation, RepositoryLocation } from "#domain/github.ts";
import {
  type Delivery,
  type DeliveryClaim,
  type DeliveryQuery,
  maxPostponedMs,
  type NewDelivery,
} from "#runtime/store/delivery-store.ts";
import { resolveLocation } from "#runtime/store/resolve-location.ts";
import type { DailyCost, HourlyUsage, Store } from "#runtime/store/store.ts";
import {
  BacklogColumns,
  DailyCostColumns,
  DeliveryColumns,
  hourOf,
  hoursOf,
  LocationColumns,
  readDailyCosts,
  readDelivery,
} from "#runtime/store/stored-rows.ts";
import { Table } from "./sqlite-connection.ts";

const Result = z.object({ result: z.string().nullable() });
const Cost = z.object({ cost: z.number() });

/** The stored deliveries, with the result of each part, so that nothing is processed twice. */
export class DeliveriesTable extends Table {
  /** Returns the stored result: null if there is none, undefined if the delivery is new. */
  resultOf({ guid, part }: { guid: string; part: string }): string | null | undefined {
    const sql = "select result from deliveries where guid = :guid and part = :part";
    return this.sql.get(Result, sql, { guid, part })?.result;
  }

  /** Returns false if the part is stored already. */
  add({ guid, part, result, now }: { guid: string; part: string; result: string | null; now: number }): boolean {
    const added = this.sql.run(
      "insert into deliveries (guid, part, result, received_at) values (:guid, :part, :result, :now) on conflict do nothing",
      { guid, part, result, now },
    );
    return added > 0;
  }

  /** Removes a batch of the oldest deliveries that were stored before this time. Returns their number. */
  removeBefore(before: number, limit: number): number {
    return this.sql.run(
      `delete from deliveries where (guid, part) in
        (select guid, part from deliveries where received_at < :before order by received_at limit :limit)`,
      { before, limit },
    );
  }
}

const isFirst = "not exists (select 1 from pending_deliveries as b where b.queue = a.queue and b.number < a.number)";

const ClaimedColumns = DeliveryColumns.extend({ number: z.number() });
const NextDelivery = z.object({ due: z.number().nullable() });

/** The deliveries that are waiting or being processed. */
export class PendingDeliveriesTable extends Table {
  insert({ key, queue, content }: NewDelivery, now: number): void {
    this.sql.run(
      "insert into pending_deliveries (key, queue, content, received_at) values (:key, :queue, :content, :now)",
      { key, queue, content: JSON.stringify(content), now },
    );
  }

  claim({ leaseMs, limit, except }: DeliveryQuery): Delivery[] {
    const { installations = [], repositories = [] } = except ?? {};
    const now = Date.now();
    const rows = this.sql.all(
      ClaimedColumns,
      `update pending_deliveries set due_at = :until, attempts = attempts + 1 where number in
        (select number from pending_deliveries as a where due_at <= :now and ${isFirst}
            and substr(queue, 1, instr(queue || ' ', ' ') - 1) not in (select value from json_each(:installations))
            and substr(queue, 1, instr(queue || '#', '#') - 1) not in (select value from json_each(:repositories))
          order by due_at, number limit :limit)
        returning number, key, queue, content, received_at, attempts, failures`,
      {
        now,
        until: now + leaseMs,
        limit,
        installations: JSON.stringify(installations),
        repositories: JSON.stringify(repositories),
      },
    );
    return rows.sort((a, b) => a.number - b.number).map(readDelivery);
  }

  holds({ key, attempts }: DeliveryClaim): boolean {
    return this.sql.exists(
      "select 1 from pending_deliveries where key = :key and attempts = :attempts and due_at > :now",
      { key, attempts, now: Date.now() },
    );
  }

  postpone({ key, attempts }: DeliveryClaim, delayMs: number, { hasFailed }: { hasFailed?: boolean } = {}): void {
    this.sql.run(
      `update pending_deliveries set due_at = :dueAt, failures = failures + :failed
        where key = :key and attempts = :attempts`,
      { key, attempts, dueAt: Date.now() + delayMs, failed: hasFailed ? 1 : 0 },
    );
  }

  /** Makes deliveries due that a clock that was ahead has postponed. */
  bringForward(): void {
    this.sql.run(
      "update pending_deliveries set due_at = 0 where due_at > :latest and json_extract(content, '$.notBefore') is null",
      { latest: Date.now() + maxPostponedMs },
    );
  }

  remove(key: string): void {
    this.sql.run("delete from pending_deliveries where key = :key", { key });
  }

  nextInMs(): number | undefined {
    const sql = `select min(due_at) - :now as due from pending_deliveries as a where ${isFirst}`;
    return this.sql.get(NextDelivery, sql, { now: Date.now() })?.due ?? undefined;
  }

  count(): z.infer<typeof BacklogColumns.deliveries> | undefined {
    const sql = "select count(*) as waiting, min(received_at) as oldest from pending_deliveries";
    return this.sql.get(BacklogColumns.deliveries, sql);
  }

  /** Makes every delivery due, since the process that claimed it has ended. */
  releaseAll(): void {
    this.sql.run("update pending_deliveries set due_at = 0 where due_at > 0");
  }
}

export class LocationsTable extends Table {
  find(repositoryId: number): RepositoryLocation | undefined {
    return this.sql.get(
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
    this.sql.run(
      `update runs set repository_id = :repositoryId
        where repository_id is null and owner = :owner and repo = :repo and created_at >= :since`,
      { repositoryId: reported.repositoryId, owner: name.owner, repo: name.repo, since: name.since },
    );
    if (location === known) return;
    this.sql.run(
      `insert into repositories (id, installation_id, owner_id, owner, repo, since)
        values (:repositoryId, :installationId, :ownerId, :owner, :repo, :since)
        on conflict (id) do update set installation_id = :installationId, owner_id = :ownerId, owner = :owner,
          repo = :repo, since = :since`,
      { ...location },
    );
  }
}

/** The model calls of each run and hour. They are kept when the run is deleted. */
export class UsageTable extends Table {
  add(runId: string, { origin, ...usage }: HourlyUsage): void {
    const { repositoryId = null, installationId, owner, repo } = origin;
    this.sql.run(
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

  costSince({ repositoryId, since }: Parameters<Store["costSince"]>[0]): number {
    const row = this.sql.get(
      Cost,
      `select coalesce(sum(cost), 0) as cost from usage
        where hour >= :hour and (:repositoryId is null or repository_id = :repositoryId)`,
      { hour: hourOf(since), repositoryId: repositoryId ?? null },
    );
    return row?.cost ?? 0;
  }

  daily(days: { from: string; to: string }): DailyCost[] {
    return readDailyCosts(
      this.sql.all(
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
