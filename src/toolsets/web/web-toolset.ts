import type { Toolset } from "#toolsets/toolset.ts";
import { createWebFetchTool, WebConfig } from "./web-fetch.ts";
import { createWebSearchTool } from "./web-search.ts";

/** Tools that read the public web. */
export const webToolset: Toolset<WebConfig> = {
  name: "web",
  config: WebConfig,
  create: (settings, services) => [createWebFetchTool(settings, services), createWebSearchTool(services)],
};
