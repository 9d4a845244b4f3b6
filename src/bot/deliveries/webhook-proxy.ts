import { EventSource } from "undici";
import { z } from "zod";
import type { RawDelivery, Receipt } from "./receive-delivery.ts";

/** A message of smee.io and similar proxies for a webhook: its headers and, among them, its body. */
const Proxied = z.object({
  "x-github-delivery": z.string(),
  "x-github-event": z.string(),
  "x-hub-signature-256": z.string(),
  body: z.unknown(),
});

export interface WebhookProxyOptions {
  url: string;
  receive: (delivery: RawDelivery) => Promise<Receipt>;
  log: (message: string) => void;
}

/** Receives webhooks from a proxy, for a machine that GitHub cannot reach. Returns a function that disconnects. */
export function connectToProxy({ url, receive, log }: WebhookProxyOptions): () => void {
  const source = new EventSource(url);
  source.addEventListener("open", () => log(`Listening for webhooks at ${url}.`));
  source.addEventListener("error", () => log(`The webhook proxy ${url} does not answer. Trying again.`));
  source.addEventListener("message", ({ data }: { data: string }) => {
    const proxied = readProxied(data);
    if (!proxied) return;
    receive(proxied).then(
      (receipt) => log(`Delivery ${proxied.id} through the proxy: ${receipt.status}.`),
      (error: Error) => log(`Delivery ${proxied.id} through the proxy failed: ${error.message}`),
    );
  });
  return () => source.close();
}

/** Returns undefined for a message that is not a webhook, such as the proxy's own greeting. */
function readProxied(data: string): RawDelivery | undefined {
  try {
    const proxied = Proxied.parse(JSON.parse(data));
    return {
      id: proxied["x-github-delivery"],
      name: proxied["x-github-event"],
      signature: proxied["x-hub-signature-256"],
      // The proxy has parsed the body; GitHub signs exactly what JSON.stringify writes.
      body: JSON.stringify(proxied.body),
    };
  } catch {
    return undefined;
  }
}
