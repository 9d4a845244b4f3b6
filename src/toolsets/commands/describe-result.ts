import type { ExecResult } from "#executors/executor.ts";
import type { AppliedChanges } from "./apply-changes.ts";

const listed = 20;

/** How a command ended, as one sentence. */
export function describeEnd({ exitCode, timedOut, stopped, durationMs }: ExecResult): string {
  const seconds = (durationMs / 1_000).toFixed(durationMs < 10_000 ? 2 : 0);
  if (stopped) return `${stopped} (after ${seconds} s)`;
  if (timedOut) return `Killed after ${seconds} s: it did not end within its timeout. Nothing of it runs any more.`;
  return `Exit code ${exitCode} after ${seconds} s.`;
}

/** Which files of the tree a command changed, and which changes were not taken over and why. */
export function describeChanges({ written, deleted, rejected }: AppliedChanges): string {
  const lines = [
    written.length > 0 ? `Changed: ${some(written)}` : "",
    deleted.length > 0 ? `Deleted: ${some(deleted)}` : "",
    ...rejected
      .slice(0, listed)
      .map(({ path, reason }) => `Not taken over: ${path}, because it ${reason.replace(/\.$/, "")}.`),
    rejected.length > listed ? `Not taken over: ${rejected.length - listed} more.` : "",
  ];
  return lines.filter((line) => line !== "").join("\n");
}

function some(paths: readonly string[]): string {
  const rest = paths.length - listed;
  return paths.slice(0, listed).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
}
