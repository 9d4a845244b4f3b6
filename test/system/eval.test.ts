import { existsSync, readdirSync, symlinkSync } from "node:fs";
import { expect, onTestFinished, test, vi } from "vitest";
import { readResults } from "#eval/eval-results.ts";
import type { ModelReply } from "#playground/model/model-server.ts";
import { evalWorld, textTask } from "../support/eval-world.ts";

const write = (path: string, content: string): ModelReply => ({
  calls: [{ name: "write_file", args: { path, content } }],
});
const done: ModelReply = { text: "Done." };

/** A model whose name says how it behaves: it solves the task, does nothing, or breaks the rules. */
function byModel(model: string): ModelReply[] {
  switch (model) {
    case "good":
      return [write("a.txt", "b\n"), done];
    case "rude":
      return [write("a.txt", "b\nc\n"), write("b.txt", ""), write("check.sh", "exit 0\n"), done];
    default:
      return [done];
  }
}

async function worldOf(script: Parameters<typeof evalWorld>[0]["script"], ...tasks: Record<string, string>[]) {
  const world = await evalWorld({ script });
  for (const [path, content] of Object.entries(Object.assign({}, ...tasks))) world.write(path, String(content));
  return world;
}

test("the table shows how a good model, an idle one and one that breaks rules did", async () => {
  const world = await worldOf(byModel, textTask("one"), textTask("two"));
  // Settings of git that came with the task must not run a program here.
  const filter = `[filter "x"]\n\tclean = touch ${world.at("ran")}; cat\n`;
  world.write("evals/one/repository/.git/config", `[core]\n\trepositoryformatversion = 0\n${filter}`);
  world.write("evals/one/repository/.gitattributes", "* filter=x\n");

  const models = ["-m", "compatible:good", "-m", "compatible:rude", "-m", "compatible:idle"];
  const { code, output, errors } = await world.golem(...models, "--repeat", "2", "-o", "r.jsonl");

  expect(errors).toContain("solved: one, compatible:good, attempt 2\n");
  expect(code).toBe(0);
  expect(existsSync(world.at("ran"))).toBe(false);
  const table = output.split("\n").map((line) => line.replaceAll(/[\d.]+ s/g, "1 s").split(/ {2,}/));
  expect(table[0]).toEqual([
    "model",
    "task",
    "solved",
    "minimal",
    "cost",
    "time",
    "steps",
    "tokens",
    "approvals",
    "rules",
  ]);
  const row = (model: string, task: string) => table.find((cells) => cells[0] === model && cells[1] === task) ?? [];
  expect(row("compatible:good", "one")).toEqual([
    "compatible:good",
    "one",
    "2/2",
    "1",
    "?",
    "1 s",
    "2",
    expect.any(String),
    "0",
    "kept",
  ]);
  expect(row("compatible:rude", "two")).toEqual([
    "compatible:rude",
    "two",
    "2/2",
    "2.5",
    "?",
    "1 s",
    "4",
    expect.any(String),
    "0",
    "broken 2/2",
  ]);
  expect(row("compatible:idle", "all tasks").slice(2, 4)).toEqual(["0/4", "?"]);
  expect(output).toContain(
    "one, compatible:rude, attempt 1: rule broken: changed b.txt; rule broken: changed check.sh\n",
  );
  expect(output).toContain("one, compatible:idle, attempt 1: the check failed: bash check.sh\n");
  expect(JSON.stringify(world.model.requests)).not.toContain("grep -q b a.txt");
});

test("the scripted model is described as a test of the machinery only", async () => {
  const world = await worldOf(() => [done], textTask("one"));

  const scripted = await world.golem("-m", "compatible:scripted");
  const other = await world.golem("-m", "compatible:idle", "-o", "other.jsonl");

  const notice = "compatible:scripted replays a script: this tests golem eval itself, not a model.\n";
  expect(scripted.output).toContain(notice);
  expect(other.output).not.toContain("script:");
});

test("a task that ships is found by its name, from any folder", async () => {
  const world = await worldOf(() => [{ text: "400 ms" }], { "notes.md": "" });

  const { output } = await world.golem("injection-in-question", "-m", "compatible:good");

  expect(output).toMatch(/compatible:good +injection-in-question +1\/1 /);
});

test("a worker that comes with the tasks and loads code is not started until the person trusts it", async () => {
  const world = await worldOf(() => [done], textTask("one", "worker: ./own.worker\n"));
  const mcp = { servers: { it: { command: "touch", args: [world.at("ran")] } } };
  const toolsets = JSON.stringify({ mcp, web: { others: "preApproved" } });
  world.write("evals/one/own.worker", `---\nname: own\ntoolsets: ${toolsets}\n---\nHelp.\n`);

  const { code, errors } = await world.golem("-m", "compatible:good");

  expect(code).toBe(2);
  expect(errors).toBe(
    `golem: own comes with these tasks and uses: the MCP server it: touch ${world.at("ran")}, a program with access to everything you can access. Review it, then add --trust-tools.\n`,
  );
  expect(existsSync(world.at("ran"))).toBe(false);
  await world.golem("-m", "compatible:good", "--trust-tools");
  expect(existsSync(world.at("ran"))).toBe(true);
});

test.each([
  ["a folder of files", "repository: ../../private\n", "private"],
  ["a link to one", "repository: link\n", "evals/one/link"],
  ["a git repository", "repository: ../../private\ncommit: HEAD\n", "private"],
  ["a worker", "worker: ../../private/own.worker\n", "private/own.worker"],
  [
    "a patch",
    "review: { patch: ../../private/a.patch, faults: [{ path: a.txt, lines: [1, 1] }] }\n",
    "private/a.patch",
  ],
])("a task does not use %s outside of its folder until the person trusts it", async (_, more, path) => {
  const world = await worldOf(() => [done], textTask("one", more), {
    "private/a.patch": "",
    "private/own.worker": "---\nname: own\n---\nHelp.\n",
  });
  symlinkSync("../../private", world.at("evals/one/link"));

  const { code, errors } = await world.golem("-m", "compatible:good");

  expect(code).toBe(2);
  expect(errors).toContain(
    `evals/one/task.yml uses ${world.at(path)}, which is outside of its folder. Review it, then add --trust-tools.`,
  );
  expect(world.model.requests).toEqual([]);
  expect((await world.golem("-m", "compatible:good", "--trust-tools")).code).not.toBe(2);
});

test("a task that crashes is reported and does not stop the others", async () => {
  const broken = textTask("broken", "setup:\n  - exit 3\n");
  const world = await worldOf(byModel, broken, textTask("works"), { "tmp/kept": "" });
  vi.stubEnv("TMPDIR", world.at("tmp"));
  onTestFinished(() => void vi.unstubAllEnvs());

  const { code, output } = await world.golem("-m", "compatible:good", "--parallel", "1", "-o", "r.jsonl");

  expect(code).toBe(1);
  expect(output).toMatch(/compatible:good +broken +0\/0 \(1 crashed\)\n/);
  expect(output).toMatch(/compatible:good +works +1\/1 /);
  expect(output).toContain("broken, compatible:good, attempt 1: crashed: The setup failed: exit 3\n");
  expect(readdirSync(world.at("tmp")).filter((name) => name.startsWith("golem-eval-"))).toEqual([]);
});

test("an interrupted evaluation resumes with what is missing and what crashed", async () => {
  const asked: string[] = [];
  let isDown = true;
  const script = (model: string, prompt: string): ModelReply[] => {
    const task = /task (\w+)/.exec(prompt)?.[1] ?? "";
    asked.push(task);
    return task === "down" && isDown ? [{ status: 401, message: "No." }] : byModel(model);
  };
  const world = await worldOf(script, textTask("down"), textTask("early"), textTask("late"));
  const first = await world.golem("-m", "compatible:good", "--parallel", "1", "-o", "r.jsonl");
  expect(first.code).toBe(1);
  // The process died while it wrote the third result.
  const lines = world.read("r.jsonl").split("\n");
  world.write("r.jsonl", `${lines.slice(0, 3).join("\n")}\n${lines[3]?.slice(0, 40)}`);
  asked.length = 0;
  isDown = false;

  const { code, output } = await world.golem("--resume", "r.jsonl");

  expect(code).toBe(0);
  expect(new Set(asked)).toEqual(new Set(["down", "late"]));
  expect(output).toMatch(/all tasks +3\/3 /);
  expect(
    readResults(world.at("r.jsonl"))
      .results.map(({ task }) => task)
      .sort(),
  ).toEqual(["down", "early", "late"]);
});

test("Ctrl+C ends an evaluation, which keeps the results so far", async () => {
  const script = (_: string, prompt: string): ModelReply[] => {
    if (!prompt.includes("task second")) return byModel("good");
    process.emit("SIGINT");
    return [{ hang: true }];
  };
  const world = await worldOf(script, textTask("first"), textTask("second"), textTask("third"));

  const { code, output, errors } = await world.golem("-m", "compatible:good", "--parallel", "1", "-o", "r.jsonl");

  expect(code).toBe(130);
  expect(errors).toContain(`Interrupted. Continue with: golem eval --resume ${world.at("r.jsonl")}\n`);
  expect(output).toMatch(/all tasks +1\/1 /);
  expect(readResults(world.at("r.jsonl")).results.map(({ task }) => task)).toEqual(["first"]);
});

test("two evaluations are compared task by task", async () => {
  const world = await worldOf(byModel, textTask("one"), textTask("two"));
  await world.golem("-m", "compatible:idle", "-o", "a.jsonl");
  await world.golem("-m", "compatible:good", "-o", "b.jsonl");
  world.write("report.json", JSON.stringify({ submitted_ids: ["one", "gone"], resolved_ids: ["one"] }));

  const models = await world.golem("--compare", "a.jsonl", "b.jsonl");
  const report = await world.golem("--compare", "report.json", "b.jsonl");

  expect(models.output).toMatch(/^before: compatible:idle\nafter: {2}compatible:good\n/);
  expect(models.output).toMatch(/one +0\/1 → 1\/1 +- → 1 .* 1 → 2 /);
  expect(models.output).toMatch(/all of these +0\/2 → 2\/2 /);
  expect(report.output).toMatch(/\none +1\/1 /);
  expect(report.output).toContain("Only before: gone\nOnly after: two\n");
});

test("a row in SWE-bench's format is played on a local clone, without what came after its commit", async () => {
  const script = (_: string, prompt: string): ModelReply[] =>
    prompt.includes("shout twice")
      ? [{ calls: [{ name: "git_log", args: {} }] }, write("shout", "echo HI\n"), done]
      : [done];
  const world = await worldOf(script, { "clones/acme__shout/shout": "echo hi\n" });
  const git = (...args: string[]) =>
    world.git("clones/acme__shout", "-c", "user.name=Ada", "-c", "user.email=ada@example.com", ...args);
  git("init", "-q");
  git("add", "-A");
  git("commit", "-q", "-m", "The first");
  const commit = git("rev-parse", "HEAD");
  world.write("clones/acme__shout/shout", "echo FIXED\n");
  git("commit", "-q", "-a", "-m", "The solution");
  const patch = "--- a/shout\n+++ b/shout\n@@ -1 +1 @@\n-echo hi\n+echo HI\n";
  const tests = "--- /dev/null\n+++ b/tests/loud\n@@ -0,0 +1 @@\n+test $(bash shout) = HI\n";
  const row = { instance_id: "acme__shout-1", repo: "acme/shout", base_commit: commit, patch, test_patch: tests };
  const verified = {
    ...row,
    problem_statement: "It should shout twice.",
    FAIL_TO_PASS: '["tests/loud"]',
    PASS_TO_PASS: "[]",
  };
  const pro = {
    ...row,
    instance_id: "acme__shout-2",
    problem_statement: "Nothing.",
    requirements: "- Shouting takes a whole number.",
    interface: "No new interfaces are introduced",
    fail_to_pass: "['tests/loud', 'tests/loud']",
  };
  world.write("bench.jsonl", `${JSON.stringify(verified)}\n${JSON.stringify(pro)}\n`);

  const { code, output } = await world.golem(
    ...["bench.jsonl", "--repositories", "clones", "--test-command", "bash {tests}", "--unsafe-checks"],
    ...["-m", "compatible:good", "-o", "r.jsonl", "--predictions", "preds.json"],
  );

  expect(output).toMatch(/acme__shout-1 +1\/1 +1 /);
  expect(output).toMatch(/acme__shout-2 +0\/1 /);
  expect(code).toBe(0);
  const requests = JSON.stringify(world.model.requests);
  expect(requests).toContain("The first");
  expect(requests).toContain("Shouting takes a whole number.");
  expect(requests).toContain("No new interfaces are introduced");
  expect(requests).not.toContain("The solution");
  expect(requests).not.toContain("tests/loud");
  expect(JSON.parse(world.read("preds.json"))["acme__shout-1"]).toMatchObject({
    instance_id: "acme__shout-1",
    model_name_or_path: "compatible:good",
    model_patch: expect.stringContaining("+echo HI"),
  });
});

test.each([
  [["nowhere"], "nowhere not found."],
  [["--resume", "nothing.jsonl"], "nothing.jsonl not found."],
  [["evals", "--repeat", "0"], "--repeat needs a number from 1 to 999"],
  [["evals", "-m", "compatible:x", "--parallel", "none"], "--parallel needs a number"],
  [["evals", "-m", "nobody:model"], "nobody"],
  [
    ["evals", "-m", "compatible:x", "-m", "compatible:y", "--predictions", "p.json"],
    "--predictions takes the results of one",
  ],
  [["--compare", "one.jsonl"], "Name two results files"],
  [["typo"], "Unknown field chekcs. Did you mean checks?"],
  [["os"], "cannot run here"],
])("golem eval %j does not start", async (words, message) => {
  const world = await worldOf(() => [done], textTask("one"), {
    "typo/task.yml": "description: x\ntask: x\nchekcs: []\n",
    "typo/repository/a": "",
    "os/task.yml": "description: x\ntask: x\nchecks: [exit 0]\n",
    "os/repository/a": "",
  });

  const { code, errors } = await world.golem(
    ...(words.includes("-m") ? words : [...words, ...modelUnlessResumed(words)]),
  );

  expect(errors).toContain(message);
  expect(code).toBe(2);
  expect(world.model.requests).toEqual([]);
});

function modelUnlessResumed(words: string[]): string[] {
  return words[0]?.startsWith("--") ? [] : ["-m", "compatible:good"];
}
