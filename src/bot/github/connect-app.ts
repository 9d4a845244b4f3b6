import type { Logger } from "pino";
import { Probot } from "probot";
import { z } from "zod";
import type { Config } from "#config/config.ts";
import { createRedactor } from "#text/redact.ts";
import { RestClient } from "./rest-client.ts";

/** Connects to GitHub as the app. */
export async function connectApp(config: Config, log: Logger): Promise<{ probot: Probot; rest: RestClient }> {
  const { apiUrl, writeIntervalMs } = config.github;
  const { appId, privateKey, webhookSecret } = config.app;
  const probot = new Probot({ appId, privateKey, secret: webhookSecret, baseUrl: apiUrl, log });
  await probot.ready();
  const redact = createRedactor(config.secrets);
  const warn = (message: string) => log.warn(redact(message));
  const rest = new RestClient({ apiUrl, writeIntervalMs, warn, createAppToken: () => createAppToken(probot) });
  return { probot, rest };
}

async function createAppToken(probot: Probot): Promise<string> {
  const app = await probot.auth();
  const sign = async () => z.object({ token: z.string() }).parse(await app.auth({ type: "app" })).token;
  // Node may blame a valid private key for an error that something else left behind in OpenSSL.
  return sign().catch((error: Error) => {
    if (error.name !== "DataError") throw error;
    return sign();
  });
}
