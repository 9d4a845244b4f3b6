import { z } from "zod";
import { withSection } from "#domain/commit-trailers.ts";
import type { FinishedCall, ToolServices } from "#toolsets/toolset.ts";

/** The maximum number of commands listed. The last ones are kept. */
const maxCommands = 20;
const maxTests = 20;

const TestRun = z.object({
  command: z.string(),
  exitCode: z.number().nullable(),
  passed: z.number().nullable(),
  failed: z.number().nullable(),
  failures: z.array(z.object({ name: z.string() })),
});
type TestRun = z.infer<typeof TestRun>;

const Command = z.object({ command: z.union([z.string(), z.array(z.string())]) });

/** Tells the approver what is added to the description shown in the request. */
export const evidenceNote = "The commands it ran, with their exit codes, are added below the description.";

/**
 * Adds or replaces the section of a pull request's description about what the run has executed. The section is
 * generated from the log, not by the model.
 */
export function withEvidenceSection(
  body: string,
  { history, sanitize }: Pick<ToolServices, "history" | "sanitize">,
): string {
  const calls = history();
  const rows = calls.flatMap(rowOf);
  const tests = calls.flatMap(testRunOf);
  if (rows.length === 0) return withSection(body, "evidence", undefined);

  const left = rows.length - maxCommands;
  const repaired = repairedTests(tests);
  const parts = [
    "### What was run",
    ["| command | result |", "|---|---|", ...rows.slice(-maxCommands)].join("\n"),
    ...(left > 0 ? [`${left} earlier ${left === 1 ? "command is" : "commands are"} left out.`] : []),
    ...(repaired.length > 0
      ? [["Failed before the change, and passes now:", "", ...repaired.map((name) => `- ${code(name)}`)].join("\n")]
      : []),
  ];
  return withSection(body, "evidence", sanitize(parts.join("\n\n")));
}

function rowOf(call: FinishedCall): string[] {
  const [test] = testRunOf(call);
  if (test) {
    const counts = test.passed === null ? "" : `, ${test.passed} passed, ${test.failed} failed`;
    return [`| ${code(test.command)} | ${describeExit(test.exitCode)}${counts} |`];
  }
  const { value } = call.result;
  if (value.kind !== "terminal" || !("content" in value) || value.exitCode === undefined) return [];
  const { command } = Command.safeParse(call.args).data ?? { command: call.tool };
  return [`| ${code(typeof command === "string" ? command : command.join(" "))} | ${describeExit(value.exitCode)} |`];
}

function testRunOf({ result: { value } }: FinishedCall): TestRun[] {
  const run = value.kind === "test.summary" && "data" in value && TestRun.safeParse(value.data).data;
  return run ? [run] : [];
}

function describeExit(exitCode: number | null): string {
  return exitCode === null ? "did not finish" : `exit code ${exitCode}`;
}

/** Returns the tests that failed in an earlier run and do not fail in the last one, which has passed. */
function repairedTests(runs: readonly TestRun[]): string[] {
  const last = runs.at(-1);
  if (last?.exitCode !== 0) return [];
  const failed = runs.slice(0, -1).flatMap(({ failures }) => failures.map(({ name }) => name));
  return [...new Set(failed)].slice(0, maxTests);
}

/** Formats text as inline code in a table, so that it can end neither the cell nor the section. */
function code(text: string): string {
  const plain = text
    .replace(/<!--|-->|[`|\s]+/g, " ")
    .replace(/ +/g, " ")
    .trim();
  return `\`${plain.length > 150 ? `${plain.slice(0, 149).toWellFormed()}…` : plain || " "}\``;
}
