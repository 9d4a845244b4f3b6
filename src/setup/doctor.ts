import { type Config, readConfig } from "#config/config.ts";
import { describeUnknownSettings } from "#config/environment.ts";
import { deferred } from "#domain/async-work.ts";
import { UserError } from "#domain/errors.ts";
import type { WorkerDefinition } from "#domain/worker.ts";
import { createExecutors } from "#executors/create-executors.ts";
import { createModels } from "#models/create-models.ts";
import { type Models, providerNames } from "#models/models.ts";
import { findPricedName, isPriced } from "#models/prices.ts";
import { openWorkerCatalog, type WorkerCatalog } from "#runtime/start/worker-catalog.ts";
import { openStore } from "#runtime/store/open-store.ts";
import { DatabaseInUseError } from "#runtime/store/sqlite/open-database.ts";
import { checkApp, describeRequestError } from "./check-app.ts";
import { type DoctorCheck, failure, ok, warning } from "./doctor-check.ts";

export interface DoctorOptions {
  /** The time a webhook delivery may take to appear in GitHub's list. Default: 15 seconds. */
  deliveryTimeoutMs?: number;
  /** Calls the model once, with a question of a few tokens. Default: true. */
  callModel?: boolean;
}

const requestTimeoutMs = 10_000;

/**
 * Checks a deployment from its environment to its webhook, in order, and yields each result when it is known. Makes no
 * changes, but redelivers one webhook and calls the model once.
 */
export async function* runChecks(
  environment: Record<string, string | undefined>,
  { deliveryTimeoutMs = 15_000, callModel = true }: DoctorOptions = {},
): AsyncGenerator<DoctorCheck> {
  const config = tryReadConfig(environment);
  if ("problem" in config) {
    yield failure("Settings", config.problem, "Run golem setup, or see docs/configuration.md.");
    return;
  }
  const unknown = describeUnknownSettings(environment);
  for (const detail of unknown) yield warning("Settings", detail, "Correct or remove it.");
  if (unknown.length === 0) yield ok("Settings", "All settings are valid.");
  yield* guarded("GitHub App", checkApp(config, deliveryTimeoutMs));
  yield await checkPublicAddress(config);
  yield* guarded("Model", checkModels(config, callModel));
  yield* checkExecutors(config);
  yield* guarded("Database", checkDatabase(config));
}

/** Turns an error into a problem, so that the other checks still run. */
async function* guarded(name: string, checks: AsyncIterable<DoctorCheck>): AsyncGenerator<DoctorCheck> {
  try {
    yield* checks;
  } catch (error) {
    yield failure(name, describeRequestError(error));
  }
}

function tryReadConfig(environment: Record<string, string | undefined>): Config | { problem: string } {
  try {
    return readConfig(environment);
  } catch (error) {
    if (error instanceof UserError) return { problem: error.message };
    throw error;
  }
}

async function checkPublicAddress({ page }: Config): Promise<DoctorCheck> {
  const name = "Public address";
  if (!page)
    return warning(
      name,
      "GOLEM_FORGE_URL is not set: there are no run pages.",
      "Set it to this server's public address.",
    );
  try {
    const response = await fetch(`${page.url}/healthz`, { signal: AbortSignal.timeout(requestTimeoutMs) });
    if (response.ok) return ok(name, `${page.url} answers.`);
    return failure(name, `${page.url}/healthz answered ${response.status}.`, "Check the reverse proxy's target.");
  } catch (error) {
    return failure(
      name,
      `${page.url} cannot be reached: ${describeRequestError(error)}`,
      "Start the server, and check DNS, TLS and the reverse proxy.",
    );
  }
}

const modelFix =
  "Set GOLEM_FORGE_MODEL, such as anthropic:claude-sonnet-4-5, and the key of its provider, such as ANTHROPIC_API_KEY.";

/** Checks the models before a server starts, and returns warnings. Throws a UserError if the default cannot be used. */
export function checkModelsAtStart(models: Models): string[] {
  const model = models.defaultModel;
  const problem = model && models.findModelProblem(model);
  if (problem) throw new UserError(`GOLEM_FORGE_MODEL: ${problem}`);
  if (providerNames.every((provider) => models.findModelProblem(`${provider}:any`))) {
    throw new UserError(`No model can be used, so no worker can run. ${modelFix}`);
  }
  const priceWarning = model && describeMissingPrice(model);
  return priceWarning ? [priceWarning] : [];
}

/** Returns warnings about the deployment's workers that cannot be started. */
export async function checkWorkersAtStart(models: Models, catalog: WorkerCatalog): Promise<string[]> {
  const { workers, invalidFiles } = await catalog.deploymentWorkers();
  const unusable = findUnusable(models, workers);
  return [
    ...invalidFiles.map(({ problem }) => problem),
    ...(unusable.length > 0 ? [`${describeUnusable(unusable)} ${modelFix}`] : []),
  ];
}

/** Finds the workers that name no model where there is no default, or one that cannot be used. */
function findUnusable(models: Models, workers: readonly WorkerDefinition[]): string[] {
  return workers
    .filter(({ model = models.defaultModel }) => model === undefined || models.findModelProblem(model) !== undefined)
    .map(({ name }) => name);
}

function describeUnusable(workers: readonly string[]): string {
  return `These workers have no model that can be used: ${workers.join(", ")}.`;
}

function describeMissingPrice(model: string): string | undefined {
  if (isPriced(model)) return undefined;
  const meant = findPricedName(model);
  return `The price of ${model} is not known, so cost limits do not apply to it.${meant ? ` Did you mean ${meant}?` : ""}`;
}

async function* checkModels(config: Config, callModel: boolean): AsyncGenerator<DoctorCheck> {
  const name = "Model";
  const models = createModels(config.models);
  const { workers, invalidFiles } = await (await openWorkerCatalog(config.workersDirectory)).deploymentWorkers();
  for (const { problem } of invalidFiles) {
    yield failure("Workers", problem, "Correct the file: golem check names each problem.");
  }
  const unusable = findUnusable(models, workers);
  const model = models.defaultModel;
  const problem = model && models.findModelProblem(model);
  if (problem) {
    yield failure(name, problem);
    return;
  }
  if (unusable.length > 0) {
    const detail = `${model ? "" : "GOLEM_FORGE_MODEL is not set. "}${describeUnusable(unusable)}`;
    const fix = `${modelFix} Or name models in all workers of GOLEM_FORGE_WORKERS.`;
    yield failure(name, detail, fix);
  }
  if (!model) {
    if (unusable.length === 0) yield ok(name, "Every worker of the deployment names a model; none was called.");
    return;
  }
  const price = describeMissingPrice(model);
  const status = price ? "warning" : "ok";
  if (!callModel) {
    yield { name, status, detail: [`${model} is set up; it was not called.`, price].filter(Boolean).join(" ") };
    return;
  }
  yield { name, status, detail: [await callOnce(models, model), price].filter(Boolean).join(" ") };
}

async function callOnce(models: Models, model: string): Promise<string> {
  await models.call({
    model,
    instructions: "Answer with the single word OK.",
    messages: [{ role: "user", content: "Are you there?" }],
    tools: [],
    signal: AbortSignal.timeout(60_000),
  });
  return `${model} answered.`;
}

async function* checkExecutors({ executors: options }: Config): AsyncGenerator<DoctorCheck> {
  const executors = createExecutors(options);
  await using _ = deferred(() => executors.close());
  for (const { tier, available, reason } of await executors.availabilities()) {
    if (tier === "remote" && !options.remote) continue;
    yield { name: `Sandbox (${tier})`, status: available ? "ok" : "warning", detail: reason };
  }
}

async function* checkDatabase({ database }: Config): AsyncGenerator<DoctorCheck> {
  const name = "Database";
  try {
    const { store } = await openStore(database, { onError: () => {} });
    await store.ping();
    await store.close();
    yield ok(name, database.kind === "sqlite" ? database.path : "PostgreSQL answers.");
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    if (error instanceof DatabaseInUseError && database.kind === "sqlite") {
      yield ok(name, `${database.path} is in use by the server, which is running.`);
      return;
    }
    const fix =
      database.kind === "sqlite"
        ? "Let the process write to the file and its folder, or set DATABASE_URL to another file."
        : "Check DATABASE_URL, and that the database server is running and can be reached from here.";
    yield failure(name, error.message, fix);
  }
}
