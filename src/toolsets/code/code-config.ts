import { z } from "zod";
import { ApprovalDecisionType } from "#domain/approval.ts";
import { managers } from "./install-files.ts";

const hostPattern = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?$/i;

export const CodeConfig = z.strictObject({
  /** The place where code runs. Without a sandbox, the tools are unavailable. */
  tier: z.enum(["os", "remote"]).default("os"),
  /** Seconds. */
  timeout: z.number().positive().default(60),
  /** Seconds for `run_tests`: the tests of real projects often take minutes. */
  test_timeout: z.number().positive().default(300),
  max_timeout: z.number().positive().max(3_600).default(600),
  /** Bytes kept of stdout and of stderr. */
  output_bytes: z.number().int().min(200).max(1_000_000).default(30_000),
  /** The approval rule for installing packages. */
  install: ApprovalDecisionType.default("ask"),
  /** Hosts that `run_code` may reach if a person approves the call: `host` or `host:port`. The deployment's policy must allow them. */
  network: z.array(z.string().regex(hostPattern, "is a host name such as api.example.com")).max(20).default([]),
  /** The hosts that package managers reach, in place of the public registries: `host` or `host:port`. */
  registries: z.array(z.string().regex(hostPattern, "is a host name such as registry.npmjs.org")).max(20).optional(),
  /** The URL of the registry of a package manager, in place of the public one. */
  indexes: z.partialRecord(z.enum(managers), z.url({ protocol: /^https$/, error: "is an https URL" })).default({}),
});
export type CodeConfig = z.infer<typeof CodeConfig>;
