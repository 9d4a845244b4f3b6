import { existsSync, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { z } from "zod";
import { UserError } from "#domain/errors.ts";
import { isInside } from "#sandbox/checkout/is-inside.ts";
import { parseJson } from "#text/json-values.ts";
import { invalidFile, readYaml } from "#text/read-yaml.ts";

const pattern = z.string().refine(isRegularExpression, "It is not a valid regular expression");

const Rules = z.strictObject({
  /** Patterns of the only files that may change. Without them, every file may. */
  allowed_paths: z.array(z.string()).optional(),
  forbidden_paths: z.array(z.string()).default([]),
  /** Tools that must not be called, even if the call fails. */
  forbidden_tools: z.array(z.string()).default([]),
  /** Expressions that must not match the answer, an added line, or the arguments of a call that writes no file. */
  forbidden_text: z.array(pattern).default([]),
});

const Fault = z.strictObject({
  path: z.string(),
  /** First and last line after the change. A finding may also be on the line before or after them. */
  lines: z.tuple([z.number().int().positive(), z.number().int().positive()]),
  /** An expression that the text of the finding must match as well. */
  about: pattern.optional(),
});

const ReviewTask = z.strictObject({
  /** A patch that is committed on top of the repository: the change under review. */
  patch: z.string().default("change.patch"),
  faults: z.array(Fault).min(1),
  /** The minimum share of the findings that find a fault. */
  min_signal: z.number().min(0).max(1).default(0),
});

/** The format of `task.yml`. */
const TaskFile = z.strictObject({
  description: z.string(),
  /** An included worker, or the path of a `.worker` file in the task's folder. */
  worker: z.string().default("fixer"),
  /** The text for the worker, such as that of an issue. */
  task: z.string().min(1),
  /** A folder within the task's folder, or a git URL or path there, which requires `commit`. */
  repository: z.string().default("repository"),
  commit: z.string().min(1).optional(),
  setup: z.array(z.string()).default([]),
  checks: z.array(z.string()).default([]),
  sandbox: z.enum(["os", "memory"]).default("os"),
  check_seconds: z.number().positive().default(120),
  rules: Rules.prefault({}),
  /** Expressions that must each match the answer. */
  answer: z.array(pattern).default([]),
  review: ReviewTask.optional(),
});

/** Files that the worker must not see: a folder, or a patch of the repository. */
export type HiddenFiles = { kind: "folder"; path: string } | { kind: "patch"; patch: string };

export interface EvalTask extends Pick<z.infer<typeof TaskFile>, "worker" | "setup" | "checks" | "sandbox" | "rules"> {
  name: string;
  /** The text for the worker. */
  prompt: string;
  repository: { kind: "folder"; path: string } | { kind: "git"; url: string; commit: string };
  hidden: HiddenFiles | undefined;
  checkTimeoutMs: number;
  answerPatterns: string[];
  /** `patch` is the text of the change under review. */
  review: z.infer<typeof ReviewTask> | undefined;
  /** The changed lines of a known solution. */
  referenceLines: number | undefined;
}

function isRegularExpression(text: string): boolean {
  try {
    new RegExp(text, "im");
    return true;
  } catch {
    return false;
  }
}

function knownFieldsAt(path: readonly PropertyKey[]): readonly string[] {
  if (path.length === 0) return Object.keys(TaskFile.shape);
  if (path[0] === "rules") return Object.keys(Rules.shape);
  return path[0] === "review" ? Object.keys(path[1] === "faults" ? Fault.shape : ReviewTask.shape) : [];
}

/** Returns the added and removed lines of a patch, each with its sign. */
export function changedLines(patch: string): string[] {
  const found: string[] = [];
  let [before, after] = [0, 0];
  for (const line of patch.split("\n")) {
    const hunk = /^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@/.exec(line);
    if (hunk && before <= 0 && after <= 0) [before, after] = [Number(hunk[1] ?? 1), Number(hunk[2] ?? 1)];
    else if (before > 0 || after > 0) {
      if (line.startsWith("-") || line.startsWith("+")) found.push(line);
      if (!line.startsWith("+") && !line.startsWith("\\")) before -= 1;
      if (!line.startsWith("-") && !line.startsWith("\\")) after -= 1;
    }
  }
  return found;
}

export interface TaskOptions extends SweBenchOptions {
  /** True if tasks may use files of this machine outside of their folders. */
  isTrusted: boolean;
}

/**
 * Reads tasks from folders with a `task.yml`, from folders of such folders, and from files in SWE-bench's format (`.jsonl`).
 * Throws a UserError for a task that cannot be read, and for two tasks of one name.
 */
export function readTasks(paths: readonly string[], options: TaskOptions): EvalTask[] {
  const tasks = paths.flatMap((path) => readPath(resolve(path), options));
  const names = tasks.map(({ name }) => name);
  const duplicate = names.find((name, index) => names.indexOf(name) !== index);
  if (duplicate !== undefined) throw new UserError(`There are two tasks with the name ${duplicate}.`);
  return tasks;
}

function readPath(path: string, options: TaskOptions): EvalTask[] {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) throw new UserError(`${path} not found.`);
  if (!stat.isDirectory()) return readSweBench(path, options);
  if (existsSync(join(path, "task.yml"))) return [readTask(path, options)];
  const folders = readdirSync(path)
    .sort()
    .map((name) => join(path, name))
    .filter((folder) => existsSync(join(folder, "task.yml")));
  if (folders.length === 0) throw new UserError(`${path} has no tasks: each is a folder with a task.yml.`);
  return folders.map((folder) => readTask(folder, options));
}

function readTask(folder: string, { isTrusted }: TaskOptions): EvalTask {
  const file = join(folder, "task.yml");
  const yaml = readFileSync(file, "utf8");
  const value = readYaml(yaml, file);
  const parsed = TaskFile.safeParse(value);
  if (!parsed.success) {
    const { issues } = parsed.error;
    throw invalidFile(`${file} is not valid`, { issues, fieldsAt: knownFieldsAt, value, yaml });
  }
  const { task, repository, commit, check_seconds, answer, review, worker, ...shared } = parsed.data;
  const path = resolve(folder, repository);
  const isUrl = commit !== undefined && (remote.test(repository) || (isTrusted && !existsSync(path)));
  if (!isUrl && !existsSync(path)) {
    throw new UserError(
      commit === undefined
        ? `${file}: folder ${repository} not found. A git repository needs a commit.`
        : `${file}: ${repository} not found.`,
    );
  }
  const ownWorker = worker.endsWith(".worker") ? resolve(folder, worker) : undefined;
  const hidden = join(folder, "checks");
  const patch = join(folder, review?.patch ?? "");
  const outside = [isUrl ? folder : path, ownWorker ?? folder, hidden, patch].find((one) => !staysInside(one, folder));
  if (outside !== undefined && !isTrusted) {
    throw new UserError(`${file} uses ${outside}, which is outside of its folder. Review it, then add --trust-tools.`);
  }
  const reference = join(folder, "reference.patch");
  return {
    ...shared,
    name: basename(folder),
    worker: ownWorker ?? worker,
    prompt: task,
    repository:
      commit === undefined ? { kind: "folder", path } : { kind: "git", url: isUrl ? repository : path, commit },
    hidden: existsSync(hidden) ? { kind: "folder", path: hidden } : undefined,
    checkTimeoutMs: check_seconds * 1_000,
    answerPatterns: answer,
    review: review && { ...review, patch: readFileSync(patch, "utf8") },
    referenceLines: existsSync(reference) ? changedLines(readFileSync(reference, "utf8")).length : undefined,
  };
}

/** An address that git fetches from another machine: a URL, or `host:path`. */
const remote = /^(?:(?:https?|ssh|git):\/\/|[^/:]+:(?!:|\/\/))/i;

/** True for a path that leads out of a folder neither by itself nor by a link. */
function staysInside(path: string, folder: string): boolean {
  return existsSync(path) ? isInside(realpathSync(path), realpathSync(folder)) : isInside(path, folder);
}

/** A list of tests, which the data sets hold as JSON text. */
const TestNames = z.union([z.array(z.string()), z.string().transform(readList)]);

/** A row of SWE-bench, SWE-bench Verified or SWE-bench Pro, which writes the lists in lower case. */
const Row = z.looseObject({
  instance_id: z.string().regex(/^[\w.-]+$/),
  repo: z.string().regex(/^[\w.-]+\/[\w.-]+$/),
  base_commit: z.string().regex(/^[0-9a-f]{7,64}$/),
  problem_statement: z.string().min(1),
  /** SWE-bench Pro: what the tests expect beyond the issue. Its agents are given both. */
  requirements: z.string().nullish(),
  interface: z.string().nullish(),
  patch: z.string().default(""),
  test_patch: z.string(),
  FAIL_TO_PASS: TestNames.optional(),
  PASS_TO_PASS: TestNames.optional(),
  fail_to_pass: TestNames.optional(),
  pass_to_pass: TestNames.optional(),
});
type Row = z.infer<typeof Row>;

interface SweBenchOptions {
  /** A folder with clones: `owner__name`, `owner/name` or `name`. Without it, repositories are fetched from github.com. */
  repositories?: string | undefined;
  /** Runs tests; `{tests}` stands for their names. Default: pytest. */
  testCommand?: string | undefined;
  /** Default: fixer. */
  worker?: string | undefined;
}

const defaultTestCommand = "python3 -m pytest -q -p no:cacheprovider {tests}";
const testsPerCommand = 100;
const checkTimeoutMs = 30 * 60_000;

/** Reads tasks in SWE-bench's format, one JSON object per line. Throws a UserError that names the line. */
function readSweBench(file: string, options: SweBenchOptions): EvalTask[] {
  const lines = readFileSync(file, "utf8").split("\n");
  return lines.flatMap((line, index) => {
    if (line.trim() === "") return [];
    const parsed = Row.safeParse(parseJson(line));
    if (!parsed.success) {
      throw new UserError(`${file}, line ${index + 1} is not a SWE-bench row: ${z.prettifyError(parsed.error)}`);
    }
    return [taskOf(parsed.data, options)];
  });
}

function taskOf(
  row: Row,
  { repositories, testCommand = defaultTestCommand, worker = "fixer" }: SweBenchOptions,
): EvalTask {
  const tests = [...(row.FAIL_TO_PASS ?? row.fail_to_pass ?? []), ...(row.PASS_TO_PASS ?? row.pass_to_pass ?? [])];
  if (tests.length === 0) throw new UserError(`${row.instance_id} names no tests in FAIL_TO_PASS or PASS_TO_PASS.`);
  const checks: string[] = [];
  for (let at = 0; at < tests.length; at += testsPerCommand) {
    const names = tests
      .slice(at, at + testsPerCommand)
      .map(quote)
      .join(" ");
    // A function, because the names may contain `$&`.
    checks.push(testCommand.replaceAll("{tests}", () => names));
  }
  return {
    name: row.instance_id,
    worker,
    prompt: [
      row.problem_statement,
      ...(row.requirements ? [`Requirements:\n${row.requirements}`] : []),
      ...(row.interface ? [`New interfaces:\n${row.interface}`] : []),
    ].join("\n\n"),
    repository: { kind: "git", url: urlOf(row.repo, repositories), commit: row.base_commit },
    hidden: { kind: "patch", patch: row.test_patch },
    setup: [],
    checks,
    sandbox: "os",
    checkTimeoutMs,
    rules: { forbidden_paths: [], forbidden_tools: [], forbidden_text: [] },
    answerPatterns: [],
    review: undefined,
    referenceLines: row.patch === "" ? undefined : changedLines(row.patch).length,
  };
}

function urlOf(repo: string, folder: string | undefined): string {
  if (folder === undefined) return `https://github.com/${repo}.git`;
  const names = [repo.replace("/", "__"), repo, repo.split("/")[1] ?? repo];
  const path = names.map((name) => join(folder, name)).find((one) => existsSync(one));
  if (path === undefined) throw new UserError(`${folder} has no clone of ${repo}. Clone it to ${names[0]}.`);
  return path;
}

/** Parses a list. SWE-bench Pro has lists in Python's format, with single quotes. */
function readList(text: string, context: z.RefinementCtx): string[] {
  const items = [...text.matchAll(/'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"/g)];
  const asPython = () => items.map(([, single, double]) => (single ?? double ?? "").replaceAll(/\\(['"\\])/g, "$1"));
  const list = z.array(z.string()).safeParse(parseJson(text) ?? (/^\s*\[/.test(text) ? asPython() : undefined));
  if (list.success) return list.data;
  context.addIssue({ code: "custom", message: "It is not a list of tests" });
  return z.NEVER;
}

function quote(name: string): string {
  return `'${name.replaceAll("'", `'\\''`)}'`;
}
