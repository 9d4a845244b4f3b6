import type { Bench } from "./figure.ts";
import { acknowledgementBench } from "./figures/acknowledgement.ts";
import { appCostBench } from "./figures/app-cost.ts";
import { busyInstallationBench } from "./figures/busy-installation.ts";
import { durableStepBench } from "./figures/durable-step.ts";
import { killBench } from "./figures/kill.ts";
import { largeRepositoryBench } from "./figures/large-repository.ts";
import { modelStepBench } from "./figures/model-step.ts";
import { osSandboxBench } from "./figures/os-sandbox.ts";
import { postgresBench } from "./figures/postgres.ts";
import { sandboxBench } from "./figures/sandbox.ts";
import { shellBench } from "./figures/shell.ts";
import { waitingRunsBench } from "./figures/waiting-runs.ts";
import { webhooksBench } from "./figures/webhooks.ts";

export const benches: readonly Bench[] = [
  shellBench,
  osSandboxBench,
  killBench,
  sandboxBench,
  largeRepositoryBench,
  durableStepBench,
  postgresBench,
  waitingRunsBench,
  webhooksBench,
  acknowledgementBench,
  busyInstallationBench,
  modelStepBench,
  appCostBench,
];
