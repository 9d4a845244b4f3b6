import type { DeploymentPolicy } from "#config/deployment-policy.ts";
import type { Models } from "#models/models.ts";
import type { FrontEnd } from "#runtime/front-end.ts";
import type { RunEnvironment } from "#runtime/run-environment.ts";
import type { RunObserver } from "#runtime/run-observer.ts";
import type { Store } from "#runtime/store/store.ts";

/** What the handlers of effects work with, besides the run's own desk. */
export interface EffectServices {
  store: Store;
  models: Models;
  frontEnd: FrontEnd;
  catalog: RunEnvironment["catalog"];
  observer?: RunObserver | undefined;
  now: () => number;
  /** How long an approval stays open. */
  approvalMs: number;
  /** The least time between two edits of a status comment. */
  statusIntervalMs: number;
  /** What the deployment allows. Undefined for a program that runs its own workers. */
  policy?: DeploymentPolicy | undefined;
}
