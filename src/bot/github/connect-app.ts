import type { Logger } from "pino";
import githubAppJwt from "universal-github-app-jwt";
import type { Config } from "#config/config.ts";
import { createRedactor } from "#text/redact.ts";
import { RestClient } from "./rest-client.ts";

/** Connects to GitHub as the app. */
export function connectApp(config: Config, log: Logger): RestClient {
  const { apiUrl, writeIntervalMs } = config.github;
  const redact = createRedactor(config.secrets);
  return new RestClient({
    apiUrl,
    writeIntervalMs,
    warn: (message) => log.warn(redact(message)),
    createAppToken: (clockOffset) => createAppToken(config.app, clockOffset),
  });
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
