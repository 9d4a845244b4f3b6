import type { ToolResult } from "#domain/result.ts";
import type { ExecResult } from "#executors/executor.ts";
import { showHidden } from "#text/hidden-characters.ts";
import type { AppliedChanges } from "./apply-changes.ts";
import type { FinishedCommand } from "./run-command.ts";

/** The result of a command: stdout and stderr apart for the model and for programs, together for people. */
export function commandResult({ result, applied }: FinishedCommand, summary: string): ToolResult {
  const { stdout, stderr, exitCode, durationMs, timedOut, stopped, changes } = result;
  const end = describeEnd(result);
  const sections = [
    end,
    section("stdout", stdout),
    section("stderr", stderr),
    describeChanges(applied),
    changes.ignoredFiles > 0 ? `${changes.ignoredFiles} ignored files stay in the sandbox.` : "",
  ];
  const llmContent = sections.filter((text) => text !== "").join("\n");
  const content = [stdout, stderr, timedOut || stopped ? end : ""].filter(Boolean).join("\n");
  const value = {
    kind: "terminal" as const,
    content,
    exitCode,
    stdout,
    stderr,
    durationMs,
    summary: `${summary}: ${end}`,
  };
  if (!timedOut && !stopped) return { llmContent, value };

  return {
    llmContent,
    value,
    error: { type: "system_error", code: timedOut ? "TIMEOUT" : "EXECUTION_ERROR", message: end },
  };
}

function section(name: string, text: string): string {
  const visible = showHidden(text).replace(/\n$/, "");
  return visible === "" ? `${name}: (nothing)` : `${name}:\n${visible}`;
}

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
