import type { components } from "@octokit/openapi-types";
import { HttpResponse, http } from "msw";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { Bot } from "#bot/create-bot.ts";
import { createBot } from "#bot/create-bot.ts";
import { UserError } from "#domain/errors.ts";
import type { GitHub } from "#domain/github.ts";
import {
  api,
  appId,
  botConfig,
  comment,
  person,
  privateKey,
  recordingRuns,
  repository,
  startGitHub,
} from "../../support/bot-world.ts";

type Schema = components["schemas"];

const { state, server } = startGitHub();
let bot: Bot;
let github: GitHub;
const repo = `${api}/repos/octo/shop`;

async function open(environment: Record<string, string> = {}): Promise<GitHub> {
  bot = await createBot({ config: botConfig(environment), runs: recordingRuns, ready: async () => {} });
  return bot.openGitHub(repository);
}

beforeAll(async () => {
  github = await open();
});
beforeEach(() => {
  state.requests = [];
  state.comments = [];
});
afterEach(() => server.resetHandlers());
afterAll(() => server.close());

const json = (body: unknown, init?: { status?: number; headers?: Record<string, string> }) =>
  HttpResponse.json(body as object, init);
const getting = (path: string, body: unknown, status = 200) => http.get(`${repo}${path}`, () => json(body, { status }));

describe("a refusal of GitHub is a sentence, and is not asked for again", () => {
  test.each([
    [
      403,
      "Repository was archived so is read-only.",
      /does not allow this app to do that in octo\/shop.*archived so is read-only/,
    ],
    [403, "Resource not accessible by integration - https://docs.github.com/rest", /not accessible by integration$/],
    [404, "Not Found", /does not find that in octo\/shop.*may no longer be installed there/],
    [410, "This issue was deleted", /gone from octo\/shop/],
  ])("%i, %s", async (status, message, sentence) => {
    server.use(http.post(`${repo}/issues/1/comments`, () => json({ message }, { status })));

    const refusal = await github.createComment(1, "hello").catch((error) => error);

    expect(refusal).toMatchObject({ name: "GitHubRefusal", status, message: expect.stringMatching(sentence) });
    expect(refusal).toBeInstanceOf(UserError);
    expect(state.requests.filter((request) => request.endsWith("/comments"))).toHaveLength(1);
  });

  test("but a 403 that asks for patience is none", async () => {
    const patience = { status: 403, headers: { "retry-after": "3600" } };
    server.use(http.get(`${repo}/issues/3`, () => json({ message: "Slow down." }, patience)));

    await expect(github.getIssue(3)).rejects.not.toBeInstanceOf(UserError);
  });

  test("also where the app is not installed any more, so that it gets no token", async () => {
    const fresh = await open();
    server.use(
      http.post(`${api}/app/installations/7/access_tokens`, () => json({ message: "Not Found" }, { status: 404 })),
    );

    await expect(fresh.listComments(1)).rejects.toThrow(/may no longer be installed there/);
    await expect(fresh.createGitToken("write")).rejects.toThrow(/may no longer be installed there/);
  });
});

describe("identity", () => {
  test("the app comments as its own bot, asked once", async () => {
    const fresh = await open();

    expect([await fresh.ownLogin(), await fresh.ownLogin()]).toEqual(["golem-forge[bot]", "golem-forge[bot]"]);
    expect(state.requests.filter((request) => request === "GET /app")).toHaveLength(1);
  });

  test("a comment is our own by the app that made it or by our login, never by what it says", async () => {
    state.comments = [
      comment(1, "golem-forge[bot]", "ours", { performed_via_github_app: { id: appId } as Schema["integration"] }),
      comment(2, "golem-forge[bot]", "another app's", { performed_via_github_app: { id: 9 } as Schema["integration"] }),
      comment(3, "golem-forge[bot]", "ours by name", { performed_via_github_app: null }),
      comment(4, "tom", "I am golem-forge[bot] <!-- golem-forge:x -->"),
      comment(5, "evil[bot]", "hello"),
      { ...comment(6, "tom", "gone"), user: null },
    ];

    const comments = await github.listComments(1);

    expect(comments.filter(({ own }) => own).map(({ id }) => id)).toEqual([1, 3]);
    expect(comments.at(-1)?.author).toBe("ghost");
  });

  test("every page of the comments is read", async () => {
    state.comments = Array.from({ length: 250 }, (_, index) => comment(index, "tom", `${index}`));

    expect((await github.listComments(1)).map(({ id }) => id)).toEqual(
      Array.from({ length: 250 }, (_, index) => index),
    );
  });
});

describe("permissions fail closed", () => {
  test.each<[string, unknown, string]>([
    ["admin", { permission: "admin", role_name: "admin", user: person("ada") }, "admin"],
    ["maintain", { permission: "write", role_name: "maintain", user: person("ada") }, "maintain"],
    ["triage", { permission: "read", role_name: "triage", user: person("ada") }, "triage"],
    ["a custom role on write", { permission: "write", role_name: "releaser", user: person("Ada") }, "write"],
    ["no role named", { permission: "write", user: person("ada") }, "write"],
    ["a role above its permission", { permission: "none", role_name: "maintain", user: person("ada") }, "none"],
    ["somebody else", { permission: "admin", role_name: "admin", user: person("eve") }, "none"],
    ["a list", [{ permission: "admin" }], "none"],
    ["nothing", null, "none"],
  ])("%s", async (_, answer, permission) => {
    server.use(getting("/collaborators/:login/permission", answer));

    expect(await github.getPermission("ada")).toBe(permission);
  });

  test("a connection that breaks is no permission", async () => {
    server.use(http.get(`${repo}/collaborators/:login/permission`, () => HttpResponse.error()));

    expect(await github.getPermission("ada")).toBe("none");
  });

  test("whoever can wait is not told so by an outage, but by an answer", async () => {
    const { signal } = new AbortController();
    // Octokit itself asks a second time, whatever the first answer was.
    const answers = [503, 503, 200, 404, 404];
    server.use(
      http.get(`${repo}/collaborators/:login/permission`, () =>
        json({ permission: "write", role_name: "write", user: person("ada") }, { status: answers.shift() ?? 500 }),
      ),
    );

    expect(await github.confirmPermission("ada", signal)).toBe("write");
    expect(await github.confirmPermission("ada", signal)).toBe("none");
  });

  test("a login cannot climb out of its place in the address", async () => {
    expect(await github.getPermission("../../../app?x=")).toBe("none");
    expect(state.requests.some((request) => request.includes("/collaborators/..%2F..%2F"))).toBe(true);
  });
});

describe("tokens for git", () => {
  test("are narrowed to the repository and to what git does, asked where GitHub is, and kept while they live", async () => {
    const asked: unknown[] = [];
    server.use(
      http.post(`${api}/app/installations/7/access_tokens`, async ({ request }) => {
        const body = (await request.text()) || "{}";
        asked.push(JSON.parse(body));
        const token: Schema["installation-token"] = {
          token: `ghs_${asked.length}`,
          expires_at: new Date(Date.now() + 3_600_000).toISOString(),
        };
        return json(token, { status: 201 });
      }),
    );

    const tokens = [
      await github.createGitToken("read"),
      await github.createGitToken("read"),
      await github.createGitToken("write"),
    ];

    expect(tokens).toEqual(["ghs_1", "ghs_1", "ghs_2"]);
    expect(asked).toEqual([
      { repositories: ["shop"], permissions: { contents: "read" } },
      { repositories: ["shop"], permissions: { contents: "write" } },
    ]);
  });

  test("that are about to end are asked for again", async () => {
    const fresh = await open();
    let count = 0;
    server.use(
      http.post(`${api}/app/installations/7/access_tokens`, () =>
        json({ token: `t${++count}`, expires_at: new Date(Date.now() + 60_000).toISOString() }, { status: 201 }),
      ),
    );

    expect([await fresh.createGitToken("read"), await fresh.createGitToken("read")]).toEqual(["t1", "t2"]);
  });
});

describe("reading", () => {
  test("issues, without the pull requests among them", async () => {
    const issue = {
      number: 3,
      title: "A",
      body: null,
      user: null,
      state: "open",
      locked: true,
      labels: ["bug", { name: "ui" }],
    };
    server.use(
      getting("/issues", [issue, { ...issue, number: 4, pull_request: {} }]),
      getting("/issues/3", issue),
      getting("/issues/9", { message: "Not Found" }, 404),
      getting("/issues/8", { message: "Gone" }, 410),
    );

    expect(await github.listIssues({})).toEqual([
      {
        number: 3,
        title: "A",
        body: "",
        author: "ghost",
        state: "open",
        locked: true,
        labels: ["bug", "ui"],
        isPullRequest: false,
      },
    ]);
    expect(await github.getIssue(3)).toMatchObject({ number: 3 });
    expect([await github.getIssue(9), await github.getIssue(8)]).toEqual([undefined, undefined]);
  });

  test("files and folders of the default branch", async () => {
    const file = {
      type: "file",
      sha: "s",
      encoding: "base64",
      content: Buffer.from("name: fixer\nü").toString("base64"),
    };
    server.use(
      getting("/contents/.github/workers/a%20b.worker", file),
      getting("/contents/.github/workers", [
        { type: "file", name: "fixer.worker" },
        { type: "dir", name: "sub" },
      ]),
      getting("/contents/big.txt", { ...file, encoding: "none", content: "" }),
      getting("/git/blobs/s", { encoding: "base64", content: Buffer.from("big").toString("base64") }),
      getting("/contents/nothing", { message: "This repository is empty." }, 404),
      getting("/contents/link", { type: "submodule", sha: "s" }),
    );

    expect(await github.readFile(".github/workers/a b.worker")).toBe("name: fixer\nü");
    expect(await github.listFiles(".github/workers")).toEqual(["fixer.worker"]);
    expect(await github.readFile("big.txt")).toBe("big");
    expect([await github.readFile("nothing"), await github.listFiles("nothing")]).toEqual([undefined, []]);
    expect([await github.readFile(".github/workers"), await github.readFile("link")]).toEqual([undefined, undefined]);
  });

  test("checks, reviews and the repository", async () => {
    server.use(
      getting("/commits/abc/check-runs", {
        total_count: 1,
        check_runs: [
          { name: "test", status: "completed", conclusion: "failure", output: { summary: "1 failed" }, html_url: null },
        ],
      }),
      getting("/pulls/2/comments", [{ id: 5, path: "a.js", original_line: 3, body: "why?", user: person("mia") }]),
      getting("", { default_branch: "main", private: true, clone_url: "https://github.example/octo/shop.git" }),
    );

    expect(await github.listChecks("abc")).toEqual([
      { name: "test", status: "completed", conclusion: "failure", summary: "1 failed", url: null },
    ]);
    expect(await github.listReviewComments(2)).toEqual([{ id: 5, path: "a.js", line: 3, body: "why?", author: "mia" }]);
    expect(await github.getRepository()).toEqual({
      defaultBranch: "main",
      private: true,
      cloneUrl: "https://github.example/octo/shop.git",
    });
  });

  test("the one pull request of a branch, never a fork's of the same name", async () => {
    const pull = (number: number, headRepo: number) => ({
      number,
      html_url: `https://github.example/octo/shop/pull/${number}`,
      title: "t",
      body: null,
      state: "closed",
      merged_at: "2026-05-01T10:00:00Z",
      draft: true,
      head: { ref: "golem/1-a", sha: "b", repo: { id: headRepo } },
      base: { ref: "main", sha: "a", repo: { id: 1 } },
    });
    server.use(getting("/pulls", [pull(8, 2), pull(7, 1)]));

    expect(await github.findPullRequest("golem/1-a")).toMatchObject({ number: 7, merged: true, state: "closed" });
    expect(await github.findPullRequest("golem/1-b")).toBeUndefined();
    expect((await github.getPullRequest(2))?.head.fromFork).toBe(false);
  });
});

describe("writing", () => {
  test("no secret leaves by any way", async () => {
    const sent: string[] = [];
    const pull = {
      number: 7,
      html_url: "",
      title: "",
      body: "",
      state: "open",
      head: { ref: "b", sha: "b", repo: { id: 1 } },
      base: { ref: "m", sha: "a", repo: { id: 1 } },
    };
    const take =
      (answer: object) =>
      async ({ request }: { request: Request }) => {
        sent.push(await request.text());
        return json(answer, { status: 201 });
      };
    server.use(
      http.post(`${repo}/issues/1/comments`, take(comment(1, "golem-forge[bot]", "x"))),
      http.patch(`${repo}/issues/comments/1`, take(comment(1, "golem-forge[bot]", "x"))),
      http.post(`${repo}/issues/1/labels`, take([{ name: "bug" }])),
      http.post(`${repo}/pulls`, take(pull)),
      http.patch(`${repo}/pulls/7`, take(pull)),
      http.post(`${repo}/pulls/7/comments/5/replies`, take({ id: 9 })),
    );
    const leak = `a webhook secret, ghp_${"a1".repeat(18)} and ${privateKey.split("\n")[2]}`;

    await github.createComment(1, leak);
    await github.updateComment(1, leak);
    await github.addLabels(1, [leak]);
    await github.createPullRequest({ head: "b", base: "main", title: leak, body: leak, draft: true });
    await github.updatePullRequest(7, { title: leak, body: leak });
    await github.replyToReviewComment(7, 5, leak);

    expect(sent).toHaveLength(6);
    for (const body of sent) expect(body).not.toMatch(/a webhook secret|ghp_|[A-Za-z0-9+/]{40}/);
    expect(sent[3]).toContain('"draft":true');
  });

  test("a comment whose answer was lost is not posted again by itself", async () => {
    let posts = 0;
    server.use(
      http.post(`${repo}/issues/1/comments`, () => {
        posts++;
        return HttpResponse.error();
      }),
    );

    await expect(github.createComment(1, "hello")).rejects.toThrow();
    expect(posts).toBe(1);
  });

  test.each([
    ["a secondary limit", 403, { message: "You have exceeded a secondary rate limit" }],
    ["too many requests", 429, { message: "Too Many Requests" }],
  ])("after %s the bot waits as long as it is told", async (_, status, body) => {
    const times: number[] = [];
    server.use(
      http.post(`${repo}/issues/1/comments`, () => {
        times.push(performance.now());
        return times.length === 1
          ? json(body, { status, headers: { "retry-after": "1" } })
          : json(comment(1, "golem-forge[bot]", "x"), { status: 201 });
      }),
    );

    await github.createComment(1, "hello");

    expect(times).toHaveLength(2);
    expect((times[1] ?? 0) - (times[0] ?? 0)).toBeGreaterThan(900);
  });

  test("a question that failed is asked again after a second, whatever failed before it", async () => {
    const times: number[] = [];
    server.use(
      http.get(`${repo}/issues/404`, () => json({}, { status: 404 })),
      http.get(`${repo}/issues/1/comments`, () => {
        times.push(performance.now());
        return times.length === 1 ? json({}, { status: 500 }) : json([]);
      }),
    );
    expect(await github.getIssue(404)).toBeUndefined();

    await github.listComments(1);

    expect((times[1] ?? 0) - (times[0] ?? 0)).toBeLessThan(3_000);
  });

  test("a pause of many minutes is not slept through", async () => {
    server.use(
      http.post(`${repo}/issues/1/comments`, () => json({}, { status: 429, headers: { "retry-after": "3600" } })),
    );

    await expect(github.createComment(1, "hello")).rejects.toMatchObject({ status: 429 });
  });

  test("writes keep the distance that was configured", async () => {
    const paced = await open({ GOLEM_FORGE_WRITE_INTERVAL_MS: "150" });
    const started = performance.now();

    await Promise.all([1, 2, 3].map((id) => paced.addReaction(id, "eyes")));

    expect(performance.now() - started).toBeGreaterThan(290);
    // What it is where nothing is configured.
    expect(performance.now() - started).toBeLessThan(2_000);
  });
});

describe("a repository with an id", () => {
  const open = () => bot.openGitHub({ ...repository, repositoryId: 11 });
  /** Answers requests for a token, each with the next name of the repository. */
  const issueTokens = (...names: string[]) => {
    const requests: unknown[] = [];
    server.use(
      http.post(`${api}/app/installations/7/access_tokens`, async ({ request }) => {
        requests.push(await request.json());
        const name = names[Math.min(requests.length, names.length) - 1];
        const token = {
          token: `ghs_${requests.length}`,
          expires_at: new Date(Date.now() + 3_600_000).toISOString(),
          repositories: [{ id: 11, name, owner: person("octo") }],
        };
        return json(token, { status: 201 });
      }),
    );
    return requests;
  };

  beforeEach(async () => {
    bot = await createBot({ config: botConfig(), runs: recordingRuns, ready: async () => {} });
  });

  test("is reached by its name, with a token that reaches no other repository", async () => {
    const requests = issueTokens("shop");
    const headers: (string | null)[] = [];
    server.use(
      http.get(`${repo}/issues/1/comments`, ({ request }) => {
        headers.push(request.headers.get("authorization"), request.headers.get("x-github-api-version"));
        return json([]);
      }),
    );

    await open().listComments(1);

    expect(requests).toEqual([{ repository_ids: [11] }]);
    expect(headers).toEqual(["token ghs_1", "2022-11-28"]);
  });

  test("gives git a token for itself alone", async () => {
    const requests = issueTokens("shop");

    expect(await open().createGitToken("read")).toBe("ghs_1");
    expect(requests).toEqual([{ repository_ids: [11], permissions: { contents: "read" } }]);
  });

  test("that was renamed is followed, and then reached by its new name", async () => {
    issueTokens("shop", "store");
    server.use(
      http.get(`${repo}/issues/1/comments`, () =>
        json({}, { status: 301, headers: { location: `${api}/repositories/11/issues/1/comments` } }),
      ),
      http.get(`${api}/repositories/11/issues/1/comments`, () => json([comment(5, "ada", "Hi")])),
      http.get(`${api}/repos/octo/store/issues/1/comments`, () => json([comment(6, "ada", "Ho")])),
    );

    expect((await open().listComments(1)).map(({ id }) => id)).toEqual([5]);
    expect((await open().listComments(1)).map(({ id }) => id)).toEqual([6]);
  });

  test("whose name was taken over is not read there, but by its new name", async () => {
    issueTokens("shop", "store");
    server.use(
      getting("", { id: 12 }),
      getting("/contents/a.worker", { type: "file", sha: "s", encoding: "base64", content: btoa("an impostor's") }),
      http.get(`${api}/repos/octo/store/contents/a.worker`, () =>
        json({ type: "file", sha: "s", encoding: "base64", content: btoa("its own") }),
      ),
    );
    const github = open();
    await github.listComments(1);
    const later = Date.now() + 2 * 60_000;
    vi.spyOn(Date, "now").mockImplementation(() => later);

    expect(await github.readFile("a.worker")).toBe("its own");
    vi.restoreAllMocks();
  });

  test.each([301, 307])("does not follow an issue to another repository (%i)", async (status) => {
    issueTokens("shop");
    const headers = { location: `${api}/repositories/12/issues/3/comments` };
    server.use(
      http.get(`${repo}/issues/1`, () => new HttpResponse(null, { status, headers })),
      http.post(`${repo}/issues/1/comments`, () => new HttpResponse(null, { status, headers })),
    );

    expect(await open().getIssue(1)).toBeUndefined();
    await expect(open().createComment(1, "hello")).rejects.toThrow("That is gone from octo/shop (410).");
    expect(state.requests.some((request) => request.includes("/repositories/12"))).toBe(false);
  });

  test("is not confused with another whose pull request has the same number", async () => {
    issueTokens("shop");
    server.use(getting("/pulls/3", { head: { repo: { id: 12 } }, base: { repo: { id: 12 } } }));

    expect(await open().getPullRequest(3)).toBeUndefined();
  });

  describe("whose token was revoked early", () => {
    const unauthorized = () => json({ message: "Bad credentials" }, { status: 401 });

    test("gets a new one", async () => {
      issueTokens("shop");
      server.use(
        http.post(`${repo}/issues/1/comments`, ({ request }) =>
          request.headers.get("authorization") === "token ghs_1"
            ? unauthorized()
            : json(comment(6, "golem-forge[bot]", "Yo"), { status: 201 }),
        ),
      );

      expect((await open().createComment(1, "Yo")).id).toBe(6);
    });

    test("is refused where the app is no longer installed", async () => {
      issueTokens("shop");
      const github = open();
      await github.listComments(1);
      server.use(
        http.get(`${repo}/issues/1/comments`, unauthorized),
        http.post(`${api}/app/installations/7/access_tokens`, () => json({ message: "Not Found" }, { status: 404 })),
      );

      await expect(github.listComments(1)).rejects.toMatchObject({ name: "GitHubRefusal", status: 404 });
    });

    test("is tried again later where a new one is not accepted either", async () => {
      issueTokens("shop");
      server.use(http.get(`${repo}/issues/1/comments`, unauthorized));

      await expect(open().listComments(1)).rejects.toMatchObject({ name: "OutageError" });
    });
  });
});
