import { expect, test } from "vitest";
import type { PushRequest } from "#sandbox/sandbox.ts";
import { createSanitizer } from "#text/sanitize.ts";
import { pullRequestToolset } from "#toolsets/pull-request/pull-request-toolset.ts";
import { type MemoryGitHubOptions, memoryGitHub } from "../../support/memory-github.ts";
import { runSpec, toolsetWorld, type WorldOptions } from "../../support/toolset-world.ts";

const secret = "hunter2-hunter2-hunter2";

async function world(options: WorldOptions & { hub?: MemoryGitHubOptions } = {}) {
  const pushes: PushRequest[] = [];
  const hub = memoryGitHub(options.hub);
  const opened = await toolsetWorld(pullRequestToolset, {
    files: { "src/add.ts": "a - b\n" },
    push: async (request) => {
      pushes.push(request);
      return { commit: String(pushes.length).repeat(40), moved: true };
    },
    ...options,
    services: { github: hub.github, sanitize: createSanitizer([secret]), ...options.services },
  });
  return { ...opened, ...hub, pushes };
}

test("the run's changes are pushed to its own branch and proposed as a draft", async () => {
  const { call, sandbox, pushes, writes } = await world();
  await sandbox.write("src/add.ts", "a + b\n");

  const { llmContent, value } = await call("open_pull_request", { title: "Add, not subtract", body: "It subtracted." });

  expect(pushes).toMatchObject([
    {
      branch: "golem/7-run-1",
      message: "Add, not subtract\n\nIt subtracted.",
      author: { name: "golem-forge[bot]", email: "golem-forge[bot]@users.noreply.github.com" },
    },
  ]);
  expect(pushes[0]).not.toHaveProperty("expected");
  expect(writes).toEqual([
    {
      method: "createPullRequest",
      args: {
        head: "golem/7-run-1",
        base: "main",
        title: "Add, not subtract",
        body: "It subtracted.\n\n---\nFor #7. Proposed by the worker `fixer`.",
        draft: true,
      },
    },
  ]);
  expect(llmContent).toContain("Opened draft pull request #100: Add, not subtract");
  expect(value).toMatchObject({ kind: "pull_request", data: { number: 100, pushed: { commit: "1".repeat(40) } } });
});

test("the issue is closed by the pull request only when asked for, and only the run's own", async () => {
  const { call, sandbox, writes } = await world();
  await sandbox.write("src/add.ts", "a + b\n");

  await call("open_pull_request", { title: "Add", body: "Fixes #12 and @bob knows.", closes_issue: true });

  const body = writes.map(({ args }) => (args as { body: string }).body).join();
  expect(body).toContain("Closes #7.");
  expect(body).not.toContain("#12");
  expect(body).not.toContain("@bob");
});

test("no secret leaves in title, body or commit message", async () => {
  const { call, sandbox, writes, pushes } = await world();
  await sandbox.write("src/add.ts", "a + b\n");

  await call("open_pull_request", { title: `Use ${secret}`, body: `It is ${secret}` });

  expect(JSON.stringify([writes, pushes])).not.toContain(secret);
});

test("the same call made again after a crash makes the same commit and no second pull request", async () => {
  const first = await world();
  await first.sandbox.write("src/add.ts", "a + b\n");
  const args = { title: "Add", body: "Text" };
  await first.call("open_pull_request", args);
  const second = await world({ hub: { pulls: first.pulls } });
  await second.sandbox.write("src/add.ts", "a + b\n");

  const { llmContent } = await second.call("open_pull_request", args);

  expect({ ...second.pushes[0], signal: undefined }).toEqual({ ...first.pushes[0], signal: undefined });
  expect(second.writes).toEqual([]);
  expect(llmContent).toContain("pull request #100");
});

test("a later call adds a commit on top of what the run pushed before and keeps the one pull request", async () => {
  const { call, sandbox, pushes, writes } = await world();
  await sandbox.write("src/add.ts", "a + b\n");
  await call("open_pull_request", { title: "Add", body: "" });
  await sandbox.write("src/add.ts", "a + b;\n");

  await call("open_pull_request", { title: "Add properly", body: "" });

  expect(pushes[1]).toMatchObject({ expectedTip: "1".repeat(40) });
  expect(writes.map(({ method }) => method)).toEqual(["createPullRequest", "updatePullRequest"]);
});

test("what was pushed before GitHub failed is built upon, not fought with", async () => {
  const hub = memoryGitHub();
  const { call, sandbox, pushes, history } = await world({
    services: {
      github: {
        ...hub.github,
        ownLogin: hub.github.ownLogin,
        findPullRequest: hub.github.findPullRequest,
        createPullRequest: () => Promise.reject(Object.assign(new Error("422"), { status: 422 })),
      },
    },
  });
  await sandbox.write("src/add.ts", "a + b\n");
  const failure = await call("open_pull_request", { title: "Add", body: "" }).catch((error) => error);
  const { type, code, message, details } = failure;
  const result = { llmContent: message, value: { kind: "text" as const, content: message } };
  history.push({
    callId: "call-1",
    tool: "open_pull_request",
    args: {},
    step: 1,
    result: { ...result, error: { type, code, message, details } },
  });
  await sandbox.write("src/add.ts", "a + b;\n");

  await call("open_pull_request", { title: "Add", body: "" }).catch(() => undefined);

  expect(message).toContain("is pushed, but GitHub did not open the pull request: 422");
  expect(pushes[1]).toMatchObject({ expectedTip: "1".repeat(40) });
});

test("a pull request whose making fails for a while is made in the same call, and one whose answer was lost is found", async () => {
  const { github, pulls, ...hub } = memoryGitHub();
  const { createPullRequest } = github;
  const failures = ["lost before", "lost after"];
  const { call, sandbox } = await world({
    services: {
      github: {
        ...github,
        ownLogin: github.ownLogin,
        findPullRequest: github.findPullRequest,
        createPullRequest: async (pull) => {
          const failure = failures.shift();
          if (failure === "lost after") await createPullRequest(pull);
          throw Object.assign(new Error("Server Error"), { status: 502 });
        },
      },
    },
  });
  await sandbox.write("src/add.ts", "a + b\n");

  const { llmContent } = await call("open_pull_request", { title: "Add", body: "" });

  expect(llmContent).toContain("Opened draft pull request #100");
  expect(pulls).toHaveLength(1);
  expect([hub.writes.length, failures]).toEqual([1, []]);
});

test.each([
  ["closed", false],
  ["merged", true],
])("a pull request that people %s is left alone, and nothing is pushed", async (word, merged) => {
  const { call, sandbox, pushes } = await world({ hub: { pulls: [{ state: "closed", merged }] } });
  await sandbox.write("src/add.ts", "a + b\n");

  await expect(call("open_pull_request", { title: "Add" })).rejects.toThrow(`was ${word} already`);
  expect(pushes).toEqual([]);
});

test("nothing changed, too many files or too many bytes are refused before anything leaves", async () => {
  const empty = await world();
  await expect(empty.call("open_pull_request", { title: "Nothing" })).rejects.toThrow("Nothing has changed");
  // The preview is made before anybody is asked, so nobody is asked to approve nothing.
  await expect(empty.preview("open_pull_request", { title: "Nothing" })).rejects.toThrow("Nothing has changed");

  const many = await world();
  for (let index = 0; index < 101; index++) await many.sandbox.write(`n/${index}`, "x");
  await expect(many.call("open_pull_request", { title: "Many" })).rejects.toMatchObject({ code: "TOO_LARGE" });

  const large = await world();
  await large.sandbox.write("large", new Uint8Array(4_000_001));
  await expect(large.call("open_pull_request", { title: "Large" })).rejects.toMatchObject({ code: "TOO_LARGE" });
  expect([...empty.pushes, ...many.pushes, ...large.pushes]).toEqual([]);
});

test("on a pull request thread the proposal goes to its branch and closes nothing", async () => {
  const { call, sandbox, writes } = await world({
    services: { spec: { ...runSpec, origin: { ...runSpec.origin, isPullRequest: true } } },
  });
  await sandbox.write("src/add.ts", "a + b\n");

  await call("open_pull_request", { title: "Add", closes_issue: true });

  expect(writes[0]?.args).toMatchObject({ base: "main", body: expect.stringContaining("For #7.") });
});

test("it asks unless the worker file approves it, and always where protected files changed", async () => {
  const asking = await world();
  const approved = await world({ config: { approval: { default: "preApproved" } } });
  const blocked = await world({ config: { approval: { tools: { open_pull_request: "blocked" } } } });
  await approved.sandbox.write("src/add.ts", "a + b\n");

  expect(await asking.asks("open_pull_request", { title: "x" })).toBe(true);
  expect(await approved.asks("open_pull_request", { title: "x" })).toBe(false);
  await expect(blocked.asks("open_pull_request", { title: "x" })).rejects.toMatchObject({ code: "BLOCKED" });

  await approved.sandbox.write(".github/workflows/ci.yml", "on: push");
  expect(await approved.asks("open_pull_request", { title: "x" })).toBe(true);
});

test("the person who approves sees title, body and the whole diff", async () => {
  const { preview, sandbox } = await world();
  await sandbox.write("src/add.ts", "a + b\n");

  const shown = await preview("open_pull_request", { title: "Add", body: "It subtracted." });

  expect(shown).toContain("Add\n\nIt subtracted.");
  expect(shown).toContain("src/add.ts\nmodified, mode 100644, blob 3ab3ec9adf → 745e8d376f, 6 bytes");
  expect(shown).toContain("-a - b\n+a + b");
});
