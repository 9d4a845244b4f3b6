import { type FailedTest, maxFailures, type TestSummary } from "./test-summary.ts";

export function readPytest(text: string): TestSummary | undefined {
  const last = text.split("\n").findLast((line) => /\b\d+ (passed|failed|errors?|skipped)\b.* in [\d.]+s/.test(line));
  if (last === undefined) {
    return /^no tests ran in [\d.]+s/m.test(text) ? { passed: 0, failed: 0, skipped: 0, failures: [] } : undefined;
  }

  const count = (pattern: string) => Number(new RegExp(`(\\d+) ${pattern}`).exec(last)?.[1] ?? 0);
  const named = [...text.matchAll(/^(?:FAILED|ERROR) (\S.*?)(?: - (.*))?$/gm)].slice(0, maxFailures);
  const sectionOf = pytestSections(text);
  const failures = named.map(([, name = "", reason = ""]) => ({ name, error: sectionOf(name) || reason }));
  return { passed: count("passed"), failed: count("failed") + count("errors?"), skipped: count("skipped"), failures };
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

export function readUnittest(text: string): TestSummary | undefined {
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
  return { passed: Math.max(0, Number(ran[1]) - failed - skipped), failed, skipped, failures };
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
  return [...said, where ?? ""].join("\n");
}
