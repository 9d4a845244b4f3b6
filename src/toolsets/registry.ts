import { codeToolset } from "#toolsets/code/code-toolset.ts";
import { shellToolset } from "#toolsets/shell/shell-toolset.ts";
import { askToolset } from "./ask/toolset.ts";
import { customToolset } from "./custom/toolset.ts";
import { externalToolset } from "./external/toolset.ts";
import { filesystemToolset } from "./filesystem/toolset.ts";
import { gitToolset } from "./git/toolset.ts";
import { githubToolset } from "./github/toolset.ts";
import { mcpToolset } from "./mcp/toolset.ts";
import { pullRequestToolset } from "./pull-request/toolset.ts";
import { searchToolset } from "./search/search-toolset.ts";
import { tasksToolset } from "./tasks/toolset.ts";
import type { Toolset } from "./toolset.ts";
import { webToolset } from "./web/toolset.ts";
import { workersToolset } from "./workers/toolset.ts";

/** Every toolset a worker file may name, in the order its tools are offered: one line per toolset. */
export const toolsets: readonly Toolset[] = [
  filesystemToolset,
  searchToolset,
  gitToolset,
  shellToolset,
  codeToolset,
  webToolset,
  githubToolset,
  pullRequestToolset,
  tasksToolset,
  askToolset,
  workersToolset,
  customToolset,
  externalToolset,
  mcpToolset,
];
