import { setTimeout as delay } from "node:timers/promises";
import { type DestinationStream, type Logger, pino } from "pino";
import { type Bot, createBot } from "#bot/create-bot.ts";
import { type Config, readConfig, readServerAddress } from "#config/config.ts";
import { describeUnknownSettings } from "#config/environment.ts";
import { DatabaseError, UserError } from "#domain/errors.ts";
import { createExecutors } from "#executors/create-executors.ts";
import { createModels } from "#models/create-models.ts";
import { openWorkerCatalog } from "#runtime/start/worker-catalog.ts";
import { openStore } from "#runtime/store/open-store.ts";
import type { Store } from "#runtime/store/store.ts";
import { RunViewReader } from "#runtime/views/run-view-reader.ts";
import { checkAppAtStart } from "#setup/check-app.ts";
import { checkModelsAtStart, checkWorkersAtStart } from "#setup/doctor.ts";
import { isConfigured } from "#setup/env-file.ts";
import type { Telemetry, TelemetryOptions } from "#telemetry/start-telemetry.ts";
import { createRedactor, redactDeep } from "#text/redact.ts";
import { loadRunPages } from "#web/load-run-pages.ts";
import { logContext } from "./domain/work-context.ts";
import { createRuntime, type Runtime, runtimeOptionsOf } from "./runtime/create-runtime.ts";
import type { Dispatch } from "./runtime/scheduler/dispatch.ts";
import { CostWatch, RunLog, type RunObserver } from "./runtime/scheduler/run-observer.ts";

const prepareDelayMs = 1_000;

type OnError = (error: unknown, about?: { runId?: string; kind?: string }) => void;

interface ObserverServices {
  telemetry: Telemetry | undefined;
  log: Logger;
  redact: (text: string) => string;
  store: Store;
  onError: OnError;
}

/** The app, whose parts are connected. */
export type App = Awaited<ReturnType<typeof createApp>>;

/** Reads the environment and wires the modules. Logs to standard output, or to `logTo`. */
export async function createApp(environment: NodeJS.ProcessEnv, logTo?: DestinationStream) {
  const config = readConfig(environment);
  const log = pino({ level: config.app.logLevel, mixin: logContext }, logTo);
  const redact = createRedactor(config.secrets);
  let telemetry: Telemetry | undefined;
  const models = createModels(config.models, {}, () => telemetry?.models);
  const catalog = await openWorkerCatalog(config.workersDirectory);
  const warnings = [...describeUnknownSettings(environment), ...checkModelsAtStart(models)];

  const onError = createOnError(log, redact);
  const { store, dispatch } = await openStore(config.database, { onError });
  telemetry = await openTelemetry(config, { store, rateLimits: () => bot.rateLimits(), redact, onError });
  const executors = createExecutors({
    ...config.executors,
    onAvailability: ({ tier, available, reason }) => log.info({ tier, available }, reason),
  });

  let runtime: Runtime | undefined;
  let views: RunViewReader | undefined;
  let stopping = false;
  const started = () => {
    if (!runtime) throw new Error("A request arrived before the runtime was created");
    return runtime;
  };
  const pages =
    config.page &&
    loadRunPages({
      config: { ...config, page: config.page },
      views: () => {
        views ??= new RunViewReader({ store, live: started().live, redact, now: Date.now });
        return views;
      },
      runs: () => started().runs,
      openGitHub: (repository) => bot.openGitHub(repository),
      onError,
    });
  const bot: Bot = createBot({
    config,
    log,
    pages,
    metrics: telemetry?.answer,
    runs: () => started().runs,
    deliveries: store,
    ready: async () => {
      if (stopping) throw new UserError("Shutting down.");
      return checkStore(store, dispatch);
    },
  });
  runtime = createRuntime({
    ...runtimeOptionsOf(config, executors),
    store,
    dispatch,
    models,
    catalog,
    openGitHub: bot.openGitHub,
    frontEnd: bot.frontEnd,
    observers: createObservers(config, { telemetry, log, redact, store, onError }),
    onError,
  });

  return {
    /** Starts to serve, and continues the runs in the store. */
    start: async (): Promise<void> => {
      for (const warning of warnings) log.warn(warning);
      const unreachable = await checkAppAtStart(config, bot);
      if (unreachable) log.warn(unreachable);
      await started().start();
      await bot.start();
    },
    /** Loads what the first run needs, and logs which executors and workers cannot be used. */
    prepare: async (): Promise<void> => {
      await executors.availabilities();
      for (const warning of await checkWorkersAtStart(models, catalog)) log.warn(warning);
    },
    onError,
    /** Logs the unexpected error because of which the process exits. */
    onBug: (error: Error): void =>
      log.fatal(
        `The process is exiting because of a bug. Its runs continue after a restart.\n${describeError(error, redact)}`,
      ),
    /** Resolves when open requests are answered and the work in progress is complete, or its time is up. */
    stop: async (): Promise<void> => {
      stopping = true;
      pages?.close();
      await bot.stop();
      await runtime?.shutDown(config.shutdownGraceMs);
      await executors.close();
      await telemetry?.shutDown();
      await store.close();
    },
  };
}

/** Serves as this process until it is asked to stop. */
export async function serve(): Promise<void> {
  try {
    await (isConfigured(process.env) ? runApp() : setUp());
  } catch (error) {
    if (!(error instanceof UserError || error instanceof DatabaseError)) throw error;
    process.stderr.write(`${error.message}\n`);
    process.exit(1);
  }
}

async function runApp(): Promise<void> {
  const app = await createApp(process.env);
  let isStopping = false;
  async function stop(): Promise<void> {
    if (isStopping) return;
    isStopping = true;
    await app.stop();
    // Requests to GitHub that are tried again later would keep the process alive.
    process.exit(0);
  }

  // A failed operation that nothing awaits must not end the others, and would fail again after each restart.
  process.on("unhandledRejection", (reason) => app.onError(reason));
  process.on("uncaughtException", (error) => {
    if (isFromSystem(error)) return app.onError(error);
    app.onBug(error);
    process.exit(1);
  });
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, () => void stop());
  await app.start();
  // This blocks the event loop for longer than those who wait until the app is ready should have to wait.
  await delay(prepareDelayMs);
  await app.prepare().catch(app.onError);
}

/** Returns true for what the operating system reports of streams, connections and child processes. */
function isFromSystem(error: Error): boolean {
  return error instanceof DatabaseError || "syscall" in error;
}

/** Returns the sentence of a UserError, which needs no stack, and the stack of other errors. */
function describeError(error: unknown, redact: (text: string) => string): string {
  if (error instanceof UserError) return redact(error.message);
  return redact(error instanceof Error ? `${error.stack}` : String(error));
}

function createOnError(log: Logger, redact: (text: string) => string): OnError {
  return (error, { runId, kind } = {}) =>
    log.error({ ...(runId && { run: runId }), ...(kind && { effect: kind }) }, describeError(error, redact));
}

/** Resolves to the answer of /readyz. Rejects while nothing can be stored. */
async function checkStore(store: Store, dispatch: Dispatch | undefined): Promise<string> {
  await store.ping();
  const problem = dispatch?.problem?.();
  if (problem) throw new UserError(problem);
  return dispatch?.name ? `ready (${dispatch.name})` : "ready";
}

/** Logs runs, warns before the deployment's cost limits are reached, and reports to metrics and traces. */
function createObservers(
  { policy }: Config,
  { telemetry, log, redact, store, onError }: ObserverServices,
): RunObserver[] {
  return [
    ...(telemetry?.observers ?? []),
    new RunLog((fields, message) => log.info(redactDeep(fields, redact), message)),
    new CostWatch({
      store,
      policy,
      onWarning: (warning) => {
        telemetry?.instruments.add("golem_forge_cost_warnings", { scope: warning.scope });
        log.warn(
          warning,
          `Runs have used most of the cost that is allowed in 24 hours (cost_per_day.${warning.scope}).`,
        );
      },
      onError,
    }),
  ];
}

/** Starts metrics and traces, if they are configured. Their packages are loaded only then. */
async function openTelemetry(
  config: Config,
  services: Pick<TelemetryOptions, "store" | "rateLimits" | "redact" | "onError">,
): Promise<Telemetry | undefined> {
  const { metricsToken, traces, metrics } = config.telemetry;
  if (!metricsToken && !traces && !metrics) return undefined;
  const { startTelemetry } = await import("#telemetry/start-telemetry.ts");
  return startTelemetry({ config: config.telemetry, costPerDay: config.policy.cost_per_day.total, ...services });
}

/** Without an App there is nothing to serve but the page that registers one. */
async function setUp(): Promise<void> {
  const { nextSteps, startSetupServer } = await import("#setup/setup-server.ts");
  const page = await startSetupServer({ ...readServerAddress(process.env), envFile: ".env" });
  process.stderr.write(`No GitHub App is configured yet. Open this address to register one:\n\n  ${page.url}\n\n`);
  const app = await page.registered;
  await page.close();
  process.stderr.write(nextSteps(app));
}
