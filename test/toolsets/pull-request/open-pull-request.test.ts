import { expect, test } from "vitest";
import type { PushRequest } from "#sandbox/sandbox.ts";
import { createSanitizer } from "#text/sanitize.ts";
import { pullRequestToolset } from "#toolsets/registry.ts";
import { type GitHubWorld, githubWorlds, sums } from "../../support/github-world.ts";
import { pushTo, runSpec, toolsetWorld, type WorldOptions } from "../../support/toolset-world.ts";

const secret = "hunter2-hunter2-hunter2";
const startGitHub = githubWorlds();

/** Issue 7 of a GitHub, and the toolset for a run on it. */
async function world({ github: given, ...options }: WorldOptions & { github?: GitHubWorld } = {}) {
  const github = given ?? (await startGitHub());
  if (!given) github.openIssue(7, { title: "add() subtracts" });
  const pushes: PushRequest[] = [];
  const opened = await toolsetWorld(pullRequestToolset, {
    files: { "src/add.ts": "a - b\n" },
    push: pushTo(github.hub, pushes),
    ...options,
    services: { github: github.github, sanitize: createSanitizer([secret]), ...options.services },
  });
  const pulls = async () => (await github.hub.snapshot())["octo/sums"]?.pulls ?? [];
  return { ...opened, github, hub: github.hub, pushes, pulls };
}

test("the run's changes are pushed to its own branch and opened as a draft pull request", async () => {
  const { call, sandbox, pushes, pulls } = await world();
  await sandbox.write("src/add.ts", "a + b\n");

  const { llmContent, value } = await call("open_pull_request", { title: "Add, not subtract", body: "It subtracted." });

  expect(pushes).toMatchObject([
    {
      branch: "golem/7-run-1",
      message:
        "Add, not subtract\n\nIt subtracted.\n\nGolem-Forge-Run: run-1\nRequested-By: ada <ada@users.noreply.github.com>",
      author: { name: "golem-forge[bot]", email: "golem-forge[bot]@users.noreply.github.com" },
    },
  ]);
  expect(pushes[0]).not.toHaveProperty("expected");
  const [pull] = await pulls();
  expect(pull).toMatchObject({
    title: "Add, not subtract",
    body: "It subtracted.\n\n---\nFor #7. Proposed by the worker `fixer`.",
    pull: { head: "golem/7-run-1", base: "main", draft: true },
  });
  expect(llmContent).toContain("Opened draft pull request #8: Add, not subtract");
  expect(value).toMatchObject({ kind: "pull_request", data: { number: 8, pushed: { commit: pull?.pull?.commit } } });
});

test("an ordinary pull request is opened where the repository's plan has no drafts, and the result says so", async () => {
  const github = await startGitHub({ repository: { ...sums, private: true, plan: "free" } });
  github.openIssue(7, { title: "add() subtracts", by: "ada" });
  const { call, sandbox, pulls } = await world({ github });
  await sandbox.write("src/add.ts", "a + b\n");

  const { llmContent } = await call("open_pull_request", { title: "Add, not subtract", body: "It subtracted." });

  expect((await pulls()).map(({ pull }) => pull?.draft)).toEqual([false]);
  expect(llmContent).toContain("This repository has no draft pull requests");
  expect(llmContent).toContain("Opened pull request #8");
});

test("the pull request closes the run's own issue if requested, and no other issue", async () => {
  const { call, sandbox, pulls } = await world();
  await sandbox.write("src/add.ts", "a + b\n");

  await call("open_pull_request", { title: "Add", body: "Fixes #12 and @bob knows.", closes_issue: true });

  const [pull] = await pulls();
  expect(pull?.body).toContain("Closes #7.");
  expect(pull?.body).not.toContain("#12");
  expect(pull?.body).not.toContain("@bob");
});

test("the commit message and the title mention nobody, close nothing and skip no checks, in code either", async () => {
  const { call, sandbox, pulls, pushes } = await world();
  await sandbox.write("src/add.ts", "a + b\n");
  const body =
    "```\nCloses #13\n@acme/admins\n```\nHandles <T> and `Fixes https://github.com/octo/sums/issues/9`.\n\nskip-checks: true";

  await call("open_pull_request", { title: "`Fixes #12` for `@bob` and <T> [skip ci]", body });

  const [message = ""] = (pushes[0]?.message ?? "").split("\n\nGolem-Forge-Run:");
  expect(message).not.toMatch(/#\d|@\w|Fixes https|\[skip/);
  expect(message.replaceAll("\u200B", "")).toBe(
    "`Fixes #12` for `@bob` and <T> [skip ci]\n\n```\nCloses #13\n@acme/admins\n```\nHandles <T> and `Fixes `https://github.com/octo/sums/issues/9``.\n\n> skip-checks: true",
  );
  expect((await pulls())[0]?.title).toBe(message.split("\n")[0]);
});

test("only the tools that push say what was pushed: no result of an MCP server does", async () => {
  const { call, sandbox, history, pushes } = await world();
  const data = { pushed: { commit: "b".repeat(40), changes: "c".repeat(64) } };
  const result = { llmContent: "", value: { kind: "json" as const, data, summary: "status" } };
  history.push({ callId: "c1", tool: "ci_status", args: {}, result, step: 1 });
  await sandbox.write("src/add.ts", "a + b\n");

  await call("open_pull_request", { title: "Add", body: "" });

  expect(pushes).toHaveLength(1);
  expect(pushes[0]).not.toHaveProperty("expectedTip");
});

test("no secret is sent in the title, the body or the commit message", async () => {
  const { call, sandbox, github, pushes } = await world();
  await sandbox.write("src/add.ts", "a + b\n");

  await call("open_pull_request", { title: `Use ${secret}`, body: `It is ${secret}` });

  expect(JSON.stringify([github.writes, pushes])).not.toContain(secret);
});

test("repeating a call after a crash creates the same commit and no second pull request", async () => {
  const first = await world();
  await first.sandbox.write("src/add.ts", "a + b\n");
  const args = { title: "Add", body: "Text" };
  await first.call("open_pull_request", args);
  const second = await world({ github: first.github });
  await second.sandbox.write("src/add.ts", "a + b\n");

  const { llmContent } = await second.call("open_pull_request", args);

  expect({ ...second.pushes[0], signal: undefined }).toEqual({ ...first.pushes[0], signal: undefined });
  expect(first.github.writes.map(({ operation }) => operation)).toEqual(["POST /repos/{owner}/{repo}/pulls"]);
  expect(llmContent).toContain("pull request #8");
});

test("a later call adds a commit to the same pull request", async () => {
  const { call, sandbox, pushes, github, pulls } = await world();
  await sandbox.write("src/add.ts", "a + b\n");
  await call("open_pull_request", { title: "Add", body: "" });
  const tip = (await pulls())[0]?.pull?.commit;
  await sandbox.write("src/add.ts", "a + b;\n");

  await call("open_pull_request", { title: "Add properly", body: "" });

  expect(pushes[1]).toMatchObject({ expectedTip: tip });
  expect(github.writes.map(({ operation }) => operation)).toEqual([
    "POST /repos/{owner}/{repo}/pulls",
    "PATCH /repos/{owner}/{repo}/pulls/{pull_number}",
  ]);
});

test("a commit that was pushed before GitHub failed is the parent of the next", async () => {
  const { call, sandbox, pushes, history, hub } = await world();
  hub.onRequest(({ operation }) =>
    operation === "POST /repos/{owner}/{repo}/pulls" ? { status: 422, body: { message: "No" } } : undefined,
  );
  await sandbox.write("src/add.ts", "a + b\n");
  const failure = await call("open_pull_request", { title: "Add", body: "" }).catch((error) => error);
  const pushed = hub.repository().knownBranches.get("refs/heads/golem/7-run-1");
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

  expect(message).toMatch(/was pushed, but opening the pull request failed: No/);
  expect(pushes[1]).toMatchObject({ expectedTip: pushed });
});

test("opening is retried during a short outage, and a pull request whose response was lost is found", async () => {
  const { call, sandbox, hub, pulls } = await world();
  const isOpening = (operation: string | undefined) => operation === "POST /repos/{owner}/{repo}/pulls";
  const outages = [{ status: 502 }];
  hub.onRequest(({ operation }) => (isOpening(operation) ? outages.shift() : undefined));
  const stopLosing = hub.afterWrite(({ operation }) => (isOpening(operation) ? "drop" : undefined));
  await sandbox.write("src/add.ts", "a + b\n");

  const { llmContent } = await call("open_pull_request", { title: "Add", body: "" });
  stopLosing();

  expect(llmContent).toContain("Opened draft pull request #8");
  expect(await pulls()).toHaveLength(1);
  expect(outages).toEqual([]);
});

test.each(["closed", "merged"])("nothing is pushed to a pull request that people have %s", async (end) => {
  const { call, sandbox, pushes, hub } = await world();
  await sandbox.write("src/add.ts", "a + b\n");
  await call("open_pull_request", { title: "Add", body: "" });
  const ada = hub.as("ada");
  ada.markReady(8);
  await (end === "merged" ? ada.merge(8) : ada.close(8));
  await sandbox.write("src/add.ts", "a + b;\n");

  await expect(call("open_pull_request", { title: "Add" })).rejects.toThrow(`has already been ${end}`);
  expect(pushes).toHaveLength(1);
});

test("no changes, too many files or too many bytes are refused before anything is pushed", async () => {
  const empty = await world();
  await expect(empty.call("open_pull_request", { title: "Nothing" })).rejects.toThrow(
    "There are no changes to propose",
  );
  // The preview is computed before the request, so people are not asked to approve an empty change.
  await expect(empty.preview("open_pull_request", { title: "Nothing" })).rejects.toThrow(
    "There are no changes to propose",
  );

  const many = await world();
  for (let index = 0; index < 101; index++) await many.sandbox.write(`n/${index}`, "x");
  await expect(many.call("open_pull_request", { title: "Many" })).rejects.toMatchObject({ code: "TOO_LARGE" });

  const large = await world();
  await large.sandbox.write("large", new Uint8Array(4_000_001));
  await expect(large.call("open_pull_request", { title: "Large" })).rejects.toMatchObject({ code: "TOO_LARGE" });
  expect([...empty.pushes, ...many.pushes, ...large.pushes]).toEqual([]);
});

test("above the repository's limit, no pull request is opened and no approval is requested", async () => {
  const first = await world();
  await first.sandbox.write("src/add.ts", "a + b\n");
  await first.call("open_pull_request", { title: "Add" });

  const services = { branch: "golem/7-run-2", maxOpenPullRequests: async () => 1 };
  const second = await world({ github: first.github, services });
  await second.sandbox.write("src/add.ts", "a + b;\n");

  const message = "This repository allows 1 open pull request of this app, and 1 is open.";
  await expect(second.preview("open_pull_request", { title: "Add" })).rejects.toThrow(message);
  await expect(second.call("open_pull_request", { title: "Add" })).rejects.toThrow(message);
  expect(second.pushes).toEqual([]);
});

test("on a pull request thread, the new pull request targets its branch and closes no issue", async () => {
  const { call, sandbox, pulls } = await world({
    services: { spec: { ...runSpec, origin: { ...runSpec.origin, isPullRequest: true } } },
  });
  await sandbox.write("src/add.ts", "a + b\n");

  await call("open_pull_request", { title: "Add", closes_issue: true });

  expect(await pulls()).toMatchObject([{ body: expect.stringContaining("For #7."), pull: { base: "main" } }]);
});

test("it needs approval unless the worker file approves it, and always if protected files changed", async () => {
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

test("the approval shows the title, the body and the complete diff", async () => {
  const { preview, sandbox } = await world();
  await sandbox.write("src/add.ts", "a + b\n");

  const shown = await preview("open_pull_request", { title: "Add", body: "It subtracted." });

  expect(shown).toContain("Add\n\nIt subtracted.");
  expect(shown).toContain("src/add.ts\nmodified, mode 100644, blob 3ab3ec9adf → 745e8d376f, 6 bytes");
  expect(shown).toContain("-a - b\n+a + b");
});
