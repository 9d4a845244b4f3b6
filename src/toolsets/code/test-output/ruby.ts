import { z } from "zod";
import { countOrZero, type FailedTest, findJson, listOrEmpty, type TestSummary, textOrEmpty } from "./test-summary.ts";

const RspecReport = z.object({
  summary: z.object({
    example_count: z.number(),
    failure_count: countOrZero,
    pending_count: countOrZero,
    errors_outside_of_examples_count: countOrZero,
  }),
  examples: listOrEmpty(
    z.object({
      status: textOrEmpty,
      full_description: textOrEmpty,
      exception: z.object({ message: textOrEmpty }).catch({ message: "" }),
    }),
  ),
});

export function readRspecJson(text: string): TestSummary | undefined {
  const report = findJson(text, RspecReport);
  if (!report) return undefined;

  const failures = report.examples
    .filter(({ status }) => status === "failed")
    .map((example) => ({ name: example.full_description, error: example.exception.message }));
  const { example_count, failure_count, pending_count: skipped, errors_outside_of_examples_count } = report.summary;
  // A file that failed to load has no examples.
  const failed = failure_count + errors_outside_of_examples_count;
  return { passed: Math.max(0, example_count - failure_count - skipped), failed, skipped, failures };
}

export function readMinitest(text: string): TestSummary | undefined {
  const total = /^(\d+) (?:runs|tests), \d+ assertions, (\d+) failures, (\d+) errors(?:, (\d+) skips)?/m.exec(text);
  if (!total) return undefined;

  const [all = 0, failed = 0, errors = 0, skipped = 0] = total.slice(1).map((number = "0") => Number(number));
  const failures = text.split(/^ *\d+\) (?=Failure:|Error:)/m).flatMap((part, at): FailedTest[] => {
    const [, name = "", ...lines] = part.split("\n");
    const end = lines.findIndex((line) => /^\d+ (?:runs|tests), /.test(line));
    const error = (end === -1 ? lines : lines.slice(0, end)).join("\n");
    return at === 0 ? [] : [{ name: name.replace(/:$/, ""), error }];
  });
  return { passed: Math.max(0, all - failed - errors - skipped), failed: failed + errors, skipped, failures };
}
