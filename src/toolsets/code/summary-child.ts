import { serveParent } from "#executors/serve-parent.ts";
import type { TestReport } from "./test-runner.ts";
import { summarizeTests } from "./test-summary.ts";

/** Runs in a process of its own, which is killed when an output is too much for it. */
serveParent(async (request) => {
  const { report, stdout, stderr } = request as { report: TestReport; stdout: string; stderr: string };
  return summarizeTests(report, stdout, stderr) ?? null;
});
