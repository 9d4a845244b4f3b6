import { z } from "zod";
import { isOutage } from "#bot/github/refusals.ts";
import type { RestClient } from "#bot/github/rest-client.ts";
import { messageOf } from "#domain/errors.ts";
import { startStopwatch } from "#domain/work-context.ts";
import { subscribedEvents } from "./handlers.ts";

const intervalMs = 10 * 60_000;
/** GitHub keeps deliveries for three days. */
const maxAgeMs = 3 * 24 * 60 * 60_000;

/** A delivery that was requested again may take this long to arrive. */
const redeliveryMs = 60_000;
/** After this time, deliveries that could not be listed are looked for again. */
const retryMs = 60_000;

/** GitHub records a delivery that is not answered as failed after this time. */
const deliveryTimeoutMs = 15_000;

/** The interval between checks of whether the store responds again and whether the process was suspended. */
const watchIntervalMs = 1_000;

/** A delivery that failed this often is not redelivered again. */
const maxAttempts = 12;

const maxPages = 20;

interface RedeliveryOptions {
  rest: RestClient;
  /** Rejects while deliveries cannot be stored. */
  ready: () => Promise<unknown>;
  log: { info: (message: string) => void; error: (message: string, error: unknown) => void };
  inBackground: (work: Promise<unknown>) => void;
}

/**
 * Looks for missed deliveries a second after the start, every ten minutes, when the process continues after it was suspended, and as soon
 * as deliveries can be stored again after one could not. While GitHub does not list them, it is asked again every minute.
 */
export class Redelivery {
  readonly #options: RedeliveryOptions;
  readonly #reported = new Set<string>();
  /** The time at which each delivery was last requested again. */
  readonly #requested = new Map<string, number>();
  readonly #timers: NodeJS.Timeout[] = [];
  #retry: NodeJS.Timeout | undefined;
  /** True at the start: deliveries may have been missed before. */
  #isMissing = true;
  #isChecking = false;

  constructor(options: RedeliveryOptions) {
    this.#options = options;
  }

  start(): void {
    let sinceWatched = startStopwatch();
    const watch = () => {
      if (sinceWatched() > watchIntervalMs + deliveryTimeoutMs / 2) this.#isMissing = true;
      sinceWatched = startStopwatch();
      if (this.#isMissing) void this.#runWhenReady();
    };
    this.#timers.push(setInterval(watch, watchIntervalMs).unref());
    this.#timers.push(setInterval(() => this.#run(), intervalMs).unref());
  }

  /** A delivery could not be stored. */
  onMissed(): void {
    this.#isMissing = true;
  }

  stop(): void {
    for (const timer of [...this.#timers, this.#retry]) clearTimeout(timer);
  }

  async #runWhenReady(): Promise<void> {
    if (this.#isChecking) return;
    this.#isChecking = true;
    const isReady = await this.#options.ready().then(
      () => true,
      () => false,
    );
    this.#isChecking = false;
    if (!isReady) return;
    this.#isMissing = false;
    this.#run();
    // GitHub records an attempt without an answer only after its timeout.
    this.#timers.push(setTimeout(() => this.#run(), deliveryTimeoutMs).unref());
  }

  #run(): void {
    const { rest, log, inBackground } = this.#options;
    const looking = redeliverMissed(rest, this.#requested).then(
      ({ redelivered, refused, abandoned }) => {
        if (redelivered.length > 0) log.info(`Asked GitHub to redeliver ${redelivered.length} missed deliveries.`);
        for (const reason of refused) log.info(reason);
        for (const guid of abandoned) {
          if (this.#reported.has(guid)) continue;
          this.#reported.add(guid);
          log.error(`Delivery ${guid} failed ${maxAttempts} times, and is not redelivered again.`, "");
        }
      },
      (error: Error) => {
        log.info(`Missed deliveries could not be listed: ${error.message}`);
        clearTimeout(this.#retry);
        this.#retry = setTimeout(() => this.onMissed(), retryMs).unref();
      },
    );
    inBackground(looking);
  }
}

/**
 * Asks GitHub to redeliver what it could not deliver, oldest first, because it does not retry automatically. A redelivery keeps
 * its id, so one that was received after all counts once. Resolves to the ids of the deliveries that are redelivered, to why
 * GitHub refused others, and to the ids of those that failed too often.
 */
async function redeliverMissed(
  rest: RestClient,
  requested: Map<string, number>,
): Promise<{ redelivered: string[]; refused: string[]; abandoned: string[] }> {
  const now = Date.now();
  for (const [guid, at] of requested) if (now - at > redeliveryMs) requested.delete(guid);
  const found = findMissed(await listDeliveries(rest, now), now);
  const missed = found.missed.filter(({ guid }) => !requested.has(guid));
  const redelivered: string[] = [];
  const refused: string[] = [];
  for (const { id, guid } of missed) {
    requested.set(guid, Date.now());
    const route = "POST /app/hook/deliveries/{delivery_id}/attempts";
    try {
      await rest.send({ route, parameters: { delivery_id: id }, maxRetries: 3 });
      redelivered.push(guid);
    } catch (error) {
      // One that GitHub refuses must not keep the others waiting.
      if (isOutage(error)) throw error;
      refused.push(`Delivery ${guid} cannot be redelivered: ${messageOf(error)}`);
    }
  }
  return { redelivered, refused, abandoned: found.abandoned };
}

interface HookDelivery {
  id: number;
  guid: string;
  deliveredAt: number;
  succeeded: boolean;
  event: string;
}

const Deliveries = z.array(
  z.object({ id: z.number(), guid: z.string(), delivered_at: z.string(), status_code: z.number(), event: z.string() }),
);

async function listDeliveries(rest: RestClient, now: number): Promise<HookDelivery[]> {
  const found: HookDelivery[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < maxPages; page++) {
    const parameters = { per_page: 100, ...(cursor ? { cursor } : {}) };
    const { data, headers } = await rest.send({ route: "GET /app/hook/deliveries", parameters });
    for (const { id, guid, delivered_at, status_code, event } of Deliveries.parse(data)) {
      const succeeded = status_code >= 200 && status_code < 300;
      found.push({ id, guid, deliveredAt: Date.parse(delivered_at), succeeded, event });
    }
    cursor = /[?&]cursor=([^&>]+)[^>]*>;\s*rel="next"/.exec(String(headers.link ?? ""))?.[1];
    const oldest = found.at(-1);
    if (!cursor || !oldest || now - oldest.deliveredAt > maxAgeMs) break;
  }
  return found;
}

/** Finds the deliveries of which no attempt succeeded: the first attempt of each, oldest first. */
function findMissed(attempts: readonly HookDelivery[], now: number): { missed: HookDelivery[]; abandoned: string[] } {
  const missed: HookDelivery[] = [];
  const abandoned: string[] = [];
  for (const [guid, ofDelivery] of Map.groupBy(attempts, (attempt) => attempt.guid)) {
    const ages = ofDelivery.map(({ deliveredAt }) => now - deliveredAt);
    const first = ofDelivery.toSorted((a, b) => a.deliveredAt - b.deliveredAt)[0];
    if (!first || !subscribedEvents.includes(first.event) || ofDelivery.some(({ succeeded }) => succeeded)) continue;
    if (Math.max(...ages) > maxAgeMs) continue;
    if (ofDelivery.length < maxAttempts) missed.push(first);
    else abandoned.push(guid);
  }
  return { missed: missed.sort((a, b) => a.deliveredAt - b.deliveredAt), abandoned };
}
