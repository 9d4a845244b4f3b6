import { z } from "zod";
import type { Toolset } from "#toolsets/toolset.ts";
import { createGlobTool } from "./glob.ts";
import { createGrepTool } from "./grep.ts";
import { createSearchCodeTool } from "./search-code.ts";

const config = z.strictObject({});

/** Tools that find files and text in the repository. */
export const searchToolset: Toolset<z.infer<typeof config>> = {
  name: "search",
  config,
  create: (_, services) => [
    createGrepTool(services.workspace),
    createGlobTool(services.workspace),
    createSearchCodeTool(services.workspace),
  ],
};
