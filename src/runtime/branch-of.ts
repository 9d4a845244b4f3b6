import type { RunSpec } from "#domain/run.ts";

/** The one branch a run may push: its root's, `golem/<issue>-<run>`. */
export function branchOf({ rootId, origin }: Pick<RunSpec, "rootId" | "origin">): string {
  return `golem/${origin.thread}-${rootId}`;
}
