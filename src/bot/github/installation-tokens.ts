import { z } from "zod";
import { gitPermissions } from "#bot/manifest.ts";
import { createBoundedCache } from "#domain/bounded-cache.ts";
import { GitHubRefusalError, type RepositoryRef } from "#domain/github.ts";
import { httpStatusOf, withRefusals } from "./refusals.ts";
import type { RestClient } from "./rest-client.ts";

/** Tokens live for an hour. One is reused until it has this long to live. */
const minLifetimeMs = 10 * 60_000;

interface InstallationToken {
  value: string;
  expiresAt: number;
}

/** A repository's name, and when it was last known to belong to the repository's id. */
interface ConfirmedName {
  owner: string;
  repo: string;
  /** The URL for git, without credentials, where it is known for this name. */
  cloneUrl?: string | undefined;
  confirmedAt: number;
}

const TokenAnswer = z.object({
  token: z.string(),
  expires_at: z.string(),
  repositories: z
    .array(z.object({ name: z.string(), clone_url: z.string().optional(), owner: z.object({ login: z.string() }) }))
    .default([]),
});
/** Provides tokens for repositories, and the repositories' current names. */
export type RepositoryTokens = Pick<InstallationTokens, "get" | "discard" | "nameOf" | "confirmName">;

/** The token of a job of GitHub Actions, which is valid for the job's repository until the job ends. */
export function jobTokens(
  token: string,
  repository: { owner: string; repo: string; cloneUrl: string },
): RepositoryTokens {
  return {
    get: async () => token,
    discard: () => {},
    nameOf: () => ({ ...repository, confirmedAt: Date.now() }),
    confirmName: () => {},
  };
}

const route = "POST /app/installations/{installation_id}/access_tokens";

type Access = "api" | keyof typeof gitPermissions;

/** Installation tokens that reach one repository each, by its id. Someone who takes over its name gains nothing. */
export class InstallationTokens {
  readonly #rest: RestClient;
  readonly #tokens = createBoundedCache<string, Promise<InstallationToken>>(10_000);
  readonly #names = createBoundedCache<number, ConfirmedName>(10_000);

  constructor(rest: RestClient) {
    this.#rest = rest;
  }

  /** A token of the app's own permissions for requests to the API, or one that only git's `read` or `write` takes. */
  async get(repository: RepositoryRef, access: Access): Promise<string> {
    const key = keyOf(repository, access);
    const known = await this.#tokens.get(key);
    if (known && known.expiresAt - Date.now() > minLifetimeMs) return known.value;

    const created = this.#create(repository, access);
    this.#tokens.set(key, created);
    created.catch(() => this.#tokens.delete(key));
    return (await created).value;
  }

  /** Forgets the tokens of a repository that was renamed, or one of whose tokens GitHub no longer accepts. */
  discard(repository: RepositoryRef): void {
    for (const access of ["api", "read", "write"] as const) this.#tokens.delete(keyOf(repository, access));
  }

  /** The repository's name as GitHub last gave it for the repository's id: with each token, and when it was confirmed. */
  nameOf({ repositoryId, owner, repo }: RepositoryRef): ConfirmedName {
    const known = repositoryId === undefined ? undefined : this.#names.get(repositoryId);
    return known ?? { owner, repo, confirmedAt: 0 };
  }

  confirmName({ repositoryId }: RepositoryRef, name: Omit<ConfirmedName, "confirmedAt">): void {
    if (repositoryId !== undefined) this.#names.set(repositoryId, { ...name, confirmedAt: Date.now() });
  }

  async #create(repository: RepositoryRef, access: Access): Promise<InstallationToken> {
    const { installationId, repositoryId, owner, repo } = repository;
    const response = await withRefusals(repository, () =>
      this.#rest.send({
        route,
        parameters: {
          installation_id: installationId,
          ...(repositoryId === undefined ? { repositories: [repo] } : { repository_ids: [repositoryId] }),
          ...(access === "api" ? {} : { permissions: gitPermissions[access] }),
        },
        // An extra token does no harm.
        maxRetries: 3,
      }),
    ).catch((error: unknown) => {
      if (httpStatusOf(error) !== 422) throw error;
      throw new GitHubRefusalError(`This app is no longer installed on ${owner}/${repo} (422).`, {
        status: 404,
        cause: error,
      });
    });
    const data = TokenAnswer.parse(response.data);
    const [reached] = data.repositories;
    if (reached) {
      const { name, clone_url: cloneUrl } = reached;
      this.confirmName(repository, { owner: reached.owner.login, repo: name, cloneUrl });
    }
    return { value: data.token, expiresAt: Date.parse(data.expires_at) };
  }
}

/** A name that is new here gets a new token, which says whether it is the current one. */
function keyOf({ installationId, repositoryId = 0, owner, repo }: RepositoryRef, access: Access): string {
  return `${installationId} ${repositoryId} ${owner}/${repo} ${access}`.toLowerCase();
}
