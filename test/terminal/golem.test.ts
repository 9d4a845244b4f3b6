import { existsSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { afterEach, expect, test, vi } from "vitest";
import { aWorkerFile, giveGolem, golemWorld, write } from "../support/golem-world.ts";
import { terminalScreen } from "../support/terminal-screen.ts";

const done = { text: "It is done." };

afterEach(() => vi.unstubAllEnvs());

test.each([60, 100])("a terminal of %i columns shows what the documentation shows", async (columns) => {
  vi.stubEnv("NO_COLOR", "");
  const source = "export const pageCount = (total, perPage) => Math.floor(total / perPage) + 1;\n";
  const fixed = "export const pageCount = (total, perPage) => Math.max(1, Math.ceil(total / perPage));\n";
  const answer =
    "## Fixed\n\nThe last page was empty when the items filled all pages exactly:\n\n- `pageCount` now **rounds up**\n- an empty list still has one page";
  const world = await golemWorld({
    files: { "src/paginate.js": source },
    turns: [
      { text: "I look at the code first.", calls: [{ name: "read_file", args: { path: "src/paginate.js" } }] },
      write("src/paginate.js", fixed),
      { text: answer },
    ],
  });

  const run = world.give(["run", "careful", "the last page is empty"], { columns });
  await run.sees("Approve? ");
  run.type("y");
  await run.sees("discard");
  run.type("a");
  await run.code;

  const screen = terminalScreen(run.text(), columns)
    .replace(/(main at\s+)[0-9a-f]{7}/, "$11a2b3c4")
    .replace(/[\d,]+ tokens/, "12,345 tokens")
    .replace(/Applied to\s+\S+/, "Applied to ~/paginate.");
  await expect(screen).toMatchFileSnapshot(`../../docs/images/terminal-${columns}.ansi`);
});

test("a person approves a change, sees it, and has it applied", async () => {
  const world = await golemWorld({ turns: [write(), done] });

  const run = world.give(["run", "careful", "please"], { cwd: world.at(".github") });
  await run.sees("Approve?");
  expect(world.read("a.txt")).toBe("a\n");
  run.type("y");
  await run.sees("[a]pply");
  expect(world.status()).toBe("");
  run.type("d");
  await run.sees(/\[a\]pply.*\+worker.*\[a\]pply/s);
  run.type("a");

  expect(await run.code).toBe(0);
  expect(world.read("a.txt")).toBe("worker\n");
  expect(world.kept()).toEqual([]);
  expect(run.text()).toMatch(/^careful \(of this checkout\) · compatible:scripted · main at [0-9a-f]{7} · 2 files\n/);
  expect(run.text()).toContain("Running locally, so these toolsets are off: github.\n");
  expect(world.offered()).toEqual(expect.arrayContaining(["write_file", "git_status", "git_log", "ask_user"]));
  expect(world.offered().filter((name) => /issue|pull|push|merge/.test(name))).toEqual([]);
  expect(world.sent()).toContain("The person is in the folder .github.");
});

test("the changes that a person looks at before they are applied are shown to the end of each line", async () => {
  const world = await golemWorld({ turns: [write("a.txt", `${"x".repeat(5_000)} hidden\n`), done] });

  const run = world.give(["run", "careful", "please"]);
  await run.sees("Approve?");
  run.type("y");
  await run.sees("[a]pply");
  run.type("d");
  await run.sees(/\[a\]pply.*\[a\]pply/s);
  run.type("a");

  expect(await run.code).toBe(0);
  expect(run.text().split("[a]pply")[1]).toContain("x hidden");
});

test("a person changes the arguments of a call, sees them, and approves", async () => {
  const world = await golemWorld({ turns: [write(), done] });

  const run = world.give(["run", "careful", "please", "--apply"]);
  await run.sees("Approve?");
  run.type("edit");
  await run.sees("Arguments as a JSON object:");
  run.type("not JSON");
  await run.sees(/nothing was changed.*Approve\?/s);
  run.type("e");
  await run.sees(/Arguments as a JSON object:.*Arguments as a JSON object:/s);
  run.type('{"path":"a.txt","content":"edited\\u202e\\n"}');
  await run.sees(/Changed arguments.*content:.*edited⟨U\+202E⟩.*Approve the call with these\?/s);
  run.type("yes");

  expect(await run.code).toBe(0);
  expect(world.read("a.txt")).toBe("edited\u202e\n");
});

test("a sentence that begins with edit is a reason to deny", async () => {
  const world = await golemWorld({ turns: [write(), done] });

  const run = world.give(["run", "careful", "please"]);
  await run.sees("Approve?");
  run.type("edit the other file");

  expect(await run.code).toBe(0);
  expect(world.sent()).toContain("edit the other file");
  expect(world.read("a.txt")).toBe("a\n");
});

test("a denial with a reason reaches the worker, which continues", async () => {
  const world = await golemWorld({ turns: [write(), done] });

  const run = world.give(["run", "careful", "please"]);
  await run.sees("Approve?");
  run.type("d wrong file");

  expect(await run.code).toBe(0);
  expect(world.sent()).toContain("wrong file");
  expect(run.text()).toMatch(/It is done\.\n1 tool call, [\d,]+ tokens\nNothing was changed\.\n$/);
});

test("Ctrl+C interrupts the worker, and a message continues the conversation", async () => {
  const world = await golemWorld({ turns: [write(), { hang: true, text: "Let me" }, done] });

  const run = world.give(["run", "careful", "please", "--yes", "write_file"]);
  await run.sees("Let me");
  run.interrupt();
  await run.sees("Enter a message to continue");
  run.type("go on");

  // The interrupted answer is not a turn of the model.
  await expect.poll(() => world.model.requests.length).toBe(3);
  expect(world.sent()).toContain("go on");
  run.interrupt();
  await run.sees(/Enter a message.*Enter a message/s);
  run.type("");
  await run.sees("[a]pply");
  run.type("x");
  await run.sees("Discard all changes?");
  run.type("y");

  expect(await run.code).toBe(130);
  expect(world.kept()).toEqual([]);
  expect(world.read("a.txt")).toBe("a\n");
});

test("Ctrl+C twice ends the run, and keeps the changes in a patch file that git applies", async () => {
  const world = await golemWorld({ turns: [write(), { hang: true, text: "Let me" }] });

  const run = world.give(["run", "careful", "please", "--yes", "write_file"]);
  await run.sees("Let me");
  run.interrupt();
  await run.sees("Enter a message to continue");
  run.interrupt();

  expect(await run.code).toBe(130);
  const [, path = ""] = /git apply (\S+)\n$/.exec(run.text()) ?? [];
  world.git("apply", path);
  expect(world.read("a.txt")).toBe("worker\n");
});

test("a second Ctrl+C before the worker has stopped ends the process immediately", async () => {
  const world = await golemWorld({ turns: [write(), { hang: true, text: "Let me" }] });

  const run = world.give(["run", "careful", "please", "--yes", "write_file"]);
  await run.sees("Let me");
  run.interrupt();
  run.interrupt();

  expect(await run.left).toBe(130);
  expect(run.text()).toMatch(/The changes are kept: git apply \S+\n/);
  expect(world.kept()).toHaveLength(1);
  await run.sees("Enter a message");
  run.interrupt();
  await run.code;
});

test("Ctrl+C at the prompt for the task ends golem, and so does /exit while the worker runs", async () => {
  const world = await golemWorld({ turns: [{ hang: true, text: "Let me" }] });

  const unasked = world.give(["run", "careful"]);
  await unasked.sees("What should careful do?");
  unasked.interrupt();
  expect(await unasked.code).toBe(130);
  const left = world.give(["run", "careful", "please"]);
  await left.sees("Let me");
  left.type("/exit");

  expect(await left.code).toBe(130);
  expect(left.text()).not.toContain("Enter a message");
});

test("no sentence, and nothing typed before the question, decides about the changes", async () => {
  const world = await golemWorld({ turns: [write(), done] });

  const run = world.give(["run", "careful", "please", "--yes", "all"], { columns: 100 });
  run.input.write("a");
  await run.sees("[a]pply");
  run.type("");
  await run.sees(/Choose one of these\..*\[a\]pply/s);
  for (const sentence of [
    "A nice idea, but do not apply it",
    "branch off later",
    "x marks the spot",
    "patch it again",
  ]) {
    run.type(sentence);
    await run.sees(new RegExp(`${sentence} is not one of these\\..*\\[a\\]pply`, "s"));
  }
  run.type("p ../it.patch");

  expect(await run.code).toBe(0);
  expect(world.status()).toBe("");
  expect(world.git("branch", "--list", "golem/*")).toBe("");
});

test("a conflicting change on disk stops an apply, and the person chooses again", async () => {
  const world = await golemWorld({ turns: [write(), done] });

  const run = world.give(["run", "careful", "please", "--yes", "all"]);
  await run.sees("[a]pply");
  world.write("a.txt", "person\n");
  run.type("apply");
  await run.sees(/a\.txt was changed on disk in the meantime, in the same lines.*\[a\]pply/s);
  run.type("p no-such-folder/it.patch");
  await run.sees(/✗ The folder \S+no-such-folder does not exist: create it, or choose another file\..*\[a\]pply/s);
  run.type("p ../it.patch");

  expect(await run.code).toBe(0);
  expect(world.read("a.txt")).toBe("person\n");
  expect(run.text()).toContain(`Written to ${join(world.parent, "it.patch")}\n`);
});

test("--branch commits the changes on a new branch and does not change the working tree", async () => {
  const world = await golemWorld({ turns: [write(), done] });

  const run = world.give(["run", "careful", "tidy a.txt", "--yes", "all", "--branch"]);

  expect(await run.code).toBe(0);
  const [, branch = ""] = /git switch (golem\/\w+)/.exec(run.text()) ?? [];
  expect(world.git("log", "--format=%s", `main..${branch}`)).toBe("careful: tidy a.txt\n");
  expect(world.git("show", `${branch}:a.txt`)).toBe("worker\n");
  expect(world.status()).toBe("");
});

test("files that the worker did not stage are not part of the commit and kept in a patch file", async () => {
  const stage = { calls: [{ name: "git_stage", args: { paths: ["a.txt"] } }] };
  const world = await golemWorld({ turns: [write(), write("b.txt"), stage, done] });

  const run = world.give(["run", "careful", "please", "--yes", "all", "--branch"]);

  expect(await run.code).toBe(0);
  const [, branch = ""] = /git switch (golem\/\w+)/.exec(run.text()) ?? [];
  expect(world.git("diff", "--name-only", "main", branch)).toBe("a.txt\n");
  expect(run.text()).toContain("The worker staged only these; 1 more file is in the patch ");
  expect(world.kept()).toEqual([expect.stringContaining("b/b.txt")]);
});

test("git_uncommitted shows a reviewer the person's uncommitted changes", async () => {
  const world = await golemWorld({ turns: [{ calls: [{ name: "git_uncommitted", args: {} }] }, done] });
  world.write("a.txt", "changed by hand\n");
  world.write("new.txt", "new\n");

  const run = world.give(["run", "careful", "review what I have not committed"]);

  expect(await run.code).toBe(0);
  expect(world.sent()).toContain("+changed by hand");
  expect(world.sent()).toContain("new.txt");
});

test("git_uncommitted starts no filter that the settings of the checkout name", async () => {
  const world = await golemWorld({ turns: [{ calls: [{ name: "git_uncommitted", args: {} }] }, done] });
  world.write(".gitattributes", "*.txt filter=own\n");
  world.git("config", "filter.own.clean", `touch ${join(world.root, "started")}; cat`);
  world.write("a.txt", "changed by hand\n");

  expect(await world.give(["run", "careful", "review what I have not committed"]).code).toBe(0);

  expect(world.sent()).toContain("+changed by hand");
  expect(existsSync(join(world.root, "started"))).toBe(false);
});

test("the repository's settings apply: its instructions for every worker, and its limits", async () => {
  const settings = "limits: { steps: 1 }\ninstructions: Tests are run with make.\n";
  const world = await golemWorld({ turns: [write(), done], files: { ".github/golem-forge.yml": settings } });

  const run = world.give(["run", "careful", "please", "--yes", "all"], { isTTY: false });

  expect(await run.code).toBe(1);
  expect(world.sent()).toContain("Tests are run with make.");
  world.write(".github/golem-forge.yml", "instructoins: x\n");
  const broken = world.give(["run", "careful", "please"]);
  expect(await broken.code).toBe(2);
  expect(broken.errors()).toContain("golem: .github/golem-forge.yml is not valid: ");
});

test("settings and workers that are links are refused, not left out", async () => {
  const world = await golemWorld({ turns: [done], files: { "settings.yml": "limits: { steps: 1 }\n" } });
  symlinkSync("../settings.yml", join(world.root, ".github/golem-forge.yml"));

  const run = world.give(["run", "careful", "please"]);
  const check = world.give(["check", ".github/golem-forge.yml"]);

  expect([await run.code, await check.code]).toEqual([2, 1]);
  expect(run.errors()).toContain("golem: .github/golem-forge.yml cannot be read: it is a symbolic link.");
  rmSync(join(world.root, ".github/golem-forge.yml"));
  symlinkSync("../../settings.yml", join(world.root, ".github/workers/fixer.worker"));
  const worker = world.give(["run", "fixer", "please"]);
  expect(await worker.code).toBe(2);
  expect(worker.errors()).toContain("fixer.worker cannot be read: it is a symbolic link.");
});

test("a worker in mode chat answers one message after the other, until an empty one", async () => {
  const worker = aWorkerFile.replace("toolsets:", "mode: chat\ntoolsets:");
  const files = { ".github/workers/careful.worker": worker };
  const world = await golemWorld({ turns: [{ text: "The first." }, { text: "The second." }], files });

  const run = world.give(["run", "careful", "one"]);
  await run.sees("The first.\n> ");
  run.type("two");
  await run.sees("The second.\n> ");
  run.type("");

  expect(await run.code).toBe(0);
  expect(world.sent()).toMatch(/one.*The first\..*two/);
});

test("without a terminal, calls that need approval are denied and ask_user is off", async () => {
  const world = await golemWorld({ turns: [write(), done] });

  const run = world.give(["run", "careful", "please"], { isTTY: false });

  expect(await run.code).toBe(0);
  expect(run.text()).toContain(
    "write_file was denied: there is no terminal to ask for approval, and --yes does not name it.",
  );
  expect(world.offered()).not.toContain("ask_user");
  expect(world.status()).toBe("");
});

test("without a terminal, changes are kept in a patch file unless --apply is given", async () => {
  const world = await golemWorld({ turns: [write(), done] });

  const kept = world.give(["run", "careful", "please", "--yes", "write_file"], { isTTY: false });
  expect(await kept.code).toBe(0);
  expect(kept.text()).toMatch(/The changes are kept: git apply \S+\n$/);
  expect(world.kept()).toEqual([expect.stringContaining("+worker")]);
  const applied = world.give(["run", "careful", "please", "--yes", "write_file", "--apply"], { isTTY: false });

  expect(await applied.code).toBe(0);
  expect(world.read("a.txt")).toBe("worker\n");
});

test("the task can be typed when it is not an argument", async () => {
  const world = await golemWorld({ turns: [done] });
  const run = world.give(["run", "careful"], { isTTY: false });
  expect(await run.code).toBe(2);
  expect(run.errors()).toBe('golem: Say what careful should do, as in golem run careful "…".\n');

  const asked = world.give(["run", "careful"]);
  await asked.sees("What should careful do?");
  asked.type("the thing");

  expect(await asked.code).toBe(0);
  expect(world.sent()).toContain("the thing");
});

test("a worker that reached a limit exits with 1, and --apply does not apply its changes", async () => {
  const limited = aWorkerFile.replace("toolsets:", "limits: { steps: 2 }\ntoolsets:");
  const world = await golemWorld({
    turns: [write(), write("b.txt")],
    files: { ".github/workers/careful.worker": limited },
  });

  const run = world.give(["run", "careful", "please", "--yes", "all", "--apply"], { isTTY: false });

  expect(await run.code).toBe(1);
  expect(run.text()).toContain("The worker did not finish, so --apply was not done.");
  expect(world.status()).toBe("");
  expect(world.kept()).toHaveLength(1);
});

test("--json prints one event per line, and the result as the last one", async () => {
  const world = await golemWorld({ turns: [write(), done] });

  const run = world.give(["run", "careful", "please", "--json", "--yes", "all", "--apply"]);

  expect(await run.code).toBe(0);
  const events = run
    .output()
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(events.map(({ type }) => type)).toEqual([
    "execution_start",
    "message_send",
    "response_receive",
    "approval_request",
    "approval_decision",
    "tool_call_start",
    "tool_call_end",
    "message_send",
    "response_receive",
    "execution_end",
    "result",
  ]);
  expect(events.at(-1)).toMatchObject({
    code: 0,
    response: "It is done.",
    toolCallCount: 1,
    changes: { kind: "applied", files: 1 },
  });
  // The price of this model is unknown.
  expect(events.at(-1)).not.toHaveProperty("cost");
  expect(world.read("a.txt")).toBe("worker\n");
});

test("--dry-run calls no model, loads no code, and lists the tools of the worker", async () => {
  const custom = "  ask: {}\n  custom: { module: ./tools.ts, tools: [count] }";
  const world = await golemWorld({
    turns: [done],
    files: { ".github/workers/careful.worker": aWorkerFile.replace("  ask: {}", custom) },
  });

  const run = world.give(["run", "careful", "--dry-run"]);

  expect(await run.code).toBe(0);
  expect(run.text()).toMatch(/Tools:\n {2}read_file\n {2}write_file +may ask\n/);
  expect(run.text()).toContain("Its toolset custom is left out: its code is loaded only with --trust-tools.\n");
  expect(world.model.requests).toEqual([]);
});

test.each([
  ["no model", {}, " · no model · "],
  ["a model whose key is missing", { GOLEM_FORGE_MODEL: "anthropic:claude-sonnet-4-5" }, "anthropic:claude-sonnet-4-5"],
])("--dry-run lists the tools with %s configured", async (_, given, shown) => {
  const world = await golemWorld({ turns: [done] });
  const change = { GOLEM_FORGE_MODEL: undefined, ANTHROPIC_API_KEY: undefined, ...given };

  const run = world.give(["run", "careful", "--dry-run"], { change });

  expect(await run.code).toBe(0);
  expect(run.text()).toContain(shown);
  expect(run.text()).toMatch(/Tools:\n {2}read_file\n/);
});

test("code that comes with the checkout is not loaded until the person trusts it", async () => {
  const variable = ["$", "{env:GITHUB_TOKEN}"].join("");
  const worker = aWorkerFile.replace(
    "  ask: {}",
    '  custom: { module: ./tools.ts, tools: [count], approval: { default: preApproved } }\n  mcp: { servers: { it: { command: touch, args: [ran, "a b\\n  c"], env: { NODE_OPTIONS: "--import=./x.js" } }, far: { url: "https://mcp.example/", headers: { authorization: "Bearer TOKEN" } } } }\n  web: { others: preApproved }'.replace(
      "TOKEN",
      variable,
    ),
  );
  const tools =
    'import { z } from "zod";\n/** Counts. */\nexport const count = () => "counted";\nexport const countSchema = z.object({});\n';
  const world = await golemWorld({
    turns: [done],
    files: { ".github/workers/careful.worker": worker, ".github/workers/tools.ts": tools },
  });

  const refused = world.give(["run", "careful", "please"]);
  await refused.sees("Do you trust it? [y/N]");
  refused.type("");
  expect(await refused.code).toBe(2);
  const script = world.give(["run", "careful", "please"], { isTTY: false });

  expect(await script.code).toBe(2);
  expect(refused.text()).toContain(
    '  .github/workers/tools.ts, in a process without files, network and environment\n  the MCP server it: NODE_OPTIONS=--import=./x.js touch ran "a b\\n  c", a program with access to everything you can access\n  the MCP server far at https://mcp.example/, over the network, with the headers authorization="Bearer TOKEN"\n  pages of any host, fetched without asking\n'.replace(
      "TOKEN",
      variable,
    ),
  );
  expect(script.errors()).toContain("add --trust-tools.");
  expect(world.model.requests).toEqual([]);
  expect(world.exists("ran")).toBe(false);
});

test("git is not started in a folder of the checkout that looks like a repository, whose settings name programs", async () => {
  const world = await golemWorld({
    turns: [done],
    files: {
      "tool/main.worker": aWorkerFile,
      "tool/golem-forge.config.yaml": "sandbox: { root: git/files }\n",
      "tool/git/files/a.txt": "a\n",
      "tool/git/HEAD": "ref: refs/heads/main\n",
      "tool/git/refs/heads/main": `${"1".repeat(40)}\n`,
      "tool/git/objects/info/packs": "",
    },
  });
  // Git asks this remote for the commit of the branch, which is missing.
  const remote = `[remote "origin"]\n\tpromisor = true\n\turl = "ext::touch ${world.at("ran")}"\n`;
  world.write(
    "tool/git/config",
    `[core]\n\trepositoryformatversion = 1\n\tworktree = files\n[extensions]\n\tpartialClone = origin\n[protocol "ext"]\n\tallow = always\n${remote}`,
  );

  const run = world.give(["run", "./tool", "--dry-run"]);

  expect(await run.code).toBe(0);
  expect(world.exists("ran")).toBe(false);
  expect(run.text()).toContain("careful · compatible:scripted · files · 1 file\n");
});

test.each(["../made", "out/made"])("a program of the checkout creates no folder outside of it: %s", async (root) => {
  const world = await golemWorld({
    turns: [done],
    files: { "main.worker": aWorkerFile, "golem-forge.config.yaml": `sandbox: { root: ${root} }\n` },
  });
  symlinkSync(world.parent, world.at("out"));

  const [log, run] = [world.give(["log"]), world.give(["run", "careful", "--dry-run"])];

  expect([await log.code, await run.code]).toEqual([2, 2]);
  expect(run.errors()).toContain("which the program names as sandbox.root, does not exist.");
  expect(existsSync(join(world.parent, "made"))).toBe(false);
});

test("a key typed before the question does not trust the code of a checkout", async () => {
  const files = {
    ".github/workers/careful.worker": aWorkerFile.replace("  ask: {}", "  web: { others: preApproved }"),
  };
  const world = await golemWorld({ turns: [done], files });

  const run = world.give(["run", "careful", "please"], { columns: 100 });
  run.input.write("y");
  await run.sees("Do you trust it? [y/N]");
  run.type("");

  expect(await run.code).toBe(2);
  expect(world.model.requests).toEqual([]);
});

test("a tool of the checkout works once it is trusted", async () => {
  const custom = "  custom: { module: ./tools.ts, tools: [count], approval: { default: preApproved } }";
  const files = {
    ".github/workers/careful.worker": aWorkerFile.replace("  ask: {}", custom),
    ".github/workers/tools.ts":
      'import { z } from "zod";\n/** Counts. */\nexport const count = () => "forty-two";\nexport const countSchema = z.object({});\n',
  };
  const world = await golemWorld({ turns: [{ calls: [{ name: "count", args: {} }] }, done], files });

  const run = world.give(["run", "careful", "please"]);
  await run.sees("Do you trust it? [y/N]");
  run.type("y");

  expect(await run.code).toBe(0);
  expect(world.sent()).toContain("forty-two");
});

test("golem workers lists the workers of the checkout and those that ship", async () => {
  const world = await golemWorld({ turns: [done] });

  const here = world.give(["workers"]);
  const narrow = world.give(["workers"], { columns: 50 });
  const nowhere = world.give(["workers"], { cwd: world.parent });

  expect([await here.code, await narrow.code, await nowhere.code]).toEqual([0, 0, 0]);
  expect(here.text()).toMatch(/^careful +Asks before it writes\. \(of this checkout\)\n/);
  expect(here.text()).toMatch(/^explorer +Finds /m);
  expect(nowhere.text()).toMatch(/^explorer +Finds /m);
  const shown = stripVTControlCharacters(narrow.text());
  expect(shown).toMatch(/^explorer {4}Finds .*\n {12}\S/m);
  expect(shown.split("\n").filter((line) => line.length > 50)).toEqual([]);
});

test.each<[string[], string]>([
  [["rnu", "fixer"], 'Unknown command "rnu". Did you mean golem run?'],
  [["--modle", "x"], "Unknown option --modle before a command."],
  [["run", "fixer", "x", "--modle", "y"], "Unknown option --modle. Did you mean --model? --help lists the options."],
  [["run", "fixer", "x", "--model"], "--model needs a value."],
  [["run", "fixer", "x", "--json=yes"], '--json takes no value, but was given "yes".'],
  [["run", "fixer", "x", "--apply", "--branch"], "Choose one of --apply and --branch."],
  [["run"], "Name a worker"],
  [["workers", "all"], "golem workers takes no arguments"],
  [["run", "fixer", "x", "--no-color"], "is not in a git repository"],
])("golem %j prints one sentence and starts nothing", async (words, sentence) => {
  const run = giveGolem(words, { cwd: tmpdir(), env: {} });

  expect(await run.code).toBe(2);
  expect(run.errors()).toMatch(/^golem: .*\n$/);
  expect(run.errors()).toContain(sentence);
});

test("an unknown worker, tool or model is one sentence with the closest match", async () => {
  const world = await golemWorld({ turns: [done] });

  const runs = [
    world.give(["run", "carful", "x"]),
    world.give(["run", "careful", "x", "--yes", "writefile"]),
    world.give(["run", "careful", "x", "--model", "compatibel:x"]),
  ];

  expect(await Promise.all(runs.map(({ code }) => code))).toEqual([2, 2, 2]);
  expect(runs[0]?.errors()).toContain('Worker "carful" not found. Did you mean careful?');
  expect(runs[1]?.errors()).toContain("--yes writefile: careful has no such tool. Did you mean write_file?");
  expect(runs[2]?.errors()).toContain("compatible");
  expect(world.model.requests).toEqual([]);
});

test("without a model, and outside a checkout, the error says what to do", async () => {
  const world = await golemWorld({ turns: [done] });

  const modelless = world.give(["run", "careful", "x"], { change: { GOLEM_FORGE_MODEL: undefined } });
  const outside = world.give(["run", "fixer", "x"], { cwd: world.parent });

  expect([await modelless.code, await outside.code]).toEqual([2, 2]);
  expect(modelless.errors()).toContain("set GOLEM_FORGE_MODEL and its key");
  expect(modelless.errors()).toContain("npm run demo");
  expect(outside.errors()).toContain("is not in a git repository");
});

test("standard output is the answer alone where a program reads it", async () => {
  const world = await golemWorld({
    turns: [write(), done],
    failure: { status: 503, message: "Slow down", retryAfter: "0.01" },
  });

  const run = world.give(["run", "careful", "please", "--yes", "all"]);
  await run.sees("[a]pply");
  run.type("a");

  expect(await run.code).toBe(0);
  expect(run.output()).toBe("It is done.\n");
  expect(run.errors()).toMatch(/⚠ The model server .* Trying again in 1 s\.\n/);
  expect(run.errors()).toContain("● write_file");
  expect(run.errors()).toContain("[a]pply");
});

test("--quiet shows the answer and nothing of the steps", async () => {
  const world = await golemWorld({ turns: [write(), done] });

  const run = world.give(["run", "careful", "please", "--yes", "all", "--apply", "--quiet"], { isTTY: false });

  expect(await run.code).toBe(0);
  expect(run.output()).toBe("It is done.\n");
  expect(run.errors()).not.toMatch(/write_file\(|tokens|compatible:scripted|It is done/);
});

test("text that is piped in is added to the task", async () => {
  const world = await golemWorld({ turns: [done] });

  const run = world.give(["run", "careful", "Explain this error"], { isTTY: false, piped: "TypeError: x\n" });

  expect(await run.code).toBe(0);
  expect(world.sent()).toContain("Explain this error\\n\\nTypeError: x");
});

test("--attach gives the worker files, of the types and sizes that it takes", async () => {
  const worker = aWorkerFile.replace("toolsets:", "attachment_policy: { denied_suffixes: [log] }\ntoolsets:");
  const files = { "note.md": "Use tabs.", "a.log": "x", "a.bin": "\0\0", ".github/workers/careful.worker": worker };
  const world = await golemWorld({ turns: [done], files });

  expect(await world.give(["run", "careful", "please", "--attach", "note.md", "--attach=a.txt"]).code).toBe(0);
  expect(world.sent()).toContain("The attached file note.md:\\nUse tabs.");
  expect(world.sent()).toContain("The attached file a.txt:");

  for (const [path, message] of [
    ["a.log", "files ending in .log are not allowed"],
    ["a.bin", "a.bin cannot be attached: it is not an image"],
    ["none.md", "none.md cannot be attached: there is no such file"],
  ] as const) {
    const refused = world.give(["run", "careful", "please", "--attach", path]);
    expect(await refused.code).toBe(2);
    expect(refused.text()).toContain(message);
  }
});
