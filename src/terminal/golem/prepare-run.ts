import { text } from "node:stream/consumers";
import { type Config, readLocalConfig } from "#config/config.ts";
import { narrowLimits, parseRepositorySettings, settingsPath } from "#config/repository-settings.ts";
import { UserError } from "#domain/errors.ts";
import { createModels } from "#models/create-models.ts";
import type { Models } from "#models/models.ts";
import { modelFor } from "#runtime/start/admit-worker.ts";
import { findRoot } from "#sandbox/checkout/find-root.ts";
import { type Checkout, openCheckout } from "#sandbox/checkout/open-checkout.ts";
import { isTerminal } from "#terminal/paint.ts";
import { checkoutFiles } from "./checkout-files.ts";
import type { CommandContext } from "./command-context.ts";
import { type LocalWorker, type LocalWorkers, openLocalWorkers } from "./local-workers.ts";
import type { RunRequest } from "./run-request.ts";

/** All that is known before anything begins. */
export interface PreparedRun {
  config: Pick<Config, "models" | "executors" | "web">;
  checkout: Checkout;
  workers: LocalWorkers;
  chosen: LocalWorker;
  models: Models;
  model: string;
  /** What the repository tells every worker. */
  repositoryInstructions: string | undefined;
  /** Undefined: it has to be asked for. */
  task: string | undefined;
}

const longestTask = 1_000_000;

/** Finds checkout, worker, model and task. Rejects with a UserError that says which of them there is not. */
export async function prepareRun(request: RunRequest, { cwd, env, input }: CommandContext): Promise<PreparedRun> {
  const config = readLocalConfig(env);
  const root = await findRoot(cwd);
  const workers = await openLocalWorkers(root, config.workersDirectory);
  const settings = parseRepositorySettings(await checkoutFiles(root).readFile(settingsPath), settingsPath);
  const found = await workers.find(request.worker);
  const chosen = { ...found, worker: { ...found.worker, limits: narrowLimits(found.worker.limits, settings) } };
  const models = createModels(config.models);
  const wanted = request.model ?? chosen.worker.model ?? models.defaultModel;
  if (!wanted) {
    throw new UserError(
      "There is no model: set GOLEM_FORGE_MODEL and its key (GOLEM_FORGE_MODEL=anthropic:claude-sonnet-4-5 and ANTHROPIC_API_KEY=…), or name one with --model. To see a worker at work without a key: npm run demo.",
    );
  }
  const model = modelFor(chosen.worker, wanted, models);
  const isPiped = request.task === undefined && !request.dryRun && !isTerminal(input);
  const task = isPiped ? (await text(input)).trim() : request.task?.trim();
  if (task !== undefined && task.length > longestTask) {
    throw new UserError(`The task is longer than ${longestTask.toLocaleString("en")} characters.`);
  }
  if (task === "" && !chosen.worker.allow_empty_input) {
    throw new UserError(`Say what ${chosen.worker.name} should do, as in golem run ${chosen.worker.name} "…".`);
  }
  const checkout = await openCheckout(root, chosen.worker.sandbox);
  return { config, checkout, workers, chosen, models, model, task, repositoryInstructions: settings.instructions };
}
