import type { Toolset } from "./toolset.ts";

/** Every toolset a worker file may name, in the order its tools are offered: one line per toolset. */
export const toolsets: readonly Toolset[] = [];
