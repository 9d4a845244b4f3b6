import type { Toolset } from "#toolsets/toolset.ts";
import { WebConfig } from "./web-config.ts";
import { createWebFetchTool } from "./web-fetch.ts";
import { createWebSearchTool } from "./web-search.ts";

/** Tools that read the public web. */
export const webToolset: Toolset<WebConfig> = {
  name: "web",
  config: WebConfig,
  create: (settings, services) => [createWebFetchTool(settings, services), createWebSearchTool(services)],
};
