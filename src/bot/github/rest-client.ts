import { setTimeout as wait } from "node:timers/promises";
import { Octokit } from "@octokit/rest";
import { LRUCache } from "lru-cache";
import { githubApiVersion, type RequestPriority } from "#domain/github.ts";
import { SerialQueue } from "#domain/serial-queue.ts";
import type { RequestError } from "./refusals.ts";
import { RequestPacer } from "./request-pacer.ts";

/** Longer pauses are not waited for: the request fails, and is tried again by its effect. */
const maxPauseMs = 120_000;
const maxPauses = 3;
const retryPausesMs = [1_000, 4_000, 9_000];
const requestTimeoutMs = 30_000;

export interface RestRequest {
  /** `GET /repos/{owner}/{repo}`. */
  route: string;
  parameters?: Record<string, unknown>;
  /** The installation whose rate limits the request counts for; undefined for a request of the app itself. */
  installationId?: number;
  /** Default: high for reads, which others wait for, and for writes that people wait for. */
  priority?: RequestPriority | undefined;
  /** The repository the request is about: those of an installation take turns. */
  repository?: string;
  /** An installation token. Default: the request is authenticated as the app. */
  token?: string;
  fetch?: typeof fetch;
  timeoutMs?: number | undefined;
  /** How often a request that failed is repeated. Default: never for POST, which may have been carried out; else three times. */
  maxRetries?: number | undefined;
}

export interface RestResponse {
  headers: Record<string, string | number | undefined>;
  data: unknown;
}

interface RestClientOptions {
  apiUrl: string;
  /** Keeps this distance between the writes of an installation. Default: they are paced by GitHub's limits. */
  writeIntervalMs?: number | undefined;
  /** Creates the JSON web token that authenticates the app. */
  createAppToken: () => Promise<string>;
  warn: (message: string) => void;
}

/** Sends requests to GitHub's REST API, at a pace that GitHub accepts. */
export class RestClient {
  readonly #octokit: Octokit;
  readonly #pacers = new LRUCache<number, RequestPacer>({ max: 1_000 });
  readonly #writeIntervalMs: number | undefined;
  readonly #writes = new LRUCache<number, SerialQueue>({ max: 1_000 });
  readonly #createAppToken: () => Promise<string>;
  readonly #warn: (message: string) => void;

  constructor(options: RestClientOptions) {
    const silent = () => {};
    this.#octokit = new Octokit({
      baseUrl: options.apiUrl,
      userAgent: "golem-forge",
      log: { debug: silent, info: silent, warn: options.warn, error: silent },
    });
    this.#writeIntervalMs = options.writeIntervalMs;
    this.#createAppToken = options.createAppToken;
    this.#warn = options.warn;
  }

  async send(request: RestRequest): Promise<RestResponse> {
    const isPost = request.route.startsWith("POST");
    const maxRetries = request.maxRetries ?? (isPost ? 0 : retryPausesMs.length);
    let retries = 0;
    for (let pauses = 0; ; ) {
      try {
        return await this.#sendOnce(request);
      } catch (error) {
        const pauseMs = pauseOf(error);
        if (pauseMs !== undefined && pauseMs <= maxPauseMs && pauses < maxPauses) {
          this.#warn(`GitHub asks for a pause of ${pauseMs} ms before ${request.route}`);
          pauses++;
          await wait(pauseMs);
        } else if (pauseMs === undefined && ((error as RequestError).status ?? 0) >= 500 && retries < maxRetries) {
          await wait(retryPausesMs[retries++]);
        } else throw error;
      }
    }
  }

  async #sendOnce(request: RestRequest): Promise<RestResponse> {
    const { installationId, priority = "high", repository = "" } = request;
    if (installationId === undefined) return this.#exchange(request);
    const isWrite = !request.route.startsWith("GET");
    if (this.#writeIntervalMs === undefined) {
      const pacer = this.#pacers.get(installationId) ?? new RequestPacer();
      this.#pacers.set(installationId, pacer);
      await pacer.admit({ isWrite, priority, repository });
    }
    if (!isWrite || !this.#writeIntervalMs) return this.#exchange(request);
    const queue = this.#writes.get(installationId) ?? new SerialQueue();
    this.#writes.set(installationId, queue);
    return new Promise((resolve, reject) => {
      void queue.run(async () => {
        this.#exchange(request).then(resolve, reject);
        await wait(this.#writeIntervalMs);
      });
    });
  }

  async #exchange({
    route,
    parameters,
    token,
    fetch,
    timeoutMs = requestTimeoutMs,
  }: RestRequest): Promise<RestResponse> {
    const authorization = token === undefined ? `Bearer ${await this.#createAppToken()}` : `token ${token}`;
    return this.#octokit.request(route, {
      ...parameters,
      headers: { authorization, "x-github-api-version": githubApiVersion },
      request: { ...(fetch && { fetch }), signal: AbortSignal.timeout(timeoutMs) },
    });
  }
}

/** How long GitHub asks to wait, in milliseconds; undefined for any other error. */
function pauseOf(error: unknown): number | undefined {
  const { status, message = "", response } = error as RequestError;
  if (status !== 429 && status !== 403) return undefined;

  const seconds = Number(response?.headers?.["retry-after"]);
  if (Number.isFinite(seconds)) return seconds * 1_000;
  if (String(response?.headers?.["x-ratelimit-remaining"]) === "0") {
    const resetMs = Number(response?.headers?.["x-ratelimit-reset"]) * 1_000 - Date.now();
    if (Number.isFinite(resetMs)) return Math.max(0, resetMs);
  }
  return /\bsecondary rate\b/i.test(message) || status === 429 ? 60_000 : undefined;
}
