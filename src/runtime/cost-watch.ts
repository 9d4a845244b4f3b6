import type { DeploymentPolicy } from "#config/deployment-policy.ts";
import type { RunSpec } from "#domain/run.ts";
import type { RunObserver, StoredTransition } from "./run-observer.ts";
import type { Store } from "./store/store.ts";

/** A budget of 24 hours is almost used up. */
export interface CostWarning {
  scope: "repository" | "total";
  /** `owner/repo`, for the budget of a repository. */
  repository?: string;
  /** US dollars. */
  spent: number;
  limit: number;
}

interface CostWatchOptions {
  store: Pick<Store, "costOfRuns" | "ingest">;
  policy: DeploymentPolicy;
  onWarning: (warning: CostWarning) => void;
  onError: (error: unknown) => void;
  /** The minimum time between two checks of a repository. Default: a minute. */
  intervalMs?: number;
}

const dayMs = 24 * 60 * 60_000;

/** Warns once a day, on one replica, when the budget of a repository or of the deployment is almost used up. */
export class CostWatch implements RunObserver {
  readonly #options: CostWatchOptions;
  readonly #checks = new Map<string, { lastAt: number; isPlanned: boolean }>();

  constructor(options: CostWatchOptions) {
    this.#options = options;
  }

  transitionStored({ run, after }: StoredTransition): void {
    if (!after.usage || after.usage.cost === 0) return;
    const { origin } = run.spec;
    const key = String(origin.repositoryId ?? `${origin.owner}/${origin.repo}`);
    const check = this.#checks.get(key) ?? { lastAt: 0, isPlanned: false };
    this.#checks.set(key, check);
    if (check.isPlanned) return;
    check.isPlanned = true;
    const { intervalMs = 60_000, onError } = this.#options;
    setTimeout(
      () => {
        check.isPlanned = false;
        check.lastAt = Date.now();
        this.#check(origin).catch(onError);
      },
      Math.max(0, check.lastAt + intervalMs - Date.now()),
    ).unref();
  }

  async #check(origin: RunSpec["origin"]): Promise<void> {
    const { store, policy } = this.#options;
    const since = Date.now() - dayMs;
    const { repositoryId } = origin;
    await this.#warn({ scope: "total", spent: await store.costOfRuns({ since }), limit: policy.cost_per_day.total });
    if (repositoryId === undefined) return;
    await this.#warn({
      scope: "repository",
      repository: `${origin.owner}/${origin.repo}`,
      spent: await store.costOfRuns({ repositoryId, since }),
      limit: policy.cost_per_day.repository,
    });
  }

  async #warn(warning: CostWarning): Promise<void> {
    const { store, policy, onWarning } = this.#options;
    const { scope, repository = "", spent, limit } = warning;
    if (spent < (limit * policy.cost_warning_percent) / 100) return;
    const day = new Date().toISOString().slice(0, 10);
    const isFirst = await store.ingest({ deliveryId: `cost warning ${day} ${scope} ${repository}`, events: [] });
    if (isFirst) onWarning(warning);
  }
}
