import type { ToolResult } from "#domain/result.ts";
import { showHidden } from "#text/hidden-characters.ts";
import { describeChanges, describeEnd } from "./describe-result.ts";
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
