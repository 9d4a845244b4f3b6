import { createHmac } from "node:crypto";
import { afterEach, expect, test } from "vitest";
import { commitTo, PlaygroundWorld, shop, webhookSecret } from "../support/playground-world.ts";

let world: PlaygroundWorld;
afterEach(() => world.close());

test("a comment is delivered to the app, signed and in GitHub's format", async () => {
  world = await PlaygroundWorld.start();
  const { number } = world.github.as("visitor").openIssue({ title: "Broken", body: "It is broken" });
  world.github.as("maintainer").comment(number, "/run fixer");
  await world.github.deliveriesSettled();

  const delivered = world.received.find(({ headers }) => headers["x-github-event"] === "issue_comment");
  const signature = createHmac("sha256", webhookSecret)
    .update(delivered?.body ?? "")
    .digest("hex");
  expect(delivered?.headers["x-hub-signature-256"]).toBe(`sha256=${signature}`);
  expect(delivered?.headers["x-github-delivery"]).toMatch(/^[0-9a-f-]{36}$/);
  expect(delivered?.payload).toMatchObject({
    action: "created",
    issue: { number, title: "Broken", user: { login: "visitor" } },
    comment: { body: "/run fixer", user: { login: "maintainer", type: "User" } },
    sender: { login: "maintainer" },
    repository: { full_name: "playground/shop", clone_url: `${world.github.url}/playground/shop.git` },
    installation: { id: world.github.installationId },
  });
});

test("the app's own comments are delivered as well, with its bot as the sender", async () => {
  world = await PlaygroundWorld.start();
  const { number } = world.github.as("visitor").openIssue({ title: "Broken" });
  const octokit = await world.client();

  const { data } = await octokit.rest.issues.createComment({ ...shop, issue_number: number, body: "On it" });
  await octokit.rest.issues.updateComment({ ...shop, comment_id: data.id, body: "Done" });
  await world.github.deliveriesSettled();

  const own = world.received.filter(({ headers }) => headers["x-github-event"] === "issue_comment");
  expect(own.map(({ payload }) => payload)).toMatchObject([
    { action: "created", sender: { login: "golem-forge[bot]", type: "Bot" } },
    { action: "edited", sender: { login: "golem-forge[bot]" }, changes: { body: { from: "On it" } } },
  ]);
});

test("an edit names who edited as the sender and who wrote as the author", async () => {
  world = await PlaygroundWorld.start();
  const { number } = world.github.as("visitor").openIssue({ title: "Broken" });
  const { id } = world.github.as("visitor").comment(number, "Hello");

  world.github.as("maintainer").editComment(id, "/run fixer");
  await world.github.deliveriesSettled();

  expect(world.received.at(-1)?.payload).toMatchObject({
    action: "edited",
    sender: { login: "maintainer" },
    comment: { user: { login: "visitor" } },
  });
});

test("a failed delivery is listed with its status and can be redelivered with the same id", async () => {
  world = await PlaygroundWorld.start();
  world.webhookStatus = 503;
  world.github.as("visitor").openIssue({ title: "Broken" });
  await world.github.deliveriesSettled();
  const { data: failed } = await world.app.request("GET /app/hook/deliveries");
  world.webhookStatus = 200;

  await world.app.request("POST /app/hook/deliveries/{delivery_id}/attempts", { delivery_id: Number(failed[0]?.id) });
  await world.github.deliveriesSettled();

  const { data: all } = await world.app.request("GET /app/hook/deliveries");
  expect(all.map(({ status_code, redelivery }) => [status_code, redelivery])).toEqual([
    [200, true],
    [503, false],
  ]);
  expect(all[0]?.guid).toBe(all[1]?.guid);
  expect(world.received[0]?.body).toBe(world.received[1]?.body);
});

test("a push names the files of its commits", async () => {
  world = await PlaygroundWorld.start();
  await commitTo(world.github, "main", { "one file.js": "1;\n", "b.js": "2;\n" });
  await world.github.deliveriesSettled();
  await commitTo(world.github, "main", { "one file.js": "2;\n" });
  await world.github.deliveriesSettled();

  const pushes = world.received.filter(({ headers }) => headers["x-github-event"] === "push");
  expect(pushes.map(({ payload }) => payload)).toMatchObject([
    { forced: false, commits: [{ added: ["b.js", "one file.js"], modified: [], removed: [] }] },
    { forced: false, commits: [{ added: [], modified: ["one file.js"], removed: [] }] },
  ]);
});

test("a push is delivered for the branch and for its pull request", async () => {
  world = await PlaygroundWorld.start();
  await commitTo(world.github, "work", { "a.txt": "a" });
  const octokit = await world.client();
  await octokit.rest.pulls.create({ ...shop, head: "work", base: "main", title: "Work" });

  await commitTo(world.github, "work", { "a.txt": "b" });
  await world.github.deliveriesSettled();

  const events = world.received.map(({ headers, payload }) => [headers["x-github-event"], payload.action]);
  expect(events.sort()).toEqual([
    ["pull_request", "opened"],
    ["pull_request", "synchronize"],
    ["push", undefined],
    ["push", undefined],
  ]);
});

test("nothing is delivered from a repository without the app", async () => {
  world = await PlaygroundWorld.start({ repositories: [{ name: "shop", installed: false }] });

  world.github.as("visitor").openIssue({ title: "Broken" });
  await world.github.deliveriesSettled();

  expect(world.received).toEqual([]);
  const comment = (await world.client()).rest.issues.createComment({ ...shop, issue_number: 1, body: "Hello" });
  await expect(comment).rejects.toMatchObject({ status: 403 });
});
