import { z } from "zod";
import type { Toolset } from "#toolsets/toolset.ts";
import { createGlobTool } from "./glob.ts";
import { createGrepTool } from "./grep.ts";

const config = z.strictObject({});

/** Finding files and text in the repository. */
export const searchToolset: Toolset<z.infer<typeof config>> = {
  name: "search",
  config,
  create: (_, { workspace }) => [createGrepTool(workspace), createGlobTool(workspace)],
};
