import { z } from "zod";
import { ApprovalDecisionType } from "#domain/approval.ts";

const hostPattern = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?$/i;

export const CodeConfig = z.strictObject({
  /** Where code runs. There is no third place: without a sandbox these tools say that they are unavailable. */
  tier: z.enum(["os", "remote"]).default("os"),
  /** Seconds. */
  timeout: z.number().positive().default(60),
  max_timeout: z.number().positive().max(3_600).default(600),
  /** Bytes kept of stdout and of stderr. */
  output_bytes: z.number().int().min(200).max(1_000_000).default(30_000),
  /** Whether packages may be installed. */
  install: ApprovalDecisionType.default("ask"),
  /** Hosts of registries, in place of the public ones: `host` or `host:port`. */
  registries: z.array(z.string().regex(hostPattern, "is a host name such as registry.npmjs.org")).max(20).optional(),
});
export type CodeConfig = z.infer<typeof CodeConfig>;
