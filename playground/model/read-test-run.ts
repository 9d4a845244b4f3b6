/** The result of one call of run_tests. */
export type TestRun =
  /** `counts` is the tool's summary, such as "node --test: 2 passed, 1 failed". */
  | { kind: "ran"; counts: string; isGreen: boolean; failed: string[] }
  /** `why` is worded to follow a colon. */
  | { kind: "did not run"; why: string };

/** Parses the tool's result. Tests that were killed, or that reported no counts, did not run. */
export function readTestRun(answer: string): TestRun {
  const [, counts, failures, exitCode] =
    /^(.+?: \d+ passed, (\d+) failed(?:, \d+ skipped)?)\. Exit code (\d+) after /.exec(answer) ?? [];
  if (counts !== undefined) {
    const failed = [...answer.matchAll(/^✗ (.+)$/gm)].map(([, name = ""]) => name);
    return { kind: "ran", counts, isGreen: failures === "0" && exitCode === "0", failed };
  }
  const [line = ""] = errorIn(answer).split("\n");
  return { kind: "did not run", why: (/\bunavailable: (.+)/.exec(line)?.[1] ?? line).replace(/[.\s]+$/, "") };
}

/** Some clients pass an error to the model as text, others as JSON. */
function errorIn(answer: string): string {
  try {
    const { error } = JSON.parse(answer);
    return typeof error === "string" ? error : answer;
  } catch {
    return answer;
  }
}
