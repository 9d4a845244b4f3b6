import { expect, onTestFinished, test } from "vitest";
import {
  findMissedComments,
  findMissedFeedback,
  findMissedReopenings,
  keyOfEvent,
  nextPullRequests,
} from "#bot/deliveries/find-missed-events.ts";
import { findHandler } from "#bot/deliveries/handlers.ts";
import type { GitHubEvent } from "#bot/deliveries/receive-delivery.ts";
import { jobTokens } from "#bot/github/installation-tokens.ts";
import { RepositoryApi } from "#bot/github/repository-api.ts";
import { RestClient } from "#bot/github/rest-client.ts";
import { commitTo, PlaygroundWorld, shop } from "../../support/playground-world.ts";

async function openWorld() {
  const world = await PlaygroundWorld.start();
  onTestFinished(() => world.close());
  const token = await world.token();
  const { github } = world;
  const repository = { ...shop, installationId: 0, repositoryId: github.repository().id };
  const rest = new RestClient({
    apiUrl: github.apiUrl,
    writeIntervalMs: 0,
    createAppToken: async () => token,
    warn: () => {},
  });
  const tokens = jobTokens(token, { ...shop, cloneUrl: `${github.url}/${shop.owner}/${shop.repo}.git` });
  const api = new RepositoryApi({ rest, tokens, repository, apiUrl: github.apiUrl });
  const known = new Set<string>();
  const options = { api, repository, isKnown: async (key: string) => known.has(key) };
  return { world, github, known, options };
}

/** True for an event that its handler accepts like the webhook's. */
function isAccepted({ name, payload }: GitHubEvent): boolean {
  const read = findHandler(`${name}.${payload.action}`)?.read(payload, { appId: undefined, serves: () => true });
  return read !== undefined && "payload" in read;
}

test("comments of people that no event has reported are found once, and never after somebody has edited them", async () => {
  const { world, github, known, options } = await openWorld();
  const { number } = github.as("visitor").openIssue({ title: "A bug" });
  const since = new Date().toISOString();
  const edited = github.as("maintainer").comment(number, "Thanks.");
  await expect.poll(() => Date.now()).toBeGreaterThan(edited.createdAt.getTime());
  github.as("contributor").editComment(edited.id, "/approve all");
  const comment = github.as("maintainer").comment(number, "/run fixer");
  const second = github.as("maintainer").comment(number, "/status");
  await (await world.client()).rest.issues.createComment({ ...shop, issue_number: number, body: "from a bot" });

  const { events, readUntil } = await findMissedComments(options, since);

  expect(events.map(({ id }) => id)).toEqual([`comment ${comment.id}`, `comment ${second.id}`]);
  expect(events.every(isAccepted)).toBe(true);
  const readsIssue = ({ operation }: { operation?: string }) =>
    operation === "GET /repos/{owner}/{repo}/issues/{issue_number}";
  expect(github.requests.filter(readsIssue)).toHaveLength(1);
  // The webhook of the same comment has the same key.
  for (const { id } of [comment, second]) {
    known.add(keyOfEvent("issue_comment", { action: "created", comment: { id } }));
  }
  expect(events.map(({ key }) => known.has(key))).toEqual([true, true]);
  expect((await findMissedComments(options, since)).events).toEqual([]);
  expect(Date.parse(readUntil)).toBeGreaterThanOrEqual(comment.createdAt.getTime());
});

test("reviews of a pull request that no event has reported, its end and its reopening are found", async () => {
  const { github, known, options } = await openWorld();
  await commitTo(github, "topic", { "README.md": "# A shop\n" });
  const pull = await github.as("contributor").openPullRequest({ title: "Text", head: "topic", base: "main" });
  await github.as("maintainer").review(pull.number, { event: "COMMENT", body: "Nearly." });
  const open = await findMissedFeedback(options, [pull.number]);
  for (const { key } of open) known.add(key);

  github.as("contributor").close(pull.number);
  const stillClosed = await findMissedReopenings(options, [pull.number]);
  github.as("maintainer").reopen(pull.number);
  const reopened = await findMissedReopenings(options, [pull.number]);
  await github.as("maintainer").merge(pull.number);
  const closed = await findMissedFeedback(options, [pull.number]);

  expect(open.map(({ name, payload }) => `${name}.${payload.action}`)).toEqual(["pull_request_review.submitted"]);
  expect(closed.map(({ name, payload }) => `${name}.${payload.action}`)).toEqual(["pull_request.closed"]);
  expect(stillClosed).toEqual([]);
  expect(reopened.map(({ name, payload }) => `${name}.${payload.action}`)).toEqual(["pull_request.reopened"]);
  expect(reopened[0]?.payload).toMatchObject({ sender: { login: "maintainer", type: "User" } });
  expect([...open, ...reopened, ...closed].every(isAccepted)).toBe(true);
});

test("completed workflows of a pull request that no event has reported are found once, and one that runs is not", async () => {
  const { github, known, options } = await openWorld();
  await commitTo(github, "topic", { "README.md": "# A shop\n" });
  const pull = await github.as("contributor").openPullRequest({ title: "Text", head: "topic", base: "main" });
  const checks = await github.checks("topic");
  checks.startWorkflow("Lint", "pull_request");
  checks.completeWorkflow(checks.startWorkflow("CI", "pull_request"), "failure");

  const [found, ...more] = await findMissedFeedback(options, [pull.number]);

  expect(more).toEqual([]);
  expect(found?.payload).toMatchObject({ workflow_run: { name: "CI", head_branch: "topic", conclusion: "failure" } });
  expect(found && isAccepted(found)).toBe(true);
  // The webhook of the same workflow has the same key.
  const id = Number(/^workflow run (\d+)$/.exec(found?.id ?? "")?.[1]);
  const key = keyOfEvent("workflow_run", { action: "completed", workflow_run: { id, run_attempt: 1 } });
  expect(found?.key).toBe(key);
  known.add(key);
  expect(await findMissedFeedback(options, [pull.number])).toEqual([]);
});

test("jobs ask about all open pull requests in turn, ten at a time", () => {
  const open = Array.from({ length: 12 }, (_, index) => 12 - index);

  const first = nextPullRequests(open, 0);
  const second = nextPullRequests(open, 10);

  expect(first).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  expect(second).toEqual([11, 12, 1, 2, 3, 4, 5, 6, 7, 8]);
  expect(nextPullRequests([3, 5], 5)).toEqual([3, 5]);
  expect(nextPullRequests([], 5)).toEqual([]);
});
