import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { UserError } from "#domain/errors.ts";
import { invalidFile, readYaml } from "#text/read-yaml.ts";
import { changedLines, type EvalTask, knownFieldsAt, TaskFile } from "./eval-task.ts";
import { readSweBench, type SweBenchOptions } from "./swe-bench.ts";

/**
 * Reads tasks from folders with a `task.yml`, from folders of such folders, and from files in SWE-bench's format (`.jsonl`).
 * Throws a UserError for a task that cannot be read, and for two tasks of one name.
 */
export function readTasks(paths: readonly string[], options: SweBenchOptions): EvalTask[] {
  const tasks = paths.flatMap((path) => readPath(resolve(path), options));
  const names = tasks.map(({ name }) => name);
  const duplicate = names.find((name, index) => names.indexOf(name) !== index);
  if (duplicate !== undefined) throw new UserError(`There are two tasks with the name ${duplicate}.`);
  return tasks;
}

function readPath(path: string, options: SweBenchOptions): EvalTask[] {
  const stat = statSync(path, { throwIfNoEntry: false });
  if (!stat) throw new UserError(`There is no ${path}.`);
  if (!stat.isDirectory()) return readSweBench(path, options);
  if (existsSync(join(path, "task.yml"))) return [readTask(path)];
  const folders = readdirSync(path)
    .sort()
    .map((name) => join(path, name))
    .filter((folder) => existsSync(join(folder, "task.yml")));
  if (folders.length === 0) throw new UserError(`${path} has no tasks: each is a folder with a task.yml.`);
  return folders.map(readTask);
}

function readTask(folder: string): EvalTask {
  const file = join(folder, "task.yml");
  const yaml = readFileSync(file, "utf8");
  const value = readYaml(yaml, file);
  const parsed = TaskFile.safeParse(value);
  if (!parsed.success) {
    const { issues } = parsed.error;
    throw invalidFile(`${file} is not valid`, { issues, fieldsAt: knownFieldsAt, value, yaml });
  }
  const { task, repository, commit, check_seconds, answer, review, worker, ...shared } = parsed.data;
  const path = join(folder, repository);
  const isFolder = commit === undefined;
  if (isFolder && !existsSync(path)) {
    throw new UserError(`${file}: there is no folder ${repository}. A repository of git needs a commit.`);
  }
  const hidden = join(folder, "checks");
  const reference = join(folder, "reference.patch");
  return {
    ...shared,
    name: basename(folder),
    worker: worker.endsWith(".worker") ? resolve(dirname(file), worker) : worker,
    prompt: task,
    repository: isFolder
      ? { kind: "folder", path }
      : { kind: "git", url: existsSync(path) ? path : repository, commit },
    hidden: existsSync(hidden) ? { kind: "folder", path: hidden } : undefined,
    checkTimeoutMs: check_seconds * 1_000,
    answerPatterns: answer,
    review: review && { ...review, patch: readFileSync(join(folder, review.patch), "utf8") },
    referenceLines: existsSync(reference) ? changedLines(readFileSync(reference, "utf8")).length : undefined,
  };
}
