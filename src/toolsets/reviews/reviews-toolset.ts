import { z } from "zod";
import { ApprovalConfig } from "#domain/approval.ts";
import type { Toolset } from "#toolsets/toolset.ts";
import { createCreateReviewTool } from "./create-review.ts";
import { createReadPullRequestDiffTool } from "./pull-request-diff.ts";

const config = z.strictObject({
  approval: ApprovalConfig.optional(),
  /** A review with new findings requests changes. Default: it comments. */
  request_changes: z.boolean().default(false),
});

/** Tools that review the pull request of the run's thread. */
export const reviewsToolset: Toolset<z.infer<typeof config>> = {
  name: "reviews",
  config,
  create: ({ approval, request_changes }, services) => [
    createReadPullRequestDiffTool(services),
    createCreateReviewTool(services, { approval, requestChanges: request_changes }),
  ],
};
