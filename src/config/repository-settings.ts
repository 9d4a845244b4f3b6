import { z } from "zod";
import { TriggersOfFile, triggerFieldsAt } from "#domain/trigger.ts";
import { Limits, SetupCommands } from "#domain/worker.ts";
import { invalidFile, readYaml } from "#text/read-yaml.ts";

/** The path of a repository's settings file on its default branch. */
export const settingsPath = ".github/golem-forge.yml";

const Person = z.union([z.string().min(1), z.number().int().positive()]);
const Patterns = z.array(z.string().min(1).max(200)).min(1).max(50);

/** A rule about who approves calls that match `tools`, `paths` and `workers`. All that apply must be satisfied. */
export const ApprovalRule = z
  .strictObject({
    /** Names of tools; `*` matches any part of a name. Default: all. */
    tools: Patterns.optional(),
    /** Patterns as in CODEOWNERS, with `{a,b}`. The rule applies if the call changes a matching file. Default: any call. */
    paths: Patterns.optional(),
    /** Names of workers. The rule also applies to the workers that these call. Default: all. */
    workers: Patterns.optional(),
    /** The least permission in the repository. */
    permission: z.enum(["write", "maintain", "admin"]).default("write"),
    /** Logins or account ids. With `teams`, either is enough. Default: anyone with the permission. */
    people: z.array(Person).min(1).max(50).optional(),
    /** Teams of the repository's organization: `security` or `acme/security`. */
    teams: z
      .array(z.string().regex(/^@?[\w.-]+(?:\/[\w.-]+)?$/))
      .min(1)
      .max(20)
      .optional(),
    /** True if an owner of each changed file has to approve, as CODEOWNERS names them. */
    codeowners: z.boolean().default(false),
    /** The number of different people who have to approve. */
    required: z.number().int().min(1).max(10).default(1),
    /**
     * The people whose approval does not count: `requester` is the person who started the run; `authors` also everyone who
     * wrote input to it or changed the arguments. Default: `authors` if several people are required, else `nobody`.
     */
    exclude: z.enum(["nobody", "requester", "authors"]).optional(),
  })
  .refine(({ codeowners, people, teams }) => !codeowners || (!people && !teams), {
    message: "codeowners cannot be combined with people or teams; write two rules",
  });
export type ApprovalRule = z.infer<typeof ApprovalRule>;

/** A repository's settings for its workers. They can only narrow what the deployment and the worker files allow. */
export const RepositorySettings = z.strictObject({
  /** The workers that may run. Default: all. */
  workers: z.array(z.string()).optional(),
  /** The worker that a mention of the app starts. Default: `main`, if there is one. */
  default_worker: z.string().optional(),
  /** The events that start workers, by worker name. They replace those of the worker file. */
  on: z.record(z.string(), TriggersOfFile).default({}),
  /** The login of an account that represents the App: assigning it or requesting its review triggers workers. */
  machine_user: z.string().optional(),
  /**
   * True if a review's findings are also a check run with annotations on the reviewed commit. Takes the permission
   * `checks: write`, which the App does not ask for by default.
   */
  check_run: z.boolean().default(false),
  /**
   * True if GitHub creates and signs the commits, and so shows them as verified. Needed if a ruleset requires signed
   * commits. A push then takes two more requests, and one for each file that is binary or larger than 200 KB.
   */
  verified_commits: z.boolean().default(false),
  /** The number of open pull requests of the App at which workers open no further one, drafts included. */
  max_open_pull_requests: z.number().int().min(0).optional(),
  /** The tokens of guidance (AGENTS.md and similar) that workers start with at most; 0 for none. */
  guidance_tokens: z.number().int().min(0).optional(),
  /** The people who may approve; they also need write access. Default: everyone with write access. */
  approvers: z.array(Person).min(1).optional(),
  /** True if the person who started a run may not approve its calls. */
  second_person: z.boolean().default(false),
  /** Lets people approve by ticking a box in the request. GitHub does not show whether an app ticked it for them. */
  approve_by_checkbox: z.boolean().default(false),
  /** Rules about who has to approve which calls. */
  approvals: z.array(ApprovalRule).max(50).optional(),
  /** True if workers merge new commits of the base branch into their pull requests. Conflicts are always resolved. */
  update_pull_requests: z.boolean().default(false),
  /** Upper bounds for the limits of all workers. */
  limits: z
    .strictObject({
      steps: Limits.shape.steps.unwrap().optional(),
      tokens: Limits.shape.tokens.unwrap().optional(),
      cost: Limits.shape.cost.unwrap().optional(),
      minutes: Limits.shape.minutes.unwrap().optional(),
      depth: Limits.shape.depth.unwrap().optional(),
      children: Limits.shape.children.unwrap().optional(),
      ci_repairs: Limits.shape.ci_repairs.unwrap().optional(),
    })
    .default({}),
  /** Commands that install the dependencies for workers without a `setup` of their own, such as `npm ci`. */
  setup: SetupCommands.optional(),
  /** Instructions for all workers, such as how to run the tests. */
  instructions: z.string().max(20_000).optional(),
});
export type RepositorySettings = z.infer<typeof RepositorySettings>;

/** Parses a settings file. Returns the defaults if there is none. Throws a UserError that lists all problems. */
export function parseRepositorySettings(
  text: string | undefined,
  name = `${settingsPath} on the default branch`,
): RepositorySettings {
  const value = text === undefined ? {} : (readYaml(text, name) ?? {});
  const parsed = RepositorySettings.safeParse(value);
  if (parsed.success) return parsed.data;

  const fieldsAt = (path: readonly PropertyKey[]) =>
    path[0] === "on" ? triggerFieldsAt(path.slice(2)) : Object.keys(fieldsBelow(path[0]) ?? RepositorySettings.shape);
  throw invalidFile(`${name} is not valid`, { issues: parsed.error.issues, fieldsAt, value, yaml: text ?? "" });
}

/** Lowers the limits to the bounds of the settings. */
export function narrowLimits(limits: Limits, settings: RepositorySettings): Limits {
  const entries = Object.entries(limits).map(([name, own]) => [
    name,
    Math.min(own, settings.limits[name as keyof Limits] ?? own),
  ]);
  return Limits.parse(Object.fromEntries(entries));
}

/** The rules of the settings: `approvers` and `second_person` are short for rules about every call. */
export function approvalRules({ approvers, second_person, approvals = [] }: RepositorySettings): ApprovalRule[] {
  return [
    ...(approvers ? [ApprovalRule.parse({ people: approvers })] : []),
    ...(second_person ? [ApprovalRule.parse({ exclude: "requester" })] : []),
    ...approvals,
  ];
}

function fieldsBelow(name: PropertyKey | undefined): object | undefined {
  if (name === "limits") return Limits.shape;
  return name === "approvals" ? ApprovalRule.shape : undefined;
}
