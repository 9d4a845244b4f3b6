import { createHash } from "node:crypto";
import type { Probot } from "probot";
import { createOnce } from "./once.ts";

/** A delivery as it arrived; its signature is not verified yet. */
export interface RawDelivery {
  id: string;
  name: string;
  signature: string;
  body: string;
}

export type Receipt = { status: 200 | 400 | 401 | 500; message: string };

/** A verified delivery: its id, the event's name (`issue_comment`) and the payload. */
export interface Delivery {
  id: string;
  name: string;
  payload: object;
}

/**
 * Creates the function that takes in a delivery: verifies its signature in constant time, and answers 200 only after
 * `handle` has stored what it asks for. The same signed body counts once under any delivery id, because the signature
 * does not cover the id.
 */
export function createReceiveDelivery(
  probot: Probot,
  handle: (delivery: Delivery) => Promise<void>,
): (delivery: RawDelivery) => Promise<Receipt> {
  const once = createOnce();

  return async ({ id, name, signature, body }) => {
    if (!(await isSigned(probot, body, signature))) return { status: 401, message: "The signature does not match." };

    let payload: unknown;
    try {
      payload = JSON.parse(body);
    } catch {
      return { status: 400, message: "The body is not valid JSON." };
    }
    if (payload === null || typeof payload !== "object")
      return { status: 400, message: "The body is not a JSON object." };

    try {
      const key = createHash("sha256").update(`${name}\n${body}`).digest("hex");
      await once(key, () => handle({ id, name, payload: payload as object }));
      return { status: 200, message: "ok" };
    } catch {
      // The handler has logged the error. A redelivery is handled again.
      return { status: 500, message: "It could not be stored. Deliver it again." };
    }
  };
}

async function isSigned(probot: Probot, body: string, signature: string): Promise<boolean> {
  try {
    return signature !== "" && (await probot.webhooks.verify(body, signature));
  } catch {
    return false;
  }
}
