import type { FinishedCall } from "#toolsets/toolset.ts";

/** True for a call of a tool of these names, in any case and with hyphens, as the toolbox finds it. */
export function isCallOf({ tool }: Pick<FinishedCall, "tool">, ...names: string[]): boolean {
  return names.includes(tool.toLowerCase().replaceAll("-", "_"));
}
