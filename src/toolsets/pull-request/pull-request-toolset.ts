import { z } from "zod";
import { ApprovalConfig } from "#domain/approval.ts";
import type { Toolset } from "#toolsets/toolset.ts";
import { createOpenPullRequestTool, createUpdatePullRequestTool } from "./open-and-update.ts";
import { createReplyToReviewTool, createRequestReviewTool } from "./reviewers.ts";
import { createUndoPushTool } from "./undo-push.ts";

const config = z.strictObject({ approval: ApprovalConfig.optional() });

/** Tools that propose the run's changes in a pull request. */
export const pullRequestToolset: Toolset<z.infer<typeof config>> = {
  name: "pull_request",
  config,
  create: ({ approval }, services) => [
    createOpenPullRequestTool(services, approval),
    createUpdatePullRequestTool(services, approval),
    createReplyToReviewTool(services, approval),
    createUndoPushTool(services),
    createRequestReviewTool(services, approval),
  ],
};
