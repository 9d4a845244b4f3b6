import type { Endpoints } from "@octokit/types";
import { z } from "zod";
import type { Endpoint, Mutation } from "#bot/manifest.ts";
import { OutageError, UserError } from "#domain/errors.ts";
import type { RepositoryRef } from "#domain/github.ts";
import type { RepositoryTokens } from "./installation-tokens.ts";
import { httpStatusOf, undefinedIfMissing, withRefusals } from "./refusals.ts";
import { untilResetMs } from "./request-pacer.ts";
import {
  limitUsedUp,
  minRetryMs,
  type RestClient,
  type RestRequest,
  type RestResponse,
  retryAfterMs,
} from "./rest-client.ts";

type AccountEndpoint = Extract<Endpoint, `GET /user${string}` | `GET /orgs/${string}`>;
type RepositoryEndpoint = Extract<Endpoint, `${string} /repos/{owner}/{repo}${string}`>;
export type ResponseData<E extends Endpoint> = Endpoints[E]["response"]["data"];
type ApiResponse<E extends Endpoint> = Pick<RestResponse, "headers"> & { data: ResponseData<E> };
type ContentsEndpoint = "GET /repos/{owner}/{repo}/contents/{path}";
type RepositoryItself = "GET /repos/{owner}/{repo}";
type Parameters<E extends Endpoint> = Omit<Endpoints[E]["parameters"], "owner" | "repo">;
type Options = Pick<RestRequest, "timeoutMs" | "maxRetries" | "priority" | "prepare" | "fetch" | "accept">;

const downloadTimeoutMs = 30_000;

const GraphqlResponse = z.object({
  data: z.unknown().optional(),
  errors: z.array(z.object({ message: z.string(), type: z.string().optional() })).optional(),
});

/** GraphQL reports with status 200 that a limit is used up, or that GitHub failed. */
const rateLimited = /\brate limit\b/i;
const temporaryFailure = /^Something went wrong while executing your query/i;

/** The time for which a name counts as that of the repository it was confirmed to belong to. */
const nameLifetimeMs = 60_000;

/** Sends requests about one repository, by its current name and with a token that reaches no other. */
export class RepositoryApi {
  readonly #rest: RestClient;
  readonly #tokens: RepositoryTokens;
  readonly #repository: RepositoryRef;
  readonly #fetch: typeof fetch;
  readonly #graphqlUrl: string;
  /** For endpoints that redirect to a download. */
  readonly #fetchDownload: typeof fetch;
  readonly #apiUrl: string;

  constructor(options: { rest: RestClient; tokens: RepositoryTokens; repository: RepositoryRef; apiUrl: string }) {
    const { rest, tokens, repository, apiUrl } = options;
    this.#rest = rest;
    this.#tokens = tokens;
    this.#repository = repository;
    // GitHub Enterprise Server has REST below /api/v3 and GraphQL at /api/graphql.
    this.#graphqlUrl = `${apiUrl.replace(/\/v3\/?$/, "")}/graphql`;
    const onRenamed = () => tokens.discard(repository);
    this.#apiUrl = apiUrl;
    this.#fetch = fetchInRepository(repository.repositoryId, { apiUrl, onRenamed });
    this.#fetchDownload = fetchInRepository(repository.repositoryId, { apiUrl, onRenamed, returnsDownloads: true });
  }

  /** Calls an endpoint of the repository, or asks about an account or a team with the repository's token. */
  async call<E extends RepositoryEndpoint | AccountEndpoint>(
    endpoint: E,
    parameters: Parameters<E>,
    options: Options = {},
  ): Promise<ResponseData<E>> {
    return (await this.#send<E>(endpoint, parameters, options)).data;
  }

  /** The current login of the repository's owner. */
  async owner(): Promise<string> {
    await this.#tokens.get(this.#repository, "api");
    return this.#tokens.nameOf(this.#repository).owner;
  }

  /** A file, or the entries of a folder, of the default branch. */
  async readContents(path: string): Promise<ResponseData<ContentsEndpoint>> {
    const encoded = path.split("/").map(encodeURIComponent).join("/");
    // `{+path}` keeps the slashes, which not every server accepts encoded.
    const route = "GET /repos/{owner}/{repo}/contents/{+path}";
    return (await this.#send<ContentsEndpoint>(route, { path: encoded }, { priority: "high" })).data;
  }

  /** Asks for every page of a list, or at most `maxPages`, and returns the pages. */
  async callPages<E extends RepositoryEndpoint>(
    endpoint: E,
    parameters: Parameters<E>,
    { maxPages = Number.POSITIVE_INFINITY, ...options }: Options & { maxPages?: number } = {},
  ): Promise<ResponseData<E>[]> {
    const pages: ResponseData<E>[] = [];
    for (let page = 1; ; page++) {
      const { data, headers } = await this.#send<E>(endpoint, { per_page: 100, ...parameters, page }, options);
      pages.push(data);
      if (page >= maxPages || !/\brel="next"/.test(String(headers.link ?? ""))) return pages;
    }
  }

  /**
   * Asks for the last pages of a list that GitHub returns oldest first, until `isEnough` says so of the earliest of them, and
   * returns them in order. GitHub says on the first page which page is the last.
   */
  async callLastPages<E extends RepositoryEndpoint>(
    endpoint: E,
    parameters: Parameters<E>,
    isEnough: (page: ResponseData<E>) => boolean,
  ): Promise<ResponseData<E>[]> {
    const send = (page: number) => this.#send<E>(endpoint, { per_page: 100, ...parameters, page }, {});
    const first = await send(1);
    const last = Number(/[?&]page=(\d+)[^>]*>; rel="last"/.exec(String(first.headers.link ?? ""))?.[1] ?? 1);
    const pages: ResponseData<E>[] = [];
    for (let page = last; page > 1; page--) {
      const { data } = await send(page);
      pages.unshift(data);
      if (isEnough(data)) return pages;
    }
    return [first.data, ...pages];
  }

  /** Carries out a GraphQL mutation, for the few operations that REST lacks. Throws a UserError that says why it was refused. */
  async mutate(mutation: Mutation, input: Record<string, unknown>): Promise<void> {
    const type = `${mutation.charAt(0).toUpperCase()}${mutation.slice(1)}Input`;
    const query = `mutation($input: ${type}!) { ${mutation}(input: $input) { clientMutationId } }`;
    const { errors = [] } = await this.#sendGraphql(query, { input });
    if (errors[0]) throw new UserError(`GitHub refused ${mutation}: ${errors[0].message}`);
  }

  /** Reads what only GraphQL knows about the repository. The variables `owner` and `name` are given. */
  async query<Schema extends z.ZodType>(
    query: string,
    variables: Record<string, unknown>,
    schema: Schema,
  ): Promise<z.output<Schema>> {
    await this.#tokens.get(this.#repository, "api");
    const { owner, repo: name } = this.#tokens.nameOf(this.#repository);
    const { data, errors = [] } = await this.#sendGraphql(query, { owner, name, ...variables });
    if (errors[0]) throw new UserError(`GitHub refused a query: ${errors[0].message}`);
    return schema.parse(data);
  }

  async #sendGraphql(query: string, variables: Record<string, unknown>): Promise<z.infer<typeof GraphqlResponse>> {
    const repository = this.#repository;
    const send = async () =>
      this.#rest.send({
        route: `POST ${this.#graphqlUrl}`,
        parameters: { query, variables },
        installationId: repository.installationId,
        token: await this.#tokens.get(repository, "api"),
        repository: `${repository.owner}/${repository.repo}`.toLowerCase(),
      });
    const { data, headers } = await withRefusals(repository, () =>
      send().catch((error: unknown) => {
        if (httpStatusOf(error) !== 401) throw error;
        this.#tokens.discard(repository);
        return send().catch(rejectsNewToken);
      }),
    );
    const response = GraphqlResponse.parse(data);
    const { errors = [] } = response;
    if (errors.some(({ message, type }) => type === "RATE_LIMITED" || rateLimited.test(message))) {
      const isUsedUp = String(headers["x-ratelimit-remaining"]) === "0";
      if (isUsedUp) throw limitUsedUp(untilResetMs(headers) ?? 0);
      // A secondary limit holds for REST, too.
      const pauseMs = retryAfterMs(headers) ?? minRetryMs;
      this.#rest.pause(repository.installationId, pauseMs);
      throw limitUsedUp(pauseMs);
    }
    const failure = errors.find(({ message }) => temporaryFailure.test(message));
    if (failure) throw new OutageError(`GitHub did not answer a query: ${failure.message}`);
    return response;
  }

  /**
   * Reads the end of a text that GitHub redirects to. The download is requested without a token and follows no further
   * redirect. Resolves to undefined when there is no such text, it is too long, or the storage does not answer.
   */
  async downloadEnd<E extends RepositoryEndpoint>(
    endpoint: E,
    parameters: Parameters<E>,
    { maxBytes, keptBytes }: { maxBytes: number; keptBytes: number },
  ): Promise<string | undefined> {
    const sent = this.#send<E>(endpoint, parameters, { fetch: this.#fetchDownload });
    const response = await undefinedIfMissing(sent);
    const location = response?.headers.location;
    if (typeof location !== "string") return undefined;
    // Only a GitHub that is itself served without TLS may point to a storage without it.
    const isAllowed = location.startsWith("https:") || this.#apiUrl.startsWith("http:");
    return isAllowed ? readEnd(location, { maxBytes, keptBytes }) : undefined;
  }

  async #send<E extends Endpoint>(
    route: string,
    parameters: Record<string, unknown>,
    options: Options,
  ): Promise<ApiResponse<E>> {
    const repository = this.#repository;
    const send = () => this.#sendOnce<E>(route, parameters, options);
    return withRefusals(repository, async () => {
      // The token writes to no other repository, but a public one that took over the name could be read.
      if (route.startsWith("GET")) await this.confirmName();
      const { owner, repo } = this.#tokens.nameOf(repository);
      try {
        return await send();
      } catch (error) {
        const status = httpStatusOf(error);
        if (status === 404 && !route.startsWith("GET")) {
          await this.confirmName(0);
          const current = this.#tokens.nameOf(repository);
          if (current.owner === owner && current.repo === repo) throw error;
        } else if (status === 401) {
          // The token was revoked early. Where the app is no longer installed there is no new one.
          this.#tokens.discard(repository);
        } else throw error;
      }
      return send().catch(rejectsNewToken);
    });
  }

  async #sendOnce<E extends Endpoint>(
    route: string,
    parameters: Record<string, unknown>,
    options: Options,
  ): Promise<ApiResponse<E>> {
    const token = await this.#tokens.get(this.#repository, "api");
    const { owner, repo } = this.#tokens.nameOf(this.#repository);
    const { installationId } = this.#repository;
    const name = route.includes("{owner}") ? { owner, repo } : {};
    const request = { route, parameters: { ...name, ...parameters }, installationId, token };
    const { data, headers } = await this.#rest.send({
      ...request,
      repository: `${owner}/${repo}`.toLowerCase(),
      fetch: this.#fetch,
      ...options,
    });
    // GitHub's description of the endpoint is trusted; it is not parsed again.
    return { data: data as ResponseData<E>, headers };
  }

  /** Makes sure that the repository has had its name within `maxAgeMs`; a new token says the current one. */
  async confirmName(maxAgeMs: number = nameLifetimeMs): Promise<void> {
    const repository = this.#repository;
    if (repository.repositoryId === undefined) return;
    await this.#tokens.get(repository, "api");
    const { confirmedAt, ...name } = this.#tokens.nameOf(repository);
    if (confirmedAt > 0 && Date.now() - confirmedAt <= maxAgeMs) return;

    const found = await this.#sendOnce<RepositoryItself>("GET /repos/{owner}/{repo}", {}, {}).catch(
      (error: unknown) => {
        if (httpStatusOf(error) === 401 || httpStatusOf(error) === 404) return undefined;
        throw error;
      },
    );
    if (found?.data.id === repository.repositoryId) return this.#tokens.confirmName(repository, name);
    this.#tokens.discard(repository);
    await this.#tokens.get(repository, "api");
  }
}

/** Throws the error of a request with a new token. That GitHub does not know the token yet is an outage. */
function rejectsNewToken(error: unknown): never {
  throw httpStatusOf(error) === 401 ? new OutageError("GitHub rejects a new token (401).", { cause: error }) : error;
}

async function readEnd(
  url: string,
  { maxBytes, keptBytes }: { maxBytes: number; keptBytes: number },
): Promise<string | undefined> {
  try {
    const response = await fetch(url, { redirect: "error", signal: AbortSignal.timeout(downloadTimeoutMs) });
    if (!response.ok || !response.body) return undefined;
    let read = 0;
    let end: Buffer = Buffer.alloc(0);
    for await (const chunk of response.body) {
      read += chunk.length;
      if (read > maxBytes) return undefined;
      end = Buffer.concat([end, chunk]);
      if (end.length > 2 * keptBytes) end = end.subarray(-keptBytes);
    }
    return end.subarray(-keptBytes).toString("utf8");
  } catch {
    // Logs are optional, so nothing waits for them.
    return undefined;
  }
}

const maxRedirects = 3;

/**
 * Returns a fetch for requests about one repository. GitHub redirects an old name of a repository to its id, which is
 * followed for this id alone; anything that was moved to another repository, such as an issue, is gone from this one (410).
 */
function fetchInRepository(
  repositoryId: number | undefined,
  {
    apiUrl,
    onRenamed,
    returnsDownloads = false,
  }: {
    apiUrl: string;
    onRenamed: () => void;
    /** Redirects to a download (302) are returned: the receiver follows them without a token. */
    returnsDownloads?: boolean;
  },
): typeof fetch {
  const root = `${apiUrl}/repositories/${repositoryId}`;

  return async (input, init) => {
    let url = String(input);
    for (let redirects = 0; ; redirects++) {
      const response = await fetch(url, { ...init, redirect: "manual" });
      if (response.status < 300 || response.status >= 400 || response.status === 304) return response;

      const target = new URL(response.headers.get("location") ?? "", url).href;
      const isSameRepository =
        repositoryId !== undefined &&
        (target === root || target.startsWith(`${root}/`) || target.startsWith(`${root}?`));
      if (!isSameRepository && returnsDownloads && response.status === 302) return response;

      await response.body?.cancel();
      if (!isSameRepository || redirects >= maxRedirects) {
        return Response.json({ message: "Moved to another repository" }, { status: 410 });
      }
      onRenamed();
      url = target;
    }
  };
}
