import type { ChildHandler } from "#executors/serve-parent.ts";
import { normalizeText } from "#text/visible-text.ts";
import type { TestReport } from "#toolsets/code/test-runner.ts";
import { readCargo, readGo } from "./go-and-cargo.ts";
import { readJestJson, readJestText, readMochaJson, readSpec, readTap } from "./javascript.ts";
import { readCtest, readGradle, readMaven } from "./maven-gradle-ctest.ts";
import { readPytest, readUnittest } from "./python.ts";
import { readMinitest, readRspecJson } from "./ruby.ts";
import { shortened, type TestSummary } from "./test-summary.ts";

/** Summarizes a test runner's output; undefined if it cannot be parsed, in which case only the exit code counts. */
export function summarizeTests(report: TestReport, stdout: string, stderr: string): TestSummary | undefined {
  const summary = readOutput(report, normalizeText(stdout), normalizeText(stderr));
  return summary && shortened(summary);
}

function readOutput(report: TestReport, text: string, errors: string): TestSummary | undefined {
  const both = `${text}\n${errors}`;
  switch (report) {
    case "vitest":
    case "jest":
      // With --bail, jest prints no JSON after a failure.
      return readJestJson(text) ?? readJestText(both);
    case "mocha":
      return readMochaJson(text);
    case "rspec":
      return readRspecJson(text);
    case "minitest":
      return readMinitest(text);
    case "tap":
      return readTap(text) ?? readSpec(both);
    case "pytest":
      return readPytest(text);
    case "unittest":
      return readUnittest(both);
    case "go":
      return readGo(text);
    case "cargo":
      return readCargo(text);
    case "maven":
      return readMaven(both);
    case "gradle":
      return readGradle(both);
    case "ctest":
      return readCtest(text);
    case "plain":
      return readAnyText(text, both.replace(taskPrefix, ""));
  }
}

/** The package and task before each line of a monorepo tool's output, such as `ui:test: ` or `packages/ui test: `. */
const taskPrefix = /^[@\w./-]{1,100}(?::| )test[\w:-]{0,50}: ?/gm;

function readAnyText(stdout: string, both: string): TestSummary | undefined {
  return (
    readJestJson(stdout) ??
    readTap(both) ??
    readSpec(both) ??
    readPytest(both) ??
    readUnittest(both) ??
    readCargo(both) ??
    readMinitest(both) ??
    readMaven(both) ??
    readCtest(both) ??
    readJestText(both) ??
    readTotals(both)
  );
}

/** Parses the totals that most runners print near the end: "3 passing", "Tests: 1 failed, 2 passed", "Passed: 3". */
function readTotals(text: string): TestSummary | undefined {
  const count = (words: string) => {
    // Not the number of something else, as in "536 failing allocations".
    const before = new RegExp(`\\b(\\d+) (?:tests? )?(?:${words})\\b(?! (?!in\\b|and\\b|tests?\\b)[a-z])`, "gi");
    const after = new RegExp(`\\b(?:${words}): *(\\d+)\\b`, "gi");
    return [...text.matchAll(before), ...text.matchAll(after)].at(-1)?.[1];
  };
  const passed = count("passed|passing|passes");
  const total = /^ *Total: +(\d+)$/m.exec(text)?.[1];
  const failed =
    count("failed|failing|failures?") ??
    (total && passed && String(Number(total) - Number(passed) - Number(count("skipped") ?? 0)));
  if (passed === undefined && failed === undefined) return undefined;
  return {
    passed: Number(passed ?? 0),
    failed: Number(failed ?? 0),
    skipped: Number(count("skipped|pending") ?? 0),
    failures: [],
  };
}

/** Parses test output in a separate process, which is killed if it takes too much time or memory. */
const handler: ChildHandler = {
  async handle(request) {
    const { report, stdout, stderr } = request as { report: TestReport; stdout: string; stderr: string };
    return summarizeTests(report, stdout, stderr) ?? null;
  },
};
export default handler;
