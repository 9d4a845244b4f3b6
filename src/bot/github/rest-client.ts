import { setTimeout as wait } from "node:timers/promises";
import { RequestError } from "@octokit/request-error";
import type { Octokit } from "@octokit/rest";
import { LRUCache } from "lru-cache";
import { createOctokit } from "#config/create-octokit.ts";
import { OutageError } from "#domain/errors.ts";
import type { RequestPriority } from "#domain/github.ts";
import { confirmLease } from "#domain/work-context.ts";
import { httpStatusOf } from "./refusals.ts";
import { maxWaitMs, maxWindowMs, RequestPacer, rateLimitMessage, untilResetMs } from "./request-pacer.ts";

/** A request that GitHub asks to pause more often fails, and is sent again by its effect. */
const maxPauses = 5;
/** Requests that count for GitHub's limits on content creation. */
const contentRoute = /^POST .*\/(issues|pulls|comments|reviews|replies|requested_reviewers|check-runs)$/;
const retryPausesMs = [1_000, 4_000, 9_000];
const requestTimeoutMs = 30_000;

export interface RestRequest {
  /** `GET /repos/{owner}/{repo}`. */
  route: string;
  parameters?: Record<string, unknown>;
  /** Returns parameters that are made when the request may be sent. */
  prepare?: (() => Promise<Record<string, unknown>>) | undefined;
  /** The installation whose rate limits the request counts for; undefined for a request of the app itself. */
  installationId?: number;
  /** Default: normal for reads, high for writes. */
  priority?: RequestPriority | undefined;
  /** The repository the request is about: those of an installation take turns. */
  repository?: string;
  /** An installation token. Default: the request is authenticated as the app. */
  token?: string;
  fetch?: typeof fetch;
  /** The media type of the answer. Default: GitHub's JSON. */
  accept?: string | undefined;
  timeoutMs?: number | undefined;
  /** The number of times a failed request is repeated. Default: 0 for POST, which may have been carried out; otherwise 3. */
  maxRetries?: number | undefined;
}

export interface RestResponse {
  headers: Record<string, string | number | undefined>;
  data: unknown;
}

interface RestClientOptions {
  apiUrl: string;
  /** The minimum interval between the writes of an installation. With 0, GitHub's limits are not anticipated. */
  writeIntervalMs?: number | undefined;
  /** Creates the JSON web token of the app, for a GitHub whose clock is this many seconds ahead of the local one. */
  createAppToken: (clockOffset: number) => Promise<string>;
  warn: (message: string) => void;
}

const maxCachedBytes = 64 * 1024 ** 2;

/** An answer that GitHub confirms with 304 while it is unchanged. */
interface CachedResponse extends RestResponse {
  etag: string;
}

/** Sends requests to GitHub's REST API, at a pace that GitHub accepts. */
export class RestClient {
  /** By token, since an ETag holds for one token. */
  readonly #responses = new LRUCache<string, CachedResponse>({
    maxSize: maxCachedBytes,
    sizeCalculation: ({ data }) => JSON.stringify(data).length + 1_000,
  });
  readonly #octokit: Octokit;
  readonly #pacers = new LRUCache<number, RequestPacer>({ max: 1_000 });
  readonly #writeIntervalMs: number | undefined;
  readonly #createAppToken: RestClientOptions["createAppToken"];
  /** Seconds that GitHub's clock is ahead of the local one, once that has mattered. */
  #clockOffset = 0;
  readonly #warn: (message: string) => void;
  #requests = 0;

  constructor(options: RestClientOptions) {
    this.#octokit = createOctokit({ baseUrl: options.apiUrl, warn: options.warn });
    this.#writeIntervalMs = options.writeIntervalMs;
    this.#createAppToken = options.createAppToken;
    this.#warn = options.warn;
  }

  /** The number of requests that were sent. */
  get requests(): number {
    return this.#requests;
  }

  async send(request: RestRequest): Promise<RestResponse> {
    const { route, installationId } = request;
    const pacer = installationId === undefined ? undefined : this.#pacerOf(installationId);
    const maxRetries = request.maxRetries ?? (route.startsWith("POST") ? 0 : retryPausesMs.length);
    let retries = 0;
    for (let pauses = 0; ; ) {
      try {
        return await (pacer ? this.#sendPaced(request, pacer) : this.#exchange(request));
      } catch (error) {
        const pauseMs = pauseOf(error);
        if (pauseMs !== undefined) {
          this.#warn(`GitHub asks for a pause of ${pauseMs} ms before ${route}`);
          pacer?.pause(pauseMs);
          pauses++;
          if (pauseMs > maxWaitMs || pauses > maxPauses) throw limitUsedUp(pauseMs, error);
          if (!pacer) await wait(pauseMs);
        } else if ((httpStatusOf(error) ?? 0) >= 500 && retries < maxRetries) {
          await wait(retryPausesMs[retries++]);
        } else throw error;
      }
    }
  }

  /** Pauses all requests of an installation, as an answer asked whose status is not that of a refusal. */
  pause(installationId: number, ms: number): void {
    this.#pacerOf(installationId).pause(ms);
  }

  /** Returns the state of the rate limits of every installation that requests were sent for recently. */
  rateLimits(): { installationId: number; remaining: number; waiting: number }[] {
    return [...this.#pacers].flatMap(([installationId, pacer]) => {
      const { remaining, waiting } = pacer.state();
      return remaining === undefined ? [] : [{ installationId, remaining, waiting }];
    });
  }

  #pacerOf(installationId: number): RequestPacer {
    const writeIntervalMs = this.#writeIntervalMs;
    const pacer =
      this.#pacers.get(installationId) ??
      new RequestPacer({ writeIntervalMs, ...(writeIntervalMs === 0 && { limits: [] }) });
    this.#pacers.set(installationId, pacer);
    return pacer;
  }

  #sendPaced(request: RestRequest, pacer: RequestPacer): Promise<RestResponse> {
    const { route, repository = "" } = request;
    const isWrite = !route.startsWith("GET");
    const priority = request.priority ?? (isWrite ? "high" : "normal");
    const createsContent = contentRoute.test(route);
    return pacer.run({ isWrite, createsContent, priority, repository }, async () => {
      try {
        const response = await this.#exchange(request);
        pacer.observe(response.headers);
        return response;
      } catch (error) {
        if (error instanceof RequestError) pacer.observe(error.response?.headers ?? {});
        throw error;
      }
    });
  }

  /**
   * Sends a request. When GitHub rejects the times in a token of the app, a token with GitHub's time is tried. Throws an
   * OutageError if it rejects those, too, as while the clock is being set: the request itself is not refused.
   */
  async #exchange(request: RestRequest): Promise<RestResponse> {
    for (let tries = 1; ; tries++) {
      try {
        return await this.#exchangeOnce(request);
      } catch (error) {
        const clockOffset = request.token === undefined ? clockOffsetIn(error) : undefined;
        if (clockOffset === undefined) throw error;
        if (tries === maxClockTries) throw new OutageError("GitHub rejects this machine's time.", { cause: error });
        // Another request may have been rejected at the same time.
        if (clockOffset === this.#clockOffset) continue;
        this.#clockOffset = clockOffset;
        this.#warn(`The clock of this machine differs from GitHub's by ${clockOffset} seconds.`);
      }
    }
  }

  async #exchangeOnce({
    route,
    parameters: given,
    prepare,
    token,
    fetch,
    accept,
    timeoutMs = requestTimeoutMs,
  }: RestRequest): Promise<RestResponse> {
    const parameters = { ...given, ...(await prepare?.()) };
    const authorization =
      token === undefined ? `Bearer ${await this.#createAppToken(this.#clockOffset)}` : `token ${token}`;
    const isCached = token !== undefined && route.startsWith("GET");
    const key = isCached ? JSON.stringify([token, route, parameters, accept]) : "";
    const known = isCached ? this.#responses.get(key) : undefined;
    const headers = {
      authorization,
      ...(accept !== undefined && { accept }),
      ...(known && { "if-none-match": known.etag }),
    };
    if (token !== undefined && !route.startsWith("GET")) await confirmLease();
    this.#requests += 1;
    try {
      const request = { ...(fetch && { fetch }), signal: AbortSignal.timeout(timeoutMs) };
      const { data, headers: received } = await this.#octokit.request(route, { ...parameters, headers, request });
      if (isCached && received.etag) this.#responses.set(key, { data, headers: received, etag: received.etag });
      return { data, headers: received };
    } catch (error) {
      if (known && httpStatusOf(error) === 304) return known;
      throw error;
    }
  }
}

const maxClockTries = 3;

/** The seconds that GitHub's clock is ahead, for a refusal of the times in a token; undefined for any other error. */
function clockOffsetIn(error: unknown): number | undefined {
  if (!(error instanceof RequestError) || error.status !== 401) return undefined;
  if (!/'(Expiration time|Issued at)' claim/.test(error.message)) return undefined;
  const now = Date.parse(String(error.response?.headers.date));
  return Number.isNaN(now) ? undefined : Math.round((now - Date.now()) / 1_000);
}

/** The pause where GitHub does not say how long; a request that failed although it was sent again after each pause waits no shorter. */
export const minRetryMs = 60_000;

/** Returns an outage that says when to try again. */
export function limitUsedUp(askedMs: number, cause?: unknown): OutageError {
  const retryAt = Date.now() + Math.max(boundedPause(askedMs), minRetryMs);
  return new OutageError(rateLimitMessage(retryAt), { cause, retryAt });
}

/** Returns the milliseconds that GitHub asks to wait; undefined for any other error. */
function pauseOf(error: unknown): number | undefined {
  if (!(error instanceof RequestError)) return undefined;
  const { status, message, response } = error;
  if (status !== 429 && status !== 403) return undefined;

  const askedMs = retryAfterMs(response?.headers ?? {});
  if (askedMs !== undefined) return askedMs;
  if (String(response?.headers["x-ratelimit-remaining"]) === "0") {
    const untilReset = untilResetMs(response?.headers ?? {});
    if (untilReset !== undefined) return boundedPause(untilReset);
  }
  return /\bsecondary rate\b/i.test(message) || status === 429 ? minRetryMs : undefined;
}

/** Returns the pause that an answer asks for; undefined if it does not say how long. */
export function retryAfterMs(headers: RestResponse["headers"]): number | undefined {
  const seconds = Number(headers["retry-after"] ?? Number.NaN);
  return Number.isFinite(seconds) ? boundedPause(seconds * 1_000) : undefined;
}

/** Returns the pause that GitHub may have meant: its limits last an hour, and a time in the past comes from a rounded clock. */
function boundedPause(ms: number): number {
  return Math.min(Math.max(ms, 0), maxWindowMs);
}
