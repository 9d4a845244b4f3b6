import { z } from "zod";
import type { Config } from "#config/config.ts";
import type { OpenGitHub } from "#domain/github.ts";
import { createRedactor } from "#text/redact.ts";
import { DotGitHubReader } from "./dot-github-reader.ts";
import { InstallationTokens } from "./installation-tokens.ts";
import { RepositoryApi } from "./repository-api.ts";
import { RepositoryClient } from "./repository-client.ts";
import type { RestClient } from "./rest-client.ts";

/** Opens the repositories of the app's installations. */
export function createOpenGitHub(rest: RestClient, { github, app, secrets }: Config): OpenGitHub {
  const { apiUrl, webUrl } = github;
  const redact = createRedactor(secrets);
  const tokens = new InstallationTokens(rest);
  const dotGitHub = new DotGitHubReader();
  let login: Promise<string> | undefined;

  const ownLogin = () => {
    login ??= readOwnLogin(rest).catch((error) => {
      login = undefined;
      throw error;
    });
    return login;
  };
  return (repository) => {
    const api = new RepositoryApi({ rest, tokens, repository, apiUrl });
    return new RepositoryClient({ repository, api, tokens, dotGitHub, appId: app.appId, webUrl, ownLogin, redact });
  };
}

async function readOwnLogin(rest: RestClient): Promise<string> {
  const { data } = await rest.send({ route: "GET /app" });
  return `${z.object({ slug: z.string() }).parse(data).slug}[bot]`;
}
