import type { NamedTool } from "#domain/tool.ts";
import { oneLine } from "#terminal/render-value.ts";

/** Describes a worker's tools, one line each, with those that ask for approval. */
export function describeTools(tools: readonly NamedTool[]): string[] {
  const width = Math.max(0, ...tools.map(({ name }) => name.length));
  return tools.map(({ name, needsApproval, manualExecution }) => {
    const isForPeople = manualExecution?.mode === "manual";
    const asks = typeof needsApproval === "function" ? "may ask" : needsApproval === false ? "" : "asks";
    return `  ${oneLine(name).padEnd(width)}  ${isForPeople ? "for people" : asks}`.trimEnd();
  });
}
