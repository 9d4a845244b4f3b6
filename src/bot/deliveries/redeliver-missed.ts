import type { Endpoints } from "@octokit/types";
import type { RestClient } from "#bot/github/rest-client.ts";
import { subscribedEvents } from "./handlers.ts";

const intervalMs = 10 * 60_000;
/** GitHub keeps deliveries for three days. */
const maxAgeMs = 3 * 24 * 60 * 60_000;

/** A younger delivery may still be on its way. */
const minAgeMs = 60_000;

/** A delivery that failed this often is not redelivered again. */
const maxAttempts = 12;

const maxPages = 5;

interface RedeliveryOptions {
  rest: RestClient;
  log: { info: (message: string) => void; error: (message: string, error: unknown) => void };
  inBackground: (work: Promise<unknown>) => void;
}

/** Looks for missed deliveries at the start, every ten minutes, and a minute after one could not be stored. */
export class Redelivery {
  readonly #options: RedeliveryOptions;
  readonly #reported = new Set<string>();
  #interval: NodeJS.Timeout | undefined;
  #timeout: NodeJS.Timeout | undefined;

  constructor(options: RedeliveryOptions) {
    this.#options = options;
  }

  start(): void {
    this.#interval = setInterval(() => this.#run(), intervalMs).unref();
    this.#run();
  }

  /** Looks as soon as a delivery that fails now is old enough to be redelivered. */
  soon(): void {
    this.#timeout ??= setTimeout(() => {
      this.#timeout = undefined;
      this.#run();
    }, minAgeMs + 15_000).unref();
  }

  stop(): void {
    clearInterval(this.#interval);
    clearTimeout(this.#timeout);
  }

  #run(): void {
    const { rest, log, inBackground } = this.#options;
    const looking = redeliverMissed(rest).then(
      ({ redelivered, abandoned }) => {
        if (redelivered.length > 0) log.info(`Asked GitHub to redeliver ${redelivered.length} missed deliveries.`);
        for (const guid of abandoned) {
          if (this.#reported.has(guid)) continue;
          this.#reported.add(guid);
          log.error(`Delivery ${guid} failed ${maxAttempts} times, and is not redelivered again.`, "");
        }
      },
      (error: Error) => log.info(`Missed deliveries could not be listed: ${error.message}`),
    );
    inBackground(looking);
  }
}

/**
 * Asks GitHub to redeliver what it could not deliver, oldest first, because it does not do so by itself. A redelivery keeps
 * its id, so one that was received after all counts once. Resolves to the ids of the deliveries that are redelivered, and of
 * those that failed too often.
 */
async function redeliverMissed(
  rest: RestClient,
  now: number = Date.now(),
): Promise<{ redelivered: string[]; abandoned: string[] }> {
  const { missed, abandoned } = findMissed(await listDeliveries(rest, now), now);
  for (const { id } of missed) {
    const route = "POST /app/hook/deliveries/{delivery_id}/attempts";
    await rest.send({ route, parameters: { delivery_id: id }, maxRetries: 3 });
  }
  return { redelivered: missed.map(({ guid }) => guid), abandoned };
}

interface HookDelivery {
  id: number;
  guid: string;
  deliveredAt: number;
  succeeded: boolean;
  event: string;
}

async function listDeliveries(rest: RestClient, now: number): Promise<HookDelivery[]> {
  const found: HookDelivery[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < maxPages; page++) {
    const parameters = { per_page: 100, ...(cursor ? { cursor } : {}) };
    const { data, headers } = await rest.send({ route: "GET /app/hook/deliveries", parameters });
    type Deliveries = Endpoints["GET /app/hook/deliveries"]["response"]["data"];
    for (const { id, guid, delivered_at, status_code, event } of data as Deliveries) {
      const succeeded = status_code >= 200 && status_code < 300;
      found.push({ id: Number(id), guid, deliveredAt: Date.parse(delivered_at), succeeded, event });
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
    if (Math.min(...ages) < minAgeMs || Math.max(...ages) > maxAgeMs) continue;
    if (ofDelivery.length < maxAttempts) missed.push(first);
    else abandoned.push(guid);
  }
  return { missed: missed.sort((a, b) => a.deliveredAt - b.deliveredAt), abandoned };
}
