import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { onTestFinished } from "vitest";
import { messageText } from "#playground/model/conversation.ts";
import { type ChatRequest, type ModelReply, startModelServer, turnOf } from "#playground/model/model-server.ts";
import { giveGolem } from "./golem-world.ts";

/** Returns a model's turns for a conversation. The last one is repeated. */
export type EvalScript = (model: string, prompt: string) => readonly ModelReply[] | Promise<readonly ModelReply[]>;

/** Creates a folder for tasks and results, and starts a model server with a script for each model and task. */
export async function evalWorld({ script, env = {} }: { script: EvalScript; env?: Record<string, string> }) {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "golem-eval-test-")));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const reply = async ({ model, messages }: ChatRequest) => {
    const turns = await script(model, messageText(messages.find(({ role }) => role === "user")));
    return turns[Math.min(turnOf(messages), turns.length - 1)] as ModelReply;
  };
  const model = await startModelServer({ script: reply });
  onTestFinished(() => model.close());
  const at = (path: string) => join(folder, path);
  return {
    folder,
    at,
    model,
    write(path: string, content: string) {
      mkdirSync(dirname(at(path)), { recursive: true });
      writeFileSync(at(path), content);
    },
    read: (path: string) => readFileSync(at(path), "utf8"),
    git: (path: string, ...args: string[]) => execFileSync("git", args, { cwd: at(path), encoding: "utf8" }).trim(),
    /** Executes `golem eval` without a terminal and resolves to its exit code and output. */
    async golem(...words: string[]) {
      const settings = { OPENAI_COMPATIBLE_BASE_URL: model.url, GOLEM_FORGE_SANDBOX: "off", ...env };
      const run = giveGolem(["eval", ...words], { isTTY: false, cwd: folder, env: settings });
      const code = await run.code;
      return { code, output: run.output(), errors: run.errors() };
    },
  };
}

/** Returns a task of two text files, with a hidden check that requires `b` in a.txt. */
export function textTask(name: string, more = ""): Record<string, string> {
  return {
    [`evals/${name}/task.yml`]: `description: Change a file.
task: Do the task ${name}.
sandbox: memory
checks:
  - bash check.sh
rules:
  allowed_paths: [a.txt]
${more}`,
    [`evals/${name}/repository/a.txt`]: "a\n",
    [`evals/${name}/repository/b.txt`]: "b\n",
    [`evals/${name}/checks/check.sh`]: "grep -q b a.txt\n",
    [`evals/${name}/reference.patch`]: "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+b\n",
  };
}

/** Returns the files that the reference solution of a task changes, with their new content. */
export function referenceFiles(task: string): { path: string; content: string }[] {
  const folder = mkdtempSync(join(tmpdir(), "golem-reference-"));
  try {
    cpSync(join(task, "repository"), folder, { recursive: true });
    const patch = readFileSync(join(task, "reference.patch"), "utf8");
    execFileSync("git", ["apply", "-"], { cwd: folder, input: patch });
    const paths = [...patch.matchAll(/^\+\+\+ b\/(.*)$/gm)].map(([, path = ""]) => path);
    return paths.map((path) => ({ path, content: readFileSync(join(folder, path), "utf8") }));
  } finally {
    rmSync(folder, { recursive: true });
  }
}
