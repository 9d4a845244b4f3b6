import { serveParent } from "#executors/serve-parent.ts";
import type { TestReport } from "./test-runner.ts";
import { summarizeTests } from "./test-summary.ts";

/** Parses test output in a separate process, which is killed if it takes too much time or memory. */
serveParent(async (request) => {
  const { report, stdout, stderr } = request as { report: TestReport; stdout: string; stderr: string };
  return summarizeTests(report, stdout, stderr) ?? null;
});
