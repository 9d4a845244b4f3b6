import { z } from "zod";
import { isObject } from "#text/json-values.ts";
import { invalidFile, positionInYaml, readYaml } from "#text/read-yaml.ts";
import { ApprovalDecisionType } from "./approval.ts";
import { UserError } from "./errors.ts";
import { compileOutputSchema, type OutputSchema, parseOutputSchema } from "./output-schema.ts";
import { Triggers, TriggersOfFile, triggerFieldsAt } from "./trigger.ts";

const domains = z
  .array(z.string().regex(/^[\w.-]+\.[a-z]{2,}(\/\S*)?$/i, "A domain is written like example.com"))
  .min(1)
  .max(100);

const WebSearchSettings = z
  .strictObject({
    /** Searches per model call. */
    max_uses: z.number().int().min(1).max(20).optional(),
    /** Searches only these domains and their subdomains. */
    allowed_domains: domains.optional(),
    blocked_domains: domains.optional(),
  })
  .refine(({ allowed_domains, blocked_domains }) => !(allowed_domains && blocked_domains), {
    message: "Give allowed_domains or blocked_domains, not both",
  });
export type WebSearchSettings = z.infer<typeof WebSearchSettings>;

/**
 * A tool that the model's provider runs while it generates an answer. Its calls never pass through this program, so
 * approvals and host lists do not apply. A worker has it only if its file names it.
 */
export const ServerSideTool = z.strictObject({
  name: z.literal("web_search", "The only server-side tool is web_search"),
  config: WebSearchSettings.optional(),
});
export type ServerSideTool = z.infer<typeof ServerSideTool>;

const PathApproval = z.strictObject({
  write: ApprovalDecisionType.optional(),
  delete: ApprovalDecisionType.optional(),
});

const topLevelName = z.string().regex(/^[A-Za-z0-9][\w.-]*$/, "A zone's name is a top-level folder, such as docs");

/** A folder with its own rules: `mode` limits what is possible, `approval` decides what needs approval. */
const Zone = z.strictObject({
  name: topLevelName,
  /** The path in the repository; default: the folder of that name. */
  path: z.string().optional(),
  /** Files of a `repository` zone (the default) are committed; those of a `run` zone, such as scratch, never are. */
  keep: z.enum(["repository", "run"]).optional(),
  mode: z.enum(["ro", "rw"]).default("rw"),
  approval: PathApproval.optional(),
});
export type Zone = z.infer<typeof Zone>;

/**
 * Commands that install a project's dependencies in the OS sandbox, such as `npm ci`. They reach package registries, and
 * what they install is kept for later runs with the same lockfiles.
 */
export const SetupCommands = z.array(z.string().min(1).max(2_000)).min(1).max(20);

/** The files a worker may access. A policy can only narrow the access of the parent run. */
export const SandboxPolicy = z.strictObject({
  /** The only folder that the worker sees. */
  restrict: z.string().startsWith("/").optional(),
  readonly: z.boolean().optional(),
  zones: z.array(Zone).optional(),
  /** Approval rules for files outside all zones. */
  approval: PathApproval.optional(),
});
export type SandboxPolicy = z.infer<typeof SandboxPolicy>;

/** Hard limits. A run that reaches one ends, and its outcome names the limit. */
export const Limits = z.strictObject({
  steps: z.number().int().positive().max(1_000).default(50),
  tokens: z.number().int().positive().default(2_000_000),
  /** US dollars. Enforced if the model's price is known. */
  cost: z.number().positive().default(5),
  /** Minutes of work, without the time spent waiting for people. */
  minutes: z
    .number()
    .positive()
    .max(24 * 60)
    .default(60),
  /** Levels of child runs below this run. */
  depth: z.number().int().min(0).max(10).default(3),
  /** Child runs per run. */
  children: z.number().int().min(0).max(100).default(10),
  /** The number of times failed checks of its pull request may continue the run. */
  ci_repairs: z.number().int().min(0).max(20).default(2),
});
export type Limits = z.infer<typeof Limits>;

export const AttachmentPolicy = z.strictObject({
  max_attachments: z.number().int().min(0).default(4),
  max_total_bytes: z.number().positive().default(10_000_000),
  allowed_suffixes: z.array(z.string()).default([]),
  denied_suffixes: z.array(z.string()).default([]),
});

const settings = z.record(z.string(), z.unknown());

/** Settings by toolset name, or a list of settings for toolsets that may occur several times. */
const Toolsets = z.record(z.string(), z.union([settings, z.array(settings)]).nullable());
type Toolsets = z.infer<typeof Toolsets>;

/** The names of `allowed`, the setting of the toolset `workers`, in files written for other programs. */
const allowedSpellings = [
  "allowed",
  "allow",
  "allowed_workers",
  "allow_workers",
  "allowedWorkers",
  "allowWorkers",
  "workers",
];
/** Other names of the toolset `workers`. */
const workersSpellings = ["worker", "delegation", "worker_call"];

/** Gives the toolset `workers` and its setting their names. */
function withKnownSpellings(toolsets: Toolsets): Toolsets {
  const other = workersSpellings.find((name) => Object.hasOwn(toolsets, name));
  const spelled = other !== undefined && !Object.hasOwn(toolsets, "workers") ? other : "workers";
  const { [spelled]: given, ...others } = toolsets;
  if (!given || Array.isArray(given)) return toolsets;
  const key = allowedSpellings.find((name) => Object.hasOwn(given, name));
  if (key === undefined) return { ...others, workers: given };
  const { [key]: allowed, ...rest } = given;
  return { ...others, workers: { ...rest, allowed: typeof allowed === "string" ? [allowed] : allowed } };
}

const WorkerFrontMatter = z.strictObject({
  name: z.string().regex(/^[a-z0-9][a-z0-9_-]{0,63}$/i, "A worker's name consists of letters, digits, - and _"),
  description: z.string().optional(),
  /** `single` ends with its answer; `chat` waits for the next message. */
  mode: z.enum(["single", "chat"]).default("single"),
  /** `provider:model`; default: the deployment's model. */
  model: z.string().optional(),
  /** Patterns such as `anthropic:*`. Default: any model. */
  compatible_models: z.array(z.string()).min(1).optional(),
  /** Settings by toolset name, or a list of settings for toolsets that may occur several times. */
  toolsets: Toolsets.nullable()
    .transform((toolsets) => withKnownSpellings(toolsets ?? {}))
    .default({}),
  /** The tools that the model is offered, by name. Default: all of its toolsets. People can use the others with `/tool`. */
  offered_tools: z.array(z.string()).min(1).optional(),
  sandbox: SandboxPolicy.optional(),
  setup: SetupCommands.optional(),
  limits: Limits.prefault({}),
  max_context_tokens: z.number().int().positive().default(200_000),
  /** The tokens of the repository's guidance (AGENTS.md and similar) that it starts with; 0 for none. Default: 4,000. */
  guidance_tokens: z.number().int().min(0).optional(),
  allow_empty_input: z.boolean().default(false),
  attachment_policy: AttachmentPolicy.optional(),
  /** Tools that the model's provider runs. */
  server_side_tools: z.array(ServerSideTool).max(1, "List a server-side tool only once").default([]),
  /** The events that start the worker without a command. */
  on: Triggers.optional(),
  /** The JSON Schema of its answers. An answer that does not match is asked for once more; then the run fails. */
  output_schema: z.record(z.string(), z.unknown()).optional(),
  /** The file with that schema, in JSON or YAML: relative to the worker file. Read when the worker starts. */
  output_schema_ref: z.string().min(1).optional(),
  /** No option or command replaces the model of this file, and no program its limits. */
  locked: z.boolean().default(false),
});

/** A `.worker` file: YAML front matter and instructions. It is data, not code. */
export const WorkerDefinition = WorkerFrontMatter.extend({ instructions: z.string() });
export type WorkerDefinition = z.infer<typeof WorkerDefinition>;

/** Checks that apply only when a file is read, so that stored runs of earlier releases stay readable. */
const WorkerFile = WorkerDefinition.extend({ on: TriggersOfFile.optional() }).superRefine(
  ({ sandbox, output_schema: schema }, context) => {
    const problem = schema && findSchemaProblem(schema);
    if (problem) context.addIssue({ code: "custom", path: ["output_schema"], message: problem });
    for (const [index, { name }] of (sandbox?.zones ?? []).entries()) {
      if (sandbox?.zones?.findIndex((zone) => zone.name === name) === index) continue;
      context.addIssue({
        code: "custom",
        path: ["sandbox", "zones", index],
        message: `The zone ${name} is defined twice`,
      });
    }
  },
);

function findSchemaProblem(schema: OutputSchema): string | undefined {
  try {
    compileOutputSchema(schema, "output_schema");
    return undefined;
  } catch (error) {
    if (error instanceof UserError) return error.message;
    throw error;
  }
}

/**
 * Returns the worker with the output schema that its `output_schema_ref` names: the text of that file, undefined if there
 * is none. Throws a UserError for a schema that cannot be used.
 */
export function withOutputSchema(worker: WorkerDefinition, text: string | undefined): WorkerDefinition {
  const { name, output_schema_ref: ref } = worker;
  if (ref === undefined || worker.output_schema) return worker;
  if (text === undefined) throw new UserError(`${name}: there is no file ${ref}, which output_schema_ref names.`);
  return { ...worker, output_schema: parseOutputSchema(text, ref) };
}

/** The front matter begins after the line `---`. */
const frontMatterLine = 2;

const frontMatterPattern = /^\uFEFF?---[ \t]*\r?\n([\s\S]*?)\r?\n---[ \t]*(?:\r?\n([\s\S]*))?$/;

/** Parses a `.worker` file. Throws an InvalidFileError that names the file and all problems, with suggestions for typos. */
export function parseWorker(text: string, fileName: string): WorkerDefinition {
  const match = frontMatterPattern.exec(text);
  if (!match) {
    throw new UserError(
      `${fileName} has no front matter. Start the file with a line ---, followed by the fields and another line ---.`,
    );
  }

  const yaml = match[1] ?? "";
  const fields = withToplevelWorkers(parseFields(yaml, fileName));
  const parsed = WorkerFile.safeParse({ ...fields, instructions: (match[2] ?? "").trim() });
  if (parsed.success) return parsed.data;
  throw invalidFile(`${fileName} is not a valid worker`, {
    issues: parsed.error.issues,
    fieldsAt: knownFieldsAt,
    value: fields,
    yaml,
    firstLine: frontMatterLine,
  });
}

/** Returns the position of a field in a worker file that was parsed before. */
export function positionInWorker(text: string, path: readonly PropertyKey[]): { line: number; column: number } {
  return positionInYaml(frontMatterPattern.exec(text)?.[1] ?? "", path, frontMatterLine);
}

function parseFields(yaml: string, fileName: string): object {
  const fields = readYaml(yaml, `The front matter of ${fileName}`, frontMatterLine);
  if (!isObject(fields)) {
    throw new UserError(`The front matter of ${fileName} must be a list of fields such as "name: fixer".`);
  }
  return fields;
}

/** Moves a list of callable workers at the top of a file into the settings of the toolset `workers`. */
function withToplevelWorkers(fields: object): object {
  const key = ["allowed_workers", "allowedWorkers"].find((name) => Object.hasOwn(fields, name));
  if (key === undefined) return fields;
  const { [key]: allowed, toolsets, ...others } = fields as Record<string, unknown>;
  return { ...others, toolsets: { ...(toolsets as object | null), workers: { allowed } } };
}

function knownFieldsAt(path: readonly PropertyKey[]): string[] {
  switch (path[0]) {
    case undefined:
      return Object.keys(WorkerFrontMatter.shape);
    case "limits":
      return Object.keys(Limits.shape);
    case "attachment_policy":
      return Object.keys(AttachmentPolicy.shape);
    case "on":
      return triggerFieldsAt(path.slice(1));
    case "sandbox":
      if (path.at(-1) === "approval") return Object.keys(PathApproval.shape);
      return path[1] === "zones" ? Object.keys(Zone.shape) : Object.keys(SandboxPolicy.shape);
    default:
      return [];
  }
}
