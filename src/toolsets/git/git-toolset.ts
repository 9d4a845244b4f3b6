import { z } from "zod";
import type { NamedTool } from "#domain/tool.ts";
import type { ToolServices, Toolset } from "#toolsets/toolset.ts";
import { createGitDiffTool, createGitDiscardTool, createGitStageTool, createGitStatusTool } from "./git-changes.ts";
import { createGitBlameTool, createGitBranchesTool, createGitLogTool } from "./git-history.ts";
import { createGitCheckConflictsTool, createGitMergeTool, createGitPullTool } from "./git-merge.ts";
import { createGitPushTool } from "./git-push.ts";

const config = z.strictObject({});

/** Tools for the repository's history and branches, and for the run's own changes. */
export const gitToolset: Toolset<z.infer<typeof config>> = {
  name: "git",
  config,
  create: (_, services) => [
    ...localTools(services),
    // A run in a local checkout has no remote branch.
    ...("push" in services.sandbox ? remoteTools(services) : []),
  ],
};

function localTools(services: ToolServices): NamedTool[] {
  return [
    createGitStatusTool(services),
    createGitDiffTool(services),
    createGitLogTool(services),
    createGitBlameTool(services),
    createGitStageTool(services),
    createGitDiscardTool(services),
    createGitBranchesTool(services),
    createGitCheckConflictsTool(services),
  ];
}

function remoteTools(services: ToolServices): NamedTool[] {
  return [createGitPullTool(services), createGitMergeTool(services), createGitPushTool(services)];
}
