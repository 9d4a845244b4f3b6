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

const source = Array.from({ length: 20 }, (_, index) => `const line${index + 1} = ${index + 1};\n`).join("");
let last = 0;

/** Opens the app's pull request, which adds a file of 20 lines. */
async function openPull() {
  const branch = `work-${++last}`;
  await commitTo(world.github, branch, { [`src/${branch}.js`]: source });
  const { data } = await octokit.rest.pulls.create({ ...shop, head: branch, base: "main", title: branch });
  await world.github.deliveriesSettled();
  return { branch, path: `src/${branch}.js`, pull_number: data.number };
}

/** Waits for the webhooks and returns those that have arrived since. */
async function webhooksSince(count: number) {
  await world.github.deliveriesSettled();
  return { events: world.events.slice(count), payloads: world.received.slice(count).map(({ payload }) => payload) };
}

test("a review with comments is delivered as a review and one event for each comment", async () => {
  const { path, pull_number } = await openPull();
  const before = world.received.length;

  await world.github.as("contributor").review(pull_number, {
    event: "REQUEST_CHANGES",
    body: "Almost",
    comments: [
      { path, line: 3, body: "Why three?" },
      { path, start_line: 5, line: 7, body: "Too long" },
    ],
  });

  const { events, payloads } = await webhooksSince(before);
  expect(events.sort()).toEqual([
    "pull_request_review.submitted",
    "pull_request_review_comment.created",
    "pull_request_review_comment.created",
  ]);
  expect(payloads.find(({ review }) => review)).toMatchObject({
    review: { state: "changes_requested", body: "Almost", user: { login: "contributor" } },
    pull_request: { number: pull_number },
  });
  const { data: reviews } = await octokit.rest.pulls.listReviews({ ...shop, pull_number });
  expect(reviews).toMatchObject([{ state: "CHANGES_REQUESTED", body: "Almost" }]);
  const { data: comments } = await octokit.rest.pulls.listReviewComments({ ...shop, pull_number });
  expect(comments).toMatchObject([
    { path, line: 3, side: "RIGHT", start_line: null, pull_request_review_id: reviews[0]?.id },
    { path, line: 7, start_line: 5, start_side: "RIGHT" },
  ]);
  expect(comments[0]?.diff_hunk.split("\n").at(-1)).toBe("+const line3 = 3;");
});

test("the app reviews a pull request of somebody else", async () => {
  await commitTo(world.github, "theirs", { "src/theirs.js": source });
  const pull = await world.github.as("contributor").openPullRequest({ title: "Theirs", head: "theirs", base: "main" });
  const where = { ...shop, pull_number: pull.number };

  const { data: review } = await octokit.rest.pulls.createReview({
    ...where,
    event: "REQUEST_CHANGES",
    body: "One remark",
    comments: [{ path: "src/theirs.js", line: 2, side: "RIGHT", body: "```suggestion\nconst two = 2;\n```" }],
  });

  const { data: comments } = await octokit.rest.pulls.listReviewComments(where);
  expect(review).toMatchObject({ state: "CHANGES_REQUESTED", user: { login: "golem-forge[bot]" } });
  expect(comments).toMatchObject([{ body: "```suggestion\nconst two = 2;\n```" }]);
});

test("a comment on a whole file has no line, and pushes do not make it outdated", async () => {
  const { branch, path, pull_number } = await openPull();

  await world.github.as("contributor").reviewComment(pull_number, { path, body: "Why this file?" });
  await commitTo(world.github, branch, { [path]: "const all = 1;\n" });

  const { data } = await octokit.rest.pulls.listReviewComments({ ...shop, pull_number });
  expect(data).toMatchObject([{ body: "Why this file?", subject_type: "file", line: null, diff_hunk: "" }]);
});

test("the app cannot approve its own pull request", async () => {
  const { pull_number } = await openPull();

  const refused = octokit.rest.pulls.createReview({ ...shop, pull_number, event: "APPROVE" });

  const message = expect.stringContaining("Can not approve your own pull request");
  await expect(refused).rejects.toMatchObject({ status: 422, message });
});

test.each([
  ["a line", { line: 99 }, "pull_request_review_thread.line must be part of the diff"],
  ["a file", { path: "README.md" }, "Path could not be resolved"],
])("%s outside the diff takes no comment", async (_, place, problem) => {
  const { path, pull_number } = await openPull();
  const comments = [{ path, line: 1, body: "A remark", ...place }];

  const refused = octokit.rest.pulls.createReview({ ...shop, pull_number, event: "COMMENT", comments });

  await expect(refused).rejects.toMatchObject({ status: 422, message: expect.stringContaining(problem) });
});

test("a comment follows its line when lines above change, and is outdated when the line itself changes", async () => {
  const { branch, path, pull_number } = await openPull();
  const contributor = world.github.as("contributor");
  const stays = await contributor.reviewComment(pull_number, { path, line: 4, body: "Stays" });
  const goes = await contributor.reviewComment(pull_number, { path, line: 10, body: "Goes" });

  await commitTo(world.github, branch, { [path]: `// A new first line\n${source.replace("line10 = 10", "ten = 10")}` });

  const { data } = await octokit.rest.pulls.listReviewComments({ ...shop, pull_number });
  expect(data.map(({ id, line, original_line }) => [id, line, original_line])).toEqual([
    [stays.id, 5, 4],
    [goes.id, null, 10],
  ]);
});

test("replies belong to the thread of the first comment, which can be resolved", async () => {
  const { path, pull_number } = await openPull();
  const where = { ...shop, pull_number };
  const first = await world.github.as("contributor").reviewComment(pull_number, { path, line: 1, body: "Why?" });
  const { data: reply } = await octokit.rest.pulls.createReplyForReviewComment({
    ...where,
    comment_id: first.id,
    body: "Because",
  });
  const threads = `query($owner: String!, $repo: String!, $number: Int!) {
    repository(owner: $owner, name: $repo) {
      pullRequest(number: $number) {
        reviewThreads(first: 100) { nodes { id isResolved comments(first: 100) { nodes { databaseId body } } } }
      }
    }
  }`;
  await world.github.deliveriesSettled();
  const before = world.received.length;

  const [thread] = await readThreads();
  await octokit.graphql(
    "mutation($id: ID!) { resolveReviewThread(input: { threadId: $id }) { thread { isResolved } } }",
    {
      id: thread?.id,
    },
  );

  expect(reply.in_reply_to_id).toBe(first.id);
  expect(thread?.comments.nodes.map(({ body }) => body)).toEqual(["Why?", "Because"]);
  expect((await readThreads())[0]?.isResolved).toBe(true);
  expect((await webhooksSince(before)).events).toEqual(["pull_request_review_thread.resolved"]);

  interface Thread {
    id: string;
    isResolved: boolean;
    comments: { nodes: { databaseId: number; body: string }[] };
  }
  async function readThreads(): Promise<Thread[]> {
    const { repository } = await octokit.graphql<{
      repository: { pullRequest: { reviewThreads: { nodes: Thread[] } } };
    }>(threads, { ...shop, number: pull_number });
    return repository.pullRequest.reviewThreads.nodes;
  }
});

test("a review is requested from collaborators, and no bot or author can be asked", async () => {
  const { pull_number } = await openPull();
  const where = { ...shop, pull_number };
  const before = world.received.length;

  await octokit.rest.pulls.requestReviewers({ ...where, reviewers: ["contributor"] });

  const { events, payloads } = await webhooksSince(before);
  expect(events).toEqual(["pull_request.review_requested"]);
  expect(payloads[0]).toMatchObject({ requested_reviewer: { login: "contributor" } });
  await expect(
    octokit.rest.pulls.requestReviewers({ ...where, reviewers: ["golem-forge[bot]"] }),
  ).rejects.toMatchObject({
    status: 422,
  });
  await world.github.as("contributor").review(pull_number, { event: "APPROVE" });
  const { data: pull } = await octokit.rest.pulls.get(where);
  expect(pull.requested_reviewers).toEqual([]);
});
