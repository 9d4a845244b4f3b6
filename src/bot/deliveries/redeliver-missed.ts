import type { Probot } from "probot";
import { subscribedEvents } from "./handlers.ts";

/** GitHub keeps deliveries for three days; older commands are forgotten by those who gave them, too. */
const maxAgeMs = 3 * 24 * 60 * 60_000;

/** What is younger may be on its way still. */
const minAgeMs = 60_000;

/** One that failed this often will not be stored the next time either. */
const maxAttempts = 4;

const maxPages = 5;

/**
 * Asks GitHub to send again what it could not deliver, oldest first: GitHub does not do so by itself. Each delivery
 * keeps its id, so what was heard after all counts once. Resolves to how many were asked for.
 */
export async function redeliverMissed(probot: Probot, now: number = Date.now()): Promise<number> {
  const app = await probot.auth();
  const missed = findMissed(await listDeliveries(app, now), now);
  for (const { id } of missed) {
    await app.request("POST /app/hook/deliveries/{delivery_id}/attempts", { delivery_id: id });
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

async function listDeliveries(app: Awaited<ReturnType<Probot["auth"]>>, now: number): Promise<HookDelivery[]> {
  const found: HookDelivery[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < maxPages; page++) {
    const { data, headers } = await app.request("GET /app/hook/deliveries", {
      per_page: 100,
      ...(cursor ? { cursor } : {}),
    });
    for (const { id, guid, delivered_at, status_code, event } of data) {
      const succeeded = status_code >= 200 && status_code < 300;
      found.push({ id: Number(id), guid, deliveredAt: Date.parse(delivered_at), succeeded, event });
    }
    cursor = /[?&]cursor=([^&>]+)[^>]*>;\s*rel="next"/.exec(headers.link ?? "")?.[1];
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
