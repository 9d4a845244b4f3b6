import { z } from "zod";
import { countOrZero, type FailedTest, findJson, listOrEmpty, type TestSummary, textOrEmpty } from "./test-summary.ts";

const JestReport = z.object({
  numPassedTests: z.number(),
  numFailedTests: z.number(),
  numPendingTests: countOrZero,
  numTodoTests: countOrZero,
  testResults: listOrEmpty(
    z.object({
      name: textOrEmpty,
      status: textOrEmpty,
      message: textOrEmpty,
      assertionResults: listOrEmpty(
        z.object({ status: textOrEmpty, fullName: textOrEmpty, failureMessages: listOrEmpty(textOrEmpty) }),
      ),
    }),
  ),
});

export function readJestJson(text: string): TestSummary | undefined {
  const report = findJson(text, JestReport);
  if (!report) return undefined;

  const failures = report.testResults.flatMap(({ name, status, message, assertionResults }): FailedTest[] => {
    const failed = assertionResults.filter((test) => test.status === "failed");
    // A file that failed to load has no failed tests.
    if (failed.length === 0) return status === "failed" ? [{ name, error: message }] : [];
    return failed.map((test) => ({ name: test.fullName, error: test.failureMessages.join("\n") }));
  });
  const skipped = report.numPendingTests + report.numTodoTests;
  const failed = Math.max(report.numFailedTests, failures.length);
  return { passed: report.numPassedTests, failed, skipped, failures };
}

/** Parses what jest and vitest print for people: a line of totals for each run, and a section for each failure. */
export function readJestText(text: string): TestSummary | undefined {
  const totals = [...text.matchAll(/^ *Tests:? {2,}(.{1,200})$/gm)].map(([, total = ""]) => total);
  const count = (word: string) =>
    totals.reduce((sum, total) => sum + Number(new RegExp(`(\\d+) ${word}\\b`).exec(total)?.[1] ?? 0), 0);
  const failures = new Map<string, string>();
  for (const part of text.split(/^ *(?:●|FAIL) (?=.* [›>] | *Test suite failed)/m).slice(1)) {
    const [name = ""] = part.split("\n", 1);
    const [error = ""] = part.slice(name.length + 1).split(/^(?:Test Suites?: |⎯{5}|(?:PASS|FAIL) |Snapshots: )/m);
    if (!failures.has(name.trim())) failures.set(name.trim(), error);
  }
  const named = [...failures].map(([name, error]) => ({ name, error }));
  if (totals.length === 0) {
    // The run was stopped, such as at its timeout.
    const passed = text.match(/^ {2,}[✓√] /gm)?.length ?? 0;
    return named.length > 0 ? { passed, failed: named.length, skipped: 0, failures: named } : undefined;
  }
  const skipped = count("skipped") + count("pending") + count("todo");
  return { passed: count("passed"), failed: count("failed"), skipped, failures: named };
}

const MochaReport = z.object({
  stats: z.object({ passes: z.number(), failures: z.number(), pending: countOrZero }),
  failures: listOrEmpty(
    z.object({
      fullTitle: textOrEmpty,
      err: z.object({ stack: textOrEmpty, message: textOrEmpty }).catch({ stack: "", message: "" }),
    }),
  ),
});

export function readMochaJson(text: string): TestSummary | undefined {
  const report = findJson(text, MochaReport);
  if (!report) return undefined;

  const failures = report.failures.map(({ fullTitle, err }) => ({
    name: fullTitle,
    error: err.stack || err.message,
  }));
  const { passes: passed, failures: failed, pending: skipped } = report.stats;
  return { passed, failed, skipped, failures };
}

export function readTap(text: string): TestSummary | undefined {
  const count = (name: string) => /^\d+$/.exec(new RegExp(`^# ${name} (\\d+)$`, "m").exec(text)?.[1] ?? "")?.[0];
  const lines = text.split("\n");
  // The totals are missing if the run was stopped, such as at its timeout.
  const isTap = lines.some((line) => line.startsWith("TAP version "));
  const counted = (start: string) => (isTap ? lines.filter((line) => line.startsWith(start)).length : undefined);
  const passed = count("pass") ?? counted("ok ");
  const failed = count("fail") ?? counted("not ok ");
  if (passed === undefined || failed === undefined) return undefined;

  const failures: FailedTest[] = [];
  let start = 0;
  for (const [at, line] of lines.entries()) {
    const name = /^\s*not ok \d+ - (.*)$/.exec(line)?.[1];
    if (name === undefined) continue;
    const before = lines.slice(start, at);
    start = at;
    const block = lines.slice(at + 1, at + 60);
    const end = block.findIndex((other) => other.trim() === "...");
    const details = (end === -1 ? block : block.slice(0, end)).join("\n");
    // A suite fails because of a test in it, which is listed itself.
    if (/failureType: 'subtestsFailed'/.test(details)) continue;
    failures.push({ name: name.replace(/ # .*$/, ""), error: withCrash(tapError(details), before) });
  }
  const skipped = Number(count("skipped") ?? 0) + Number(count("todo") ?? 0);
  return { passed: Number(passed), failed: Number(failed), skipped, failures };
}

/** Puts the error that ended a whole file before its failure. Node only says "test failed", and prints the error before. */
function withCrash(error: string, before: readonly string[]): string {
  const crash = /^\s*'?test failed'?$/m.test(error) && before.findLast((line) => /^(?:# )?[A-Z]?\w*Error\b/.test(line));
  return crash ? `${crash.replace("# ", "")}\n${error}` : error;
}

/** The fields of a TAP diagnostic that describe a failure, in the order in which they are shown. Others repeat them. */
const tapFields = ["error", "message", "values", "diff", "found", "wanted", "at", "location"];
const describedByName = new Set(["found", "wanted"]);

/** Colors as Node's reporter writes them: as text that describes the characters. */
const describedColor = /\\x1B\[[\d;]*m/g;

/** Returns what a TAP diagnostic says about a failure: that of node --test, tap or ava. */
function tapError(details: string): string {
  const lines = details
    .replace(describedColor, "")
    .split("\n")
    .filter((line) => line.trim() !== "---");
  const fields = yamlFields(lines);
  const shown = tapFields.flatMap((name) => {
    const value = fields.get(name) ?? "";
    if (value === "") return [];
    const place = /^line: (\d+)\ncolumn: (\d+)\nfile: (.+)$/.exec(value);
    if (place) return [`at ${place[3]}:${place[1]}:${place[2]}`];
    if (name === "location") return [`at ${value}`];
    return [describedByName.has(name) ? `${name}: ${value}` : value.replace(/^'(.*)': \|-$/gm, "$1")];
  });
  return shown.length > 0 ? shown.join("\n") : lines.join("\n");
}

/** Returns the fields of a YAML mapping, with their lines below without the common indent. */
function yamlFields(lines: readonly string[]): Map<string, string> {
  const indent = /^ */.exec(lines.find((line) => line.trim() !== "") ?? "")?.[0].length ?? 0;
  const fields = new Map<string, string[]>();
  let current: string[] | undefined;
  for (const line of lines) {
    const [, name, value = ""] = /^([\w-]+):(?: (.*))?$/.exec(line.slice(indent)) ?? [];
    if (name !== undefined && /^ *$/.test(line.slice(0, indent))) {
      current = /^[|>]-?$/.test(value) ? [] : [value.replace(/^'(.*)'$/, "$1")];
      fields.set(name, current);
    } else current?.push(line.slice(indent + 2));
  }
  return new Map([...fields].map(([name, value]) => [name, value.join("\n").trim()]));
}

/** Parses the output of node's `spec` reporter, which a script may select itself. */
export function readSpec(text: string): TestSummary | undefined {
  const count = (name: string) => new RegExp(`^ℹ ${name} (\\d+)$`, "m").exec(text)?.[1];
  const [passed, failed] = [count("pass"), count("fail")];
  if (passed === undefined || failed === undefined) return undefined;

  const parts = text.slice(Math.max(0, text.lastIndexOf("✖ failing tests:"))).split(/^✖ /m);
  const failures = parts.flatMap((part): FailedTest[] => {
    const name = /^(.{1,500}) \([\d.]+ms\)$/m.exec(part.split("\n", 1)[0] ?? "")?.[1];
    const error = part.slice(part.indexOf("\n") + 1).split(/^test at /m)[0] ?? "";
    if (name === undefined) return [];
    const before = text.slice(0, text.indexOf(`✖ ${name} (`)).split("\n");
    return [{ name, error: withCrash(error, before) }];
  });
  const skipped = Number(count("skipped") ?? 0) + Number(count("todo") ?? 0);
  return { passed: Number(passed), failed: Number(failed), skipped, failures };
}
