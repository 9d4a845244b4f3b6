import { existsSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { readLocalConfig } from "#config/config.ts";
import { UserError } from "#domain/errors.ts";
import { parseWorker } from "#domain/worker.ts";
import { type EvalPlan, type EvalResult, readResults, renderComparison, renderResults } from "#eval/eval-results.ts";
import { type EvalTask, readTasks } from "#eval/eval-tasks.ts";
import { type EvalHost, omitToolsets } from "#eval/play-task.ts";
import { runEval } from "#eval/run-eval.ts";
import { createExecutors } from "#executors/create-executors.ts";
import { createModels } from "#models/create-models.ts";
import { visible } from "#terminal/style.ts";
import { oneLine } from "#terminal/value-to-text.ts";
import { createInterruptSignal } from "#ui/interrupt-signal.ts";
import { type CommandContext, exitCodes, parseWords, type Words } from "./command-context.ts";
import { type LocalWorker, type LocalWorkers, openLocalWorkers } from "./local-workers.ts";
import { findCodeToTrust } from "./trusted-code.ts";

const shippedTasks = fileURLToPath(new URL("../../../evals", import.meta.url));
const defaultParallel = 2;
/** The options that are stored in a results file. */
const planOptions = ["model", "worker", "repeat", "output", "repositories", "test-command"];

/** `golem eval`: evaluates models on tasks and reports the results, or compares two results files. */
export async function evaluate(args: readonly string[], context: CommandContext): Promise<number> {
  const { positionals, options } = parseWords(args, {
    model: { type: "string", short: "m", multiple: true },
    worker: { type: "string" },
    repeat: { type: "string" },
    parallel: { type: "string" },
    output: { type: "string", short: "o" },
    resume: { type: "string" },
    compare: { type: "boolean" },
    predictions: { type: "string" },
    repositories: { type: "string" },
    "test-command": { type: "string" },
    "trust-tools": { type: "boolean" },
    "unsafe-checks": { type: "boolean" },
    "no-color": { type: "boolean" },
  });
  if (options.has("compare")) return compare(positionals, context);

  const resumed = optionOf(options, "resume");
  const earlier = resumed === undefined ? undefined : readResults(resolve(context.cwd, resumed));
  if (earlier && !earlier.plan) throw new UserError(`${resumed} was not written by golem eval.`);
  if (earlier && (positionals.length > 0 || planOptions.some((name) => options.has(name)))) {
    throw new UserError(
      "--resume takes the tasks, the models and the other options of the plan from its file: leave them out.",
    );
  }
  const config = readLocalConfig(context.env);
  const models = createModels(config.models);
  const plan = earlier?.plan ?? readPlan(positionals, options, models.defaultModel, context);
  const file = resolve(context.cwd, resumed ?? optionOf(options, "output") ?? defaultFile());
  if (!earlier && existsSync(file))
    throw new UserError(`${file} already exists. Continue it with --resume, or choose another.`);

  const predictions = optionOf(options, "predictions");
  if (predictions !== undefined && plan.models.length > 1) {
    throw new UserError("--predictions takes the results of one model: evaluate the models one by one.");
  }
  const isTrusted = options.has("trust-tools");
  const tasks = readTasks(plan.paths, { ...plan, isTrusted });
  const included = await openLocalWorkers(undefined, config.workersDirectory);
  const find: LocalWorkers["find"] = async (name) =>
    name.endsWith(".worker") ? readWorkerFile(name) : included.find(name);
  if (!isTrusted) await refuseUntrusted(tasks, { ...included, find }, context);
  const executors = createExecutors(config.executors);
  const interruptSignal = createInterruptSignal();
  const interrupt = () => interruptSignal.interrupt();
  const host: EvalHost = {
    models,
    executors,
    interruptSignal,
    unsafeChecks: options.has("unsafe-checks"),
    findWorker: find,
  };
  process.on("SIGINT", interrupt);
  process.on("SIGTERM", interrupt);
  try {
    const parallel = readCount(options, "parallel", defaultParallel);
    const known = earlier?.results ?? [];
    const onResult = (result: EvalResult) => context.errors.write(`${describeResult(result)}\n`);
    const results = await runEval({ tasks, plan, parallel, file, earlier: known, host, onResult });
    return report(results, { file, predictions, isInterrupted: interruptSignal.interrupted, context });
  } finally {
    process.off("SIGINT", interrupt);
    process.off("SIGTERM", interrupt);
    await executors.close();
  }
}

/** Returns the path of a task or file; a name without a file here is that of a task that ships. */
function pathOf(name: string, cwd: string): string {
  const path = resolve(cwd, name);
  const shipped = join(shippedTasks, basename(name));
  return !existsSync(path) && name === basename(name) && existsSync(shipped) ? shipped : path;
}

function readPlan(
  positionals: readonly string[],
  options: Words["options"],
  defaultModel: string | undefined,
  { cwd }: CommandContext,
): EvalPlan {
  const models = (options.get("model") ?? (defaultModel ? [defaultModel] : [])).map(String);
  if (models.length === 0)
    throw new UserError("No model is configured: name one with --model, or set GOLEM_FORGE_MODEL.");
  const own = join(cwd, "evals");
  const paths =
    positionals.length > 0 ? positionals.map((name) => pathOf(name, cwd)) : [existsSync(own) ? own : shippedTasks];
  const repositories = optionOf(options, "repositories");
  const testCommand = optionOf(options, "test-command");
  const worker = optionOf(options, "worker");
  return {
    kind: "eval",
    paths,
    models: [...new Set(models)],
    repeat: readCount(options, "repeat", 1),
    ...(worker !== undefined && { worker: worker.endsWith(".worker") ? resolve(cwd, worker) : worker }),
    ...(repositories !== undefined && { repositories: resolve(cwd, repositories) }),
    ...(testCommand !== undefined && { testCommand }),
  };
}

function optionOf(options: Words["options"], name: string): string | undefined {
  const value = options.get(name)?.at(-1);
  return typeof value === "string" ? value : undefined;
}

function readCount(options: Words["options"], name: string, otherwise: number): number {
  const text = optionOf(options, name);
  if (text === undefined) return otherwise;
  if (/^[1-9]\d{0,2}$/.test(text)) return Number(text);
  throw new UserError(`--${name} needs a number from 1 to 999, but was given ${JSON.stringify(text)}.`);
}

function defaultFile(): string {
  return `eval-${new Date().toISOString().slice(0, 19).replaceAll(":", "-")}.jsonl`;
}

async function readWorkerFile(path: string): Promise<LocalWorker> {
  if (!existsSync(path)) throw new UserError(`Worker ${path} not found.`);
  return { worker: parseWorker(await readFile(path, "utf8"), basename(path)), path, isOwn: true };
}

/** Throws a UserError if a task brings a worker that loads code: the person may only have cloned the repository. */
async function refuseUntrusted(tasks: readonly EvalTask[], workers: LocalWorkers, { cwd }: CommandContext) {
  for (const name of new Set(tasks.map(({ worker }) => worker))) {
    const first = await workers.find(name);
    const code = await findCodeToTrust(cwd, first, { workers, omitToolsets });
    if (code.length === 0) continue;
    throw new UserError(
      `${first.worker.name} comes with these tasks and uses: ${code.join("; ")}. Review it, then add --trust-tools.`,
    );
  }
}

function describeResult({ task, model, attempt, outcome }: EvalResult): string {
  return oneLine(`${outcome}: ${task}, ${model}, attempt ${attempt}`);
}

interface Report {
  file: string;
  predictions: string | undefined;
  isInterrupted: boolean;
  context: CommandContext;
}

function report(results: readonly EvalResult[], { file, predictions, isInterrupted, context }: Report): number {
  const { output, errors, cwd } = context;
  if (results.length > 0) output.write(visible(renderResults(results)));
  if (predictions !== undefined) writeFileSync(resolve(cwd, predictions), renderPredictions(results));
  errors.write(`Results: ${visible(file)}\n`);
  if (isInterrupted) {
    errors.write(`Interrupted. Continue with: golem eval --resume ${visible(file)}\n`);
    return exitCodes.interrupted;
  }
  return results.some(({ outcome }) => outcome === "crashed") ? exitCodes.failed : exitCodes.answered;
}

/** Renders the first attempt at each task in the format of SWE-bench's own evaluation. */
function renderPredictions(results: readonly EvalResult[]): string {
  const predictions = results
    .filter(({ attempt }) => attempt === 1)
    .map(({ task, model, patch }) => [task, { instance_id: task, model_name_or_path: model, model_patch: patch }]);
  return `${JSON.stringify(Object.fromEntries(predictions), null, 2)}\n`;
}

function compare(files: readonly string[], { cwd, output }: CommandContext): number {
  const [before, after, stray] = files;
  if (before === undefined || after === undefined || stray !== undefined) {
    throw new UserError("Name two results files: golem eval --compare before.jsonl after.jsonl");
  }
  const [one, other] = [before, after].map((file) => readResults(resolve(cwd, file)).results);
  output.write(visible(renderComparison(one ?? [], other ?? [])));
  return exitCodes.answered;
}
