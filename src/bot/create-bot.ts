import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as wait } from "node:timers/promises";
import { type Logger, pino } from "pino";
import type { Probot } from "probot";
import { createAuthorize } from "#bot/commands/authorize.ts";
import { createReceiveDelivery, type Delivery } from "#bot/deliveries/receive-delivery.ts";
import { redeliverMissed } from "#bot/deliveries/redeliver-missed.ts";
import { connectToProxy } from "#bot/deliveries/webhook-proxy.ts";
import { createWebhookServer } from "#bot/deliveries/webhook-server.ts";
import { connectApp } from "#bot/github/connect-app.ts";
import { createOpenGitHub } from "#bot/github/open-github.ts";
import type { Config } from "#config/config.ts";
import { isListedRepository } from "#config/config.ts";
import type { OpenGitHub } from "#domain/github.ts";
import type { RunSpec } from "#domain/run.ts";
import type { FrontEnd } from "#runtime/front-end.ts";
import type { Runs } from "#runtime/runs.ts";
import { createRedactor } from "#text/redact.ts";
import { createSanitizer } from "#text/sanitize.ts";
import type { DeliveryContext } from "./deliveries/handler.ts";
import { findHandler } from "./deliveries/handlers.ts";
import { createThreadFrontEnd } from "./thread-front-end.ts";

const redeliveryIntervalMs = 10 * 60_000;
const shutdownGraceMs = 5_000;

export interface BotOptions {
  config: Config;
  /** Asked when it is needed, since the runtime takes what the bot gives. */
  runs: () => Runs;
  /** The pages of runs; undefined where there are none. */
  pages?: RunPages | undefined;
  /** Rejects while what is heard could not be stored. */
  ready: () => Promise<void>;
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
  /** Begins to listen. Resolves to the address, such as `http://127.0.0.1:3000`. */
  start(): Promise<string>;
  /** Takes nothing more, and resolves when everything in hand is answered. */
  stop(): Promise<void>;
}

/** The GitHub App: hears threads, asks who may command, tells the runtime, and shows runs in comments. */
export async function createBot({ config, runs, pages, ready, log: logger }: BotOptions): Promise<Bot> {
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

  const context: Omit<DeliveryContext, "deliveryId"> = {
    appId: config.app.appId,
    serves: ({ owner, repo }) =>
      !config.github.repositories || isListedRepository(config.github.repositories, owner, repo),
    openGitHub,
    runs,
    authorize: createAuthorize((key) => runs().recordOnce(key)),
    redact,
    sanitize,
    log,
    inBackground,
  };
  const handle = async (delivery: Delivery) => {
    try {
      await handleDelivery(delivery, context);
    } catch (error) {
      log.error(`Delivery ${delivery.id} could not be stored.`, error);
      throw error;
    }
  };
  const receive = createReceiveDelivery(probot, handle);
  const { host, port, webhookPath, webhookProxy } = config.app;
  const server = createWebhookServer({ host, port, webhookPath, receive, pages: pages?.answer, ready });
  const sweep = () =>
    redeliverMissed(rest).then(
      (count) => count > 0 && log.info(`Asked GitHub to send ${count} missed deliveries again.`),
      (error) => log.info(`Missed deliveries could not be looked for: ${(error as Error).message}`),
    );
  let closeProxy = () => {};
  let sweeping: NodeJS.Timeout | undefined;

  return {
    openGitHub,
    frontEnd: createThreadFrontEnd({ openGitHub, runs, redact, sanitize, linkTo: pages?.linkTo }),
    start: async () => {
      const address = await server.start();
      const url = `http://${address.host}:${address.port}`;
      log.info(`Listening on ${url}${webhookPath}.`);
      if (webhookProxy) closeProxy = connectToProxy({ url: webhookProxy, receive, log: log.info });
      sweeping = setInterval(() => inBackground(sweep()), redeliveryIntervalMs).unref();
      inBackground(sweep());
      return url;
    },
    stop: async () => {
      clearInterval(sweeping);
      closeProxy();
      await server.stop();
      // Reactions and apologies: nice to finish, and not worth waiting for GitHub's pace.
      await Promise.race([Promise.all(background), wait(shutdownGraceMs, undefined, { ref: false })]);
    },
  };
}

async function handleDelivery(
  { id, name, payload }: Delivery,
  context: Omit<DeliveryContext, "deliveryId">,
): Promise<void> {
  const handler = findHandler(`${name}.${(payload as { action?: unknown }).action}`);
  const read = handler?.read(payload, context);
  if (!handler || !read) return;
  if ("ignored" in read) return context.log.info(`Delivery ${id} is ignored: ${read.ignored}.`);
  await handler.handle(read.payload, { ...context, deliveryId: id });
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
