import { statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createExecutors } from "#executors/create-executors.ts";
import { readSampleRepository } from "#playground/demo/sample-repository.ts";
import { golemPath, startAtTerminal, startProcess } from "../support/golem-process.ts";
import { aWorkerFile, golemWorld, write } from "../support/golem-world.ts";

const executors = createExecutors();
const { available } = await executors.availability("os");
await executors.close();

// `script` of util-linux provides the terminal; run_tests needs the OS sandbox.
test.skipIf(!available || process.platform !== "linux")(
  "at a real terminal: failing tests, an approved edit, passing tests, and the change on disk",
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

    const env = { ...world.env, GOLEM_FORGE_SANDBOX: "auto" };
    const run = await startAtTerminal(["run", "careful", "the last page is empty"], { ...world, env });
    await run.sees("Approve?");
    run.type("y");
    await run.sees("[a]pply");
    expect(world.status()).toBe("");
    run.type("a");

    expect(await run.ended).toEqual([0, null]);
    expect(run.text()).toMatch(/2 passed, 1 failed.*3 passed, 0 failed.*It is green\./s);
    expect(world.read("src/paginate.js")).toContain("Math.ceil");
    expect(world.git("diff", "--shortstat")).toBe(" 1 file changed, 1 insertion(+), 1 deletion(-)\n");
  },
);

test("in a folder that was deleted, golem says so in one sentence", async () => {
  const world = await golemWorld({ turns: [] });
  const script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" "$@"';

  const run = await startProcess("bash", ["-c", script, process.execPath, golemPath, "log"], world);

  expect(await run.ended).toEqual([2, null]);
  expect(run.text()).toBe("golem: The current folder was deleted. Change to another one and try again.\n");
});

test("an interrupted script keeps its changes in a patch file", async () => {
  const world = await golemWorld({ turns: [write(), { hang: true, text: "Let me" }] });

  const run = await startProcess(process.execPath, [golemPath, "run", "careful", "please", "--yes", "all"], world);
  await run.sees("Let me");
  // The state after `kill -9`.
  expect(world.kept()).toEqual([expect.stringContaining("+worker")]);
  run.child.kill("SIGINT");

  expect(await run.ended).toEqual([130, null]);
  expect(world.status()).toBe("");
  expect(world.kept()).toEqual([expect.stringContaining("+worker")]);
  expect(run.text()).toMatch(/The changes are kept: git apply \S+\n$/);
});

test.skipIf(process.platform !== "linux")(
  "a run whose process is killed while it waits for an approval is resumed: the same files, and the request again",
  async () => {
    const zone = "zones: [{ name: asked, path: a.txt, approval: { write: ask } }]";
    const worker = aWorkerFile.replace("approval: { write: ask }", zone);
    const world = await golemWorld({
      turns: [
        { calls: [{ name: "write_file", args: { path: "new.txt", content: "first\n" } }] },
        write("a.txt", "worker\n"),
        { text: "It is done." },
      ],
      files: { "b.txt": "b\n", ".github/workers/careful.worker": worker },
    });

    const killed = await startAtTerminal(["run", "careful", "please"], world);
    await killed.sees("Approve?");
    const requests = world.model.requests.length;
    killed.kill();
    await killed.ended;
    world.write("a.txt", "a\nperson\n");
    world.write("b.txt", "changed meanwhile\n");
    const resumed = await startAtTerminal(["resume"], world);
    await resumed.sees("Approve?");
    expect(world.model.requests).toHaveLength(requests);
    resumed.type("d not this file");
    await resumed.sees("[a]pply");
    resumed.type("a");

    expect(await resumed.ended).toEqual([0, null]);
    expect(world.sent()).toContain("not this file");
    expect(world.read("new.txt")).toBe("first\n");
    expect([world.read("a.txt"), world.read("b.txt")]).toEqual(["a\nperson\n", "changed meanwhile\n"]);
    const folder = join(world.parent, "state/golem-forge");
    expect(statSync(folder).mode & 0o777).toBe(0o700);
  },
);
