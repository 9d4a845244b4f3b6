import { z } from "zod";
import type { LoggedEvent } from "#domain/events.ts";
import { chainEntries, type LedgerDraft, type StoredLedgerEntry } from "#domain/ledger.ts";
import type { Backlog, DailyCost, HourlyUsage, NewEvent, RunCommands } from "#runtime/store/store.ts";
import {
  BacklogColumns,
  commandText,
  DailyCostColumns,
  EventColumns,
  hoursOf,
  LedgerColumns,
  readBacklogRows,
  readCommands,
  readDailyCosts,
  readEvent,
  serializeRecord,
} from "#runtime/store/stored-rows.ts";
import type { Sql } from "./postgres-connection.ts";

const InboxColumns = EventColumns.extend({ run_id: z.string() });

/**
 * Reads the events of these runs that have not been consumed. Returns a function that returns those of one run, in
 * order, and throws if this release cannot read one of them.
 */
export async function readInboxes(
  sql: Pick<Sql, "query">,
  runIds: readonly string[],
): Promise<(runId: string) => LoggedEvent[]> {
  const rows = await sql.query(
    InboxColumns,
    `select inbox.run_id, events.id, at, event from inbox join events on events.id = inbox.event_id
      where inbox.run_id = any ($1::text[]) order by inbox.event_id`,
    [runIds],
  );
  return (runId) => rows.filter((row) => row.run_id === runId).map((row) => readEvent(runId, row));
}

/** Returns the events of the run after the given one, in order: all, or at most `limit`. */
export async function readLog(
  sql: Pick<Sql, "query">,
  { runId, after = 0, limit }: { runId: string; after?: number | undefined; limit?: number | undefined },
): Promise<LoggedEvent[]> {
  const rows = await sql.query(
    EventColumns,
    "select id, at, event from events where run_id = $1 and id > $2 order by id limit $3",
    [runId, after, limit ?? null],
  );
  return rows.map((row) => readEvent(runId, row));
}

/** Returns the events that stop, resume or end a run. */
export async function findCommands(sql: Pick<Sql, "query">, runId: string): Promise<RunCommands> {
  const rows = await sql.query(
    EventColumns,
    "select id, at, event from events where run_id = $1 and strpos(event::text, $2) > 0 order by id",
    [runId, commandText],
  );
  return readCommands(runId, rows);
}

/** Appends events in order, without repeated dedupe keys, and makes their runs due. The runs must be locked. */
export async function appendEvents(sql: Sql, events: readonly NewEvent[], at: number): Promise<void> {
  if (events.length === 0) return;

  await sql.run(
    `with appended as (
        insert into events (run_id, at, dedupe, event)
          select run_id, $1::double precision, dedupe, event
            from unnest($2::text[], $3::text[], $4::json[]) with ordinality as given (run_id, dedupe, event, position)
            order by position
          on conflict (dedupe) where dedupe is not null do nothing
          returning id, run_id
      ), unread as (
        insert into inbox (run_id, event_id) select run_id, id from appended
      )
      update runs set last_event = newest.id, updated_at = greatest(updated_at, $1)
        from (select run_id, max(id) as id from appended group by run_id) as newest where runs.id = newest.run_id`,
    [
      at,
      events.map(({ runId }) => runId),
      events.map(({ dedupe }) => dedupe ?? null),
      events.map(({ event }) => serializeRecord(event)),
    ],
  );
}

/** Appends to the ledger, last in a transaction: who holds its lock, until the end, waits for no other lock. */
export async function appendLedger(sql: Sql, drafts: readonly LedgerDraft[]): Promise<void> {
  if (drafts.length === 0) return;
  await sql.run("select pg_advisory_xact_lock(hashtext('golem_forge ledger'))");
  const [last] = await sql.query(LedgerColumns, "select number, hash, entry from ledger order by number desc limit 1");
  const entries = chainEntries(drafts, last);
  await sql.run("insert into ledger (number, hash, entry) select * from unnest($1::bigint[], $2::text[], $3::text[])", [
    entries.map(({ number }) => number),
    entries.map(({ hash }) => hash),
    entries.map(({ entry }) => entry),
  ]);
}

export function readLedger(
  sql: Pick<Sql, "query">,
  { after, limit }: { after: number; limit: number },
): Promise<StoredLedgerEntry[]> {
  const text = "select number, hash, entry from ledger where number > $1 order by number limit $2";
  return sql.query(LedgerColumns, text, [after, limit]);
}

/** Adds model calls to the hours of different runs. Only a run itself writes its row, so no other run has to wait. */
export async function addHourlyUsage(sql: Sql, usages: readonly (HourlyUsage & { runId: string })[]): Promise<void> {
  if (usages.length === 0) return;
  await sql.run(
    `insert into usage as known (hour, run_id, root_id, worker, repository_id, installation_id, owner, repo,
        model_calls, input_tokens, output_tokens, cached_input_tokens, cost)
      select * from unnest($1::integer[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[],
        $8::text[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::double precision[])
      on conflict (hour, run_id) do update set
        model_calls = known.model_calls + excluded.model_calls,
        input_tokens = known.input_tokens + excluded.input_tokens,
        output_tokens = known.output_tokens + excluded.output_tokens,
        cached_input_tokens = known.cached_input_tokens + excluded.cached_input_tokens,
        cost = known.cost + excluded.cost`,
    [
      usages.map(({ hour }) => hour),
      usages.map(({ runId }) => runId),
      usages.map(({ rootId }) => rootId),
      usages.map(({ worker }) => worker),
      usages.map(({ origin }) => origin.repositoryId ?? null),
      usages.map(({ origin }) => origin.installationId),
      usages.map(({ origin }) => origin.owner),
      usages.map(({ origin }) => origin.repo),
      usages.map(({ modelCalls }) => modelCalls),
      usages.map(({ inputTokens }) => inputTokens),
      usages.map(({ outputTokens }) => outputTokens),
      usages.map(({ cachedInputTokens }) => cachedInputTokens),
      usages.map(({ cost }) => cost),
    ],
  );
}

export async function selectDailyCosts(
  sql: Pick<Sql, "query">,
  days: { from: string; to: string },
): Promise<DailyCost[]> {
  const { from, to } = hoursOf(days);
  const rows = await sql.query(
    DailyCostColumns,
    `select usage.hour / 24 as day, worker, repository_id,
        max(coalesce(repositories.installation_id, usage.installation_id)) as installation_id,
        max(coalesce(repositories.owner, usage.owner)) as owner, max(coalesce(repositories.repo, usage.repo)) as repo,
        count(distinct root_id) as runs, sum(model_calls)::bigint as model_calls,
        sum(input_tokens)::bigint as input_tokens, sum(output_tokens)::bigint as output_tokens,
        sum(cached_input_tokens)::bigint as cached_input_tokens, sum(cost) as cost
      from usage left join repositories on repositories.id = repository_id
      where hour >= $1 and hour < $2
      group by usage.hour / 24, worker, repository_id,
        case when repository_id is null then lower(usage.owner || '/' || usage.repo) end`,
    [from, to],
  );
  return readDailyCosts(rows);
}

const Count = z.object({ count: z.number() });

export async function readBacklog(sql: Pick<Sql, "query">, now: number): Promise<Backlog> {
  const [runs, effects, deliveries, approvals] = await Promise.all([
    sql.query(
      BacklogColumns.run,
      "select coalesce(state, 'working') as state, count(*) as count from runs where status in ('active', 'waiting') group by 1 order by 1",
    ),
    sql.query(
      BacklogColumns.effects,
      `select queue, count(*) filter (where not claimed and due_at <= $1) as waiting,
          count(*) filter (where claimed) as performing, count(*) filter (where not claimed and due_at > $1) as postponed,
          min(greatest(requested_at, due_at)) filter (where not claimed and due_at <= $1) as oldest
        from effects group by queue order by queue`,
      [now],
    ),
    sql.query(
      BacklogColumns.deliveries,
      "select count(*) as waiting, min(received_at) as oldest from pending_deliveries",
    ),
    sql.query(Count, "select count(*) as count from approvals where status = 'pending'"),
  ]);
  return readBacklogRows({ runs, effects, deliveries: deliveries[0], pendingApprovals: approvals[0]?.count ?? 0 });
}
