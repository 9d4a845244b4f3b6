import { applyPolicy, type DeploymentPolicy, findPolicyModelProblem } from "#config/deployment-policy.ts";
import { narrowLimits, type RepositorySettings, settingsPath } from "#config/repository-settings.ts";
import { UserError } from "#domain/errors.ts";
import { digestOfWorker, type RunSpec } from "#domain/run.ts";
import type { WorkerDefinition } from "#domain/worker.ts";
import { type Models, modelMatches } from "#models/models.ts";
import { type RepositoryAccess, type RunEnvironment, readSettings } from "#runtime/run-environment.ts";
import { defaultGuidanceTokens } from "./read-guidance.ts";

export interface Admission {
  /** The worker, with the limits, policy and instructions of the deployment and the repository. */
  worker: WorkerDefinition;
  source: RunSpec["workerSource"];
  model: string;
  /** The digest of the worker as it was found. */
  digest: string;
}

/** Throws a UserError for a worker that is unknown, invalid, not allowed here, or cannot use its model. */
export async function admitWorker(
  name: string,
  {
    catalog,
    models,
    repository,
    model,
    policy,
    isFork,
  }: {
    catalog: RunEnvironment["catalog"];
    models: Models;
    repository: RepositoryAccess;
    /** The model of the run that calls the worker, for a worker that does not name one. */
    model?: string;
    /** Undefined for a program that runs its own workers. */
    policy: DeploymentPolicy | undefined;
    /** True for a run on the pull request of a fork, for which only read-only workers are admitted. */
    isFork?: boolean | undefined;
  },
): Promise<Admission> {
  const settings = await readSettings(repository);
  const found = await catalog.find(name, repository);
  const { worker, source, model: ofProgram } = found;
  checkAllowed(worker, settings);
  if (isFork) checkOnlyReads(worker);
  // Loaded only now: the program starts without the modules that only runs need.
  const { resolveToolsets, findOfferedToolProblems } = await import("#toolsets/open-toolbox.ts");
  resolveToolsets(worker);
  const [problem] = await findOfferedToolProblems(worker);
  if (problem) throw new UserError(`${worker.name} cannot be used: offered_tools: ${problem.message}`);
  const allowed = policy ? applyPolicy(policy, worker, source) : worker;
  const chosen = modelFor(worker, worker.model ?? model ?? ofProgram ?? models.defaultModel, models);
  const modelProblem = policy && findPolicyModelProblem(policy, chosen);
  if (modelProblem) throw new UserError(modelProblem);
  return {
    worker: {
      ...allowed,
      limits: narrowLimits(allowed.limits, settings),
      guidance_tokens: Math.min(
        worker.guidance_tokens ?? defaultGuidanceTokens,
        settings.guidance_tokens ?? Number.POSITIVE_INFINITY,
      ),
      instructions: [worker.instructions, settings.instructions].filter(Boolean).join("\n\n"),
    },
    source,
    model: chosen,
    digest: digestOfWorker(found),
  };
}

function checkAllowed({ name }: WorkerDefinition, { workers }: RepositorySettings): void {
  if (!workers || workers.some((allowed) => allowed.toLowerCase() === name.toLowerCase())) return;
  throw new UserError(`${name} may not be run here: ${settingsPath} allows ${workers.join(", ") || "no worker"}.`);
}

/** The toolsets that neither execute the repository's code nor send text to other hosts. */
const readingToolsets = ["filesystem", "search", "git", "github", "reviews", "tasks", "ask", "workers"];

/**
 * Throws a UserError unless the worker only reads. The owner of a fork controls its files: a worker may read them, but
 * may not change anything, execute anything, or send anything elsewhere. The workers that it calls are checked as well.
 */
function checkOnlyReads({ name, toolsets, sandbox, server_side_tools: serverSideTools }: WorkerDefinition): void {
  const readsOnly = sandbox?.readonly && serverSideTools.length === 0;
  if (readsOnly && Object.keys(toolsets).every((toolset) => readingToolsets.includes(toolset))) return;
  throw new UserError(
    `This pull request comes from a fork, and ${name} may do more than read. Workers that only read, such as reviewer, can run here: nothing is pushed to a fork, and none of its code is executed. For ${name}, push the branch to this repository, or comment on an issue.`,
  );
}

/** Returns the model of a worker. Throws a UserError if there is none, or if the worker cannot use it. */
export function modelFor(worker: WorkerDefinition, model: string | undefined, models: Models): string {
  if (!model) {
    throw new UserError("No model is configured here: set GOLEM_FORGE_MODEL, such as anthropic:claude-sonnet-4-5.");
  }
  if (worker.locked && worker.model !== undefined && worker.model !== model) {
    throw new UserError(`${worker.name} is locked to its model ${worker.model}, so it cannot run with ${model}.`);
  }
  const problem = models.findModelProblem(model);
  if (problem) throw new UserError(problem);
  if (worker.compatible_models && !modelMatches(worker.compatible_models, model)) {
    throw new UserError(`${worker.name} works with ${worker.compatible_models.join(", ")}, and not with ${model}.`);
  }
  checkServerSideTools(worker, model, models);
  return model;
}

/** Throws a UserError for a tool that the provider lacks. Accepts it if the worker has the `web` toolset, which replaces it. */
function checkServerSideTools(worker: WorkerDefinition, model: string, models: Models): void {
  if ("web" in worker.toolsets) return;
  for (const tool of worker.server_side_tools) {
    const problem = models.findToolProblem(model, tool);
    if (problem) throw new UserError(`${worker.name} cannot use the server-side tool ${tool.name} here: ${problem}`);
  }
}
