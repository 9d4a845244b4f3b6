import { z } from "zod";
import { UserError } from "#domain/errors.ts";
import { Limits } from "#domain/worker.ts";
import { describeProblems } from "#text/describe-problems.ts";
import { readYaml } from "#text/read-yaml.ts";

/** Where a repository's settings are, on its default branch. */
export const settingsPath = ".github/golem-forge.yml";

/** What a repository decides about the workers on it. It can only narrow what the deployment and the workers allow. */
export const RepositorySettings = z.strictObject({
  /** The only workers that may be run here; every one when absent. */
  workers: z.array(z.string()).optional(),
  /** The only people who may approve; everyone with write access when absent. They need write access all the same. */
  approvers: z.array(z.string()).min(1).optional(),
  /** True when whoever started a run may not approve its calls. */
  second_person: z.boolean().default(false),
  /** Upper bounds of every worker's limits. */
  limits: z
    .strictObject({
      steps: Limits.shape.steps.unwrap().optional(),
      tokens: Limits.shape.tokens.unwrap().optional(),
      cost: Limits.shape.cost.unwrap().optional(),
      minutes: Limits.shape.minutes.unwrap().optional(),
      depth: Limits.shape.depth.unwrap().optional(),
      children: Limits.shape.children.unwrap().optional(),
    })
    .default({}),
  /** What every worker is told here, such as how to run the tests. */
  instructions: z.string().max(20_000).optional(),
});
export type RepositorySettings = z.infer<typeof RepositorySettings>;

/** Reads the text of a settings file; none gives the defaults. Throws a UserError that names every problem. */
export function parseRepositorySettings(
  text: string | undefined,
  name = `${settingsPath} on the default branch`,
): RepositorySettings {
  const parsed = RepositorySettings.safeParse(text === undefined ? {} : (readYaml(text, name) ?? {}));
  if (parsed.success) return parsed.data;

  const fieldsAt = (path: readonly PropertyKey[]) =>
    Object.keys(path[0] === "limits" ? Limits.shape : RepositorySettings.shape);
  throw new UserError(`${name} cannot be used: ${describeProblems(parsed.error.issues, fieldsAt)}`);
}

/** The lower of each limit. */
export function narrowLimits(limits: Limits, settings: RepositorySettings): Limits {
  const entries = Object.entries(limits).map(([name, own]) => [
    name,
    Math.min(own, settings.limits[name as keyof Limits] ?? own),
  ]);
  return Limits.parse(Object.fromEntries(entries));
}

/** Why this person may not decide an approval here, as a sentence; undefined when they may. */
export function findApproverProblem(
  settings: RepositorySettings,
  { by, requestedBy }: { by: string; requestedBy: string },
): string | undefined {
  const is = (login: string) => login.toLowerCase() === by.toLowerCase();
  if (settings.approvers && !settings.approvers.some(is)) {
    return `@${by} is not among those who approve here: ${settings.approvers.map((login) => `@${login}`).join(", ")}.`;
  }
  if (settings.second_person && is(requestedBy)) {
    return `@${by} started this run, and here a second person has to approve.`;
  }
  return undefined;
}

/** Who may approve a call of a run that this person started, in words. */
export function describeApprovers({ approvers, second_person }: RepositorySettings, requestedBy: string): string {
  const people = approvers ? approvers.map((login) => `@${login}`).join(" or ") : "Anyone with write access";
  return second_person ? `${people}, but not @${requestedBy}, who started this run,` : people;
}
