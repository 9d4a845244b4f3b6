import type { DeploymentPolicy } from "#config/deployment-policy.ts";
import { createBoundedCache } from "#domain/bounded-cache.ts";
import { UserError } from "#domain/errors.ts";
import type { RunOrigin } from "#domain/run.ts";
import { dayMs } from "#domain/work-context.ts";
import type { Store } from "./store/store.ts";

interface BudgetOptions {
  store: Pick<Store, "costSince">;
  now: () => number;
  policy: Pick<DeploymentPolicy, "cost_per_day">;
}

/** Returns the US dollars left of the day's budget. Throws a UserError if it is used up. */
export async function remainingBudget(
  { store, now, policy }: BudgetOptions,
  { repositoryId, owner, repo }: Pick<RunOrigin, "repositoryId" | "owner" | "repo">,
): Promise<number> {
  const since = now() - dayMs;
  const [ofRepository, ofAll] = await Promise.all([
    repositoryId === undefined ? 0 : store.costSince({ repositoryId, since }),
    store.costSince({ since }),
  ]);
  const { repository, total } = policy.cost_per_day;
  if (ofRepository >= repository) {
    throw new UserError(
      `Runs on ${owner}/${repo} have cost $${ofRepository.toFixed(2)} in the last 24 hours; the deployment allows $${repository}. Try again later.`,
    );
  }
  if (ofAll >= total) {
    throw new UserError(`This deployment has spent its budget for the last 24 hours ($${total}). Try again later.`);
  }
  return Math.min(repository - ofRepository, total - ofAll);
}

/** After this time the costs are read again, with those of other processes. */
const maxAgeMs = 10_000;

/** The costs as the store had them some seconds ago, with what this process has spent since: asked before each model call. */
export class RecentCosts implements Pick<Store, "costSince"> {
  readonly #store: Pick<Store, "costSince">;
  readonly #now: () => number;
  readonly #known = createBoundedCache<number | "all", { readAt: number; cost: number }>(10_000);

  constructor({ store, now }: Omit<BudgetOptions, "policy">) {
    this.#store = store;
    this.#now = now;
  }

  async costSince(query: Parameters<Store["costSince"]>[0]): Promise<number> {
    const key = query.repositoryId ?? "all";
    const known = this.#known.get(key);
    const readAt = this.#now();
    if (known && readAt - known.readAt < maxAgeMs) return known.cost;
    const cost = await this.#store.costSince(query);
    this.#known.set(key, { readAt, cost });
    return cost;
  }

  add({ repositoryId }: Pick<RunOrigin, "repositoryId">, cost: number): void {
    for (const key of [repositoryId, "all"] as const) {
      const known = key === undefined ? undefined : this.#known.get(key);
      if (known) known.cost += cost;
    }
  }
}
