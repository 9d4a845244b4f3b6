import { z } from "zod";
import { ApprovalDecisionType } from "#domain/approval.ts";

export const WebConfig = z.strictObject({
  /** Hosts fetched without asking: exact names, or `*.example.com` for everything below. */
  allow: z.array(z.string()).max(500).default([]),
  /** Hosts never fetched, whatever else is said. */
  block: z.array(z.string()).max(500).default([]),
  /** For hosts on neither list. */
  others: ApprovalDecisionType.default("ask"),
  allow_http: z.boolean().default(false),
  /** Seconds. */
  timeout: z.number().positive().max(60).default(20),
  /** Pages one run may fetch. */
  max_fetches: z.number().int().positive().max(1_000).default(50),
  /** Characters of a page that reach the model. */
  max_chars: z.number().int().min(500).max(400_000).default(40_000),
});
export type WebConfig = z.infer<typeof WebConfig>;
