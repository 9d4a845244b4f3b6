import { readdirSync } from "node:fs";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readSampleIssue, readSampleRepository } from "#playground/demo/sample-repository.ts";
import { turnOf } from "#playground/model/model-server.ts";
import { workerScript } from "#playground/model/worker-scripts.ts";
import { approvalIdIn, type Forge, type ForgeOptions, startForge } from "../support/forge-world.ts";

/** The pull request that the reviewer reads. */
const fix = {
  title: "Do not add an empty page after a full last page",
  path: "src/paginate.js",
  from: "Math.floor(total / perPage) + 1",
  to: "Math.max(1, Math.ceil(total / perPage))",
};

const workers = readdirSync(new URL("../../workers/", import.meta.url)).map((name) => name.replace(".worker", ""));
const ownIssue = "Add dark mode";
/** The tools that each worker has on an issue of one's own. */
const offered = new Map<string, string[]>();

/** On an issue of one's own, each worker first looks at the repository. */
const script: ForgeOptions["script"] = (request) => {
  const { messages, tools } = request;
  const [, worker] = new RegExp(`${ownIssue} with ([\\w-]+)`).exec(JSON.stringify(messages)) ?? [];
  if (worker === undefined) return workerScript(request);
  offered.set(
    worker,
    tools.map((tool) => tool.function.name),
  );
  if (turnOf(messages) === 0) return { calls: [{ name: "list_files", args: { path: "" } }] };
  const seen = /src/.test(JSON.stringify(messages.at(-1))) ? "src" : "nothing";
  const reply = workerScript(request);
  return { ...reply, text: `I saw ${seen}. ${"text" in reply ? reply.text : ""}` };
};

let forge: Forge;
beforeAll(async () => {
  forge = await startForge({
    script,
    repositories: [await readSampleRepository()],
    environment: { GOLEM_FORGE_SANDBOX: "off", GOLEM_FORGE_RUNS_PER_HOUR: "1000" },
  });
  await forge.start();
});
afterAll(() => forge.close());

/** Runs a worker in a new thread, approves its requests, and resolves to its last comment. */
async function play(worker: string, thread: number): Promise<string> {
  const { github, botComment } = forge;
  const maintainer = github.as("maintainer");
  maintainer.comment(thread, `/run ${worker}`);
  const [name] = worker.split(" ");
  const answer = botComment(thread, new RegExp(`^### \\S+ \\*\\*${name}\\*\\*\\s+(?!is |asks )`));
  const asked = botComment(thread, /asks for approval/).then((request) =>
    maintainer.comment(thread, `/approve ${approvalIdIn(request)}`),
  );
  asked.catch(() => undefined);
  return (await answer).body;
}

test.each([
  ["triager", /This is a bug in `src\/paginate\.js:3`\. #\S?\d+ has the labels bug\./],
  ["planner", /1\. Change `src\/paginate\.js:3` to round up[\s\S]*`hasNext` \(`src\/paginate\.js:15`\)/],
  ["explainer", /1\. `paginate` asks for the number of pages \(`src\/paginate\.js:8`\)\.[\s\S]*2 \+ 1 = 3/],
  ["main", /The explainer reports:[\s\S]*`src\/paginate\.js:15` compares[\s\S]*\/run fixer/],
  [
    "tester",
    /Opened draft pull request #\S?\d+: Test that only the first page[\s\S]*- before: [\s\S]*page > 0,`, which is wrong: /,
  ],
  ["documenter", /Opened draft pull request #\S?\d+: Document the default options of paginate/],
  ["fixer", /I opened http/],
  ["upgrader", /`package\.json` has none, so there is nothing to upgrade/],
  ["upgrader left-pad@1.3.0", /`left-pad@1\.3\.0` could not be installed, so nothing was changed:[\s\S]*no OS sandbox/],
])("the scripted model plays %s on the sample issue", async (worker, expected) => {
  const { number } = forge.github.as("visitor").openIssue(await readSampleIssue());

  expect(await play(worker, number)).toMatch(expected);
});

/** Opens the pull request that fixes the sample issue. */
async function openFix(branch: string): Promise<number> {
  const { github } = forge;
  const content = ((await github.readFile("main", fix.path)) ?? "").replace(fix.from, fix.to);
  const commit = { branch, message: fix.title, author: "maintainer", at: new Date() };
  await github.push({ ...commit, files: { [fix.path]: content } });
  return (await github.as("maintainer").openPullRequest({ title: fix.title, head: branch, base: "main" })).number;
}

test("the scripted model plays ci-doctor on a pull request whose check fails", async () => {
  const number = await openFix("unlogged");
  const rule = "CHANGELOG.md does not change in this pull request.";
  const checks = await forge.github.checks("unlogged");
  const workflow = checks.startWorkflow("CI");
  checks.report("changelog", { conclusion: "failure", log: `Error: ${rule}\n` });
  checks.completeWorkflow(workflow);

  expect(await play("ci-doctor", number)).toMatch(/`changelog` fails because of this change[\s\S]*pushed it/);

  expect(await forge.github.readFile("unlogged", "CHANGELOG.md")).toContain("A full last page");
});

test("the scripted model plays reviewer on a pull request", async () => {
  const { github } = forge;
  const number = await openFix("fix");

  await play("reviewer", number);

  const snapshot = Object.values(await github.snapshot())[0];
  const reviews = snapshot?.pulls.find((pull) => pull.number === number)?.pull?.reviews ?? [];
  expect(reviews.flatMap(({ comments }) => comments.map(({ body }) => body))).toEqual([
    expect.stringContaining("With `perPage: 0` the number of pages is `Infinity`"),
  ]);
});

test.each(workers)(
  "%s starts, has its tools, reads the repository, and says on an issue of one's own that a scripted model cannot help",
  async (worker) => {
    const { number } = forge.github.as("visitor").openIssue({ title: `${ownIssue} with ${worker}`, body: "Please." });

    expect(await play(worker, number)).toMatch(
      /I saw src\. I am a scripted model: no API key is configured[\s\S]*ANTHROPIC_API_KEY/,
    );

    expect(offered.get(worker)).toEqual(expect.arrayContaining(toolsOf[worker] ?? ["read_file"]));
    if (readers.includes(worker)) expect(offered.get(worker)).not.toContain("open_pull_request");
  },
);

const toolsOf: Record<string, string[]> = {
  main: ["fixer", "tester", "documenter", "open_pull_request"],
  "ci-doctor": ["read_checks", "run_tests", "update_pull_request"],
  upgrader: ["install_package", "web_fetch"],
};
const readers = ["explainer", "explorer", "planner", "triager"];
