import { beforeEach, describe, expect, test, vi } from "vitest";
import { OutageError, UserError } from "#domain/errors.ts";
import { type GitHub, GitHubRefusalError } from "#domain/github.ts";
import type { CommitFiles } from "#playground/github/git/commit-files.ts";
import type { InjectedResponse } from "#playground/github/request-log.ts";
import { showComment } from "#playground/github/shapes/thread.ts";
import { appNamed } from "#playground/github/world.ts";
import { readSettings } from "#runtime/run-environment.ts";
import { openWorkerCatalog } from "#runtime/start/worker-catalog.ts";
import { describeReviewComment } from "#toolsets/github/pull-request.ts";
import { type GitHubWorld, githubWorlds, webhookSecret } from "../../support/github-world.ts";
import { privateKey, type TestGitHub } from "../../support/test-github.ts";

const startWorld = githubWorlds();
let world: GitHubWorld;
let hub: TestGitHub;
let github: GitHub;

beforeEach(async () => {
  world = await startWorld();
  ({ hub, github } = world);
  world.openIssue(1, { title: "It breaks" });
});

const createsComment = "POST /repos/{owner}/{repo}/issues/{issue_number}/comments";
const listsComments = "GET /repos/{owner}/{repo}/issues/{issue_number}/comments";
const createsToken = "POST /app/installations/{installation_id}/access_tokens";
const readsPermission = "GET /repos/{owner}/{repo}/collaborators/{username}/permission";

/** Replaces GitHub's responses to an operation with these, in order. The last one is repeated. */
function answer(operation: string, ...responses: (InjectedResponse | "drop" | undefined)[]): number[] {
  const times: number[] = [];
  hub.onRequest((request) => {
    if (request.operation !== operation) return undefined;
    times.push(performance.now());
    return responses[Math.min(times.length, responses.length) - 1];
  });
  return times;
}

const requestsFor = (operation: string) => hub.requests.filter((request) => request.operation === operation);

describe("refusals by GitHub", () => {
  test.each([
    [
      403,
      "Repository was archived so is read-only.",
      /does not allow this app to request .* in octo\/sums.*archived so is read-only/,
    ],
    [403, "Resource not accessible by integration - https://docs.github.com/rest", /not accessible by integration$/],
    [404, "Not Found", /cannot find \/issues\/1\/comments in octo\/sums.*may no longer be installed there/],
    [410, "This issue was deleted", /^\/issues\/1\/comments no longer exists in octo\/sums/],
  ])("a request that GitHub refuses is not repeated: %i, %s", async (status, message, sentence) => {
    answer(createsComment, { status, body: { message } });

    const refusal = await github.createComment(1, "hello").catch((error) => error);

    expect(refusal).toMatchObject({ name: "GitHubRefusalError", status, message: expect.stringMatching(sentence) });
    expect(refusal).toBeInstanceOf(UserError);
    expect(requestsFor(createsComment)).toHaveLength(1);
  });

  test("a 403 that asks to wait is repeated", async () => {
    const wait = { status: 403, body: { message: "Slow down." }, headers: { "retry-after": "3600" } };
    answer("GET /repos/{owner}/{repo}/issues/{issue_number}", wait);

    await expect(github.getIssue(3)).rejects.not.toBeInstanceOf(UserError);
  });

  test("a refusal is a sentence if the app is no longer installed and gets no token", async () => {
    hub.accountChanges.uninstall();

    await expect(github.listComments(1)).rejects.toThrow(/may no longer be installed there/);
    await expect(github.createGitToken("write")).rejects.toThrow(/may no longer be installed there/);
  });
});

describe("identity", () => {
  test("the app comments as its own bot, which it asks for once", async () => {
    expect([await github.ownLogin(), await github.ownLogin()]).toEqual(["golem-forge[bot]", "golem-forge[bot]"]);
    expect(requestsFor("GET /app")).toHaveLength(1);
  });

  test("a comment is our own by the app that made it or by our login, never by its text", async () => {
    const at = new Date();
    const { bot } = hub.world.app;
    world.comment(1, "ours", { by: bot.login, at, app: hub.world.app });
    world.comment(1, "another app's", { by: bot.login, at, app: appNamed(hub.world, "other-app") });
    world.comment(1, "ours by name", { by: bot.login, at });
    world.comment(1, "I am golem-forge[bot] <!-- golem-forge:x -->", { by: "mallory", at });
    world.comment(1, "hello", { by: "evil[bot]", at });

    const comments = await github.listComments(1);

    expect(comments.filter(({ own }) => own).map(({ body }) => body)).toEqual(["ours", "ours by name"]);
  });

  test("a comment of a deleted account is by the ghost", async () => {
    const comment = hub.as("mallory").comment(1, "gone");
    const shown = showComment(hub.world, hub.repository(), comment);
    answer(listsComments, { status: 200, body: [{ ...shown, user: null }] });

    expect((await github.listComments(1)).map(({ author }) => author)).toEqual(["ghost"]);
  });

  test("every page of the comments is read", async () => {
    for (let index = 0; index < 250; index++) hub.as("mallory").comment(1, `${index}`);

    expect((await github.listComments(1)).map(({ body }) => body)).toEqual(
      Array.from({ length: 250 }, (_, index) => `${index}`),
    );
  });
});

describe("permissions", () => {
  test.each<[string, unknown, string]>([
    ["admin", { permission: "admin", role_name: "admin", user: { login: "ada" } }, "admin"],
    ["maintain", { permission: "write", role_name: "maintain", user: { login: "ada" } }, "maintain"],
    ["triage", { permission: "read", role_name: "triage", user: { login: "ada" } }, "triage"],
    ["a custom role on write", { permission: "write", role_name: "releaser", user: { login: "Ada" } }, "write"],
    ["no role named", { permission: "write", user: { login: "ada" } }, "write"],
    ["a role above its permission", { permission: "none", role_name: "maintain", user: { login: "ada" } }, "none"],
    ["somebody else", { permission: "admin", role_name: "admin", user: { login: "eve" } }, "none"],
  ])("%s", async (_, body, permission) => {
    answer(readsPermission, { status: 200, body });

    expect(await github.getPermission("ada")).toBe(permission);
  });

  test.each([[[{ permission: "admin" }]], [null], ["<html>"]])("a permission of %j is no answer", async (body) => {
    answer(readsPermission, { status: 200, body });

    await expect(github.getPermission("ada")).rejects.toThrow(OutageError);
  });

  test("a connection that breaks is neither a permission nor a refusal", async () => {
    answer(readsPermission, "drop");

    await expect(github.getPermission("ada")).rejects.toThrow(
      "GitHub did not say whether ada has write access to octo/sums.",
    );
  });

  test.each([403, 451])("a %i for a permission refuses the app, not the person", async (status) => {
    answer(readsPermission, { status, body: { message: "No" } });

    await expect(github.getPermission("ada")).rejects.toThrow(GitHubRefusalError);
  });

  test("a caller that can wait gets an answer after an outage", async () => {
    const { signal } = new AbortController();
    answer(readsPermission, { status: 503 }, { status: 503 }, undefined, { status: 404 });

    expect(await github.confirmPermission("ada", signal)).toBe("write");
    expect(await github.confirmPermission("ada", signal)).toBe("none");
  });

  test("a login cannot change the path of the request", async () => {
    expect(await github.getPermission("../../../app?x=")).toBe("none");
    expect(hub.requests.some(({ path }) => path.includes("/collaborators/..%2F..%2F"))).toBe(true);
  });
});

describe("tokens for git", () => {
  test("tokens for git are limited to the repository and to the permissions git needs, and reused until they expire", async () => {
    const tokens = [
      await github.createGitToken("read"),
      await github.createGitToken("read"),
      await github.createGitToken("write"),
    ];

    expect(tokens[0]).toBe(tokens[1]);
    expect(tokens[2]).not.toBe(tokens[1]);
    const { repositoryId } = world.repository;
    expect(requestsFor(createsToken).map(({ body }) => body)).toEqual([
      { repository_ids: [repositoryId], permissions: { contents: "read" } },
      { repository_ids: [repositoryId], permissions: { contents: "write" } },
    ]);
  });

  test("tokens for git are limited by the repository's name where its id is not known", async () => {
    const { repositoryId: _, ...repository } = world.repository;

    await world.openGitHub(repository).createGitToken("read");

    const bodies = requestsFor(createsToken).map(({ body }) => body);
    expect(bodies).toEqual([{ repositories: ["sums"], permissions: { contents: "read" } }]);
  });

  test("tokens for git that are about to expire are renewed", async () => {
    const short = await startWorld({ tokenMs: 60_000 });

    const tokens = [await short.github.createGitToken("read"), await short.github.createGitToken("read")];

    expect(tokens[0]).not.toBe(tokens[1]);
  });
});

describe("reading", () => {
  test("the record of an action in a long thread is read from its end, as far as needed", async () => {
    const ada = hub.as("ada");
    const thread = ada.openIssue({ title: "It has a history" });
    for (let label = 1; label <= 450; label++) ada.label(thread.number, `label ${label}`);
    for (const [index, event] of thread.events.entries()) event.at = new Date(60_000 * (index + 1));
    const read = async (label: number) => {
      const before = hub.requests.length;
      const action = { type: "labeled", byId: thread.author.id, subject: `label ${label}` } as const;
      const found = await github.wasViaApp(thread.number, { ...action, at: new Date(60_000 * label) });
      return [found, hub.requests.slice(before).filter(({ path }) => path.includes("/events?")).length];
    };

    expect([await read(450), await read(401), await read(300)]).toEqual([
      [false, 2],
      [false, 3],
      [false, 4],
    ]);
    expect(await read(5)).toEqual([false, 5]);
  });

  test("issues are listed without the pull requests among them", async () => {
    hub.repository().threads.clear();
    const issue = hub.as("mallory").openIssue({ title: "A", labels: ["bug", "ui"] });
    issue.locked = true;
    await openPull("work");
    hub.as("mallory").openIssue({ title: "Deleted" });
    hub.accountChanges.deleteIssue(hub.repository(), 3);

    const expected = {
      number: 1,
      title: "A",
      body: "",
      author: "mallory",
      authorId: hub.world.users.get("mallory")?.id,
      state: "open",
      locked: true,
      labels: ["bug", "ui"],
      isPullRequest: false,
    };
    expect(await github.listIssues({})).toEqual([expected]);
    expect(await github.getIssue(1)).toEqual(expected);
    expect([await github.getIssue(9), await github.getIssue(3)]).toEqual([undefined, undefined]);
  });

  test("files and folders of the default branch are read", async () => {
    const big = "b".repeat(1_100_000);
    await commit("main", {
      ".github/workers/a b.worker": "name: fixer\nü",
      ".github/workers/fixer.worker": "name: fixer\n",
      ".github/workers/sub/other.worker": "name: other\n",
      "big.txt": big,
    });

    expect(await github.readFile(".github/workers/a b.worker")).toBe("name: fixer\nü");
    expect(await github.listNames(".github/workers")).toEqual(["a b.worker", "fixer.worker", "sub"]);
    expect(await github.readFile("big.txt")).toBe(big);
    expect([await github.readFile("nothing"), await github.listNames("nothing")]).toEqual([undefined, []]);
    await expect(github.readFile(".github/workers")).rejects.toThrow(
      ".github/workers on the default branch must be a file, but is a folder",
    );
  });

  describe("settings and workers fail closed", () => {
    const submodule = { submodule: "4b825dc642cb6eb9a060e54bf8d69288fbee4904" };
    const link = { link: "../README.md" };
    const settings = ".github/golem-forge.yml";
    const worker = ".github/workers/fixer.worker";

    test.each<[string, CommitFiles["files"]]>([
      ["a link to a file", { [settings]: link }],
      ["a link that leads nowhere", { [settings]: { link: "nothing" } }],
      ["a folder", { [`${settings}/a`]: "a" }],
      ["a submodule", { [settings]: submodule }],
      ["in a .github that is a link", { ".github": { link: "docs" }, "docs/golem-forge.yml": "second_person: true\n" }],
      ["in a .github that is a file", { ".github": "a" }],
      ["in a .github that is a submodule", { ".github": submodule }],
    ])("reading fails closed where the settings are %s", async (_, files) => {
      await commit("main", { "README.md": "limits: {}\n", ...files });

      await expect(readSettings(github)).rejects.toThrow(UserError);
    });

    test.each<[string, CommitFiles["files"]]>([
      ["a link to a file", { [worker]: link }],
      ["a folder", { [`${worker}/a`]: "a" }],
      ["a submodule", { [worker]: submodule }],
      ["in a folder that is a link", { ".github/workers": { link: "../docs" }, "docs/fixer.worker": "name: fixer\n" }],
    ])(
      "reading fails closed where a worker is %s, so that the shipped one does not take its place",
      async (_, files) => {
        await commit("main", { "README.md": "limits: {}\n", ...files });
        const catalog = await openWorkerCatalog("workers");

        await expect(catalog.find("fixer", github)).rejects.toThrow(UserError);
      },
    );

    test("reading fails closed where a file is so large that reading it would delay everyone else", async () => {
      const large = "#".repeat(3_000_001);
      await commit("main", { [settings]: large, [worker]: large, "AGENTS.md": large });

      const catalog = await openWorkerCatalog("workers");
      const requests: (string | undefined)[] = [];
      hub.onRequest(({ operation }) => void requests.push(operation));

      const problem = "on the default branch is larger than 3 MB, so it cannot be read.";
      await expect(readSettings(github)).rejects.toThrow(`${settings} ${problem}`);
      await expect(catalog.find("fixer", github)).rejects.toThrow(`${worker} ${problem}`);
      await expect(github.readFile("AGENTS.md")).rejects.toThrow(`AGENTS.md ${problem}`);
      expect(requests).not.toContain("GET /repos/{owner}/{repo}/git/blobs/{file_sha}");
    });

    test("reading fails closed where GitHub does not list every file of the folder", async () => {
      const others = Array.from({ length: 1_000 }, (_, index) => [`.github/a${index}`, "a"]);
      await commit("main", { ...Object.fromEntries(others), [settings]: "second_person: true\n" });

      expect((await readSettings(github)).second_person).toBe(true);
    });
  });

  test("checks, reviews and the repository can be read", async () => {
    const { number } = await openPull("work");
    (await hub.checks("work")).report("test", { conclusion: "failure", summary: "1 failed" });
    const remark = await hub.as("ada").reviewComment(number, { path: "work.js", line: 1, body: "why?" });

    await expect(github.readChecks("heads/gone")).rejects.toMatchObject({ name: "GitHubRefusalError", status: 422 });
    expect(await github.readChecks("work")).toMatchObject({
      checks: [{ name: "test", status: "completed", conclusion: "failure", summary: "1 failed" }],
      unfinished: [],
      missingPermissions: [],
    });
    expect(await github.listReviewComments(number)).toMatchObject([
      { id: remark.id, path: "work.js", startLine: null, line: 1, side: "RIGHT", body: "why?", author: "ada" },
    ]);
    expect(await github.getRepository()).toEqual({
      owner: "octo",
      repo: "sums",
      defaultBranch: "main",
      private: false,
      cloneUrl: `${hub.url}/octo/sums.git`,
    });
  });

  test("checks wait for those of other apps and for GitHub Actions, not for this app's own and not for apps that report nothing", async () => {
    await openPull("work");
    const checksOf = (app: string) => hub.checks("work", { app });
    const { login } = hub.world.app.bot;
    (await checksOf(login.replace("[bot]", ""))).report("fixer", { status: "in_progress" });
    (await checksOf("dead")).openSuite();

    expect(await github.readChecks("work")).toMatchObject({ checks: [], unfinished: [] });

    const run = (await checksOf("circle")).report("circle build", { status: "in_progress" });
    const actions = await checksOf("github-actions");
    actions.openSuite();
    const { unfinished } = await github.readChecks("work");
    expect(unfinished).toEqual(["circle build", expect.stringMatching(/github.actions/i)]);

    (await checksOf("circle")).update(run, { conclusion: "success" });
    actions.report("actions build", { conclusion: "success" });
    expect(await github.readChecks("work")).toMatchObject({
      checks: [{ name: "circle build" }, { name: "actions build" }],
      unfinished: [],
    });
  });

  test("an outdated review comment has its original line and is marked as outdated", async () => {
    const { number } = await openPull("work");
    await hub.as("ada").reviewComment(number, { path: "work.js", line: 1, body: "why?" });
    await commit("work", { "work.js": "another line\n" });

    const comments = await github.listReviewComments(number);

    expect(comments).toMatchObject([{ line: 1, isOutdated: true }]);
    expect(comments.map((comment) => describeReviewComment(comment, "").split("\n")[0])).toEqual([
      `Review comment ${comments[0]?.id} on work.js, line 1 when it was written; outdated now:`,
    ]);
  });

  test("a review comment on a whole file is about no line", async () => {
    const { number } = await openPull("work");
    const { id } = await hub.as("ada").reviewComment(number, { path: "work.js", line: 1, body: "why?" });
    hub.onRequest(({ operation }) => {
      if (operation !== "GET /repos/{owner}/{repo}/pulls/{pull_number}/comments") return undefined;
      const comment = { id, path: "work.js", subject_type: "file", line: null, original_line: 1, side: "RIGHT" };
      return { status: 200, body: [{ ...comment, diff_hunk: "@@ -0,0 +1 @@\n+work", body: "why?", user: null }] };
    });

    const [comment] = await github.listReviewComments(number);

    expect(comment).toMatchObject({ line: null, isOutdated: false });
    expect(comment && describeReviewComment(comment, "")).toBe(
      `Review comment ${id} on work.js, the whole file:\nwhy?`,
    );
  });

  test("threads of reviews say who resolved them, and minimized comments are marked", async () => {
    await openPull("golem/1-c");
    const { number } = (await github.findPullRequest("golem/1-c")) ?? { number: 0 };
    const [path] = Object.keys(change("golem/1-c").files);
    const remark = { path: path ?? "", line: 1, body: "Why?" };
    const [open, done] = [
      await hub.as("ada").reviewComment(number, remark),
      await hub.as("ada").reviewComment(number, remark),
    ];
    hub.as("ada").resolve(done.id);
    Object.assign(hub.repository().reviewComments.get(open.id) ?? {}, { minimized: "SPAM" });
    const [spam] = [hub.as("mallory").comment(number, "Buy my pills."), hub.as("mallory").comment(number, "Hello.")];
    spam.minimized = "SPAM";

    expect(await github.listReviewThreads(number)).toEqual([
      {
        id: expect.any(String),
        firstCommentId: open.id,
        isResolved: false,
        resolvedBy: undefined,
        minimized: [open.id],
      },
      { id: expect.any(String), firstCommentId: done.id, isResolved: true, resolvedBy: "ada", minimized: [] },
    ]);
    expect(await github.listMinimizedComments({ number, isPullRequest: true })).toEqual([spam.id]);
  });

  test("the threads of reviews are read page by page, without those whose comments are all deleted", async () => {
    const thread = (id: string, ...comments: number[]) => ({
      id,
      isResolved: false,
      resolvedBy: null,
      comments: { nodes: comments.map((databaseId) => ({ databaseId, isMinimized: false })) },
    });
    const pages = [[thread("a", 1), thread("b")], [thread("c", 2)]];
    hub.onRequest(({ path, body }) => {
      if (!path.endsWith("/graphql")) return undefined;
      const { after } = (body as { variables: { after: string | null } }).variables;
      const pageInfo = after === null ? { hasNextPage: true, endCursor: "1" } : { hasNextPage: false, endCursor: null };
      const reviewThreads = { nodes: pages[Number(after ?? 0)], pageInfo };
      return { status: 200, body: { data: { repository: { pullRequest: { reviewThreads } } } } };
    });

    const threads = await github.listReviewThreads(1);

    expect(threads.map(({ id, firstCommentId }) => [id, firstCommentId])).toEqual([
      ["a", 1],
      ["c", 2],
    ]);
  });

  const inAnHour = String(Math.floor(Date.now() / 1_000) + 3_600);
  const secondary = { message: "You have exceeded a secondary rate limit. Please wait a few minutes." };
  test.each<[string, object, Record<string, string>, number | undefined]>([
    [
      "its limit is used up",
      { message: "API rate limit exceeded", type: "RATE_LIMITED" },
      { "x-ratelimit-remaining": "0", "x-ratelimit-reset": inAnHour },
      3_000_000,
    ],
    ["a secondary limit asks to wait", secondary, { "retry-after": "600" }, 590_000],
    ["a secondary limit says no time", secondary, {}, 50_000],
    ["GitHub failed", { message: "Something went wrong while executing your query." }, {}, undefined],
  ])(
    "GraphQL's answer that %s is an outage, and only a secondary limit pauses REST",
    async (_, problem, limits, waitMs) => {
      const headers = { "x-ratelimit-resource": "graphql", "x-ratelimit-limit": "5000", ...limits };
      hub.onRequest(({ path }) =>
        path.endsWith("/graphql") ? { status: 200, body: { errors: [problem] }, headers } : undefined,
      );

      const error = await github.listReviewThreads(1).catch((reason: unknown) => reason);

      expect(error).toBeInstanceOf(OutageError);
      const { retryAt } = error as OutageError;
      if (waitMs === undefined) expect(retryAt).toBeUndefined();
      else expect(Number(retryAt) - Date.now()).toBeGreaterThan(waitMs);
      // A reaction is not made later.
      const reaction = github.addIssueReaction(1, "eyes");
      await (problem === secondary ? expect(reaction).rejects.toThrow(OutageError) : reaction);
    },
  );

  test("the pull request of a branch is found, and never a fork's of the same name", async () => {
    await hub.fork("mallory", "octo/sums");
    await hub.push({ ...change("golem/1-a"), author: "mallory" }, "mallory/sums");
    const head = "mallory:golem/1-a";
    const foreign = await hub.as("mallory").openPullRequest({ title: "Theirs", head, base: "main" });
    const own = await openPull("golem/1-a");
    await hub.as("ada").merge(own.number);

    expect(await github.findPullRequest("golem/1-a")).toMatchObject({
      number: own.number,
      merged: true,
      state: "closed",
    });
    expect(await github.findPullRequest("golem/1-b")).toBeUndefined();
    expect((await github.getPullRequest(own.number))?.head.fromFork).toBe(false);
    expect((await github.getPullRequest(foreign.number))?.head.fromFork).toBe(true);
  });
});

describe("writing", () => {
  test("no secret is sent to GitHub in any field", async () => {
    const leak = `${webhookSecret}, ghp_${"a1".repeat(18)} and ${privateKey.split("\n")[2]}`;
    await commit("golem/1-a", { "a.js": "1\n" });

    const comment = await github.createComment(1, leak);
    await github.updateComment(comment.id, leak);
    await github.addLabels(1, [leak]);
    const pull = await github.createPullRequest({
      head: "golem/1-a",
      base: "main",
      title: leak.slice(0, 40),
      body: leak,
      draft: true,
    });
    await github.updatePullRequest(pull.number, { title: leak.slice(0, 40), body: leak });
    const remark = await hub.as("ada").reviewComment(pull.number, { path: "a.js", line: 1, body: "Why?" });
    await github.replyToReviewComment(pull.number, remark.id, leak);

    expect(world.writes).toHaveLength(6);
    for (const { body } of world.writes) {
      expect(JSON.stringify(body)).not.toMatch(new RegExp(`${webhookSecret}|ghp_|[A-Za-z0-9+/]{40}`));
    }
  });

  test("a comment whose response was lost is not posted again automatically", async () => {
    answer(createsComment, "drop");

    await expect(github.createComment(1, "hello")).rejects.toThrow();
    expect(requestsFor(createsComment)).toHaveLength(1);
  });

  test.each([
    ["a secondary limit", 403, { message: "You have exceeded a secondary rate limit" }],
    ["too many requests", 429, { message: "Too Many Requests" }],
  ])("after %s the bot waits as long as GitHub asks", async (_, status, body) => {
    const times = answer(createsComment, { status, body, headers: { "retry-after": "1" } }, undefined);

    await github.createComment(1, "hello");

    expect(times).toHaveLength(2);
    expect((times[1] ?? 0) - (times[0] ?? 0)).toBeGreaterThan(900);
  });

  test("a read that failed is repeated after a second, regardless of earlier failures", async () => {
    const times = answer(listsComments, { status: 500 }, undefined);
    expect(await github.getIssue(404)).toBeUndefined();

    await github.listComments(1);

    expect((times[1] ?? 0) - (times[0] ?? 0)).toBeLessThan(3_000);
  });

  test.each([
    ["never ends", { "retry-after": "0" }, 6, 60_000],
    [
      "of a limit that was free by GitHub's clock already",
      { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1" },
      6,
      60_000,
    ],
    ["until the next century", { "x-ratelimit-remaining": "0", "x-ratelimit-reset": "4102444800" }, 1, 61 * 60_000],
  ])("a pause that %s is not believed: the request is sent again later", async (_, headers, sent, waitMs) => {
    const times = answer(createsComment, { status: 403, body: { message: "API rate limit exceeded" }, headers });

    const error = await github.createComment(1, "hello").catch((reason: unknown) => reason);

    expect(times).toHaveLength(sent);
    const untilRetry = Number((error as OutageError).retryAt) - Date.now();
    expect(untilRetry).toBeLessThanOrEqual(waitMs);
    expect(untilRetry).toBeGreaterThan(waitMs / 2);
  });

  test("a pause of many minutes is not waited for", async () => {
    answer(createsComment, { status: 429, headers: { "retry-after": "3600" } });

    const error = await github.createComment(1, "hello").catch((reason: unknown) => reason);

    expect(error).toBeInstanceOf(OutageError);
    expect(Number((error as OutageError).retryAt) - Date.now()).toBeGreaterThan(3_500_000);
  });

  test("writes to GitHub keep the configured interval", async () => {
    const paced = await startWorld({ environment: { GOLEM_FORGE_WRITE_INTERVAL_MS: "150" } });
    paced.openIssue(1, { title: "It breaks" });
    const started = performance.now();

    await Promise.all(["a", "b", "c"].map((text) => paced.github.createComment(1, text)));

    expect(performance.now() - started).toBeGreaterThan(290);
  });
});

describe("a repository with an id", () => {
  test("a repository is reached by its name, with a token that reaches no other repository", async () => {
    await github.listComments(1);

    expect(hub.requests.map(({ path, body }) => [path.split("?")[0], body])).toEqual([
      ["/app/installations/1/access_tokens", { repository_ids: [world.repository.repositoryId] }],
      ["/repos/octo/sums/issues/1/comments", undefined],
    ]);
  });

  test("a renamed repository is followed by its id, and then reached by its new name", async () => {
    hub.as("ada").comment(1, "Hi");
    await github.listComments(1);
    hub.accountChanges.rename(hub.repository(), "totals");

    const comments = [await github.listComments(1), await github.listComments(1)];

    expect(comments.map((list) => list.map(({ body }) => body))).toEqual([["Hi"], ["Hi"]]);
    expect(hub.requests.at(-1)).toMatchObject({ path: expect.stringContaining("/repos/octo/totals/"), status: 200 });
  });

  test("a repository whose name was taken over is not read there, but by its new name", async () => {
    await commit("main", { "a.worker": "its own" });
    await github.listComments(1);
    hub.accountChanges.rename(hub.repository(), "totals");
    await hub.createRepository({
      owner: "octo",
      name: "sums",
      commits: [{ ...change("main"), files: { "a.worker": "an impostor's" } }],
    });
    const later = Date.now() + 2 * 60_000;
    vi.spyOn(Date, "now").mockImplementation(() => later);

    expect(await github.readFile("a.worker")).toBe("its own");
    vi.restoreAllMocks();
  });

  test("an issue is not followed to another repository", async () => {
    const other = await hub.createRepository({ owner: "octo", name: "other" });
    hub.accountChanges.transferIssue(hub.repository(), 1, other);

    expect(await github.getIssue(1)).toBeUndefined();
    await expect(github.createComment(1, "hello")).rejects.toThrow(
      "/issues/1/comments no longer exists in octo/sums (410).",
    );
    expect(hub.requests.some(({ path }) => path.includes(`/repositories/${other.id}`))).toBe(false);
  });

  test("a repository is not confused with another whose pull request has the same number", async () => {
    const { number } = await openPull("work");
    await github.listComments(1);
    hub.accountChanges.rename(hub.repository(), "totals");
    await hub.createRepository({ owner: "octo", name: "sums", commits: [change("main")] });
    await hub.push(change("work"), "octo/sums");
    const impostor = hub.as("visitor", "octo/sums");
    impostor.openIssue({ title: "Number 1" });
    const other = await impostor.openPullRequest({ title: "An impostor's", head: "work", base: "main" });

    expect(other.number).toBe(number);
    expect(await github.getPullRequest(number)).toBeUndefined();
  });

  describe("tokens that were revoked early", () => {
    function revokeTokens(): void {
      for (const installation of hub.world.installations.values()) hub.credentials.revokeInstallation(installation);
    }

    test("a token that was revoked early is replaced by a new one", async () => {
      await github.listComments(1);
      const token = await github.createGitToken("read");
      revokeTokens();

      expect((await github.createComment(1, "Yo")).body).toBe("Yo");
      revokeTokens();
      // GraphQL has answered.
      await expect(github.listReviewThreads(1)).rejects.toThrow("Could not resolve to a PullRequest");
      expect(await github.createGitToken("read", token)).not.toBe(token);
    });

    test("attached files are read with a new token, too, once a request was rejected", async () => {
      hub.repository("octo/sums").private = false;
      const text = hub.as("ada", "octo/sums").attach("notes.txt", "content");
      const [link] = github.findAttachments(text);
      const options = { thread: 1, maxBytes: 100, signal: AbortSignal.timeout(60_000) };
      await github.listComments(1);
      expect(`${await github.downloadAttachment(link?.url ?? "", options)}`).toBe("content");
      revokeTokens();

      await github.listComments(1);

      expect(`${await github.downloadAttachment(link?.url ?? "", options)}`).toBe("content");
    });

    test("no new token is taken where the app is no longer installed, and the refusal says so", async () => {
      await github.listComments(1);
      hub.accountChanges.uninstall();

      await expect(github.listComments(1)).rejects.toMatchObject({ name: "GitHubRefusalError", status: 404 });
    });

    test("a request is tried again later where a new token is not accepted either", async () => {
      answer(listsComments, { status: 401, body: { message: "Bad credentials" } });

      await expect(github.listComments(1)).rejects.toMatchObject({ name: "OutageError" });
      hub.onRequest(({ path }) => (path.endsWith("/graphql") ? { status: 401, body: {} } : undefined));
      await expect(github.listReviewThreads(1)).rejects.toMatchObject({ name: "OutageError" });
    });
  });
});

function change(branch: string) {
  const files = { [`${branch}.js`]: `// ${branch}\n` };
  return { branch, message: branch, author: "ada", at: new Date(), files };
}

function commit(branch: string, files: CommitFiles["files"]): Promise<void> {
  return hub.push({ ...change(branch), files }, "octo/sums");
}

async function openPull(branch: string) {
  await hub.push(change(branch), "octo/sums");
  return hub.as("ada").openPullRequest({ title: branch, head: branch, base: "main" });
}
