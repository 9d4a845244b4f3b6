import type { DeploymentPolicy } from "#config/deployment-policy.ts";
import type { OpenGitHub } from "#domain/github.ts";
import type { Models } from "#models/models.ts";
import type { WorkerCatalog } from "#runtime/start/worker-catalog.ts";
import type { RunScheduler } from "./run-scheduler.ts";
import type { Store } from "./store/store.ts";

export interface RunsOptions {
  store: Store;
  scheduler: RunScheduler;
  catalog: WorkerCatalog;
  models: Models;
  openGitHub: OpenGitHub;
  now: () => number;
  /** How many runs may be started in an hour, by one person and in one repository. */
  runsPerHour: { person: number; repository: number };
  policy: DeploymentPolicy;
}
