import { z } from "zod";
import type { Backlog, DailyCost, HourlyUsage } from "#runtime/store/store.ts";
import {
  BacklogColumns,
  DailyCostColumns,
  hoursOf,
  readBacklogRows,
  readDailyCosts,
} from "#runtime/store/stored-rows.ts";
import type { Sql } from "./postgres-connection.ts";

/** Adds model calls to the hours of different runs. Only a run itself writes its row, so no other run has to wait. */
export async function addUsage(sql: Sql, usages: readonly (HourlyUsage & { runId: string })[]): Promise<void> {
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
