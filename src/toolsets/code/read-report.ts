import { startGuardedChild } from "#executors/guarded-child.ts";
import type { TestReport } from "./test-runner.ts";
import { summarizeTests, TestSummary } from "./test-summary.ts";

interface TestOutput {
  report: TestReport;
  stdout: string;
  stderr: string;
}

/** Characters that are read here. Longer outputs can be built to take minutes, or a gigabyte once they are objects. */
const maxInlineLength = 100_000;
const killAfterMs = 10_000;

/** What a test runner's output says; undefined when it says nothing we can read, or takes too long to be read. */
export async function readReport(output: TestOutput, signal?: AbortSignal): Promise<TestSummary | undefined> {
  const { report, stdout, stderr } = output;
  if (stdout.length + stderr.length <= maxInlineLength) return summarizeTests(report, stdout, stderr);

  const entry = new URL("./summary-child.ts", import.meta.url);
  const child = startGuardedChild({ entry, memoryMb: 512, messageBytes: 1_000_000, cpuSeconds: 30 });
  try {
    return TestSummary.nullable().parse(await child.call(output, { killAfterMs, signal })) ?? undefined;
  } catch (error) {
    if (signal?.aborted) throw error;
    return undefined;
  } finally {
    child.kill();
  }
}
