import { z } from "zod";
import { describeProblems } from "#text/describe-problems.ts";
import { readYaml } from "#text/read-yaml.ts";
import { ApprovalDecisionType } from "./approval.ts";
import { UserError } from "./errors.ts";
import { ServerSideTool } from "./server-side-tool.ts";

const PathApproval = z.strictObject({
  write: ApprovalDecisionType.optional(),
  delete: ApprovalDecisionType.optional(),
});

const topLevelName = z.string().regex(/^[A-Za-z0-9][\w.-]*$/, "A zone's name is a top-level folder, such as docs");

/** A part of the tree with rules of its own: `mode` is what is possible, `approval` what a person must agree to. */
const Zone = z.strictObject({
  name: topLevelName,
  /** Where it lies in the repository; default: the folder of its name. */
  path: z.string().optional(),
  /** `repository` (default) or `run`: kept with the run, never committed, such as scratch. */
  keep: z.enum(["repository", "run"]).optional(),
  mode: z.enum(["ro", "rw"]).default("rw"),
  approval: PathApproval.optional(),
});
export type Zone = z.infer<typeof Zone>;

/** The part of its parent's (or the repository's) tree a worker may touch. It can only narrow. */
export const SandboxPolicy = z.strictObject({
  /** A folder that becomes the only one it sees. */
  restrict: z.string().startsWith("/").optional(),
  readonly: z.boolean().optional(),
  zones: z.array(Zone).optional(),
  /** For what no zone covers. */
  approval: PathApproval.optional(),
});
export type SandboxPolicy = z.infer<typeof SandboxPolicy>;

/** Hard stops. Reaching one ends the run and says so. */
export const Limits = z.strictObject({
  steps: z.number().int().positive().max(1_000).default(50),
  tokens: z.number().int().positive().default(2_000_000),
  /** US dollars, enforced where the model's price is known. */
  cost: z.number().positive().default(5),
  /** Minutes of work, not counting the time people take to answer. */
  minutes: z
    .number()
    .positive()
    .max(24 * 60)
    .default(60),
  /** Worker calls below this one. */
  depth: z.number().int().min(0).max(10).default(3),
  /** Children one run may start in all. */
  children: z.number().int().min(0).max(100).default(10),
});
export type Limits = z.infer<typeof Limits>;

const AttachmentPolicy = z.strictObject({
  max_attachments: z.number().int().min(0).default(4),
  max_total_bytes: z.number().positive().default(10_000_000),
  allowed_suffixes: z.array(z.string()).default([]),
  denied_suffixes: z.array(z.string()).default([]),
});

const settings = z.record(z.string(), z.unknown());

const WorkerFrontMatter = z.strictObject({
  name: z.string().regex(/^[a-z0-9][a-z0-9_-]{0,63}$/i, "A worker's name is letters, digits, - and _"),
  description: z.string().optional(),
  /** `single` ends with its answer; `chat` waits for the next sentence. */
  mode: z.enum(["single", "chat"]).default("single"),
  /** `provider:model`; default: the deployment's model. */
  model: z.string().optional(),
  /** Patterns such as `anthropic:*`; any model when absent. */
  compatible_models: z.array(z.string()).min(1).optional(),
  /** The settings of each, or a list of them where a toolset takes several. */
  toolsets: z.record(z.string(), z.union([settings, z.array(settings)]).nullable()).default({}),
  sandbox: SandboxPolicy.optional(),
  limits: Limits.prefault({}),
  max_context_tokens: z.number().int().positive().default(200_000),
  allow_empty_input: z.boolean().default(false),
  attachment_policy: AttachmentPolicy.optional(),
  /** What the model's provider runs itself. */
  server_side_tools: z.array(ServerSideTool).max(1, "A server-side tool is named once").default([]),
  output_schema_ref: z.string().optional(),
  locked: z.boolean().default(false),
});

/** A `.worker` file: YAML front matter and instructions. Data, never code. */
export const WorkerDefinition = WorkerFrontMatter.extend({ instructions: z.string() });
export type WorkerDefinition = z.infer<typeof WorkerDefinition>;

const frontMatterPattern = /^\uFEFF?---[ \t]*\r?\n([\s\S]*?)\r?\n---[ \t]*(?:\r?\n([\s\S]*))?$/;

/** Reads a `.worker` file. Throws a UserError that names the file and every problem, with the nearest known field. */
export function parseWorker(text: string, fileName: string): WorkerDefinition {
  const match = frontMatterPattern.exec(text);
  if (!match) {
    throw new UserError(`${fileName} has no front matter: start it with a line ---, the fields, and another line ---.`);
  }

  const fields = parseFields(match[1] ?? "", fileName);
  const parsed = WorkerDefinition.safeParse({ ...fields, instructions: (match[2] ?? "").trim() });
  if (!parsed.success) {
    throw new UserError(`${fileName} is not a worker: ${describeProblems(parsed.error.issues, knownFieldsAt)}`);
  }

  return parsed.data;
}

function parseFields(yaml: string, fileName: string): Record<string, unknown> {
  const fields = readYaml(yaml, `The front matter of ${fileName}`);
  if (fields === null || typeof fields !== "object" || Array.isArray(fields)) {
    throw new UserError(`The front matter of ${fileName} is not a list of fields such as "name: fixer".`);
  }
  return fields as Record<string, unknown>;
}

function knownFieldsAt(path: readonly PropertyKey[]): string[] {
  switch (path[0]) {
    case undefined:
      return Object.keys(WorkerFrontMatter.shape);
    case "limits":
      return Object.keys(Limits.shape);
    case "attachment_policy":
      return Object.keys(AttachmentPolicy.shape);
    case "sandbox":
      if (path.at(-1) === "approval") return Object.keys(PathApproval.shape);
      return path[1] === "zones" ? Object.keys(Zone.shape) : Object.keys(SandboxPolicy.shape);
    default:
      return [];
  }
}
