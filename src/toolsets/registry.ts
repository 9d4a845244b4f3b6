import { askToolset } from "#toolsets/ask/ask-toolset.ts";
import { codeToolset } from "#toolsets/code/code-toolset.ts";
import { customToolset } from "#toolsets/custom/custom-toolset.ts";
import { externalToolset } from "#toolsets/external/external-toolset.ts";
import { filesystemToolset } from "#toolsets/filesystem/filesystem-toolset.ts";
import { gitToolset } from "#toolsets/git/git-toolset.ts";
import { githubToolset } from "#toolsets/github/github-toolset.ts";
import { mcpToolset } from "#toolsets/mcp/mcp-toolset.ts";
import { pullRequestToolset } from "#toolsets/pull-request/pull-request-toolset.ts";
import { reviewsToolset } from "#toolsets/reviews/reviews-toolset.ts";
import { shellToolset } from "#toolsets/shell/shell-toolset.ts";
import { tasksToolset } from "#toolsets/tasks/tasks-toolset.ts";
import { webToolset } from "#toolsets/web/web-toolset.ts";
import { workersToolset } from "#toolsets/workers/workers-toolset.ts";
import { searchToolset } from "./search/search-toolset.ts";
import type { Toolset } from "./toolset.ts";

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
