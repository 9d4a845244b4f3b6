import type { Logger } from "pino";
import { Probot } from "probot";
import githubAppJwt from "universal-github-app-jwt";
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
  const rest = new RestClient({
    apiUrl,
    writeIntervalMs,
    warn,
    createAppToken: (clockOffset) => createAppToken(config.app, clockOffset),
  });
  return { probot, rest };
}

/** Signs a token of the app, for a GitHub whose clock is this many seconds ahead of the local one. */
async function createAppToken(
  { appId, privateKey }: Pick<Config["app"], "appId" | "privateKey">,
  clockOffset: number,
): Promise<string> {
  const now = Math.floor(Date.now() / 1_000) + clockOffset;
  const sign = async () => (await githubAppJwt({ id: appId, privateKey, now })).token;
  // Node may blame a valid private key for an error that something else left behind in OpenSSL.
  return sign().catch((error: Error) => {
    if (error.name !== "DataError") throw error;
    return sign();
  });
}
