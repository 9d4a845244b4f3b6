import type { Writable } from "node:stream";
import { type ActionConfig, readActionConfig } from "#config/config.ts";
import { describeUnknownSettings, secretsIn } from "#config/environment.ts";
import { UserError } from "#domain/errors.ts";
import { createRedactor } from "#text/redact.ts";
import { createJobLog, Job, type JobLog } from "./job.ts";

/** Runs one job: delivers its event and continues all runs until they wait or have ended. Resolves to the exit code. */
export async function runAction(
  environment: Record<string, string | undefined>,
  { output }: { output: Writable },
): Promise<number> {
  const log = createJobLog(output, createRedactor(secretsIn(environment)));
  try {
    const config = readActionConfig(environment);
    for (const warning of describeUnknownSettings(environment)) log.info(warning);
    return await runJobs(config, log);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    log.annotate(error.message);
    return 2;
  }
}

async function runJobs(config: ActionConfig, log: JobLog): Promise<number> {
  const interruption = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => interruption.abort());
  const lostRuns = new Set<string>();
  for (;;) {
    const job = await Job.open(config, { log, signal: interruption.signal, lostRuns });
    const outcome = await job.run();
    for (const runId of job.lostRuns) lostRuns.add(runId);
    switch (outcome) {
      case "waiting":
        return 0;
      case "interrupted":
        log.info("The job was cancelled. The next job continues its work.");
        return 130;
      case "lost":
        log.info("Another job has taken over. This job starts again from the state that the other one saved.");
    }
  }
}
