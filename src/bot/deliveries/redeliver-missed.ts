import type { Endpoints } from "@octokit/types";
import type { RestClient } from "#bot/github/rest-client.ts";
import { subscribedEvents } from "./handlers.ts";

/** GitHub keeps deliveries for three days. */
const maxAgeMs = 3 * 24 * 60 * 60_000;

/** A younger delivery may still be on its way. */
const minAgeMs = 60_000;

/** A delivery that failed this often is given up. */
const maxAttempts = 4;

const maxPages = 5;

/**
 * Asks GitHub to redeliver what it could not deliver, oldest first, because it does not do so by itself. A redelivery keeps
 * its id, so one that was received after all counts once. Resolves to the number of redeliveries.
 */
export async function redeliverMissed(rest: RestClient, now: number = Date.now()): Promise<number> {
  const missed = findMissed(await listDeliveries(rest, now), now);
  for (const { id } of missed) {
    const route = "POST /app/hook/deliveries/{delivery_id}/attempts";
    await rest.send({ route, parameters: { delivery_id: id }, maxRetries: 3 });
  }
  return missed.length;
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

/** The first delivery of each id of which no attempt got through. */
function findMissed(deliveries: readonly HookDelivery[], now: number): HookDelivery[] {
  const missed: HookDelivery[] = [];
  for (const attempts of Map.groupBy(deliveries, ({ guid }) => guid).values()) {
    const ages = attempts.map(({ deliveredAt }) => now - deliveredAt);
    const first = attempts.toSorted((a, b) => a.deliveredAt - b.deliveredAt)[0];
    if (!first || !subscribedEvents.includes(first.event) || attempts.some(({ succeeded }) => succeeded)) continue;
    if (attempts.length >= maxAttempts || Math.min(...ages) < minAgeMs || Math.max(...ages) > maxAgeMs) continue;
    missed.push(first);
  }
  return missed.sort((a, b) => a.deliveredAt - b.deliveredAt);
}
