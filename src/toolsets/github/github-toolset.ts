import { z } from "zod";
import { ApprovalConfig } from "#domain/approval.ts";
import type { Toolset } from "#toolsets/toolset.ts";
import { createAddLabelsTool } from "./add-labels.ts";
import { createListIssuesTool } from "./list-issues.ts";
import { createReadChecksTool } from "./read-checks.ts";
import { createReadIssueTool } from "./read-issue.ts";
import { createReadPullRequestTool } from "./read-pull-request.ts";
import { createReadReviewsTool } from "./read-reviews.ts";
import { createReadThreadTool } from "./read-thread.ts";
import { createReplyTool } from "./reply.ts";

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
