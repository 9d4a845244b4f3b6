import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { IncomingMessage } from "node:http";
import { connect } from "node:net";
import { setImmediate } from "node:timers/promises";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { commitTo, PlaygroundWorld, shop } from "../support/playground-world.ts";

let world: PlaygroundWorld;

beforeAll(async () => {
  world = await PlaygroundWorld.start();
});
afterAll(() => world.close());

test("the app authenticates with its own signature and finds its installation", async () => {
  const { data: app } = await world.app.request("GET /app");
  const { data: installations } = await world.app.request("GET /app/installations");

  expect(app?.slug).toBe("golem-forge");
  expect(installations.map(({ id }) => id)).toEqual([world.github.installationId]);
});

test("an issue is opened, commented on, and the comment edited, listed and reacted to", async () => {
  const octokit = await world.client();

  const { data: issue } = await octokit.rest.issues.create({ ...shop, title: "Too slow", labels: ["bug"] });
  const where = { ...shop, issue_number: issue.number };
  const { data: comment } = await octokit.rest.issues.createComment({ ...where, body: "Looking" });
  await octokit.rest.issues.updateComment({ ...shop, comment_id: comment.id, body: "Looked" });
  const first = await octokit.rest.reactions.createForIssueComment({
    ...shop,
    comment_id: comment.id,
    content: "eyes",
  });
  const again = await octokit.rest.reactions.createForIssueComment({
    ...shop,
    comment_id: comment.id,
    content: "eyes",
  });

  const { data: comments } = await octokit.rest.issues.listComments(where);
  expect(comments.map(({ body, user }) => [body, user?.login])).toEqual([["Looked", "golem-forge[bot]"]]);
  expect(comments[0]?.performed_via_github_app?.slug).toBe("golem-forge");
  expect([first.status, again.status]).toEqual([201, 200]);
  expect(comments[0]?.reactions?.eyes).toBe(1);
});

test("long lists are paginated with Link headers", async () => {
  const octokit = await world.client();
  const thread = world.github.as("visitor").openIssue({ title: "Many words" });
  for (let index = 1; index <= 7; index++) world.github.as("visitor").comment(thread.number, `Word ${index}`);
  const where = { ...shop, issue_number: thread.number, per_page: 3 };

  const all = await octokit.paginate(octokit.rest.issues.listComments, where);
  const { headers } = await octokit.rest.issues.listComments({ ...where, page: 2 });

  expect(all.map(({ body }) => body)).toEqual([1, 2, 3, 4, 5, 6, 7].map((index) => `Word ${index}`));
  expect(headers.link?.match(/rel="\w+"/g)).toEqual(['rel="prev"', 'rel="first"', 'rel="next"', 'rel="last"']);
});

test("a pull request shows its diff, and follows its branch", async () => {
  const octokit = await world.client();
  await commitTo(world.github, "faster", { "src/total.js": "export const total = 2;\n", "src/new.js": "1\n" });

  const { data: pull } = await octokit.rest.pulls.create({
    ...shop,
    head: "faster",
    base: "main",
    title: "Faster",
    draft: true,
  });
  await commitTo(world.github, "faster", { "src/new.js": undefined });
  const { data: later } = await octokit.rest.pulls.get({ ...shop, pull_number: pull.number });
  const { data: files } = await octokit.rest.pulls.listFiles({ ...shop, pull_number: pull.number });
  const { data: found } = await octokit.rest.pulls.list({ ...shop, head: "playground:faster", state: "all" });

  expect([pull.changed_files, later.changed_files, later.commits, later.draft]).toEqual([2, 1, 2, true]);
  expect(later.head.sha).not.toBe(pull.head.sha);
  expect(files.map(({ filename, patch }) => [filename, patch])).toEqual([
    ["src/total.js", "@@ -1 +1 @@\n-export const total = 1;\n+export const total = 2;"],
  ]);
  expect(found.map(({ number }) => number)).toEqual([pull.number]);
});

test.each([
  [
    "a second one for the same branch",
    { head: "twice", base: "main" },
    "A pull request already exists for playground:twice.",
  ],
  ["a branch without new commits", { head: "same", base: "main" }, "No commits between main and same"],
  ["an unknown branch", { head: "nowhere", base: "main" }, '"field":"head","code":"invalid"'],
  ["an unknown base", { head: "twice", base: "nowhere" }, '"field":"base","code":"invalid"'],
])("a pull request is refused: %s", async (_, ends, complaint) => {
  const octokit = await world.client();
  await commitTo(world.github, "twice", { "twice.txt": `${Date.now()}` });
  await world.github.push({ branch: "same", message: "", author: "contributor", at: new Date(0), files: {} });
  await world.github.moveBranch("same", "main", "contributor");
  await octokit.rest.pulls.create({ ...shop, head: "twice", base: "main", title: "First" }).catch(() => undefined);

  const refused = octokit.rest.pulls.create({ ...shop, ...ends, title: "Second" });

  await expect(refused).rejects.toMatchObject({ status: 422, message: expect.stringContaining(complaint) });
});

test.each([
  ["an empty comment", "POST /repos/{owner}/{repo}/issues/1/comments", { body: "" }],
  ["a comment of 65,537 characters", "POST /repos/{owner}/{repo}/issues/1/comments", { body: "x".repeat(65_537) }],
  ["a comment without a body", "POST /repos/{owner}/{repo}/issues/1/comments", {}],
  ["an issue without a title", "POST /repos/{owner}/{repo}/issues", { body: "No title" }],
  ["an unknown reaction", "POST /repos/{owner}/{repo}/issues/1/reactions", { content: "shrug" }],
])("%s is refused with a 422 that names the field", async (_, route, body) => {
  const octokit = await world.client();
  world.github.as("visitor").openIssue({ title: "There is a first issue" });

  const refused = octokit.request(route, { ...shop, ...body });

  await expect(refused).rejects.toMatchObject({
    status: 422,
    response: { data: { message: "Validation Failed", errors: [{ field: expect.any(String) }] } },
  });
});

test("files and folders can be read at any ref", async () => {
  const octokit = await world.client();

  const { data: file } = await octokit.rest.repos.getContent({ ...shop, path: "src/total.js", ref: "main" });
  const { data: folder } = await octokit.rest.repos.getContent({ ...shop, path: "src" });
  const { data: root } = await octokit.rest.repos.getContent({ ...shop, path: "" });

  const content = "content" in file ? Buffer.from(file.content ?? "", "base64").toString("utf8") : "";
  expect(content).toBe("export const total = 1;\n");
  expect(Array.isArray(folder) && folder.map(({ path }) => path)).toEqual(["src/total.js"]);
  expect(Array.isArray(root) && root.map(({ path, type }) => [path, type])).toEqual([
    ["README.md", "file"],
    ["src", "dir"],
  ]);
  await expect(octokit.rest.repos.getContent({ ...shop, path: "nothing.md" })).rejects.toMatchObject({ status: 404 });
});

test("an empty repository has no contents", async () => {
  await world.github.createRepository({ name: "empty" });
  const octokit = await world.client();
  const empty = { owner: "playground", repo: "empty" };

  await expect(octokit.rest.repos.getContent({ ...empty, path: "" })).rejects.toMatchObject({ status: 404 });
});

test.each([
  ["maintainer", "admin"],
  ["contributor", "write"],
  ["visitor", "read"],
])("%s has the permission %s", async (username, permission) => {
  const octokit = await world.client();

  const { data } = await octokit.rest.repos.getCollaboratorPermissionLevel({ ...shop, username });

  expect(data.permission).toBe(permission);
});

test("a token reaches only the repositories and permissions it was narrowed to", async () => {
  await world.github.createRepository({ name: "other", private: true });
  const octokit = await world.client({ repositories: ["shop"], permissions: { issues: "read" } });

  const refusals = await Promise.allSettled([
    octokit.rest.repos.get({ owner: "playground", repo: "other" }),
    octokit.rest.issues.createComment({ ...shop, issue_number: 1, body: "Hello" }),
    octokit.rest.pulls.list(shop),
  ]);

  expect(refusals.map((refusal) => refusal.status === "rejected" && refusal.reason.status)).toEqual([404, 403, 403]);
  await expect(octokit.rest.issues.listForRepo(shop)).resolves.toMatchObject({ status: 200 });
});

test("a token cannot have more permissions than the installation", async () => {
  await expect(world.token({ permissions: { administration: "write" } })).rejects.toMatchObject({ status: 422 });
});

test("requests without a token, with an unknown or with an expired one are refused", async () => {
  const short = await PlaygroundWorld.start({ tokenMs: -1 });
  const expired = await short.token();
  const ask = (url: string, authorization?: string) =>
    fetch(`${url}/repos/playground/shop`, authorization ? { headers: { authorization } } : {});

  const statuses = await Promise.all([
    ask(world.github.apiUrl),
    ask(world.github.apiUrl, "Bearer ghs_madeup"),
    ask(world.github.apiUrl, "Bearer a.b.c"),
    ask(short.github.apiUrl, `token ${expired}`),
  ]).then((answers) => answers.map(({ status }) => status));
  await short.close();

  expect(statuses).toEqual([401, 401, 401, 401]);
});

test("an operation that is not implemented is answered with 404 and recorded", async () => {
  const octokit = await world.client();

  await expect(octokit.request("GET /repos/playground/shop/milestones")).rejects.toMatchObject({ status: 404 });

  expect(world.github.unknownRequests().map(({ path }) => path)).toEqual(["/repos/playground/shop/milestones"]);
});

test("a request whose connection breaks off is not printed as a failure", async () => {
  const print = vi.spyOn(console, "error").mockReturnValue();
  const arrived = Promise.withResolvers<IncomingMessage>();
  const onRequest = (message: unknown) => arrived.resolve((message as { request: IncomingMessage }).request);
  subscribe("http.server.request.start", onRequest);
  const { hostname, port } = new URL(world.github.url);
  const socket = connect(Number(port), hostname);
  socket.write("POST /api/graphql HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{");
  const request = await arrived.promise;
  unsubscribe("http.server.request.start", onRequest);

  socket.destroy();
  await new Promise((resolve) => request.once("close", resolve));
  await setImmediate();

  expect(print).not.toHaveBeenCalled();
  print.mockRestore();
});

test("the API also works without its prefix", async () => {
  const token = await world.token();

  const answer = await fetch(`${world.github.url}/repos/playground/shop`, {
    headers: { authorization: `token ${token}` },
  });

  expect(await answer.json()).toMatchObject({ full_name: "playground/shop", default_branch: "main" });
});

test("a test can inject a response, or drop the connection after a write", async () => {
  const octokit = await world.client();
  const { number } = world.github.as("visitor").openIssue({ title: "Unlucky" });
  const where = { ...shop, issue_number: number };
  const stopRefusing = world.github.onRequest(() => ({ status: 429, headers: { "Retry-After": "3" } }));

  await expect(octokit.rest.issues.createComment({ ...where, body: "One" })).rejects.toMatchObject({ status: 429 });
  stopRefusing();
  const stopDropping = world.github.afterWrite(() => "drop");
  await expect(octokit.rest.issues.createComment({ ...where, body: "Two" })).rejects.toThrow();
  stopDropping();

  const { data } = await octokit.rest.issues.listComments(where);
  expect(data.map(({ body }) => body)).toEqual(["Two"]);
});

test("checks of a commit and replies to review comments can be listed", async () => {
  const octokit = await world.client();
  await commitTo(world.github, "golem/1-abc", { "src/total.js": "export const total = 3;\n" });
  const { data: pull } = await octokit.rest.pulls.create({
    ...shop,
    head: "golem/1-abc",
    base: "main",
    title: "Three",
  });
  const checks = await world.github.checks("golem/1-abc");
  checks.report("tests", { conclusion: "failure", summary: "1 failed" });
  const remark = { path: "src/total.js", line: 1, body: "Why three?" };
  const { id } = await world.github.as("maintainer").reviewComment(pull.number, remark);

  await octokit.rest.pulls.createReplyForReviewComment({
    ...shop,
    pull_number: pull.number,
    comment_id: id,
    body: "Because",
  });
  const { data: listed } = await octokit.rest.checks.listForRef({ ...shop, ref: "golem/1-abc" });
  const { data: comments } = await octokit.rest.pulls.listReviewComments({ ...shop, pull_number: pull.number });

  expect(listed.check_runs.map(({ name, conclusion }) => [name, conclusion])).toEqual([["tests", "failure"]]);
  expect(comments.map(({ body, in_reply_to_id }) => [body, in_reply_to_id])).toEqual([
    ["Why three?", undefined],
    ["Because", id],
  ]);
});

test("an earlier name is redirected, in REST and in git, until another repository takes it", async () => {
  const moved = await PlaygroundWorld.start();
  const { github } = moved;
  const octokit = await moved.client();
  const { number } = github.as("visitor").openIssue({ title: "Broken" });
  const { id } = github.repository();

  github.accountChanges.rename(github.repository(), "store");

  expect((await octokit.rest.repos.get(shop)).data.full_name).toBe("playground/store");
  const made = await octokit.rest.issues.createComment({ ...shop, issue_number: number, body: "On it" });
  expect(made.data.body).toBe("On it");
  expect((await octokit.request(`GET /repositories/${id}/issues/${number}`)).data.title).toBe("Broken");
  const git = await fetch(`${github.url}/playground/shop.git/info/refs?service=git-upload-pack`, {
    redirect: "manual",
  });
  expect([git.status, git.headers.get("location")]).toEqual([
    301,
    `${github.url}/playground/store.git/info/refs?service=git-upload-pack`,
  ]);

  await github.createRepository({ name: "shop" });
  expect((await octokit.rest.repos.get(shop)).data.id).not.toBe(id);
  await moved.close();
});
