import { sign } from "node:crypto";
import type { Logger } from "pino";
import { Probot } from "probot";
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

/** GitHub accepts ten minutes at most, from a clock that may be ahead by a few seconds. */
const tokenSeconds = { before: 30, after: 9 * 60 };

/** Signs a token of the app, for a GitHub whose clock is this many seconds ahead of the local one. */
function createAppToken(
  { appId, privateKey }: Pick<Config["app"], "appId" | "privateKey">,
  clockOffset: number,
): string {
  const now = Math.floor(Date.now() / 1_000) + clockOffset;
  const claims = { iat: now - tokenSeconds.before, exp: now + tokenSeconds.after, iss: String(appId) };
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString("base64url");
  const content = `${encode({ alg: "RS256", typ: "JWT" })}.${encode(claims)}`;
  const signature = () => sign("RSA-SHA256", Buffer.from(content), privateKey).toString("base64url");
  try {
    return `${content}.${signature()}`;
  } catch {
    // Node may blame a valid private key for an error that something else left behind in OpenSSL.
    return `${content}.${signature()}`;
  }
}
