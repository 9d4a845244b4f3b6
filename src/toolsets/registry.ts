import { z } from "zod";
import { ApprovalConfig } from "#domain/approval.ts";
import type { NamedTool } from "#domain/tool.ts";
import { askToolset } from "#toolsets/ask/ask-toolset.ts";
import { CodeConfig } from "#toolsets/code/code-config.ts";
import { createFormatCodeTool } from "#toolsets/code/format-code.ts";
import { createInstallPackageTool } from "#toolsets/code/install-package.ts";
import { createRunCodeTool } from "#toolsets/code/run-code.ts";
import { createRunTestsTool } from "#toolsets/code/run-tests.ts";
import { customToolset } from "#toolsets/custom/custom-toolset.ts";
import { externalToolset } from "#toolsets/external/external-toolset.ts";
import { filesystemToolset } from "#toolsets/filesystem/filesystem-toolset.ts";
import {
  createGitDiffTool,
  createGitDiscardTool,
  createGitStageTool,
  createGitStatusTool,
} from "#toolsets/git/git-changes.ts";
import { createGitBlameTool, createGitBranchesTool, createGitLogTool } from "#toolsets/git/git-history.ts";
import {
  createGitCheckConflictsTool,
  createGitMergeTool,
  createGitPullTool,
  createGitPushTool,
} from "#toolsets/git/git-remote.ts";
import { createGitShowTool } from "#toolsets/git/git-show.ts";
import {
  createAddLabelsTool,
  createListIssuesTool,
  createReadIssueTool,
  createReadThreadTool,
  createReplyTool,
} from "#toolsets/github/issues.ts";
import {
  createReadChecksTool,
  createReadPullRequestTool,
  createReadReviewsTool,
} from "#toolsets/github/pull-request.ts";
import { mcpToolset } from "#toolsets/mcp/mcp-toolset.ts";
import { createOpenPullRequestTool, createUpdatePullRequestTool } from "#toolsets/pull-request/open-and-update.ts";
import { createReplyToReviewTool, createRequestReviewTool } from "#toolsets/pull-request/reviewers.ts";
import { createUndoPushTool } from "#toolsets/pull-request/undo-push.ts";
import { createCreateReviewTool } from "#toolsets/reviews/create-review.ts";
import { createReadPullRequestDiffTool } from "#toolsets/reviews/pull-request-diff.ts";
import { askWithNetwork } from "#toolsets/run-command.ts";
import { createGlobTool } from "#toolsets/search/glob.ts";
import { createGrepTool } from "#toolsets/search/grep.ts";
import { createSearchCodeTool } from "#toolsets/search/search-code.ts";
import { shellToolset } from "#toolsets/shell/shell-toolset.ts";
import { tasksToolset } from "#toolsets/tasks/tasks-toolset.ts";
import { webToolset } from "#toolsets/web/web-toolset.ts";
import { workersToolset } from "#toolsets/workers/workers-toolset.ts";
import type { ToolServices, Toolset } from "./toolset.ts";

const noConfig = z.strictObject({});
const approvalConfig = z.strictObject({ approval: ApprovalConfig.optional() });

/** Tools that find files and text in the repository. */
export const searchToolset: Toolset<z.infer<typeof noConfig>> = {
  name: "search",
  config: noConfig,
  create: (_, services) => [
    createGrepTool(services.workspace),
    createGlobTool(services.workspace),
    createSearchCodeTool(services.workspace),
  ],
};

/** Tools for the repository's history and branches, and for the run's own changes. */
export const gitToolset: Toolset<z.infer<typeof noConfig>> = {
  name: "git",
  config: noConfig,
  create: (_, services) => [
    ...localTools(services),
    // A run in a local checkout has no remote branch.
    ...("push" in services.sandbox
      ? [createGitPullTool(services), createGitMergeTool(services), createGitPushTool(services)]
      : []),
  ],
};

function localTools(services: ToolServices): NamedTool[] {
  return [
    createGitStatusTool(services),
    createGitDiffTool(services),
    createGitLogTool(services),
    createGitShowTool(services),
    createGitBlameTool(services),
    createGitStageTool(services),
    createGitDiscardTool(services),
    createGitBranchesTool(services),
    createGitCheckConflictsTool(services),
  ];
}

/** Tools that run the repository's code, tests and formatters, and install what these need. */
export const codeToolset: Toolset<CodeConfig> = {
  name: "code",
  config: CodeConfig,
  create: (settings, services) => {
    const starting: NamedTool[] = [
      createRunCodeTool(settings, services),
      createRunTestsTool(settings, services),
      createFormatCodeTool(settings, services),
    ];
    return [
      ...starting.map((tool) => askWithNetwork(tool, settings.tier, services)),
      createInstallPackageTool(settings, services),
    ];
  },
};

/** Tools for the run's own thread on GitHub. No tool takes an issue number: the run determines the target. */
export const githubToolset: Toolset<z.infer<typeof approvalConfig>> = {
  name: "github",
  config: approvalConfig,
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

/** Tools that propose the run's changes in a pull request. */
export const pullRequestToolset: Toolset<z.infer<typeof approvalConfig>> = {
  name: "pull_request",
  config: approvalConfig,
  create: ({ approval }, services) => [
    createOpenPullRequestTool(services, approval),
    createUpdatePullRequestTool(services, approval),
    createReplyToReviewTool(services, approval),
    createUndoPushTool(services),
    createRequestReviewTool(services, approval),
  ],
};

const reviewsConfig = z.strictObject({
  approval: ApprovalConfig.optional(),
  /** A review with new findings requests changes, which a later one dismisses once no finding is open. Default: it comments. */
  request_changes: z.boolean().default(false),
});

/** Tools that review the pull request of the run's thread. */
export const reviewsToolset: Toolset<z.infer<typeof reviewsConfig>> = {
  name: "reviews",
  config: reviewsConfig,
  create: ({ approval, request_changes }, services) => [
    createReadPullRequestDiffTool(services),
    createCreateReviewTool(services, { approval, requestChanges: request_changes }),
  ],
};

/** Every toolset that a worker file may use. Their tools are offered in this order. */
export const toolsets: readonly Toolset[] = [
  filesystemToolset,
  searchToolset,
  gitToolset,
  shellToolset,
  codeToolset,
  webToolset,
  githubToolset,
  pullRequestToolset,
  reviewsToolset,
  tasksToolset,
  askToolset,
  workersToolset,
  customToolset,
  externalToolset,
  mcpToolset,
];
