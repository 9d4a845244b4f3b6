import { UserError } from "#domain/errors.ts";
import { type KnownOptions, parseWords } from "./command-context.ts";

/** The destination of the changes. If undefined, asks; without a terminal, keeps them in a patch file. */
export type ChangesDestination = { kind: "apply" } | { kind: "patch"; file: string } | { kind: "branch" } | undefined;

/** The options of `golem run` and `golem resume`. */
export interface RunFlags {
  model: string | undefined;
  /** Tools whose calls are approved in advance; `all` for every tool. */
  yes: readonly string[];
  trustTools: boolean;
  trace: boolean;
  json: boolean;
  quiet: boolean;
  dryRun: boolean;
  ending: ChangesDestination;
}

export interface RunRequest extends RunFlags {
  worker: string;
  /** If undefined, golem asks for it or reads it from standard input. */
  task: string | undefined;
  /** Paths of files that are attached to the task. */
  attach: readonly string[];
}

export interface ResumeRequest extends RunFlags {
  /** The id of the run or its beginning; undefined for the newest unfinished run. */
  run: string | undefined;
}

const runOptions = {
  model: { type: "string", short: "m" },
  attach: { type: "string", multiple: true },
  yes: { type: "string", multiple: true },
  "trust-tools": { type: "boolean" },
  trace: { type: "boolean" },
  json: { type: "boolean" },
  quiet: { type: "boolean", short: "q" },
  "dry-run": { type: "boolean" },
  apply: { type: "boolean" },
  patch: { type: "string" },
  branch: { type: "boolean" },
  "no-color": { type: "boolean" },
  help: { type: "boolean", short: "h" },
} satisfies KnownOptions;

/** Parses the arguments of `golem run`. Throws a UserError that says what is missing or wrong. */
export function readRunRequest(args: readonly string[]): RunRequest {
  const { positionals, options } = parseWords(args, runOptions);
  const [worker, ...task] = positionals;
  if (!worker) throw new UserError('Name a worker, as in golem run fixer "…". golem workers lists them.');
  return {
    worker,
    task: task.length > 0 ? task.join(" ") : undefined,
    attach: (options.get("attach") ?? []).map(String),
    ...readFlags(options),
  };
}

/** Parses the arguments of `golem resume`. Throws a UserError that says what is wrong. */
export function readResumeRequest(args: readonly string[]): ResumeRequest {
  const { "dry-run": _, attach: __, ...resumeOptions } = runOptions;
  const { positionals, options } = parseWords(args, resumeOptions);
  const [run, stray] = positionals;
  if (stray !== undefined) throw new UserError(`golem resume takes one run, but was also given ${stray}.`);
  return { run, ...readFlags(options) };
}

function readFlags(options: ReadonlyMap<string, (string | true)[]>): RunFlags {
  const model = options.get("model")?.at(-1);
  return {
    model: typeof model === "string" ? model : undefined,
    yes: (options.get("yes") ?? []).flatMap((names) => String(names).split(",")).map((name) => name.trim()),
    trustTools: options.has("trust-tools"),
    trace: options.has("trace"),
    json: options.has("json"),
    quiet: options.has("quiet"),
    dryRun: options.has("dry-run"),
    ending: readEnding(options),
  };
}

function readEnding(options: ReadonlyMap<string, (string | true)[]>): ChangesDestination {
  const given = (["apply", "patch", "branch"] as const).filter((name) => options.has(name));
  const [kind] = given;
  if (given.length > 1) throw new UserError(`Choose one of ${given.map((name) => `--${name}`).join(" and ")}.`);
  if (kind === "patch") return { kind, file: String(options.get("patch")?.at(-1)) };
  return kind && { kind };
}
