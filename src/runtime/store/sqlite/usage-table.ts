import type { DailyCost, HourlyUsage } from "#runtime/store/store.ts";
import { DailyCostColumns, hoursOf, readDailyCosts } from "#runtime/store/stored-rows.ts";
import type { SqliteConnection } from "./sqlite-connection.ts";

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
