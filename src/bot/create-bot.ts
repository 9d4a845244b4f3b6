import { once } from "node:events";
import type { IncomingMessage, RequestOptions, ServerResponse } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { type Logger, pino } from "pino";
import type { Probot } from "probot";
import { DeliveryProcessor } from "#bot/deliveries/process-deliveries.ts";
import { createReceiveDelivery } from "#bot/deliveries/receive-delivery.ts";
import { Redelivery } from "#bot/deliveries/redeliver-missed.ts";
import { connectApp, createOpenGitHub } from "#bot/github/open-github.ts";
import type { Config } from "#config/config.ts";
import { isListedRepository } from "#config/config.ts";
import type { OpenGitHub } from "#domain/github.ts";
import type { RunSpec, RunView } from "#domain/run.ts";
import type { FrontEnd } from "#runtime/front-end.ts";
import type { Runs } from "#runtime/runs.ts";
import type { DeliveryStore } from "#runtime/store/delivery-store.ts";
import { createRedactor } from "#text/redact.ts";
import { createSanitizer } from "#text/sanitize.ts";
import type { HandlerServices } from "./deliveries/handler.ts";
import { connectToProxy, WebhookServer } from "./deliveries/webhook-server.ts";
import type { CommentLinks } from "./render/render-status.ts";
import { createThreadFrontEnd } from "./thread-front-end.ts";

const shutdownGraceMs = 5_000;
const appRequestTimeoutMs = 10_000;

export interface BotOptions {
  config: Config;
  /** A function, since the runtime is created after the bot. */
  runs: () => Runs;
  /** Keeps deliveries until they are processed. */
  deliveries: DeliveryStore;
  /** The pages of runs; undefined if they are off. */
  pages?: RunPages | undefined;
  /** Answers a request for metrics. Returns false for any other request. */
  metrics?: ((request: IncomingMessage, response: ServerResponse) => boolean) | undefined;
  /** Resolves to the answer of /readyz. Rejects while deliveries cannot be stored; a UserError says why. */
  ready: () => Promise<string>;
  /** Default: a new one at the configured level. */
  log?: Logger;
}

/** Web pages that are served with the webhook endpoint. */
export interface RunPages {
  answer(request: IncomingMessage, response: ServerResponse): boolean;
  /** Returns the address of a run's page, for its thread; undefined if the page could not be opened. */
  linkTo(spec: RunSpec): Promise<string | undefined>;
}

export type Bot = ReturnType<typeof createBot>;

/** The GitHub App: receives webhooks, authorizes people, passes their commands to the runtime, and shows runs in comments. */
export function createBot({
  config,
  runs,
  deliveries,
  pages,
  metrics,
  ready,
  log: logger = pino({ level: config.app.logLevel }),
}: BotOptions) {
  const rest = connectApp(config, logger);
  const openGitHub = createOpenGitHub(rest, config);
  const log = createLog({ log: logger }, config.secrets);
  const threads = createThreads({ config, appId: config.app.appId, openGitHub, runs, deliveries, pages, log });
  const { services, processor } = threads;
  const redelivery = new Redelivery({ rest, ready, log, inBackground: services.inBackground });
  const probot = Promise.withResolvers<Probot>();
  const receive = createReceiveDelivery({
    verify: async (body, signature) => (await probot.promise).webhooks.verify(body, signature),
    scope: services,
    store: deliveries,
    onStored: () => processor.notify(),
    onError: (message, error) => {
      log.error(message, error);
      redelivery.onMissed();
    },
    log: log.info,
  });
  const { host, port, webhookPath, webhookProxy } = config.app;
  const server = new WebhookServer({
    host,
    port,
    webhookPath,
    receive,
    pages: (request, response) => metrics?.(request, response) || pages?.answer(request, response) || false,
    ready,
  });
  let closeProxy = () => {};

  return {
    openGitHub,
    /** Sends a request as the app itself, once. */
    request: (route: string) =>
      rest.send({ route, maxRetries: 0, timeoutMs: appRequestTimeoutMs, fetch: fetchWithoutUndici }),
    /** GitHub's rate limits for the installations that this process has sent requests for recently. */
    rateLimits: () => rest.rateLimits(),
    frontEnd: threads.frontEnd,
    /** Resolves when every delivery that is due has been processed. */
    idle: () => processor.idle(),
    /** Starts to listen. Resolves to the address, such as `http://127.0.0.1:3000`. */
    start: async (): Promise<string> => {
      // Loading it later would block the first deliveries.
      probot.resolve(await createProbot(config, logger));
      const address = await server.start();
      const url = `http://${address.host}:${address.port}`;
      processor.start();
      log.info(`Listening on ${url}${webhookPath}.`);
      if (webhookProxy) {
        closeProxy = await connectToProxy({ url: webhookProxy, receive, log: log.info });
      }
      redelivery.start();
      return url;
    },
    /** Stops accepting requests, and resolves when all open ones are answered. */
    stop: async (): Promise<void> => {
      redelivery.stop();
      closeProxy();
      await server.stop();
      await threads.stop();
    },
  };
}

export interface ThreadsOptions extends Pick<BotOptions, "runs" | "deliveries" | "pages"> {
  config: Pick<Config, "github" | "secrets" | "policy">;
  appId: number | undefined;
  openGitHub: OpenGitHub;
  log: ReturnType<typeof createLog>;
  confirmLease?: () => Promise<void>;
}

/** Everything between GitHub's threads and the runtime, except for the way in which events arrive. */
export interface Threads {
  services: HandlerServices;
  processor: DeliveryProcessor;
  frontEnd: Required<FrontEnd>;
  /** Stops claiming deliveries. Resolves when those in progress are complete or their time is up. */
  stop(): Promise<void>;
}

export function createThreads(options: ThreadsOptions): Threads {
  const { config, appId, openGitHub, runs, deliveries, pages, log, confirmLease } = options;
  const redact = createRedactor(config.secrets);
  const sanitize = createSanitizer(config.secrets);
  const background = new Set<Promise<unknown>>();
  const inBackground = (work: Promise<unknown>) => {
    const tracked = work.finally(() => background.delete(tracked));
    background.add(tracked);
  };
  const linksTo = async ({ spec, pullRequest }: RunView): Promise<CommentLinks> => {
    const repository = `${config.github.webUrl}/${spec.origin.owner}/${spec.origin.repo}`;
    return {
      page: await pages?.linkTo(spec),
      ...(pullRequest === undefined ? {} : { pullRequest: `${repository}/pull/${pullRequest}` }),
    };
  };
  const { repositories, allowAppComments } = config.github;
  const services: HandlerServices = {
    appId,
    serves: ({ owner, repo }) => !repositories || isListedRepository(repositories, owner, repo),
    openGitHub,
    runs,
    saveDelivery: (delivery) => deliveries.saveDelivery(delivery),
    allowAppComments,
    linksTo,
    redact,
    sanitize,
    log,
    inBackground,
  };
  const processor = new DeliveryProcessor({ store: deliveries, services, confirmLease, onError: log.error });
  return {
    services,
    processor,
    frontEnd: createThreadFrontEnd({
      openGitHub,
      runs,
      redact,
      sanitize,
      linksTo,
      costWarningPercent: config.policy.cost_warning_percent,
    }),
    stop: async () => {
      await processor.stop(shutdownGraceMs);
      // Reactions and notices: useful, but not worth waiting for GitHub's pace.
      await Promise.race([Promise.all(background), wait(shutdownGraceMs, undefined, { ref: false })]);
    },
  };
}

async function createProbot({ app, github }: Pick<Config, "app" | "github">, log: Logger): Promise<Probot> {
  const module = await import("probot");
  const { appId, privateKey, webhookSecret: secret } = app;
  const probot = new module.Probot({ appId, privateKey, secret, baseUrl: github.apiUrl, log });
  await probot.ready();
  return probot;
}

/** Creates a log without the secrets. */
function createLog({ log }: { log: Pick<Logger, "info" | "error"> }, secrets: readonly string[]) {
  const redact = createRedactor(secrets);
  return {
    info: (message: string) => log.info(redact(message)),
    error: (message: string, error: unknown) => {
      const details = error instanceof Error ? (error.stack ?? error.message) : String(error);
      log.error(redact(`${message}\n${details}`));
    },
  };
}

/** The part of `fetch` that Octokit uses, for the request before the app serves: loading Node's own takes a tenth of the start. */
async function fetchWithoutUndici(input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
  const url = String(input);
  const { request } = process.getBuiltinModule(url.startsWith("https:") ? "node:https" : "node:http");
  const { method, headers, signal } = init;
  const sent = request(url, { method, headers, signal } as RequestOptions).end();
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  const { statusCode: status = 0 } = response;
  let body = "";
  for await (const piece of response.setEncoding("utf8")) body += piece;
  if (status >= 300 && status < 400) return fetch(url, init);
  const received = new Map(Object.entries(response.headers));
  return { url, status, headers: received, text: async () => body } as unknown as Response;
}
