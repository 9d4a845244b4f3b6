import { beforeEach, expect, test } from "vitest";
import { textPreview } from "#domain/preview.ts";
import type { FrontEnd } from "#runtime/front-end.ts";
import { type BotWorld, botWorlds } from "../support/bot-world.ts";
import { webhookSecret } from "../support/github-world.ts";
import { sampleApproval, samplePreview, sampleView } from "../support/run-view.ts";

const startWorld = botWorlds();
let world: BotWorld;
let frontEnd: Required<FrontEnd>;

beforeEach(async () => {
  world = await startWorld();
  frontEnd = world.bot.frontEnd;
});

test("a status is posted once and edited from then on", async () => {
  const id = await frontEnd.showStatus(sampleView(), { name: "status/run1" });
  const again = await frontEnd.showStatus(sampleView({ activity: "Running grep." }), {
    name: "status/run1",
    commentId: id,
  });

  expect(again).toBe(id);
  expect(world.replies).toHaveLength(1);
  expect(world.replies[0]).toMatch(/Running grep\.[\s\S]*`\/approve k7mq`[\s\S]*\n<!-- golem-forge:status%2Frun1 -->$/);
});

test("a status ends with the result that could not be posted", async () => {
  const unposted = `All **done**.\n\n${"long ".repeat(20_000)}`;
  await frontEnd.showStatus(sampleView({ unposted }), { name: "status/run1" });

  expect(world.replies[0]).toMatch(
    /`\/approve k7mq`[\s\S]*could not be posted in a comment of its own:\n\nAll \*\*done\*\*\./,
  );
  expect(world.replies[0]?.length).toBeLessThan(65_536);
});

test("a post whose id was not stored is found by its marker, also if the conversation has moved to another thread", async () => {
  const pullRequest = world.hub.as("ada").openIssue({ title: "In place of the pull request" }).number;
  const id = await frontEnd.askQuestion(
    sampleView(),
    { runId: "run-1", callId: "c", step: 1, workerPath: "fixer", text: "Which?" },
    { name: "question/1" },
  );

  const again = await frontEnd.askQuestion(
    sampleView(),
    { runId: "run-1", callId: "c", step: 1, workerPath: "fixer", text: "Which?" },
    { name: "question/1" },
  );
  const afterMove = await frontEnd.askQuestion(
    sampleView({ pullRequest, replyThread: pullRequest }),
    { runId: "run-1", callId: "c", step: 1, workerPath: "fixer", text: "Which?" },
    { name: "question/1" },
  );

  expect([again, afterMove]).toEqual([id, id]);
  expect(world.hub.repository().comments.size).toBe(1);
});

test("the outcome of a run whose issue was deleted is posted in the pull request that it opened", async () => {
  const pullRequest = world.hub.as("ada").openIssue({ title: "In place of the pull request" }).number;
  world.hub.repository().removedThreads.set(1, "deleted");
  const cancelled = { outcome: { kind: "cancelled" as const, by: "ada" } };

  const id = await frontEnd.showOutcome(sampleView({ ...cancelled, pullRequest }), { name: "outcome/run1" });
  const again = await frontEnd.showOutcome(sampleView({ ...cancelled, pullRequest }), { name: "outcome/run1" });

  expect(again).toBe(id);
  expect([...world.hub.repository().comments.values()]).toMatchObject([
    { thread: pullRequest, body: expect.stringContaining("was cancelled by ada") },
  ]);
  const withoutPullRequest = frontEnd.showOutcome(sampleView(cancelled), { name: "outcome/run2" });
  await expect(withoutPullRequest).rejects.toThrow("(410)");
});

test("a marker that someone else wrote, or that is in the middle of our comment, does not count", async () => {
  const marker = "<!-- golem-forge:outcome%2Frun1 -->";
  world.addComment({ body: `x\n${marker}`, login: "tom" });
  world.addOwnComment(`${marker}\nlater text`);
  world.addOwnComment("x\n<!-- golem-forge:outcome%2Frun10 -->");

  await frontEnd.showOutcome(sampleView({ outcome: { kind: "answered", text: "Done." } }), {
    name: "outcome/run1",
  });

  expect(world.hub.repository().comments.size).toBe(4);
  const writes = world.requests.filter((request) => !request.startsWith("GET"));
  expect(writes).toEqual(["POST /repos/octo/shop/issues/1/comments"]);
});

test("an approval that is decided is edited where it was asked", async () => {
  const [posted] = await frontEnd.showApproval(sampleView(), sampleApproval(), { name: "approval/k7mq" });
  const decided = sampleApproval({ status: "denied", decidedBy: "mia", note: "wrong file" });
  await frontEnd.showApproval(sampleView(), decided, { name: "approval/k7mq", commentId: posted?.id });

  expect(world.replies).toEqual([expect.stringMatching(/Denied by mia[\s\S]*wrong file/)]);
});

test("a request whose id was not stored is posted again if somebody has edited it", async () => {
  const name = "approval/k7mq";
  const [first] = await frontEnd.showApproval(sampleView(), sampleApproval(), { name });
  const [same] = await frontEnd.showApproval(sampleView(), sampleApproval(), { name });
  expect(same?.id).toBe(first?.id);

  const comment = world.hub.repository().comments.get(first?.id ?? 0);
  if (comment) comment.updatedAt = new Date(comment.createdAt.getTime() + 10_000);
  const [anew] = await frontEnd.showApproval(sampleView(), sampleApproval(), { name });

  expect(anew?.id).toBeGreaterThan(first?.id ?? 0);
  expect(world.replies).toEqual([expect.stringContaining("/approve k7mq")]);
});

test("a request too long for one comment is posted below its parts, and is decided where it was asked", async () => {
  const preview = samplePreview("+a line\n".repeat(10_000));
  const approval = sampleApproval({ preview });
  const options = { name: "approval/k7mq" };

  await frontEnd.showApproval(sampleView(), approval, options);
  const shown = await frontEnd.showApproval(sampleView(), approval, { ...options });
  const decided = sampleApproval({ preview, status: "denied", decidedBy: "mia" });
  await frontEnd.showApproval(sampleView(), decided, { ...options, shown, commentId: shown.at(-1)?.id });

  expect(world.replies.map((body) => body.split("\n").find((line) => line.startsWith("### ")))).toEqual([
    "### 📄 Approval `k7mq` of **fixer**, digest `0123456789ab`, part 1 of 2",
    "### 📄 Approval `k7mq` of **fixer**, digest `0123456789ab`, part 2 of 2",
    "### ⛔ Denied by mia",
  ]);
  const lines = world.replies.slice(0, 2).flatMap((body) => body.match(/^\+a line$/gm) ?? []);
  expect(lines).toHaveLength(10_000);
});

test("a request that needs more than ten comments, or has more lines than people read, cannot be shown", () => {
  const shown = (line: string, lines: number) =>
    frontEnd.canShow({ args: {}, preview: textPreview(`${line}\n`.repeat(lines)) });

  expect([shown("a line of about forty characters of text", 11_500), shown("x".repeat(60), 8_300)]).toEqual([
    true,
    false,
  ]);
  expect([shown("", 24_000), shown("", 26_000)]).toEqual([true, false]);
});

test("a deleted comment is posted again", async () => {
  const id = await frontEnd.showStatus(sampleView(), { name: "status/run1" });
  world.hub.repository().comments.clear();

  const again = await frontEnd.showStatus(sampleView(), { name: "status/run1", commentId: id });

  expect(again).not.toBe(id);
  expect(world.replies).toHaveLength(1);
});

test("a model's text is posted without secrets, mentions or markers", async () => {
  const text = `@mia see ghp_${"a1".repeat(18)} <!-- golem-forge:status%2Frun1 --> a webhook secret`;

  await frontEnd.showOutcome(sampleView({ outcome: { kind: "answered", text } }), {
    name: "outcome/run1",
  });

  const body = world.replies[0] ?? "";
  expect(body).not.toMatch(/@mia|ghp_|a webhook secret/);
  expect(body.match(/<!--/g)).toHaveLength(1);
});

test("a name cannot end its comment early", async () => {
  await frontEnd.showOutcome(sampleView(), { name: "a --> b--c" });
  await frontEnd.showOutcome(sampleView(), { name: "a --> b--c" });

  expect(world.replies).toHaveLength(1);
  expect(world.replies[0]).toMatch(/\n<!-- golem-forge:[^>-]*(?:-[^>-]+)* -->$/);
});

test("a secret at the point where a line is cut is removed completely", async () => {
  const secret = webhookSecret;
  const log = [`${"x".repeat(290)} ${secret}`];

  await frontEnd.showStatus(sampleView({ log }), { name: "status/run1" });

  expect(world.replies[0]).toContain("xxx [secret");
  expect(world.replies[0]).not.toContain(secret.slice(0, 6));
});
