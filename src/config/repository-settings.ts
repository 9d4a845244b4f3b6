import { z } from "zod";
import { Limits } from "#domain/worker.ts";
import { invalidFile } from "#text/invalid-file.ts";
import { readYaml } from "#text/read-yaml.ts";

/** The path of a repository's settings file on its default branch. */
export const settingsPath = ".github/golem-forge.yml";

/** A repository's settings for its workers. They can only narrow what the deployment and the worker files allow. */
export const RepositorySettings = z.strictObject({
  /** The workers that may run. Default: all. */
  workers: z.array(z.string()).optional(),
  /** The worker that a mention of the app starts. Default: `main`, if there is one. */
  default_worker: z.string().optional(),
  /** The people who may approve; they also need write access. Default: everyone with write access. */
  approvers: z.array(z.string()).min(1).optional(),
  /** True if the person who started a run may not approve its calls. */
  second_person: z.boolean().default(false),
  /** Upper bounds for the limits of all workers. */
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
    Object.keys(path[0] === "limits" ? Limits.shape : RepositorySettings.shape);
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

/** Explains why a person may not approve; undefined if they may. */
export function findApproverProblem(
  settings: RepositorySettings,
  { by, requestedBy }: { by: string; requestedBy: string },
): string | undefined {
  const isSamePerson = (login: string) => login.toLowerCase() === by.toLowerCase();
  if (settings.approvers && !settings.approvers.some(isSamePerson)) {
    return `@${by} may not approve here. Approvers: ${settings.approvers.map((login) => `@${login}`).join(", ")}.`;
  }
  if (settings.second_person && isSamePerson(requestedBy)) {
    return `@${by} started this run, and this repository requires approval by a second person.`;
  }
  return undefined;
}

/** Describes who may approve the calls of a run that this person started. */
export function describeApprovers({ approvers, second_person }: RepositorySettings, requestedBy: string): string {
  const people = approvers ? approvers.map((login) => `@${login}`).join(" or ") : "Anyone with write access";
  return second_person ? `${people}, but not @${requestedBy}, who started this run,` : people;
}
