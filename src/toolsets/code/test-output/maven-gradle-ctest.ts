import type { TestSummary } from "./test-summary.ts";

/** Reads what Surefire prints: totals, and each failed test with its stack. */
export function readMaven(text: string): TestSummary | undefined {
  const lines = text.split("\n").map((line) => line.replace(/^\[(?:INFO|ERROR|WARNING)\] ?/, ""));
  const counts = /^Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)(?:, (Time elapsed:).*)?$/;
  const all = lines.map((line) => counts.exec(line)).filter((match) => match !== null);
  // Only the totals of a class have a duration. Those of a module are missing if the run was stopped.
  const ofModules = all.filter((match) => match[5] === undefined);
  const counted = ofModules.length > 0 ? ofModules : all;
  if (counted.length === 0) return undefined;
  const sum = (group: number) => counted.reduce((total, match) => total + Number(match[group]), 0);
  const [failed, skipped] = [sum(2) + sum(3), sum(4)];
  const failures = lines.flatMap((line, at) => {
    const [, title] = /^(?!Tests run:)(\S.* )Time elapsed: [\d.,]+ s(?:ec)? +<<< (?:FAILURE|ERROR)!$/.exec(line) ?? [];
    if (title === undefined) return [];
    const name = title.trimEnd().replace(/ --$/, "").trimEnd();
    return [{ name, error: textUntil(lines, at + 1, (next) => next.trim() === "") }];
  });
  return { passed: Math.max(0, sum(1) - failed - skipped), failed, skipped, failures };
}

/** Reads the tests that Gradle names with their result, each failed one with its stack below it. */
export function readGradle(text: string): TestSummary | undefined {
  const lines = text.split("\n");
  const results = lines.flatMap((line, at) => {
    const [, name, result] = /^([^>\s].*) (PASSED|FAILED|SKIPPED)$/.exec(line) ?? [];
    return name?.includes(" > ") ? [{ name, result, at }] : [];
  });
  if (results.length === 0) return undefined;
  const count = (wanted: string) => results.filter(({ result }) => result === wanted).length;
  const failures = results
    .filter(({ result }) => result === "FAILED")
    .map(({ name, at }) => ({ name, error: textUntil(lines, at + 1, (next) => /^\S/.test(next)) }));
  return { passed: count("PASSED"), failed: count("FAILED"), skipped: count("SKIPPED"), failures };
}

/** Reads the line of each test that CTest ran, and the output that follows a failed one. */
export function readCtest(text: string): TestSummary | undefined {
  const lines = text.split("\n");
  const results = lines.flatMap((line, at) => {
    const [, name, result = ""] = /^ *\d+\/\d+ Test +#\d+: (.*?) \.{2,}(.*)$/s.exec(line) ?? [];
    return name === undefined ? [] : [{ name, result: withoutDuration(result), at }];
  });
  if (results.length === 0) {
    return /^No tests were found!!!$/m.test(text) ? { passed: 0, failed: 0, skipped: 0, failures: [] } : undefined;
  }
  const isStart = (line: string) => /^ +Start +\d+: /.test(line);
  const passed = results.filter(({ result }) => result === "Passed").length;
  const failed = results.filter(({ result }) => !/^(?:Passed|\*\*\*Skipped|\*\*\*Not Run \(Disabled\))$/.test(result));
  const failures = failed.map(({ name, result, at }) => {
    const output = textUntil(lines, at + 1, (next) => isStart(next) || /^\d+% tests passed, /.test(next))
      .split("\n")
      .filter((line) => !passedInside.test(line))
      .join("\n");
    // What keeps a test from being run is printed before its line.
    const before = lines.slice(Math.max(0, at - maxErrorLines), at);
    const start = result.startsWith("***Not Run") ? before.findLastIndex(isStart) : -1;
    const reason = start === -1 ? "" : before[start + 1];
    return { name, error: [result.replace("***", " ").trim(), reason, output].filter(Boolean).join("\n") };
  });
  return { passed, failed: failed.length, skipped: results.length - passed - failed.length, failures };
}

/** A case that passed in a program with several, as Unity, GoogleTest and TAP print it. */
const passedInside = /:PASS$|^\[ +(?:RUN|OK) +\]|^ok \d+/;

/** Returns the result of a test without the seconds after it: `***Failed    0.01 sec`. */
function withoutDuration(result: string): string {
  const text = result.trim();
  const words = text.split(/ +/);
  return words.at(-1) === "sec" ? words.slice(0, -2).join(" ") : text;
}

/** Returns the lines from `start` until one ends them. */
function textUntil(lines: readonly string[], start: number, isEnd: (line: string) => boolean): string {
  const length = lines.slice(start, start + maxErrorLines).findIndex(isEnd);
  return lines.slice(start, start + (length === -1 ? maxErrorLines : length)).join("\n");
}

const maxErrorLines = 200;
