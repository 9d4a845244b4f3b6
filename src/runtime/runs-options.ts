import type { DeploymentPolicy } from "#config/deployment-policy.ts";
import type { OpenGitHub } from "#domain/github.ts";
import type { Models } from "#models/models.ts";
import type { WorkerCatalog } from "#runtime/start/worker-catalog.ts";
import type { RunScheduler } from "./scheduler/run-scheduler.ts";
import type { Store } from "./store/store.ts";

export interface RunsOptions {
  store: Store;
  scheduler: RunScheduler;
  catalog: WorkerCatalog;
  models: Models;
  openGitHub: OpenGitHub;
  now: () => number;
  /** The number of runs that one person may start in an hour, and that may be started in one repository. */
  runsPerHour: { person: number; repository: number };
  policy: DeploymentPolicy;
}
