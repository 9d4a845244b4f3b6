import { createHash } from "node:crypto";
import type { DeliveryStore } from "#runtime/store/delivery-store.ts";
import type { DeliveryScope } from "./handler.ts";
import { findHandler } from "./handlers.ts";

/** A delivery as it arrived; its signature is not verified yet. */
export interface RawDelivery {
  id: string;
  /** The event's name, such as `issue_comment`. */
  name: string;
  signature: string;
  body: string;
}

export type Receipt = { status: 200 | 400 | 401 | 503; message: string };

export interface ReceiveDeliveryOptions {
  /** Resolves to true if GitHub signed the body with this app's secret. */
  verify(body: string, signature: string): Promise<boolean>;
  scope: DeliveryScope;
  store: Pick<DeliveryStore, "saveDelivery">;
  onStored: () => void;
  onError: (message: string, error: unknown) => void;
  log: (message: string) => void;
}

/**
 * Creates the function that receives a delivery: it verifies the signature, reads the payload, and stores what has to be
 * processed before it answers 200. No request to GitHub is made meanwhile. The same signed body is stored once under any
 * delivery id, because the signature does not cover the id.
 */
export function createReceiveDelivery(options: ReceiveDeliveryOptions): (delivery: RawDelivery) => Promise<Receipt> {
  const { verify, scope, store, onStored, onError, log } = options;

  return async ({ id, name, signature, body }) => {
    if (!(await verify(body, signature))) {
      return { status: 401, message: "The signature does not match." };
    }
    const payload = parseObject(body);
    if (!payload) return { status: 400, message: "The body is not a JSON object." };

    try {
      const key = createHash("sha256").update(`${name}\n${body}`).digest("hex");
      const outcome = await storeEvent({ key, id, name, payload }, { scope, store, log });
      if (outcome === "stored") onStored();
      return { status: 200, message: outcome === "ignored" ? "ignored" : "ok" };
    } catch (error) {
      onError(`Delivery ${id} could not be stored.`, error);
      return { status: 503, message: "It could not be stored. Deliver it again." };
    }
  };
}

/** A webhook event, after its signature was verified, or one of a job. */
export interface GitHubEvent {
  /** The event is stored once under this key. */
  key: string;
  /** Its name for people, in logs. */
  id: string;
  /** `issue_comment`. */
  name: string;
  payload: { action?: unknown };
}

/** Stores an event for processing, unless it is known or does not concern this deployment. */
export async function storeEvent(
  { key, id, name, payload }: GitHubEvent,
  { scope, store, log }: Pick<ReceiveDeliveryOptions, "scope" | "store" | "log">,
): Promise<"stored" | "known" | "ignored"> {
  const event = payload.action === undefined ? name : `${name}.${payload.action}`;
  const read = findHandler(event)?.read(payload, scope);
  if (!read) return "ignored";
  if ("ignored" in read) {
    log(`Delivery ${id} (${event}) is ignored: ${read.ignored}.`);
    return "ignored";
  }
  const content = { id, event, payload: read.payload };
  return (await store.saveDelivery({ key, queue: read.queue, content })) ? "stored" : "known";
}

function parseObject(body: string): { action?: unknown } | undefined {
  try {
    const value: unknown = JSON.parse(body);
    return value !== null && typeof value === "object" ? value : undefined;
  } catch {
    return undefined;
  }
}
