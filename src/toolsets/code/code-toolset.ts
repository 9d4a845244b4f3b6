import type { Toolset } from "#toolsets/toolset.ts";
import { CodeConfig } from "./code-config.ts";
import { createFormatCodeTool } from "./format-code.ts";
import { createInstallPackageTool } from "./install-package.ts";
import { createRunCodeTool } from "./run-code.ts";
import { createRunTestsTool } from "./run-tests.ts";

/** Tools that run the repository's code, tests and formatters, and install what these need. */
export const codeToolset: Toolset<CodeConfig> = {
  name: "code",
  config: CodeConfig,
  create: (settings, services) => [
    createRunCodeTool(settings, services),
    createRunTestsTool(settings, services),
    createFormatCodeTool(settings, services),
    createInstallPackageTool(settings, services),
  ],
};
