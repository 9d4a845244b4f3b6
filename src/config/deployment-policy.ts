import { readFileSync } from "node:fs";
import { z } from "zod";
import { UserError } from "#domain/errors.ts";
import { Limits, type WorkerDefinition } from "#domain/worker.ts";
import { matchesPattern } from "#text/path-pattern.ts";
import { invalidFile, readYaml } from "#text/read-yaml.ts";

/** Upper bounds for the limits of every run, regardless of its worker and repository. */
const maxLimits = { steps: 200, tokens: 5_000_000, cost: 20, minutes: 240, depth: 5, children: 20, ci_repairs: 10 };

const bound = (name: keyof typeof maxLimits) => z.number().positive().default(maxLimits[name]);

/** The policy of a deployment for all repositories that it serves. Repositories and workers can only narrow it. */
export const DeploymentPolicy = z.strictObject({
  /** Models that runs may use, as patterns such as `anthropic:*`. Default: every model that has a key. */
  models: z.array(z.string()).min(1).default(["*"]),
  limits: z
    .strictObject({
      steps: bound("steps"),
      tokens: bound("tokens"),
      cost: bound("cost"),
      minutes: bound("minutes"),
      depth: bound("depth"),
      children: bound("children"),
      ci_repairs: z.number().int().min(0).default(maxLimits.ci_repairs),
    })
    .prefault({}),
  /** US dollars that runs may cost in 24 hours. Models without a known price do not count. */
  cost_per_day: z
    .strictObject({ repository: z.number().positive().default(50), total: z.number().positive().default(500) })
    .prefault({}),
  /** The percentage of a run's cost limit, and of the day's, from which people are warned. */
  cost_warning_percent: z.number().min(1).max(100).default(80),
  /** Runs that events of one issue or pull request may start in an hour. */
  triggered_runs_per_hour: z.number().int().min(0).default(5),
  /** The workers that events of people without write access may start, and what such a run may cost in US dollars. */
  outsiders: z
    .strictObject({ workers: z.array(z.string()).default([]), cost: z.number().positive().default(0.5) })
    .prefault({}),
  /** The workers that may run on a schedule, as patterns, and what such a run may cost in US dollars. */
  schedules: z
    .strictObject({ workers: z.array(z.string()).default(["*"]), cost: z.number().positive().default(2) })
    .prefault({}),
  /** Toolsets that workers of a repository may use, by name; `server_side_tools` counts as `web`. Default: every one. */
  toolsets: z.array(z.string()).optional(),
  /** Hosts that `run_code` may reach if a person approves the call, as patterns such as `*.example.com`. Default: none. */
  network_hosts: z.array(z.string()).default([]),
  /** The OS sandbox of repositories. */
  sandbox: z
    .strictObject({
      /** Toolchains by repository: folders of this machine with programs, or with a folder `bin` of programs. */
      tools: z
        .array(
          z.strictObject({
            /** Patterns such as `acme/*`. Default: all. */
            repositories: z.array(z.string()).min(1).default(["*"]),
            folders: z.array(z.string().startsWith("/")).min(1),
          }),
        )
        .default([]),
    })
    .prefault({}),
  /** Tools of a repository's own worker that always need approval, even if its worker file pre-approves them. */
  always_ask: z.array(z.string()).default(["open_pull_request", "update_pull_request", "git_merge", "install_package"]),
});
export type DeploymentPolicy = z.infer<typeof DeploymentPolicy>;

/** The policy of a deployment without a policy file. */
export const defaultPolicy: DeploymentPolicy = DeploymentPolicy.parse({});

/** Reads the policy file. Throws a UserError if it is missing, empty or invalid: that must not allow everything. */
export function readDeploymentPolicy(file: string | undefined): DeploymentPolicy {
  if (file === undefined) return defaultPolicy;
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    throw new UserError(`The policy file ${file} (GOLEM_FORGE_POLICY) cannot be read.`, {
      cause: error,
    });
  }
  const value = readYaml(text, file);
  if (value === null)
    throw new UserError(`The policy file ${file} is empty. For the built-in policy, leave GOLEM_FORGE_POLICY out.`);
  const parsed = DeploymentPolicy.safeParse(value);
  if (parsed.success) return parsed.data;
  throw invalidFile(`The policy ${file} is not valid`, { issues: parsed.error.issues, fieldsAt, value, yaml: text });
}

function fieldsAt([first, ...rest]: readonly PropertyKey[]): string[] {
  if (first === "limits") return Object.keys(maxLimits);
  if (first === "sandbox") return rest.length === 0 ? ["tools"] : ["repositories", "folders"];
  if (first === "outsiders" || first === "schedules") return ["workers", "cost"];
  return first === "cost_per_day" ? ["repository", "total"] : Object.keys(DeploymentPolicy.shape);
}

/** The toolchain folders for a repository; for files on this machine, those for all repositories. */
export function sandboxTools({ sandbox }: DeploymentPolicy, repository = ""): string[] {
  const matching = sandbox.tools.filter(({ repositories }) =>
    repositories.some((pattern) => matchesPattern(pattern.toLowerCase(), repository.toLowerCase())),
  );
  return matching.flatMap(({ folders }) => folders);
}

/** Explains why the policy does not allow a model; undefined if it does. */
export function findPolicyModelProblem(policy: DeploymentPolicy, model: string): string | undefined {
  if (policy.models.some((pattern) => matchesPattern(pattern, model))) return undefined;
  return `The policy of this deployment does not allow the model ${model}. Allowed: ${policy.models.join(", ")}.`;
}

/**
 * Lowers the worker's limits to the policy. Throws a UserError if a repository's worker uses a toolset that is not allowed, or
 * the provider's web search where `web` is not.
 */
export function applyPolicy(
  policy: DeploymentPolicy,
  worker: WorkerDefinition,
  source: "repository" | "deployment",
): WorkerDefinition {
  const { toolsets } = policy;
  const used = [...Object.keys(worker.toolsets), ...(worker.server_side_tools.length > 0 ? ["web"] : [])];
  const refused = source === "repository" && toolsets && used.find((name) => !toolsets.includes(name));
  if (refused) {
    throw new UserError(
      `The policy of this deployment does not allow the toolset ${refused} in a repository's own worker${refused in worker.toolsets ? "" : ", nor the search of the model's provider (server_side_tools)"}.`,
    );
  }
  const limits = Object.entries(worker.limits).map(([name, own]) => [
    name,
    Math.min(own, policy.limits[name as keyof Limits]),
  ]);
  return { ...worker, limits: Limits.parse(Object.fromEntries(limits)) };
}
