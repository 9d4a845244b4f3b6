import { z } from "zod";
import type { Toolset } from "#toolsets/toolset.ts";
import { createGitDiffTool } from "./git-diff.ts";
import { createGitLogTool } from "./git-log.ts";
import { createGitStatusTool } from "./git-status.ts";

const config = z.strictObject({});

/** The repository's history and the run's own changes. */
export const gitToolset: Toolset<z.infer<typeof config>> = {
  name: "git",
  config,
  create: (_, services) => [createGitStatusTool(services), createGitDiffTool(services), createGitLogTool(services)],
};
