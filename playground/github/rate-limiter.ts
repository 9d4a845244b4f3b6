import { ApiError } from "./rest/api-error.ts";

/** GitHub's limits for one installation. Limits that are undefined are not enforced. */
export interface RateLimits {
  requestsPerHour?: number;
  /** Reads count 1 point, writes 5. */
  pointsPerMinute?: number;
  contentPerMinute?: number;
  contentPerHour?: number;
}

export const documentedLimits: Required<RateLimits> = {
  requestsPerHour: 5000,
  pointsPerMinute: 900,
  contentPerMinute: 80,
  contentPerHour: 500,
};

const minute = 60_000;
const hour = 60 * minute;

interface Usage {
  at: number;
  points: number;
  content: boolean;
}

/** Counts the requests of each installation and refuses those above the limits. */
export class RateLimiter {
  readonly #limits: RateLimits;
  readonly #usage = new Map<number, Usage[]>();

  constructor(limits: RateLimits) {
    this.#limits = limits;
  }

  /** Counts a request. Throws GitHub's 403 above a limit. A refused request does not count. */
  count(installation: number, request: { method: string; path: string }): void {
    const now = Date.now();
    const usage = (this.#usage.get(installation) ?? []).filter(({ at }) => at > now - hour);
    this.#usage.set(installation, usage);
    const next = { at: now, points: request.method === "GET" ? 1 : 5, content: createsContent(request) };
    const { requestsPerHour, pointsPerMinute, contentPerMinute, contentPerHour } = this.#limits;
    if (requestsPerHour !== undefined && usage.length >= requestsPerHour) throw this.#primaryLimit(usage);

    const points = usage.map((one) => ({ at: one.at, amount: one.points }));
    const content = usage.filter((one) => one.content).map(({ at }) => ({ at, amount: 1 }));
    const waits = [
      wait(points, { amount: next.points, limit: pointsPerMinute, windowMs: minute }),
      ...(next.content
        ? [
            wait(content, { amount: 1, limit: contentPerMinute, windowMs: minute }),
            wait(content, { amount: 1, limit: contentPerHour, windowMs: hour }),
          ]
        : []),
    ];
    const waitMs = Math.max(...waits);
    if (waitMs > 0) throw secondaryLimit(waitMs);
    usage.push(next);
  }

  /** Returns the headers of every response. */
  headers(installation: number | undefined): Record<string, string> {
    const usage = (installation !== undefined && this.#usage.get(installation)) || [];
    const limit = this.#limits.requestsPerHour ?? documentedLimits.requestsPerHour;
    return {
      "X-RateLimit-Limit": String(limit),
      "X-RateLimit-Remaining": String(Math.max(0, limit - usage.length)),
      "X-RateLimit-Used": String(usage.length),
      "X-RateLimit-Reset": String(Math.ceil(((usage[0]?.at ?? Date.now()) + hour) / 1000)),
      "X-RateLimit-Resource": "core",
    };
  }

  #primaryLimit([oldest]: Usage[]): ApiError {
    const reset = String(Math.ceil(((oldest?.at ?? 0) + hour) / 1000));
    return new ApiError(403, "API rate limit exceeded for installation.", undefined, {
      "X-RateLimit-Remaining": "0",
      "X-RateLimit-Reset": reset,
    });
  }
}

/** Returns the milliseconds until `amount` more stays within the limit of a sliding window. */
function wait(
  usage: { at: number; amount: number }[],
  { amount, limit, windowMs }: { amount: number; limit: number | undefined; windowMs: number },
): number {
  if (limit === undefined) return 0;
  const now = Date.now();
  const inWindow = usage.filter(({ at }) => at > now - windowMs);
  let total = inWindow.reduce((sum, one) => sum + one.amount, amount);
  for (const one of inWindow) {
    if (total <= limit) return 0;
    total -= one.amount;
    if (total <= limit) return one.at + windowMs - now;
  }
  return 0;
}

function secondaryLimit(waitMs: number): ApiError {
  return new ApiError(
    403,
    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.",
    undefined,
    { "Retry-After": String(Math.ceil(waitMs / 1000)) },
  );
}

/** True for issues, pull requests, comments and reviews; false for reactions, labels, tokens and edits. */
function createsContent({ method, path }: { method: string; path: string }): boolean {
  return method === "POST" && /\/(issues|pulls|comments|reviews|replies|requested_reviewers)$/.test(path);
}
