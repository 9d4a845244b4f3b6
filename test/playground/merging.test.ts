import type { Octokit } from "@octokit/rest";
import { afterAll, beforeAll, expect, test } from "vitest";
import { commitTo, PlaygroundWorld, shop } from "../support/playground-world.ts";

let world: PlaygroundWorld;
let octokit: Octokit;
beforeAll(async () => {
  world = await PlaygroundWorld.start();
  octokit = await world.client();
});
afterAll(() => world.close());

let last = 0;

async function openPull(files: Record<string, string> = { "a.txt": `${last}` }, draft = false) {
  const branch = `work-${++last}`;
  await commitTo(world.github, branch, files);
  const { data } = await octokit.rest.pulls.create({ ...shop, head: branch, base: "main", title: branch, draft });
  await world.github.deliveriesSettled();
  return { branch, pull_number: data.number };
}

/** The merge state as soon as GitHub has computed it. */
async function mergeState(pull_number: number): Promise<string> {
  for (;;) {
    const { data } = await octokit.rest.pulls.get({ ...shop, pull_number });
    if (data.mergeable !== null) return data.mergeable_state;
  }
}

test("mergeability is unknown at first", async () => {
  await commitTo(world.github, "fresh", { "fresh.txt": "1" });

  const { data } = await octokit.rest.pulls.create({ ...shop, head: "fresh", base: "main", title: "Fresh" });

  expect([data.mergeable, data.mergeable_state]).toEqual([null, "unknown"]);
  expect(await mergeState(data.number)).toBe("clean");
});

test("a merged pull request is closed, and its commits are on the base branch", async () => {
  const { branch, pull_number } = await openPull({ "merged.txt": "merged\n" });
  const before = world.received.length;

  await world.github.as("maintainer").merge(pull_number);

  await world.github.deliveriesSettled();
  expect(world.events.slice(before).sort()).toEqual(["pull_request.closed", "push"]);
  const closed = world.received.slice(before).find(({ payload }) => payload.action === "closed");
  expect(closed?.payload).toMatchObject({ pull_request: { merged: true, merged_by: { login: "maintainer" } } });
  expect(await world.github.readFile("main", "merged.txt")).toBe("merged\n");
  const { data: commit } = await octokit.rest.repos.getCommit({ ...shop, ref: "main" });
  expect(commit.commit.message).toContain(`Merge pull request #${pull_number} from playground/${branch}`);
  expect(commit.parents).toHaveLength(2);
});

test.each(["squash", "rebase"] as const)("a %s leaves one commit with one parent", async (method) => {
  const { pull_number } = await openPull({ [`${method}.txt`]: "1" });
  await commitTo(world.github, "main", { [`before-${method}.txt`]: "1" });
  const before = await octokit.rest.repos.getCommit({ ...shop, ref: "main" });

  const sha = await world.github.as("maintainer").merge(pull_number, { method });

  const { data: commit } = await octokit.rest.repos.getCommit({ ...shop, ref: sha });
  expect(commit.parents.map(({ sha }) => sha)).toEqual([before.data.sha]);
  for (const name of [method, `before-${method}`]) {
    expect(await world.github.readFile("main", `${name}.txt`)).toBe("1");
  }
});

test("conflicts make a pull request dirty, and it cannot be merged", async () => {
  const { pull_number } = await openPull({ "README.md": "# Their shop\n" });
  await commitTo(world.github, "main", { "README.md": "# Our shop\n" });

  expect(await mergeState(pull_number)).toBe("dirty");
  await expect(world.github.as("maintainer").merge(pull_number)).rejects.toMatchObject({ status: 405 });
});

test("a draft is merged only after it is ready for review", async () => {
  const { pull_number } = await openPull({ "draft.txt": "1" }, true);
  const { data } = await octokit.rest.pulls.get({ ...shop, pull_number });
  await expect(world.github.as("maintainer").merge(pull_number)).rejects.toMatchObject({ status: 405 });
  const before = world.received.length;

  await octokit.graphql(
    "mutation($id: ID!) { markPullRequestReadyForReview(input: { pullRequestId: $id }) { pullRequest { isDraft } } }",
    { id: data.node_id },
  );
  await world.github.as("maintainer").merge(pull_number);

  await world.github.deliveriesSettled();
  expect(world.events.slice(before)).toContain("pull_request.ready_for_review");
});

test("a push that brings a pull request's commits to the base branch merges it", async () => {
  const { branch, pull_number } = await openPull({ "pushed.txt": "1" });
  const { data: head } = await octokit.rest.repos.getCommit({ ...shop, ref: branch });
  const { data: main } = await octokit.rest.repos.getCommit({ ...shop, ref: "main" });
  const { data: merge } = await octokit.rest.git.createCommit({
    ...shop,
    message: "By hand",
    tree: head.commit.tree.sha,
    parents: [main.sha, head.sha],
  });

  await world.github.moveBranch("main", merge.sha, "maintainer");

  const { data } = await octokit.rest.pulls.get({ ...shop, pull_number });
  expect([data.merged, data.merge_commit_sha]).toEqual([true, merge.sha]);
});

test("a required check blocks a merge until it is green, and a failing one makes the state unstable", async () => {
  await world.github.createRepository({
    name: "strict",
    requiredChecks: ["tests"],
    commits: [{ branch: "main", message: "One", author: "maintainer", at: new Date(0), files: { "a.txt": "1" } }],
  });
  const strict = { owner: "playground", repo: "strict" };
  const commit = { branch: "work", message: "Two", author: "contributor", at: new Date(), files: { "a.txt": "2" } };
  await world.github.push(commit, "playground/strict");
  const maintainer = world.github.as("maintainer", "playground/strict");
  const { number } = await maintainer.openPullRequest({ title: "Two", head: "work", base: "main" });
  const state = async () => (await octokit.rest.pulls.get({ ...strict, pull_number: number })).data.mergeable_state;
  const ci = await world.github.checks("work", { repository: "playground/strict" });
  await expect.poll(state).toBe("blocked");

  const run = ci.report("tests", {});
  await expect(maintainer.merge(number)).rejects.toThrow('Required status check "tests" is expected.');
  ci.update(run, { conclusion: "success" });
  expect(await state()).toBe("clean");
  ci.report("lint", { conclusion: "failure" });

  expect(await state()).toBe("unstable");
  const { data: rules } = await octokit.rest.repos.getBranchRules({ ...strict, branch: "main" });
  expect(rules).toMatchObject([{ parameters: { required_status_checks: [{ context: "tests" }] } }]);
});

test("a private repository on the Free plan has no draft pull requests", async () => {
  const commits = [{ branch: "main", message: "One", author: "maintainer", at: new Date(0), files: { "a.txt": "1" } }];
  await world.github.createRepository({ name: "free", private: true, plan: "free", commits });
  const commit = { branch: "work", message: "Two", author: "contributor", at: new Date(), files: { "a.txt": "2" } };
  await world.github.push(commit, "playground/free");
  const pull = { owner: "playground", repo: "free", head: "work", base: "main", title: "Two" };

  const refused = octokit.rest.pulls.create({ ...pull, draft: true });

  await expect(refused).rejects.toMatchObject({
    status: 422,
    response: { data: { message: "Draft pull requests are not supported in this repository." } },
  });
  expect((await octokit.rest.pulls.create(pull)).data.draft).toBe(false);
});

test("the pull request of a fork names the fork, and follows its branch", async () => {
  await world.github.fork("visitor");
  const commit = (content: string) => ({
    branch: "fix",
    message: "Fix",
    author: "visitor",
    at: new Date(),
    files: { "fork.txt": content },
  });
  await world.github.push(commit("1"), "visitor/shop");
  const visitor = world.github.as("visitor");
  const { number } = await visitor.openPullRequest({ title: "Fix", head: "visitor:fix", base: "main" });

  await world.github.push(commit("2"), "visitor/shop");

  const { data } = await octokit.rest.pulls.get({ ...shop, pull_number: number });
  const { data: files } = await octokit.rest.pulls.listFiles({ ...shop, pull_number: number });
  expect(data.head).toMatchObject({ label: "visitor:fix", repo: { full_name: "visitor/shop", fork: true } });
  expect(data.commits).toBe(2);
  expect(files[0]?.patch).toContain("+2");
});
