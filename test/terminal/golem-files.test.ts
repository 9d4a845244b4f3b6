import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { handlers } from "#bot/deliveries/handlers.ts";
import { endpoints } from "#bot/manifest.ts";
import { commandHelp } from "#terminal/golem/help.ts";
import { golemWorld } from "../support/golem-world.ts";
import { commitTo, PlaygroundWorld, shop } from "../support/playground-world.ts";

const worker = (name: string, fields = "", instructions = "You help.") => ({
  [`.github/workers/${name}.worker`]: `---\nname: ${name}\n${fields}---\n${instructions}\n`,
});

async function check(files: Record<string, string>, ...args: string[]) {
  const world = await golemWorld({ turns: [], files });
  const run = world.give(["check", ...args], { isTTY: false });
  return { code: await run.code, text: run.text(), errors: run.errors() };
}

test("golem check accepts the workers of a checkout", async () => {
  expect(await check({})).toEqual({ code: 0, text: "0 problems in 1 file.\n", errors: "" });
});

test.each([
  ["an unknown field", worker("a", "toolsetz: {}\n"), "a.worker:3:1: Unknown field toolsetz. Did you mean toolsets?"],
  [
    "an offered tool that its toolsets do not have",
    worker("a", "toolsets: { git: {} }\noffered_tools: [git_status, git_blme]\n"),
    "a.worker:4:29: None of the worker's toolsets has a tool git_blme. Did you mean git_blame?",
  ],
  ["a wrong type", worker("a", "limits:\n  steps: many\n"), "a.worker:4:3: limits.steps: Expected number, got string."],
  [
    "a value that is not in the list",
    worker("a", "mode: chatt\n"),
    'a.worker:3:1: mode: Expected one of "single", "chat", got "chatt". Did you mean chat?',
  ],
  ["a list for a mapping", worker("a", "toolsets: [git]\n"), "a.worker:3:1: toolsets: Expected mapping, got list."],
  [
    "a worker with the ending of Markdown",
    { ".github/workers/a.md": "---\nname: a\n---\nHelp.\n", ".github/workers/README.md": "# Workers\n" },
    "a.md:1:1: The name of a worker file ends in .worker, and that of a settings file in .yml.",
  ],
  [
    "a negative limit",
    worker("a", "limits:\n  cost: -1\n"),
    "a.worker:4:3: limits.cost: Expected a number greater than 0, got -1.",
  ],
  ["YAML that cannot be parsed", worker("a", 'description: "open\n'), 'a.worker:3:19: The closing " is missing.'],
  [
    "a missing name",
    { ".github/workers/a.worker": "---\ndescription: A\n---\nHelp.\n" },
    "a.worker:2:1: name is missing.",
  ],
  ["no front matter", { ".github/workers/a.worker": "Help.\n" }, "a.worker:1:1: a.worker has no front matter."],
  ["empty instructions", worker("a", "", ""), "a.worker:2:1: The worker has no instructions below its front matter."],
  [
    "an unknown toolset",
    worker("a", "toolsets:\n  gti: {}\n"),
    "a.worker:4:3: The worker a names the toolset gti, which does not exist. Did you mean git?",
  ],
  [
    "a toolset's setting",
    worker("a", "toolsets:\n  web:\n    alow: []\n"),
    "a.worker:4:3: The toolset web of the worker a has invalid settings: Unknown field alow. Did you mean allow?",
  ],
  [
    "a model that cannot exist",
    worker("a", "model: antropic:claude\n"),
    "a.worker:3:1: Unknown provider antropic in the model name antropic:claude. Did you mean anthropic:claude?",
  ],
  [
    "an unknown callee",
    worker("a", "toolsets:\n  workers:\n    allowed: [fixr]\n"),
    "a.worker:5:15: Worker fixr not found. Did you mean fixer?",
  ],
  [
    "a zone that is defined twice",
    worker("a", "sandbox:\n  zones:\n    - name: docs\n    - name: docs\n      mode: ro\n"),
    "a.worker:6:7: sandbox.zones.1: The zone docs is defined twice.",
  ],
  [
    "a module that is not there",
    worker("a", "toolsets:\n  custom: { module: tools.ts, tools: [a] }\n"),
    "a.worker:4:3: File tools.ts not found next to this one.",
  ],
  [
    "a tool that its module does not export",
    {
      ...worker("a", "toolsets:\n  custom:\n    module: tools.ts\n    tools:\n      - count\n      - countWrds\n"),
      ".github/workers/tools.ts":
        "export const count = {};\nasync function countWords() {}\nexport { countWords, count as total };\n",
    },
    "a.worker:8:9: tools.ts exports no countWrds. Did you mean countWords?",
  ],
  [
    "an output schema that is not there",
    worker("a", "output_schema_ref: answer.json\n"),
    "a.worker:3:1: a: there is no file answer.json, which output_schema_ref names.",
  ],
  [
    "a setting",
    { ".github/golem-forge.yml": "workers: [fixer]\nlimit: {}\n" },
    "golem-forge.yml:2:1: Unknown field limit. Did you mean limits?",
  ],
  [
    "an unknown worker in the settings",
    { ".github/golem-forge.yml": "workers:\n  - fixer\n  - revewer\n" },
    "golem-forge.yml:3:5: Worker revewer not found. Did you mean reviewer?",
  ],
])("golem check names the position of %s", async (_, files, expected) => {
  const { code, text } = await check(files);

  expect(text).toContain(expected);
  expect(text).toContain("1 problem in 2 files.");
  expect(code).toBe(1);
});

test("golem check lists the problems of a file by their positions", async () => {
  const { text } = await check({
    ...worker("a", "toolsets:\n  filesystm: {}\n  workers: { allowed: [nobody] }\nmodel: nowhere\n"),
  });

  expect([...text.matchAll(/a\.worker:(\d+):/g)].map(([, line]) => Number(line))).toEqual([4, 5, 6]);
});

test("golem check finds circular delegation", async () => {
  const calls = (name: string) => `toolsets:\n  workers: { allowed: [${name}] }\n`;
  const { code, text } = await check({
    ...worker("a", calls("b")),
    ...worker("b", calls("c")),
    ...worker("c", calls("a")),
  });

  expect(text).toContain(".github/workers/a.worker:4:24: Circular delegation: a → b → c → a.");
  expect(code).toBe(1);
});

test("golem check takes files, and shows control characters of their text", async () => {
  const { code, text } = await check(
    { "x.worker": '---\nname: x\nmode: "\\e[31mred"\n---\nHelp.\n' },
    "x.worker",
    "gone.worker",
  );

  expect(text).toContain(
    'x.worker:3:1: mode: Expected one of "single", "chat", got "\\u001b[31mred".\ngone.worker:1:1: File not found.',
  );
  expect(text).toContain("2 problems in 2 files.");
  expect(code).toBe(1);
});

test("golem init writes a worker that is valid and runs, and never overwrites one", async () => {
  const world = await golemWorld({ turns: [{ text: "Done." }] });

  expect(await world.give(["init", "guide"]).code).toBe(0);
  expect(await world.give(["check"], { isTTY: false }).code).toBe(0);
  expect(await world.give(["run", "guide", "hello"], { isTTY: false }).code).toBe(0);

  const again = world.give(["init", "guide"]);
  expect(await again.code).toBe(2);
  expect(again.errors()).toBe("golem: .github/workers/guide.worker already exists.\n");
  const misnamed = world.give(["init", "a b"]);
  expect(await misnamed.code).toBe(2);
  expect(misnamed.errors()).toContain("A worker's name consists of letters, digits, - and _");
});

const ci = { ".github/workflows/ci.yml": "name: CI\non: push\n", ".github/workflows/lint.yml": "on: push\n" };

test.each([
  ["a worker", ["init"], ".github/workers"],
  ["the workflow", ["init", "--action"], ".github"],
])("golem init writes %s through no link of the checkout", async (_, words, link) => {
  const world = await golemWorld({ turns: [] });
  const outside = mkdtempSync(join(tmpdir(), "golem-outside-"));
  onTestFinished(() => rmSync(outside, { recursive: true }));
  rmSync(join(world.root, ".github"), { recursive: true });
  mkdirSync(dirname(join(world.root, link)), { recursive: true });
  symlinkSync(outside, join(world.root, link));

  const run = world.give(words);

  expect(await run.code).toBe(2);
  expect(run.errors()).toContain(`was not written: ${link} is a symbolic link. Replace it with a folder.`);
  expect(readdirSync(outside)).toEqual([]);
});

test("golem init --action writes the workflow of the GitHub Action, which golem doctor accepts", async () => {
  const world = await golemWorld({ turns: [], files: ci });

  const run = world.give(["init", "--action", "--model", "openai:gpt-5"]);

  expect(await run.code).toBe(0);
  expect(run.text()).toMatch(/OPENAI_API_KEY[\s\S]*"Allow GitHub Actions to create and approve pull requests"/);
  const text = readFileSync(join(world.root, ".github/workflows/golem-forge.yml"), "utf8");
  const { on, permissions, concurrency, jobs } = parse(text);
  // Events of a repository that jobs can be started by; the others concern Apps, CI outside of Actions, and branches.
  const notTriggers = /^(installation|installation_repositories|repository|check_suite|status|push)(\.|$)/;
  const handled = Object.keys(handlers).filter((event) => !notTriggers.test(event));
  const triggers = Object.entries<{ types?: string[] } | null>(on).flatMap(([event, trigger]) =>
    (trigger?.types ?? []).map((type) => `${event}.${type}`),
  );
  expect(triggers.sort()).toEqual(handled.sort());
  expect(on.workflow_run.workflows).toEqual(["CI", ".github/workflows/lint.yml"]);
  expect(concurrency).toEqual({ group: "golem-forge", queue: "max" });
  // Neither the App's own comments nor code of a fork start a job.
  expect(jobs["golem-forge"].if).toBe(
    "(github.event_name == 'workflow_run' || github.event.sender.type != 'Bot') && (!github.event.pull_request || github.event.pull_request.head.repo.id == github.event.repository.id)",
  );
  const needed = Object.values(endpoints).flatMap((needs) => Object.entries(needs));
  for (const [permission, access] of needed) {
    // Every token may read metadata, and no token of a job the members of an organization.
    if (["metadata", "members"].includes(permission)) continue;
    expect([access, "write"], permission).toContain(permissions[permission.replace("_", "-")]);
  }
  // Text of issues and comments never becomes part of the workflow.
  expect(text.match(/(?<=\$\{\{ )[^}]*(?= \}\})/g)?.sort()).toEqual([
    "github.token",
    "secrets.GOLEM_FORGE_STATE_SECRET",
    "secrets.OPENAI_API_KEY",
  ]);
  expect(await world.give(["init", "--action"]).code).toBe(2);
});

test("golem init --action --uses writes a workflow that needs no npm package, which golem doctor accepts", async () => {
  const world = await golemWorld({ turns: [], files: ci });

  const wrong = world.give(["init", "--action", "--uses", "golem-forge@v1; rm -rf /"]);
  const run = world.give(["init", "--action", "--uses", "acme/golem-forge@v1"]);

  expect(await wrong.code).toBe(2);
  expect(await run.code).toBe(0);
  const { jobs } = parse(readFileSync(join(world.root, ".github/workflows/golem-forge.yml"), "utf8"));
  expect(jobs["golem-forge"].steps).toEqual([{ uses: "acme/golem-forge@v1", env: expect.any(Object) }]);
  const doctor = world.give(["doctor"]);
  await doctor.code;
  expect(doctor.text()).toContain("Workflow: .github/workflows/golem-forge.yml has everything that the Action needs.");
});

test("golem init --action names the address that a compatible model needs", async () => {
  const world = await golemWorld({ turns: [], files: ci });

  const run = world.give(["init", "--action", "--model", "compatible:glm-5"]);

  expect(await run.code).toBe(0);
  expect(run.text()).toMatch(/2\. Replace the example of OPENAI_COMPATIBLE_BASE_URL in the file.*\n\s+3\. Turn on/);
  const text = readFileSync(join(world.root, ".github/workflows/golem-forge.yml"), "utf8");
  expect(text).toContain("OPENAI_COMPATIBLE_BASE_URL: https://models.example.com/v1");
});

test("golem doctor names what the workflow and the settings of the repository lack", async () => {
  const world = await golemWorld({ turns: [], files: ci });
  await world.give(["init", "--action", "--model", "openai:gpt-5"]).code;
  const file = join(world.root, ".github/workflows/golem-forge.yml");
  const text = readFileSync(file, "utf8");
  const answers: Record<string, unknown> = {
    "/repos/octo/shop/actions/permissions/workflow": { can_approve_pull_request_reviews: false },
  };
  const server = createServer(({ url = "" }, response) => {
    response.setHeader("content-type", "application/json");
    response.writeHead(answers[url] ? 200 : 404).end(JSON.stringify(answers[url] ?? {}));
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const doctor = async (change: Record<string, string>) => {
    const run = world.give(["doctor"], { isTTY: false, change });
    return { code: await run.code, text: run.text() };
  };
  const token = { GITHUB_TOKEN: "a token", GITHUB_REPOSITORY: "octo/shop", GITHUB_API_URL: address };

  expect(await doctor({})).toMatchObject({
    code: 0,
    text: expect.stringMatching(/Could not check .*\n.*"Allow GitHub Act/),
  });
  writeFileSync(
    file,
    text.replace('"CI",', "").replace("  queue: max\n", "").replace("contents: write", "contents: read"),
  );
  const broken = await doctor(token);
  answers["/repos/octo/shop/actions/permissions/workflow"] = { can_approve_pull_request_reviews: true };
  answers["/repos/octo/shop/actions/secrets/OPENAI_API_KEY"] = { name: "OPENAI_API_KEY" };
  writeFileSync(file, text);

  expect(broken.code).toBe(1);
  expect(broken.text).toContain("lacks the permission contents: write, queue: max in its concurrency group.");
  expect(broken.text).toContain("Workers are not notified when CI completes.");
  expect(broken.text).toMatch(
    /Jobs may not open pull requests\.\s.*"Allow GitHub Actions to create and approve pull requests"/,
  );
  expect(broken.text).toContain("OPENAI_API_KEY is not set.");
  expect(await doctor(token)).toMatchObject({ code: 0, text: expect.not.stringMatching(/[!✗]/) });
});

test("golem doctor and golem setup do not use an .env that came with the repository", async () => {
  const requests: (string | undefined)[] = [];
  const server = createServer(({ url }, response) => {
    requests.push(url);
    response.writeHead(404).end();
  }).listen(0, "127.0.0.1");
  onTestFinished(() => void server.close());
  await once(server, "listening");
  const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const variables = `GITHUB_API_URL=${address}\nGITHUB_TOKEN=x\nGITHUB_REPOSITORY=octo/shop\nDATABASE_URL=x.db\n`;
  const world = await golemWorld({ turns: [], files: { ...ci, ".env": variables } });
  await world.give(["init", "--action"]).code;

  const doctor = world.give(["doctor"], { isTTY: false });
  const setup = world.give(["setup"]);
  const audit = world.give(["audit", "verify"]);

  expect([await doctor.code, await setup.code, await audit.code]).toEqual([0, 2, 2]);
  expect(doctor.errors()).toContain(".env is not read, because it is committed to this repository.");
  expect(requests).toEqual([]);
  expect(setup.errors()).toContain("secrets must not be written to it. Use --env-file.");
  expect(audit.errors()).not.toContain("x.db");
  execFileSync("git", ["mv", ".env", ".ENV"], { cwd: world.root });
  writeFileSync(join(world.root, ".env"), variables);
  await world.give(["doctor"], { isTTY: false }).code;
  expect(requests).toEqual([]);
  // This folder has another index, in which .env is not committed.
  const nested = join(world.root, "nested");
  execFileSync("git", ["init", "-q", "--bare", nested]);
  writeFileSync(join(nested, ".env"), variables);
  execFileSync("git", ["add", "nested/.env"], { cwd: world.root });
  const inside = world.give(["doctor"], { isTTY: false, cwd: nested });
  expect(await inside.code).toBe(2);
  expect(inside.errors()).toContain("Could not check whether .env is committed to this repository: git ls-files: ");
  writeFileSync(join(world.root, ".git", "index"), "damaged");
  const unknown = world.give(["doctor"], { isTTY: false });
  expect(await unknown.code).toBe(2);
  expect(unknown.errors()).toContain("Could not check whether .env is committed to this repository: git ls-files: ");
  expect(requests).toEqual([]);
});

test("golem add shows what a worker may do, asks, and copies it", async () => {
  const front =
    "toolsets:\n  filesystem: {}\n  shell: { default: { approval: preApproved } }\nsandbox:\n  zones: [{ name: docs, approval: { write: preApproved } }]\nsetup: [npm ci]\non:\n  issues: { types: [opened] }\n  schedule: [{ cron: 0 6 * * 1, issue: 1, task: Look. }]\n";
  const github = await PlaygroundWorld.start();
  onTestFinished(() => github.close());
  await commitTo(github.github, "main", worker("scribe", front));
  const world = await golemWorld({ turns: [] });
  const change = { GITHUB_API_URL: github.github.apiUrl, GITHUB_TOKEN: await github.token() };

  const refused = world.give(["add", `${shop.owner}/shop/scribe`], { change });
  refused.type("y");
  await refused.sees("Write .github/workers/scribe.worker? [y/N]");
  expect(refused.text()).toContain("toolsets     filesystem, shell\n");
  expect(refused.text()).toContain("does not ask to write files outside all zones, to write docs\n");
  expect(refused.text()).toContain("pre-approves shell.default.approval\n");
  expect(refused.text()).toContain("starts on    issues opened; the schedule 0 6 * * 1: Look.\n");
  expect(refused.text()).toContain("sets up with npm ci\n");
  expect(refused.text().match(/^ {2}brings code .*$/gm)).toEqual(["  brings code  none"]);
  refused.type("yes please");
  expect(await refused.code).toBe(1);

  const added = world.give(["add", `${shop.owner}/shop/scribe`], { change });
  await added.sees("[y/N]");
  added.type("y");
  expect(await added.code).toBe(0);
  expect(world.read(".github/workers/scribe.worker")).toBe(worker("scribe", front)[".github/workers/scribe.worker"]);

  const missing = world.give(["add", `${shop.owner}/shop/nobody`], { change });
  expect(await missing.code).toBe(2);
  expect(missing.errors()).toContain("has no file .github/workers/nobody.worker that you can read.");
  const offline = world.give(["add", `${shop.owner}/shop/scribe`], {
    change: { GITHUB_API_URL: "http://127.0.0.1:2" },
  });
  expect(await offline.code).toBe(2);
  expect(offline.errors()).toMatch(
    /^golem: http:\/\/127\.0\.0\.1:2 cannot be reached \(connect ECONNREFUSED 127\.0\.0\.1:2\)\.\s+Check GITHUB_API_URL and your\s+network connection\.\n$/,
  );
  const unasked = world.give(["add", `${shop.owner}/shop/scribe`], { change, isTTY: false });
  expect(await unasked.code).toBe(2);
  expect(unasked.errors()).toContain("--yes");
});

test("golem help shows the options of one command, and every command is in the README", async () => {
  const world = await golemWorld({ turns: [] });
  const readme = readFileSync("README.md", "utf8");

  const help = world.give(["help", "doctor"]);
  expect(await help.code).toBe(0);
  expect(help.text()).toContain("--no-model-call");
  const other = world.give(["doctor", "--help"]);
  await other.code;
  expect(other.text()).toBe(help.text());
  const unknown = world.give(["help", "docter"]);
  expect(await unknown.code).toBe(2);
  expect(unknown.errors()).toContain("Did you mean golem doctor?");
  for (const { usage } of Object.values(commandHelp)) expect(readme).toContain(`| \`golem ${usage}\` |`);
});

test("golem help fits 80 columns where it is piped", async () => {
  const world = await golemWorld({ turns: [] });

  const help = world.give(["help"], { isTTY: false });
  await help.code;

  expect(
    help
      .text()
      .split("\n")
      .filter((line) => line.length > 80),
  ).toEqual([]);
});

test.each(["bash", "zsh", "fish"])("golem completion prints a script for %s that knows all commands", async (shell) => {
  const world = await golemWorld({ turns: [] });

  const run = world.give(["completion", shell]);
  expect(await run.code).toBe(0);
  for (const name of Object.keys(commandHelp)) expect(run.text()).toContain(name);
});

test("the completion script of bash completes commands, workers and options", async () => {
  // An invalid file is listed with its name, which bash would expand as a list of words.
  const world = await golemWorld({ turns: [], files: { ".github/workers/$({touch,ran}).worker": "" } });
  const [script, workers] = [world.give(["completion", "bash"]), world.give(["workers"])];
  await Promise.all([script.code, workers.code]);
  expect(workers.output()).toContain("$({touch,ran})  cannot be used");
  const complete = (...words: string[]) =>
    execFileSync(
      "bash",
      [
        "-c",
        `golem() { cat <<'END'\n${workers.output()}END\n}\n${script.output()}
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _golem; echo "\${COMPREPLY[@]}"`,
        "bash",
        ...words,
      ],
      { encoding: "utf8", cwd: world.root },
    );

  expect([complete("golem", "do"), complete("golem", "run", "fix"), complete("golem", "resume", "--q")]).toEqual([
    "doctor\n",
    "fixer\n",
    "--quiet\n",
  ]);
  expect(world.exists("ran")).toBe(false);
  expect(complete("golem", "resume", "--dry")).toBe("\n");
});
