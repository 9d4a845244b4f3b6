import type { Logger } from "pino";
import githubAppJwt from "universal-github-app-jwt";
import { z } from "zod";
import type { Config } from "#config/config.ts";
import type { OpenGitHub } from "#domain/github.ts";
import { createRedactor } from "#text/redact.ts";
import type { IsOwnCheck } from "./commit-checks.ts";
import { DotGitHubReader } from "./dot-github-reader.ts";
import { InstallationTokens, type RepositoryTokens } from "./installation-tokens.ts";
import type { Identity } from "./read-responses.ts";
import { RepositoryApi } from "./repository-api.ts";
import { RepositoryClient } from "./repository-client.ts";
import { RestClient } from "./rest-client.ts";

type Options = Pick<Config, "github" | "secrets">;

/** Opens the repositories of the app's installations. */
export function createOpenGitHub(rest: RestClient, config: Options & Pick<Config, "app">): OpenGitHub {
  const { appId } = config.app;
  let login: Promise<string> | undefined;
  const ownLogin = () => {
    login ??= readOwnLogin(rest).catch((error) => {
      login = undefined;
      throw error;
    });
    return login;
  };
  const identity = { appId, ownLogin, isOwnCheck: ({ app }: Parameters<IsOwnCheck>[0]) => app?.id === appId };
  return openGitHubAs(identity, new InstallationTokens(rest), rest, config);
}

export function openGitHubAs(
  identity: Identity,
  tokens: RepositoryTokens,
  rest: RestClient,
  { github: { apiUrl, webUrl }, secrets }: Options,
): OpenGitHub {
  const redact = createRedactor(secrets);
  const dotGitHub = new DotGitHubReader();
  return (repository) => {
    const api = new RepositoryApi({ rest, tokens, repository, apiUrl });
    return new RepositoryClient({ repository, api, tokens, dotGitHub, identity, webUrl, redact });
  };
}

async function readOwnLogin(rest: RestClient): Promise<string> {
  const { data } = await rest.send({ route: "GET /app" });
  return `${z.object({ slug: z.string() }).parse(data).slug}[bot]`;
}

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
