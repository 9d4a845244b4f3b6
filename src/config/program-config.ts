import { z } from "zod";
import { Limits, type WorkerDefinition } from "#domain/worker.ts";
import { isObject } from "#text/json-values.ts";
import { invalidFile, readYaml } from "#text/read-yaml.ts";

/** The names of the configuration of a Golem Forge program, in the folder of its workers. */
export const programConfigFiles = ["golem-forge.config.yaml", "golem-forge.config.yml"];

/** The file of the worker that starts if a program is run without a worker's name. The second name is an older one. */
export const mainWorkerFiles = ["main.worker", "index.worker"];

const Shape = {
  /** `provider:model`, for a worker that names none and is not called by another one. */
  model: z.string().optional(),
  sandbox: z
    .object({
      /** The folder with the files, relative to the program. Default: the program's folder. */
      root: z.string().default("."),
      readonly: z.boolean().default(false),
    })
    .prefault({}),
  approval: z.object({ mode: z.enum(["interactive", "approve_all", "auto_deny"]).default("interactive") }).prefault({}),
  delegation: z.object({ maxDepth: Limits.shape.depth.unwrap().optional() }).prefault({}),
  /** Further folders with workers, relative to the program. `workers` is always one. */
  workerPaths: z.array(z.string()).default([]),
};

/** The configuration of a Golem Forge program: a folder with workers. */
export const ProgramConfig = z.object(Shape);
export type ProgramConfig = z.infer<typeof ProgramConfig>;

/**
 * Parses the configuration of a program; the defaults if there is none. Fields may be written in camel case or with
 * underscores. `ignored` has the fields without a meaning here. Throws an InvalidFileError for wrong values.
 */
export function parseProgramConfig(
  text: string | undefined,
  file: string,
): { config: ProgramConfig; ignored: readonly string[] } {
  const value = withCamelCase(text === undefined ? {} : (readYaml(text, file) ?? {}));
  const parsed = ProgramConfig.safeParse(value);
  if (!parsed.success) {
    const fieldsAt = (path: readonly PropertyKey[]) => (path.length === 0 ? Object.keys(Shape) : []);
    throw invalidFile(`${file} is not valid`, { issues: parsed.error.issues, fieldsAt, value, yaml: text ?? "" });
  }
  return { config: parsed.data, ignored: fieldsOf(value).filter((field) => !isKnown(field, parsed.data)) };
}

/**
 * Returns a worker with the sandbox and the depth that the configuration of its program sets. `root` is the folder that it sees of a larger tree;
 * undefined if the tree is the program's own.
 */
export function applyProgramConfig(
  worker: WorkerDefinition,
  { sandbox, delegation }: ProgramConfig,
  root?: string,
): WorkerDefinition {
  const restrict = worker.sandbox?.restrict ?? root;
  const readonly = sandbox.readonly || worker.sandbox?.readonly;
  const policy = { ...worker.sandbox, ...(restrict && { restrict }), ...(readonly && { readonly }) };
  return {
    ...worker,
    ...(Object.keys(policy).length > 0 && { sandbox: policy }),
    ...(delegation.maxDepth !== undefined && { limits: { ...worker.limits, depth: delegation.maxDepth } }),
  };
}

function withCamelCase(value: unknown): unknown {
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [
      key.replace(/[_-]([a-z])/g, (_, letter: string) => letter.toUpperCase()),
      withCamelCase(member),
    ]),
  );
}

function fieldsOf(value: unknown): string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, member]) =>
    ["sandbox", "approval", "delegation"].includes(key) && typeof member === "object" && member !== null
      ? Object.keys(member).map((name) => `${key}.${name}`)
      : [key],
  );
}

function isKnown(field: string, config: ProgramConfig): boolean {
  const [top = "", below] = field.split(".");
  if (!Object.hasOwn(Shape, top)) return false;
  return below === undefined || below === "maxDepth" || Object.hasOwn(config[top as "sandbox" | "approval"], below);
}
