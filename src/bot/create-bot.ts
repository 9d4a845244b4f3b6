import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { type Logger, pino } from "pino";
import type { Probot } from "probot";
import type { HandlerServices } from "#bot/deliveries/handler.ts";
import { DeliveryProcessor } from "#bot/deliveries/process-deliveries.ts";
import { createReceiveDelivery } from "#bot/deliveries/receive-delivery.ts";
import { Redelivery } from "#bot/deliveries/redeliver-missed.ts";
import { createWebhookServer } from "#bot/deliveries/webhook-server.ts";
import { connectApp } from "#bot/github/connect-app.ts";
import { createOpenGitHub } from "#bot/github/open-github.ts";
import type { RestClient } from "#bot/github/rest-client.ts";
import type { Config } from "#config/config.ts";
import { isListedRepository } from "#config/config.ts";
import type { OpenGitHub } from "#domain/github.ts";
import type { RunSpec, RunView } from "#domain/run.ts";
import type { FrontEnd } from "#runtime/front-end.ts";
import type { Runs } from "#runtime/runs.ts";
import type { DeliveryStore } from "#runtime/store/store.ts";
import { createRedactor } from "#text/redact.ts";
import { createSanitizer } from "#text/sanitize.ts";
import type { CommentLinks } from "./render/render-status.ts";
import { createThreadFrontEnd } from "./thread-front-end.ts";

const shutdownGraceMs = 5_000;

export interface BotOptions {
  config: Config;
  /** Asked when it is needed, since the runtime takes what the bot gives. */
  runs: () => Runs;
  /** Keeps deliveries until they are processed. */
  deliveries: DeliveryStore;
  /** The pages of runs; undefined where there are none. */
  pages?: RunPages | undefined;
  /** Answers requests for metrics, and says whether it did. */
  metrics?: ((request: IncomingMessage, response: ServerResponse) => boolean) | undefined;
  /** Rejects while deliveries could not be stored. A UserError says why. Resolves to what /readyz answers. */
  ready: () => Promise<string>;
  /** Default: one of its own at the configured level. */
  log?: Logger;
}

/** Web pages that are served beside the webhook. */
export interface RunPages {
  answer(request: IncomingMessage, response: ServerResponse): boolean;
  /** The page of a run, for its thread; undefined where nobody could open it. */
  linkTo(spec: RunSpec): Promise<string | undefined>;
}

export interface Bot {
  openGitHub: OpenGitHub;
  frontEnd: Required<FrontEnd>;
  /** GitHub's rate limits of the installations that requests were sent for lately. */
  rateLimits(): ReturnType<RestClient["rateLimits"]>;
  /** Begins to listen. Resolves to the address, such as `http://127.0.0.1:3000`. */
  start(): Promise<string>;
  /** Takes nothing more, and resolves when everything in hand is answered. */
  stop(): Promise<void>;
  /** Resolves when every delivery that is due has been processed. */
  idle(): Promise<void>;
}

/** The GitHub App: hears threads, asks who may command, tells the runtime, and shows runs in comments. */
export async function createBot({
  config,
  runs,
  deliveries,
  pages,
  metrics,
  ready,
  log: logger,
}: BotOptions): Promise<Bot> {
  const { probot, rest } = await connectApp(config, logger ?? pino({ level: config.app.logLevel }));
  const openGitHub = createOpenGitHub(rest, config);
  const redact = createRedactor(config.secrets);
  const sanitize = createSanitizer(config.secrets);
  const log = createLog(probot, config.secrets);
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

  const services: HandlerServices = {
    appId: config.app.appId,
    serves: ({ owner, repo }) =>
      !config.github.repositories || isListedRepository(config.github.repositories, owner, repo),
    openGitHub,
    runs,
    saveDelivery: (delivery) => deliveries.saveDelivery(delivery),
    allowAppComments: config.github.allowAppComments,
    linksTo,
    redact,
    sanitize,
    log,
    inBackground,
  };
  const processor = new DeliveryProcessor({ store: deliveries, services, onError: log.error });
  const redelivery = new Redelivery({ rest, ready, log, inBackground });
  const receive = createReceiveDelivery({
    webhookSecret: config.app.webhookSecret,
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
  const server = createWebhookServer({
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
    rateLimits: () => rest.rateLimits(),
    frontEnd: createThreadFrontEnd({ openGitHub, runs, redact, sanitize, linksTo }),
    idle: () => processor.idle(),
    start: async () => {
      const address = await server.start();
      const url = `http://${address.host}:${address.port}`;
      processor.start();
      log.info(`Listening on ${url}${webhookPath}.`);
      if (webhookProxy) {
        const { connectToProxy } = await import("#bot/deliveries/webhook-proxy.ts");
        closeProxy = connectToProxy({ url: webhookProxy, receive, log: log.info });
      }
      redelivery.start();
      return url;
    },
    stop: async () => {
      redelivery.stop();
      closeProxy();
      await server.stop();
      await processor.stop(shutdownGraceMs);
      // Reactions and apologies: nice to finish, and not worth waiting for GitHub's pace.
      await Promise.race([Promise.all(background), wait(shutdownGraceMs, undefined, { ref: false })]);
    },
  };
}

/** Probot's log, through which no secret passes. */
function createLog(probot: Probot, secrets: readonly string[]) {
  const redact = createRedactor(secrets);
  return {
    info: (message: string) => probot.log.info(redact(message)),
    error: (message: string, error: unknown) => {
      const details = error instanceof Error ? (error.stack ?? error.message) : String(error);
      probot.log.error(redact(`${message}\n${details}`));
    },
  };
}
