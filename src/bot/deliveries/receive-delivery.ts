import { createHash } from "node:crypto";
import type { Probot } from "probot";
import { createOnce } from "./once.ts";

/** One delivery as it came, before anything of it is believed. */
export interface RawDelivery {
  id: string;
  name: string;
  signature: string;
  body: string;
}

export type Receipt = { status: 200 | 400 | 401 | 500; message: string };

/**
 * Gives the function that takes in a delivery: checks its signature in constant time, and answers 200 only after its
 * handler has stored what it says. The same signed body counts once, under whatever delivery id it comes: the
 * signature does not cover the id.
 */
export function createReceiveDelivery(probot: Probot): (delivery: RawDelivery) => Promise<Receipt> {
  const once = createOnce();

  return async ({ id, name, signature, body }) => {
    if (!(await isSigned(probot, body, signature))) return { status: 401, message: "The signature does not fit." };

    let payload: unknown;
    try {
      payload = JSON.parse(body);
    } catch {
      return { status: 400, message: "The body is no JSON." };
    }
    if (payload === null || typeof payload !== "object") return { status: 400, message: "The body is no JSON object." };

    try {
      const key = createHash("sha256").update(`${name}\n${body}`).digest("hex");
      await once(key, () => probot.webhooks.receive({ id, name, payload } as Parameters<Probot["receive"]>[0]));
      return { status: 200, message: "ok" };
    } catch {
      // Whoever handled it has logged why. Redelivered, it is heard again.
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
