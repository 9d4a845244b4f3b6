import { z } from "zod";
import { ApprovalDecisionType } from "#domain/approval.ts";

export const WebConfig = z.strictObject({
  /** Hosts fetched without approval: exact names, or `*.example.com` for all subdomains. */
  allow: z.array(z.string()).max(500).default([]),
  /** Hosts that are never fetched; takes precedence over `allow`. */
  block: z.array(z.string()).max(500).default([]),
  /** The decision for hosts on neither list. */
  others: ApprovalDecisionType.default("ask"),
  allow_http: z.boolean().default(false),
  /** Seconds. */
  timeout: z.number().positive().max(60).default(20),
  /** Maximum number of pages per run. */
  max_fetches: z.number().int().positive().max(1_000).default(50),
  /** Maximum number of characters of a page that the model receives. */
  max_chars: z.number().int().min(500).max(400_000).default(40_000),
});
export type WebConfig = z.infer<typeof WebConfig>;
