import type { DeploymentPolicy } from "#config/deployment-policy.ts";
import type { OpenGitHub } from "#domain/github.ts";
import type { Models } from "#models/models.ts";
import type { WorkerCatalog } from "#runtime/start/worker-catalog.ts";
import type { RunScheduler } from "./run-scheduler.ts";
import type { Store } from "./store/store.ts";

/** What the door to the runtime stands on. */
export interface RunsOptions {
  store: Store;
  scheduler: RunScheduler;
  catalog: WorkerCatalog;
  models: Models;
  openGitHub: OpenGitHub;
  now: () => number;
  /** How many runs one person, and all people of a repository together, may start in an hour. */
  runsPerHour: { person: number; repository: number };
  policy: DeploymentPolicy;
}
