import type { ExecResult } from "#executors/executor.ts";
import type { AppliedChanges } from "./apply-changes.ts";

const maxListed = 20;

/** Describes how a command ended, in one sentence. */
export function describeEnd({ exitCode, timedOut, stopped, durationMs }: ExecResult): string {
  const seconds = (durationMs / 1_000).toFixed(durationMs < 10_000 ? 2 : 0);
  if (stopped) return `${stopped} (after ${seconds} s)`;
  if (timedOut) return `Timed out after ${seconds} s; the command and everything it started were killed.`;
  return `Exit code ${exitCode} after ${seconds} s.`;
}

/** Lists the files that a command changed, and the changes that were not applied with the reasons. */
export function describeChanges({ written, deleted, rejected }: AppliedChanges): string {
  const lines = [
    written.length > 0 ? `Changed: ${some(written)}` : "",
    deleted.length > 0 ? `Deleted: ${some(deleted)}` : "",
    ...rejected
      .slice(0, maxListed)
      .map(({ path, reason }) => `Not applied: ${path}, because it ${reason.replace(/\.$/, "")}.`),
    rejected.length > maxListed ? `Not applied: ${rejected.length - maxListed} more.` : "",
  ];
  return lines.filter((line) => line !== "").join("\n");
}

function some(paths: readonly string[]): string {
  const rest = paths.length - maxListed;
  return paths.slice(0, maxListed).join(", ") + (rest > 0 ? ` and ${rest} more` : "");
}
