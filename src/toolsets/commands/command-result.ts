import type { ToolResult } from "#domain/result.ts";
import { showHidden } from "#text/hidden-characters.ts";
import { describeChanges, describeEnd } from "./describe-result.ts";
import type { FinishedCommand } from "./run-command.ts";

/** What a command came to: stdout and stderr apart for the model, as on a terminal for people. */
export function commandResult({ result, applied: taken }: FinishedCommand, summary: string): ToolResult {
  const end = describeEnd(result);
  const sections = [
    end,
    section("stdout", result.stdout),
    section("stderr", result.stderr),
    describeChanges(taken),
    result.changes.ignoredFiles > 0 ? `${result.changes.ignoredFiles} ignored files stay in the sandbox.` : "",
  ];
  const llmContent = sections.filter((text) => text !== "").join("\n");
  const content = [result.stdout, result.stderr, result.timedOut || result.stopped ? end : ""]
    .filter(Boolean)
    .join("\n");
  const value = { kind: "terminal" as const, content, exitCode: result.exitCode, summary: `${summary}: ${end}` };
  if (!result.timedOut && !result.stopped) return { llmContent, value };

  const code = result.timedOut ? "TIMEOUT" : "EXECUTION_ERROR";
  return { llmContent, value, error: { type: "system_error", code, message: end } };
}

function section(name: string, text: string): string {
  const plain = showHidden(text).replace(/\n$/, "");
  return plain === "" ? `${name}: (nothing)` : `${name}:\n${plain}`;
}
