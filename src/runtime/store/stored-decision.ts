import { z } from "zod";
import { Approval } from "#domain/approval.ts";
import { parseStored } from "./parse-stored.ts";
import type { DecisionResult } from "./store.ts";

const StoredDecision = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("decided"), approval: Approval }),
  z.object({ kind: z.literal("settled"), approval: Approval }),
  z.object({ kind: z.literal("unknown") }),
]);

/** What a delivery was answered when it came the first time. */
export function storedDecision(text: string, deliveryId: string): DecisionResult {
  return parseStored(StoredDecision, text, { table: "deliveries", id: deliveryId });
}
