import { OutageError } from "#domain/errors.ts";
import type { RequestPriority } from "#domain/github.ts";

/** Requests beyond a limit wait this long at most; where it takes longer, they fail and are retried later. */
export const maxWaitMs = 120_000;
/** A status that waits longer is made again at the time when it can be sent, or is no longer needed then. */
const maxWaits: Record<RequestPriority, number> = { high: maxWaitMs, normal: maxWaitMs, low: 5_000, optional: 0 };

/** The longest window of GitHub's limits. */
export const maxWindowMs = 61 * 60_000;

/**
 * The part of each limit that requests of a priority and less urgent ones may use up together, even when more urgent ones
 * have used theirs. The rest is kept for more urgent ones. An `optional` request is sent at once or not at all.
 */
type Shares = Record<RequestPriority, number>;
/** 49 of the 76 comments a minute are kept for requests for approval, replies and outcomes. */
const contentShares: Shares = { high: 1, normal: 0.8, low: 0.35, optional: 0.2 };
const pointShares: Shares = { high: 1, normal: 0.8, low: 0.7, optional: 0.1 };

/** The part of each limit that is left for further urgent requests when those before have used all that was kept for them. */
const lastReserve = 0.1;

interface Limit {
  windowMs: number;
  max: number;
  shares: Shares;
  /** The cost of a request that counts for this limit; 0 for one that does not. */
  costOf: (request: PacedRequest) => number;
}

/** The milliseconds of a clock that is independent of the system clock, whose correction must neither block nor free a limit. */
const monotonicNow = () => performance.now();

const minuteMs = 61_000;

/**
 * GitHub's secondary rate limits of one installation, with a margin: content-creating requests in a minute and in an hour
 * (80 and 500), and points in a minute (900, of which a read costs 1 and a write 5).
 */
const githubLimits: readonly Limit[] = [
  { windowMs: minuteMs, max: 76, shares: contentShares, costOf: ({ createsContent }) => (createsContent ? 1 : 0) },
  {
    windowMs: 60 * minuteMs,
    max: 480,
    shares: contentShares,
    costOf: ({ createsContent }) => (createsContent ? 1 : 0),
  },
  { windowMs: minuteMs, max: 850, shares: pointShares, costOf: ({ isWrite }) => (isWrite ? 5 : 1) },
];

/** GitHub allows 100 requests at the same time. */
const maxConcurrent = 90;

/** The most urgent one first. */
const priorities = ["high", "normal", "low", "optional"] as const satisfies RequestPriority[];

export interface PacedRequest {
  isWrite: boolean;
  /** True for requests that create comments, issues, pull requests, reviews and the like. */
  createsContent: boolean;
  priority: RequestPriority;
  /** Repositories take turns. */
  repository: string;
}

interface Waiting extends PacedRequest {
  admit: () => void;
  refuse: (error: OutageError) => void;
}

/** The requests of one priority. Each repository has its queue, and the queues take turns. */
type RepositoryQueues = Map<string, Waiting[]>;

interface PacerOptions {
  /** The minimum interval between writes. */
  writeIntervalMs?: number | undefined;
  /** Default: those of GitHub. */
  limits?: readonly Limit[];
}

/** Paces the requests of an installation: first bursts, then steadily; urgent ones first, repositories in turns. */
export class RequestPacer {
  readonly #windows: readonly SlidingWindow[];
  readonly #writeIntervalMs: number;
  readonly #waiting = new Map<RequestPriority, RepositoryQueues>(priorities.map((name) => [name, new Map()]));
  #inFlight = 0;
  #pausedUntil = 0;
  #nextWriteAt = 0;
  /** The primary limit as GitHub last answered it, less the requests sent since. */
  #primary = { limit: 0, remaining: Number.POSITIVE_INFINITY, resetAt: 0 };
  #timer: NodeJS.Timeout | undefined;
  /** The times until which failed requests have to wait. They are sent again then. */
  #failedUntil: number[] = [];

  constructor({ writeIntervalMs = 0, limits = githubLimits }: PacerOptions = {}) {
    this.#writeIntervalMs = writeIntervalMs;
    this.#windows = limits.map((limit) => new SlidingWindow(limit));
  }

  /**
   * Calls `send` when the limits allow it. Throws an OutageError that says when to try again if that takes more than two
   * minutes, or seconds for a request of low priority, or if an optional request would have to wait.
   */
  async run<Result>(request: PacedRequest, send: () => Promise<Result>): Promise<Result> {
    await this.#admit(request);
    try {
      return await send();
    } finally {
      this.#inFlight -= 1;
      this.#admitWaiting();
    }
  }

  /** Pauses all requests for this long, as GitHub asked. */
  pause(ms: number): void {
    this.#pausedUntil = Math.max(this.#pausedUntil, monotonicNow() + ms);
    this.#admitWaiting();
  }

  /** The requests left of the primary limit, as far as GitHub has said, and the number of those that wait. */
  state(): { remaining: number | undefined; waiting: number } {
    const { remaining, resetAt } = this.#primary;
    const queues = [...this.#waiting.values()].flatMap((queues) => [...queues.values()]);
    return {
      remaining: resetAt > monotonicNow() ? Math.max(0, remaining) : undefined,
      waiting: sum(queues.map((queue) => queue.length)),
    };
  }

  /** Notes the primary rate limit of REST that a response reports. That of GraphQL is another one. */
  observe(headers: Headers): void {
    if ((headers["x-ratelimit-resource"] ?? "core") !== "core") return;
    const [limit, remaining] = ["limit", "remaining"].map((name) =>
      Number(headers[`x-ratelimit-${name}`] ?? Number.NaN),
    ) as [number, number];
    const untilReset = untilResetMs(headers);
    if (!Number.isFinite(limit + remaining) || untilReset === undefined) return;
    const resetAt = monotonicNow() + Math.min(untilReset, maxWindowMs);
    // The response does not count the requests that are still in flight.
    this.#primary = { limit, remaining: remaining - Math.max(0, this.#inFlight - 1), resetAt };
  }

  #admit(request: PacedRequest): Promise<void> {
    const now = monotonicNow();
    const fitsAt = this.#fitsAt(request, now);
    // Comments that wait for their own limit are no reason: until they are posted, a reaction is all that people see.
    if (request.priority === "optional" && (fitsAt > now || this.#inFlight >= maxConcurrent)) {
      throw new OutageError("It was skipped because many requests are waiting.");
    }
    if (fitsAt - now > maxWaits[request.priority]) throw this.#usedUp(request, fitsAt, now);
    if (request.priority === "optional") {
      this.#count(request, now);
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const queues = this.#waiting.get(request.priority);
      const queue = queues?.get(request.repository) ?? [];
      queue.push({ ...request, admit: resolve, refuse: reject });
      queues?.set(request.repository, queue);
      this.#admitWaiting();
    });
  }

  /** Returns the error of a request that would wait too long, which says when to try again. */
  #usedUp({ priority }: PacedRequest, fitsAt: number, now: number): OutageError {
    const retryAt = Date.now() + fitsAt - now;
    const position = priority === "low" ? 0 : this.#recordFailed(fitsAt, now);
    const queue = position > 1 ? ` This request is number ${position} in the queue.` : "";
    return new OutageError(`${rateLimitMessage(retryAt)}${queue}`, { retryAt });
  }

  /** Records a failed request. Returns how many failed requests still have to wait, including this one. */
  #recordFailed(until: number, now: number): number {
    this.#failedUntil = this.#failedUntil.filter((time) => time > now);
    return this.#failedUntil.push(until);
  }

  #admitWaiting(): void {
    const now = monotonicNow();
    let retryAt = Number.POSITIVE_INFINITY;
    for (const queues of this.#waiting.values()) {
      for (let next = firstOf(queues); next && this.#inFlight < maxConcurrent; next = firstOf(queues)) {
        const fitsAt = this.#fitsAt(next, now);
        // It would wait too long since GitHub asked for a pause, or since others were sent before it.
        if (fitsAt - now > maxWaits[next.priority]) {
          takeFirst(queues, next);
          next.refuse(this.#usedUp(next, fitsAt, now));
          continue;
        }
        if (fitsAt > now) {
          retryAt = Math.min(retryAt, fitsAt);
          break;
        }
        this.#count(next, now);
        takeFirst(queues, next);
        next.admit();
      }
    }
    clearTimeout(this.#timer);
    if (retryAt < Number.POSITIVE_INFINITY) this.#timer = setTimeout(() => this.#admitWaiting(), retryAt - now);
  }

  #count(request: PacedRequest, now: number): void {
    this.#inFlight += 1;
    this.#primary.remaining -= 1;
    if (request.isWrite) this.#nextWriteAt = now + this.#writeIntervalMs;
    for (const window of this.#windows) window.add(request, now);
  }

  /** Returns the time at which a request fits into every limit, as far as is known now. */
  #fitsAt(request: PacedRequest, now: number): number {
    const { limit, remaining, resetAt } = this.#primary;
    const isPrimaryUsedUp = remaining <= limit * 0.5 * (1 - pointShares[request.priority]);
    return Math.max(
      now,
      this.#pausedUntil,
      request.isWrite ? this.#nextWriteAt : 0,
      isPrimaryUsedUp ? resetAt : 0,
      ...this.#windows.map((window) => window.fitsAt(request, now)),
    );
  }
}

interface SentRequest {
  at: number;
  cost: number;
  /** An index of `priorities`. */
  urgency: number;
}

/** The requests that were sent within a span of time, and what they cost. */
class SlidingWindow {
  readonly #limit: Limit;
  readonly #sent: SentRequest[] = [];
  /** Entries before this index have left the window. */
  #first = 0;
  /** The total cost of the entries of each urgency. */
  readonly #used = priorities.map(() => 0);

  constructor(limit: Limit) {
    this.#limit = limit;
  }

  add(request: PacedRequest, at: number): void {
    const cost = this.#limit.costOf(request);
    if (cost === 0) return;
    const urgency = priorities.indexOf(request.priority);
    this.#sent.push({ at, cost, urgency });
    this.#used[urgency] = (this.#used[urgency] ?? 0) + cost;
  }

  fitsAt(request: PacedRequest, now: number): number {
    const { max, windowMs, shares, costOf } = this.#limit;
    const cost = costOf(request);
    if (cost === 0) return now;

    this.#forget(now - windowMs);
    const urgency = priorities.indexOf(request.priority);
    let moreUrgent = sum(this.#used.slice(0, urgency));
    let others = sum(this.#used.slice(urgency));
    const kept = max * (1 - shares[request.priority]);
    const isFull = () => {
      const left = urgency === 0 ? 0 : max * lastReserve;
      return others + cost + Math.max(kept, moreUrgent + left) > max;
    };
    for (let index = this.#first; index < this.#sent.length && isFull(); index += 1) {
      const oldest = this.#sent[index] as SentRequest;
      if (oldest.urgency < urgency) moreUrgent -= oldest.cost;
      else others -= oldest.cost;
      if (!isFull()) return oldest.at + windowMs;
    }
    return now;
  }

  #forget(until: number): void {
    for (let oldest = this.#sent[this.#first]; oldest && oldest.at <= until; oldest = this.#sent[this.#first]) {
      this.#used[oldest.urgency] = (this.#used[oldest.urgency] ?? 0) - oldest.cost;
      this.#first += 1;
    }
    if (this.#first > 1_000) {
      this.#sent.splice(0, this.#first);
      this.#first = 0;
    }
  }
}

type Headers = Record<string, string | number | undefined>;

/** The time until the limit that a response reports is free again, by GitHub's clock; undefined if it does not say that. */
export function untilResetMs(headers: Headers): number | undefined {
  const resetMs = Number(headers["x-ratelimit-reset"] ?? Number.NaN) * 1_000;
  const sentAt = Date.parse(String(headers.date)) || Date.now();
  return Number.isFinite(resetMs) ? resetMs - sentAt : undefined;
}

/** `retryAt`: milliseconds since 1970. */
export function rateLimitMessage(retryAt: number): string {
  const time = new Date(retryAt).toISOString().slice(11, 16);
  return `GitHub's rate limit for this installation is used up until ${time} UTC.`;
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0);

function firstOf(queues: RepositoryQueues): Waiting | undefined {
  return queues.values().next().value?.[0];
}

/** Removes a repository's first request, and moves its queue behind those of the other repositories. */
function takeFirst(queues: RepositoryQueues, { repository }: Waiting): void {
  const queue = queues.get(repository);
  queue?.shift();
  queues.delete(repository);
  if (queue && queue.length > 0) queues.set(repository, queue);
}
