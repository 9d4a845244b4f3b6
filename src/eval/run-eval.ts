import { appendFileSync, writeFileSync } from "node:fs";
import { messageOf, UserError } from "#domain/errors.ts";
import { modelFor } from "#runtime/start/admit-worker.ts";
import { type EvalPlan, EvalResult, keyOf } from "./eval-results.ts";
import type { EvalTask } from "./eval-tasks.ts";
import { type EvalHost, playTask } from "./play-task.ts";

export interface EvalOptions {
  tasks: readonly EvalTask[];
  plan: EvalPlan;
  /** The maximum number of attempts at one time. */
  parallel: number;
  /** Receives the plan and every result, one JSON object per line. */
  file: string;
  /** The results already in the file. Crashed attempts are repeated. */
  earlier: readonly EvalResult[];
  host: EvalHost;
  onResult(result: EvalResult): void;
}

interface Attempt {
  task: EvalTask;
  model: string;
  attempt: number;
}

/**
 * Runs every task with every model as often as planned, and writes each result as soon as it is known. A task that crashes
 * does not stop the others. Resolves to all results, or to those so far after an interruption. Throws a UserError before
 * the first attempt if a model, a worker or a sandbox is missing.
 */
export async function runEval({
  tasks,
  plan,
  parallel,
  file,
  earlier,
  host,
  onResult,
}: EvalOptions): Promise<EvalResult[]> {
  await checkPossible(tasks, plan.models, host);
  const kept = earlier.filter(({ outcome }) => outcome !== "crashed");
  const done = new Set(kept.map(keyOf));
  const missing = attemptsOf(tasks, plan).filter(
    ({ task, model, attempt }) => !done.has(keyOf({ task: task.name, model, attempt })),
  );
  // Rewriting the file removes a truncated last line.
  writeFileSync(file, [plan, ...kept].map((entry) => `${JSON.stringify(entry)}\n`).join(""));

  const results = [...kept];
  const { signal } = host.interruptSignal;
  const playNext = async (): Promise<void> => {
    for (let next = missing.shift(); next && !signal.aborted; next = missing.shift()) {
      const result = await playOrReport(next, host);
      if (!result) return;
      appendFileSync(file, `${JSON.stringify(result)}\n`);
      results.push(result);
      onResult(result);
    }
  };
  await Promise.all(Array.from({ length: parallel }, playNext));
  return results;
}

/** Returns the attempts in rounds over all tasks, so that an interrupted evaluation has results for every task. */
function attemptsOf(tasks: readonly EvalTask[], { models, repeat }: EvalPlan): Attempt[] {
  const rounds = Array.from({ length: repeat }, (_, index) => index + 1);
  return rounds.flatMap((attempt) => models.flatMap((model) => tasks.map((task) => ({ task, model, attempt }))));
}

/** Resolves to undefined if the attempt was interrupted. */
async function playOrReport({ task, model, attempt }: Attempt, host: EvalHost): Promise<EvalResult | undefined> {
  try {
    return { ...(await playTask(task, model, host)), attempt };
  } catch (error) {
    if (host.interruptSignal.interrupted) return undefined;
    const reason = messageOf(error);
    const crashed = { kind: "result", task: task.name, model, attempt, outcome: "crashed", reasons: [reason] };
    return EvalResult.parse(crashed);
  }
}

async function checkPossible(tasks: readonly EvalTask[], models: readonly string[], host: EvalHost): Promise<void> {
  for (const name of new Set(tasks.map(({ worker }) => worker))) {
    const { worker } = await host.findWorker(name);
    for (const model of models) modelFor(worker, model, host.models);
  }
  const inOsSandbox = tasks.filter(
    ({ sandbox, checks, setup }) => sandbox === "os" && checks.length + setup.length > 0,
  );
  if (host.unsafeChecks || inOsSandbox.length === 0) return;
  const { available, reason } = await host.executors.availability("os");
  if (available) return;
  throw new UserError(
    `The checks of ${inOsSandbox.map(({ name }) => name).join(", ")} cannot run here: ${reason}. Choose other tasks, or add --unsafe-checks to run the checks, and with them what the model wrote, on this machine without a sandbox.`,
  );
}
