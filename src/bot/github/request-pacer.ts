import type { RequestPriority } from "#domain/github.ts";

/**
 * GitHub's secondary rate limits of one installation, with a margin: content-creating requests in a minute and in an hour
 * (80 and 500), and points in a minute (900, of which a read costs 1 and a write 5).
 */
const limits = [
  { windowMs: 60_000, max: 75, costOf: ({ isWrite }: PacedRequest) => (isWrite ? 1 : 0) },
  { windowMs: 60 * 60_000, max: 480, costOf: ({ isWrite }: PacedRequest) => (isWrite ? 1 : 0) },
  { windowMs: 60_000, max: 850, costOf: ({ isWrite }: PacedRequest) => (isWrite ? 5 : 1) },
];

/** How much of each limit the requests of a priority may use up: the rest is kept for more urgent ones. */
const shares: Record<RequestPriority, number> = { high: 1, normal: 0.8, low: 0.5 };
const priorities: readonly RequestPriority[] = ["high", "normal", "low"];

export interface PacedRequest {
  isWrite: boolean;
  priority: RequestPriority;
  /** Repositories take turns. */
  repository: string;
}

interface Waiting extends PacedRequest {
  admit: () => void;
}

/** Admits the requests of one installation at a pace that GitHub accepts: urgent ones first, repositories in turns. */
export class RequestPacer {
  readonly #waiting = new Map<RequestPriority, Map<string, Waiting[]>>(priorities.map((name) => [name, new Map()]));
  #admitted: { at: number; request: PacedRequest }[] = [];
  #timer: NodeJS.Timeout | undefined;

  /** Resolves when the request may be sent. */
  admit(request: PacedRequest): Promise<void> {
    return new Promise((resolve) => {
      const repositories = this.#waiting.get(request.priority);
      const queue = repositories?.get(request.repository) ?? [];
      queue.push({ ...request, admit: resolve });
      repositories?.set(request.repository, queue);
      this.#admitWaiting();
    });
  }

  #admitWaiting(): void {
    const now = Date.now();
    const longestMs = Math.max(...limits.map(({ windowMs }) => windowMs));
    this.#admitted = this.#admitted.filter(({ at }) => at > now - longestMs);
    let retryAt = Number.POSITIVE_INFINITY;
    for (const priority of priorities) {
      const repositories = this.#waiting.get(priority);
      for (let next = firstOf(repositories); next; next = firstOf(repositories)) {
        const fitsAt = this.#fitsAt(next, now);
        if (fitsAt > now) {
          retryAt = Math.min(retryAt, fitsAt);
          break;
        }
        this.#admitted.push({ at: now, request: next });
        takeFirst(repositories, next);
        next.admit();
      }
    }
    clearTimeout(this.#timer);
    if (retryAt === Number.POSITIVE_INFINITY) return;
    this.#timer = setTimeout(() => this.#admitWaiting(), retryAt - now);
  }

  /** When a request fits into every limit, as far as is known now. */
  #fitsAt(request: PacedRequest, now: number): number {
    const times = limits.map(({ windowMs, max, costOf }) => {
      const cost = costOf(request);
      if (cost === 0) return now;
      const recent = this.#admitted.filter(({ at }) => at > now - windowMs);
      let excess = recent.reduce((sum, sent) => sum + costOf(sent.request), cost) - max * shares[request.priority];
      for (const { at, request: sent } of recent) {
        if (excess <= 0) break;
        excess -= costOf(sent);
        if (excess <= 0) return at + windowMs + 1;
      }
      return now;
    });
    return Math.max(...times);
  }
}

function firstOf(repositories: Map<string, Waiting[]> | undefined): Waiting | undefined {
  return repositories?.values().next().value?.[0];
}

/** Removes a repository's first request, and lets the other repositories go before its next one. */
function takeFirst(repositories: Map<string, Waiting[]> | undefined, { repository }: Waiting): void {
  const rest = repositories?.get(repository)?.slice(1) ?? [];
  repositories?.delete(repository);
  if (rest.length > 0) repositories?.set(repository, rest);
}
