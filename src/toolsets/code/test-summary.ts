import { z } from "zod";
import type { ChildHandler } from "#executors/serve-parent.ts";
import { parseJson } from "#text/json-values.ts";
import { truncateLine } from "#text/truncate.ts";
import { normalizeText } from "#text/visible-text.ts";
import { readCtest, readGradle, readMaven } from "./build-tools.ts";
import type { TestReport } from "./test-runner.ts";

const FailedTest = z.object({
  name: z.string(),
  /** The first lines of the error message. */
  error: z.string(),
});
type FailedTest = z.infer<typeof FailedTest>;

export const TestSummary = z.object({
  passed: z.number(),
  failed: z.number(),
  skipped: z.number(),
  failures: z.array(FailedTest),
});
export type TestSummary = z.infer<typeof TestSummary>;

const errorLines = 12;
const maxFailures = 50;
const maxNameLength = 500;
const maxErrorLength = 8_000;
const maxLineLength = 500;
/** The maximum number of positions at which JSON may start: each is parsed to its end. */
const maxJsonStarts = 8;

/** Summarizes a test runner's output; undefined if it cannot be parsed, in which case only the exit code counts. */
export function summarizeTests(report: TestReport, stdout: string, stderr: string): TestSummary | undefined {
  const text = normalizeText(stdout);
  const both = `${text}\n${normalizeText(stderr)}`;
  switch (report) {
    case "vitest":
    case "jest":
      // With --bail, jest prints no JSON after a failure.
      return fromJestJson(text) ?? fromJestText(both);
    case "mocha":
      return fromMochaJson(text);
    case "rspec":
      return fromRspecJson(text);
    case "minitest":
      return fromMinitest(text);
    case "tap":
      return fromTap(text) ?? fromSpec(both);
    case "pytest":
      return fromPytest(text);
    case "unittest":
      return fromUnittest(both);
    case "go":
      return fromGo(text);
    case "cargo":
      return fromCargo(text);
    case "maven":
      return shortened(readMaven(both));
    case "gradle":
      return shortened(readGradle(both));
    case "ctest":
      return shortened(readCtest(text));
    case "plain":
      return fromAnyText(text, both.replace(taskPrefix, ""));
  }
}

/** The package and task before each line of a monorepo tool's output, such as `ui:test: ` or `packages/ui test: `. */
const taskPrefix = /^[@\w./-]{1,100}(?::| )test[\w:-]{0,50}: ?/gm;

function fromAnyText(stdout: string, both: string): TestSummary | undefined {
  return (
    fromJestJson(stdout) ??
    fromTap(both) ??
    fromSpec(both) ??
    fromPytest(both) ??
    fromUnittest(both) ??
    fromCargo(both) ??
    fromMinitest(both) ??
    shortened(readMaven(both)) ??
    shortened(readCtest(both)) ??
    fromJestText(both) ??
    fromWords(both)
  );
}

function firstLines(text: string): string {
  const lines = normalizeText(text)
    .split("\n")
    .map((line) => line.trimEnd());
  const own = lines.filter((line) => !isForeignFrame(line.trimStart()));
  const start = own.findIndex((line) => line.trim() !== "");
  const kept = own.slice(Math.max(0, start), Math.max(0, start) + errorLines);
  const indents = kept.filter((line) => line !== "").map((line) => /^ */.exec(line)?.[0].length ?? 0);
  const indent = Math.min(...indents);
  return kept
    .map((line) => line.slice(indent))
    .map((line) => truncateLine(line, maxLineLength))
    .join("\n")
    .trim();
}

/** True if a line of a stack belongs to a package or the runtime, which says little about a failure. */
export function isForeignFrame(line: string): boolean {
  if (line.startsWith("/usr/lib/python") || line.startsWith("from /usr/")) return true;
  if (javaFrame.test(line)) return true;
  return (
    line.startsWith("at ") && (/node_modules\/|[ (]node:/.test(line.slice(0, 1_000)) || line.endsWith("<anonymous>)"))
  );
}

/** Shows the first lines of each error. */
function shortened(read: ReturnType<typeof readMaven>): TestSummary | undefined {
  return (
    read &&
    summary(
      read,
      read.failures.map(({ name, error }) => ({ name, error: firstLines(error) })),
    )
  );
}

/** Frames of Java, and of its test libraries and build tools, also with the module or class loader before them. */
const javaFrame =
  /^at (?:[\w.@]+\/{1,2})*(?:java|javax|jdk|sun|org\.junit|junit|org\.opentest4j|org\.hamcrest|org\.assertj|org\.testng|org\.gradle|worker\.org\.gradle|org\.apache\.maven)\.[\w.$]+\(/;

function summary(counts: Omit<TestSummary, "failures">, failures: FailedTest[]): TestSummary {
  const short = failures
    .slice(0, maxFailures)
    .map(({ name, error }) => ({ name: name.slice(0, maxNameLength), error: error.slice(0, maxErrorLength) }));
  return { ...counts, failures: short };
}

/** Returns the JSON object of this shape in an output that may start with other text. */
function findJson<Report>(text: string, schema: z.ZodType<Report>): Report | undefined {
  let start = text.indexOf("{");
  for (let tries = 0; start !== -1 && tries < maxJsonStarts; tries += 1) {
    const report = schema.safeParse(parseJson(text.slice(start, text.lastIndexOf("}") + 1))).data;
    if (report) return report;
    start = text.indexOf("\n{", start + 1);
  }
  return undefined;
}

const words = z.string().catch("");
const total = z.number().catch(0);
const listOf = <Item extends z.ZodType>(item: Item) => z.array(item).catch([]);

const JestReport = z.object({
  numPassedTests: z.number(),
  numFailedTests: z.number(),
  numPendingTests: total,
  numTodoTests: total,
  testResults: listOf(
    z.object({
      name: words,
      status: words,
      message: words,
      assertionResults: listOf(z.object({ status: words, fullName: words, failureMessages: listOf(words) })),
    }),
  ),
});

function fromJestJson(text: string): TestSummary | undefined {
  const report = findJson(text, JestReport);
  if (!report) return undefined;

  const failures = report.testResults.flatMap(({ name, status, message, assertionResults }): FailedTest[] => {
    const failed = assertionResults.filter((test) => test.status === "failed");
    // A file that failed to load has no failed tests.
    if (failed.length === 0) return status === "failed" ? [{ name, error: firstLines(message) }] : [];
    return failed.map((test) => ({ name: test.fullName, error: firstLines(test.failureMessages.join("\n")) }));
  });
  const skipped = report.numPendingTests + report.numTodoTests;
  const failed = Math.max(report.numFailedTests, failures.length);
  return summary({ passed: report.numPassedTests, failed, skipped }, failures);
}

/** Parses what jest and vitest print for people: a line of totals for each run, and a section for each failure. */
function fromJestText(text: string): TestSummary | undefined {
  const totals = [...text.matchAll(/^ *Tests:? {2,}(.{1,200})$/gm)].map(([, total = ""]) => total);
  const count = (word: string) =>
    totals.reduce((sum, total) => sum + Number(new RegExp(`(\\d+) ${word}\\b`).exec(total)?.[1] ?? 0), 0);
  const failures = new Map<string, string>();
  for (const part of text.split(/^ *(?:●|FAIL) (?=.* [›>] | *Test suite failed)/m).slice(1)) {
    const [name = ""] = part.split("\n", 1);
    const [error = ""] = part.slice(name.length + 1).split(/^(?:Test Suites?: |⎯{5}|(?:PASS|FAIL) |Snapshots: )/m);
    if (!failures.has(name.trim())) failures.set(name.trim(), firstLines(error));
  }
  const named = [...failures].map(([name, error]) => ({ name, error }));
  if (totals.length === 0) {
    // The run was stopped, such as at its timeout.
    const passed = text.match(/^ {2,}[✓√] /gm)?.length ?? 0;
    return named.length > 0 ? summary({ passed, failed: named.length, skipped: 0 }, named) : undefined;
  }
  const skipped = count("skipped") + count("pending") + count("todo");
  return summary({ passed: count("passed"), failed: count("failed"), skipped }, named);
}

const MochaReport = z.object({
  stats: z.object({ passes: z.number(), failures: z.number(), pending: total }),
  failures: listOf(
    z.object({ fullTitle: words, err: z.object({ stack: words, message: words }).catch({ stack: "", message: "" }) }),
  ),
});

function fromMochaJson(text: string): TestSummary | undefined {
  const report = findJson(text, MochaReport);
  if (!report) return undefined;

  const failures = report.failures.map(({ fullTitle, err }) => ({
    name: fullTitle,
    error: firstLines(err.stack || err.message),
  }));
  const { passes: passed, failures: failed, pending: skipped } = report.stats;
  return summary({ passed, failed, skipped }, failures);
}

const RspecReport = z.object({
  summary: z.object({
    example_count: z.number(),
    failure_count: total,
    pending_count: total,
    errors_outside_of_examples_count: total,
  }),
  examples: listOf(
    z.object({
      status: words,
      full_description: words,
      exception: z.object({ message: words }).catch({ message: "" }),
    }),
  ),
});

function fromRspecJson(text: string): TestSummary | undefined {
  const report = findJson(text, RspecReport);
  if (!report) return undefined;

  const failures = report.examples
    .filter(({ status }) => status === "failed")
    .map((example) => ({ name: example.full_description, error: firstLines(example.exception.message) }));
  const { example_count, failure_count, pending_count: skipped, errors_outside_of_examples_count } = report.summary;
  // A file that failed to load has no examples.
  const failed = failure_count + errors_outside_of_examples_count;
  return summary({ passed: Math.max(0, example_count - failure_count - skipped), failed, skipped }, failures);
}

function fromMinitest(text: string): TestSummary | undefined {
  const total = /^(\d+) (?:runs|tests), \d+ assertions, (\d+) failures, (\d+) errors(?:, (\d+) skips)?/m.exec(text);
  if (!total) return undefined;

  const [all = 0, failed = 0, errors = 0, skipped = 0] = total.slice(1).map((number = "0") => Number(number));
  const failures = text.split(/^ *\d+\) (?=Failure:|Error:)/m).flatMap((part, at): FailedTest[] => {
    const [, name = "", ...lines] = part.split("\n");
    const end = lines.findIndex((line) => /^\d+ (?:runs|tests), /.test(line));
    const error = firstLines((end === -1 ? lines : lines.slice(0, end)).join("\n"));
    return at === 0 ? [] : [{ name: name.replace(/:$/, ""), error }];
  });
  return summary({ passed: Math.max(0, all - failed - errors - skipped), failed: failed + errors, skipped }, failures);
}

function fromTap(text: string): TestSummary | undefined {
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
    failures.push({ name: name.replace(/ # .*$/, ""), error: firstLines(withCrash(tapError(details), before)) });
  }
  const skipped = Number(count("skipped") ?? 0) + Number(count("todo") ?? 0);
  return summary({ passed: Number(passed), failed: Number(failed), skipped }, failures);
}

/** Puts the error that ended a whole file before its failure. Node only says "test failed", and prints the error before. */
function withCrash(error: string, before: readonly string[]): string {
  const crash = /^\s*'?test failed'?$/m.test(error) && before.findLast((line) => /^(?:# )?[A-Z]?\w*Error\b/.test(line));
  return crash ? `${crash.replace("# ", "")}\n${error}` : error;
}

/** The fields of a TAP diagnostic that describe a failure, in the order in which they are shown. Others repeat them. */
const tapFields = ["error", "message", "values", "diff", "found", "wanted", "at", "location"];
const describedByName = new Set(["found", "wanted"]);

/** Returns what a TAP diagnostic says about a failure: that of node --test, tap or ava. */
function tapError(details: string): string {
  const lines = details.split("\n").filter((line) => line.trim() !== "---");
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
function fromSpec(text: string): TestSummary | undefined {
  const count = (name: string) => new RegExp(`^ℹ ${name} (\\d+)$`, "m").exec(text)?.[1];
  const [passed, failed] = [count("pass"), count("fail")];
  if (passed === undefined || failed === undefined) return undefined;

  const parts = text.slice(Math.max(0, text.lastIndexOf("✖ failing tests:"))).split(/^✖ /m);
  const failures = parts.flatMap((part): FailedTest[] => {
    const name = /^(.{1,500}) \([\d.]+ms\)$/m.exec(part.split("\n", 1)[0] ?? "")?.[1];
    const error = part.slice(part.indexOf("\n") + 1).split(/^test at /m)[0] ?? "";
    if (name === undefined) return [];
    const before = text.slice(0, text.indexOf(`✖ ${name} (`)).split("\n");
    return [{ name, error: firstLines(withCrash(error, before)) }];
  });
  const skipped = Number(count("skipped") ?? 0) + Number(count("todo") ?? 0);
  return summary({ passed: Number(passed), failed: Number(failed), skipped }, failures);
}

function fromUnittest(text: string): TestSummary | undefined {
  const ran = [...text.matchAll(/^Ran (\d+) tests? in [\d.]+s$/gm)].at(-1);
  if (!ran) return undefined;

  const end =
    text
      .slice(ran.index)
      .split("\n")
      .find((line) => /^(OK|FAILED|NO TESTS RAN)\b/.test(line)) ?? "";
  const count = (name: string) => Number(new RegExp(`[(, ]${name}=(\\d+)`).exec(end)?.[1] ?? 0);
  const failed = count("failures") + count("errors") + count("unexpected successes");
  const skipped = count("skipped");
  const failures = text
    .slice(0, ran.index)
    .split(/^={70}\n/m)
    .flatMap((part): FailedTest[] => {
      const name = /^(?:FAIL|ERROR): (.+)$/.exec(part.split("\n", 1)[0] ?? "")?.[1];
      return name === undefined ? [] : [{ name, error: unittestError(part) }];
    });
  return summary({ passed: Math.max(0, Number(ran[1]) - failed - skipped), failed, skipped }, failures);
}

/** Returns the error of a traceback: its unindented last lines give the message, the last frames before them the location. */
function unittestError(part: string): string {
  const lines =
    part
      .split(/^-{70}$/m)[1]
      ?.trim()
      .split("\n") ?? [];
  const at = lines.findLastIndex((line) => line.startsWith("  "));
  const said = lines.slice(at + 1);
  const where = lines.filter((line) => /^ {2}File /.test(line)).at(-1);
  return firstLines([...said, where ?? ""].join("\n"));
}

function fromPytest(text: string): TestSummary | undefined {
  const last = text.split("\n").findLast((line) => /\b\d+ (passed|failed|errors?|skipped)\b.* in [\d.]+s/.test(line));
  if (last === undefined) {
    return /^no tests ran in [\d.]+s/m.test(text) ? summary({ passed: 0, failed: 0, skipped: 0 }, []) : undefined;
  }

  const count = (pattern: string) => Number(new RegExp(`(\\d+) ${pattern}`).exec(last)?.[1] ?? 0);
  const named = [...text.matchAll(/^(?:FAILED|ERROR) (\S.*?)(?: - (.*))?$/gm)].slice(0, maxFailures);
  const sectionOf = pytestSections(text);
  const failures = named.map(([, name = "", reason = ""]) => ({ name, error: firstLines(sectionOf(name) || reason) }));
  return summary(
    { passed: count("passed"), failed: count("failed") + count("errors?"), skipped: count("skipped") },
    failures,
  );
}

/** Returns a function that maps a test's name to its error: the lines pytest marks with `E`, or the location. */
function pytestSections(text: string): (name: string) => string {
  const lines = text.split("\n");
  const bounds = [...lines.keys()].filter((at) => /^(_{3,} .* _{3,}|={3,}.*={3,})$/.test(lines[at] ?? ""));
  return (name) => {
    const test = name.slice(name.lastIndexOf("::") + 2);
    const first = bounds.findIndex((at) => lines[at]?.startsWith("_") && lines[at].includes(test));
    if (first === -1) return "";
    return lines
      .slice((bounds[first] ?? 0) + 1, bounds[first + 1])
      .filter((line) => /^(E |>|\S+:\d+:)/.test(line))
      .join("\n");
  };
}

const GoEvent = z.object({ Action: z.string(), Package: words, Test: words, Output: words });

function fromGo(text: string): TestSummary | undefined {
  const outputs = new Map<string, string[]>();
  const ended = new Map<string, string>();
  let isJson = false;
  for (const line of text.split("\n")) {
    const event = line.startsWith("{") ? GoEvent.safeParse(parseJson(line)).data : undefined;
    if (!event) continue;
    isJson = true;
    const { Action: action, Test: test } = event;
    const name = [event.Package, test].filter(Boolean).join(" ");
    if (action === "output") outputs.set(name, [...(outputs.get(name) ?? []).slice(-40), event.Output]);
    if (action === "fail" || (test !== "" && ["pass", "skip"].includes(action))) ended.set(name, action);
  }
  if (!isJson) return undefined;

  const names = [...ended.keys()];
  // Packages and parent tests fail with their subtests, so only the innermost failures are kept.
  const failed = names.filter(
    (name) => ended.get(name) === "fail" && !names.some((other) => isBelow(other, name) && ended.get(other) === "fail"),
  );
  const count = (action: string) => names.filter((name) => ended.get(name) === action && name.includes(" ")).length;
  const failures = failed.map((name) => ({
    name,
    error: firstLines(withoutGoFrames(outputs.get(name) ?? []).join("")),
  }));
  return summary({ passed: count("pass"), failed: failed.length, skipped: count("skip") }, failures);
}

/** Leaves out headings and the frames of the standard library, whose first line is a function and whose second is its location. */
function withoutGoFrames(lines: readonly string[]): string[] {
  const isFrame = (line = "") =>
    /^\t\S*\/(?:src|libexec\/src)\/(?:testing|runtime|reflect)\/\S+\.(?:go|s):\d+/.test(line);
  return lines.filter((line, at) => !/^(=== |--- )/.test(line.trim()) && !isFrame(line) && !isFrame(lines[at + 1]));
}

function isBelow(name: string, parent: string): boolean {
  return name.startsWith(`${parent}/`) || (!parent.includes(" ") && name.startsWith(`${parent} `));
}

function fromCargo(text: string): TestSummary | undefined {
  const results = [...text.matchAll(/^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored/gm)];
  if (results.length === 0) return undefined;

  const sum = (index: number) => results.reduce((total, result) => total + Number(result[index]), 0);
  return summary({ passed: sum(1), failed: sum(2), skipped: sum(3) }, cargoFailures(text));
}

/** Reads the output of each failed test, which follows a line with its name. */
function cargoFailures(text: string): FailedTest[] {
  const sections: { name: string; lines: string[] }[] = [];
  let current: string[] | undefined;
  for (const line of text.split("\n")) {
    const name = line.startsWith("---- ") && line.endsWith(" stdout ----") ? line.slice(5, -12) : undefined;
    if (name !== undefined) {
      current = [];
      sections.push({ name, lines: current });
    } else if (line === "failures:") current = undefined;
    else current?.push(line);
  }
  return sections.slice(0, maxFailures).map(({ name, lines }) => ({ name, error: firstLines(lines.join("\n")) }));
}

/** Parses the totals that most runners print near the end: "3 passing", "Tests: 1 failed, 2 passed", "Passed: 3". */
function fromWords(text: string): TestSummary | undefined {
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
  return summary(
    { passed: Number(passed ?? 0), failed: Number(failed ?? 0), skipped: Number(count("skipped|pending") ?? 0) },
    [],
  );
}

/** Parses test output in a separate process, which is killed if it takes too much time or memory. */
const handler: ChildHandler = {
  async handle(request) {
    const { report, stdout, stderr } = request as { report: TestReport; stdout: string; stderr: string };
    return summarizeTests(report, stdout, stderr) ?? null;
  },
};
export default handler;
