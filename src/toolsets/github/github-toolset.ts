import { z } from "zod";
import { ApprovalConfig } from "#domain/approval.ts";
import type { Toolset } from "#toolsets/toolset.ts";
import { createAddLabelsTool, createListIssuesTool, createReadIssueTool } from "./issues.ts";
import { createReadChecksTool, createReadPullRequestTool, createReadReviewsTool } from "./pull-request.ts";
import { createReadThreadTool, createReplyTool } from "./thread.ts";

const config = z.strictObject({ approval: ApprovalConfig.optional() });

/** Tools for the run's own thread on GitHub. No tool takes an issue number: the run determines the target. */
export const githubToolset: Toolset<z.infer<typeof config>> = {
  name: "github",
  config,
  create: ({ approval }, services) => [
    createReadIssueTool(services),
    createReadThreadTool(services),
    createReadPullRequestTool(services),
    createReadReviewsTool(services),
    createReadChecksTool(services),
    createListIssuesTool(services),
    createAddLabelsTool(services, approval),
    createReplyTool(services, approval),
  ],
};
