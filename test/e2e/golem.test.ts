import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, expect, onTestFinished, test } from "vitest";
import { createExecutors } from "#executors/create-executors.ts";
import { readSampleRepository } from "#playground/demo/sample-repository.ts";
import { aWorkerFile, golemWorld, write } from "../support/golem-world.ts";

const command = fileURLToPath(new URL("../../src/terminal/golem.ts", import.meta.url));
const executors = createExecutors();
const { available } = await executors.availability("os");
await executors.close();

const cache = await mkdtemp(join(tmpdir(), "golem-cache-"));
afterAll(() => rm(cache, { recursive: true, force: true }));

// `script` of util-linux gives a terminal; tests run where the OS sandbox stands.
test.skipIf(!available || process.platform !== "linux")(
  "at a real terminal: red tests, an edit that was approved, green tests, and it is on disk",
  async () => {
    const { commits = [] } = await readSampleRepository();
    const files: Record<string, string> = Object.assign({}, ...commits.map((commit) => commit.files));
    const edit = {
      path: "src/paginate.js",
      old_text: "  return Math.floor(total / perPage) + 1;",
      new_text: "  return Math.max(1, Math.ceil(total / perPage));",
    };
    const look = { name: "read_file", args: { path: edit.path } };
    const runTests = { name: "run_tests", args: {} };
    const worker = aWorkerFile.replace("toolsets:", "toolsets:\n  code: {}");
    const world = await golemWorld({
      turns: [
        { calls: [look, runTests] },
        { calls: [{ name: "edit_file", args: edit }] },
        { calls: [runTests] },
        { text: "It is green." },
      ],
      files: { ...files, ".github/workers/careful.worker": worker },
    });

    const run = start(
      "script",
      ["-qec", `${process.execPath} ${command} run careful "the last page is empty"`, "/dev/null"],
      {
        ...world,
        env: { ...world.env, GOLEM_FORGE_SANDBOX: "auto", NO_COLOR: "1" },
      },
    );
    await run.sees("Approve?");
    run.type("y\r");
    await run.sees("[a]pply");
    expect(world.status()).toBe("");
    run.type("a\r");

    expect(await run.ended).toEqual([0, null]);
    expect(run.text()).toMatch(/2 passed, 1 failed.*3 passed, 0 failed.*It is green\./s);
    expect(world.read("src/paginate.js")).toContain("Math.ceil");
    expect(world.git("diff", "--shortstat")).toBe(" 1 file changed, 1 insertion(+), 1 deletion(-)\n");
  },
);

test("an interruption of a script loses nothing that was done", async () => {
  const world = await golemWorld({ turns: [write(), { hang: true, text: "Let me" }] });

  const run = start(process.execPath, [command, "run", "careful", "please", "--yes", "all"], world);
  await run.sees("Let me");
  // After `kill -9` this is what is left.
  expect(world.kept()).toEqual([expect.stringContaining("+worker")]);
  run.child.kill("SIGINT");

  expect(await run.ended).toEqual([130, null]);
  expect(world.status()).toBe("");
  expect(world.kept()).toEqual([expect.stringContaining("+worker")]);
  expect(run.text()).toMatch(/The changes are kept: git apply \S+\n$/);
});

/** The command as a process of its own; what is typed reaches it, and all it writes can be waited for. */
function start(program: string, args: string[], { root, env }: { root: string; env: Record<string, string> }) {
  const child: ChildProcess = spawn(program, args, {
    cwd: root,
    env: { ...process.env, XDG_CACHE_HOME: cache, ...env },
    stdio: "pipe",
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const ended = new Promise<[number | null, NodeJS.Signals | null]>((resolve) => {
    child.on("close", (code, signal) => resolve([code, signal]));
  });
  let text = "";
  let news = Promise.withResolvers<void>();
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (chunk) => {
      text += String(chunk);
      news.resolve();
    });
  }
  return {
    child,
    ended,
    text: () => text,
    type: (keys: string) => child.stdin?.write(keys),
    async sees(wanted: string) {
      while (!text.includes(wanted)) {
        const isOver = await Promise.race([news.promise.then(() => false), ended.then(() => true)]);
        if (isOver && !text.includes(wanted)) throw new Error(`It ended without ${wanted}:\n${text}`);
        news = Promise.withResolvers<void>();
      }
    },
  };
}
