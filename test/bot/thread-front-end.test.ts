import { afterAll, beforeEach, expect, test } from "vitest";
import { createBot } from "#bot/create-bot.ts";
import { textPreview } from "#domain/preview.ts";
import type { FrontEnd } from "#runtime/front-end.ts";
import { appId, botConfig, comment, recordingRuns, startGitHub } from "../support/bot-world.ts";
import { sampleApproval, samplePreview, sampleView } from "../support/run-view.ts";

const { state, server } = startGitHub();
let frontEnd: Required<FrontEnd>;

beforeEach(async () => {
  state.comments = [];
  state.requests = [];
  frontEnd = (await createBot({ config: botConfig(), runs: recordingRuns, ready: async () => {} })).frontEnd;
});
afterAll(() => server.close());

const writes = () =>
  state.requests.filter((request) => !request.startsWith("GET") && !request.includes("access_tokens"));

test("a status is posted once and edited from then on", async () => {
  const id = await frontEnd.showStatus(sampleView(), { name: "status/run1" });
  const again = await frontEnd.showStatus(sampleView({ activity: "Running grep." }), {
    name: "status/run1",
    commentId: id,
  });

  expect(again).toBe(id);
  expect(state.comments).toHaveLength(1);
  expect(state.comments[0]?.body).toMatch(
    /Running grep\.[\s\S]*`\/approve k7mq`[\s\S]*\n<!-- golem-forge:status%2Frun1 -->$/,
  );
});

test("a post whose id was lost finds itself by its marker", async () => {
  const id = await frontEnd.askQuestion(
    sampleView(),
    { runId: "run-1", callId: "c", workerPath: "fixer", text: "Which?" },
    { name: "question/1" },
  );

  const again = await frontEnd.askQuestion(
    sampleView(),
    { runId: "run-1", callId: "c", workerPath: "fixer", text: "Which?" },
    { name: "question/1" },
  );

  expect(again).toBe(id);
  expect(state.comments).toHaveLength(1);
});

test("a marker that somebody else wrote, or that stands in the middle of ours, is not ours", async () => {
  const marker = "<!-- golem-forge:outcome%2Frun1 -->";
  const own = { performed_via_github_app: { id: appId } };
  state.comments = [
    comment(1, "tom", `x\n${marker}`),
    comment(2, "golem-forge[bot]", `${marker}\nlater words`, own),
    comment(3, "golem-forge[bot]", `x\n<!-- golem-forge:outcome%2Frun10 -->`, own),
  ];

  await frontEnd.showOutcome(sampleView({ outcome: { kind: "answered", text: "Done." } }), {
    name: "outcome/run1",
  });

  expect(state.comments).toHaveLength(4);
  expect(writes()).toEqual(["POST /repos/octo/shop/issues/1/comments"]);
});

test("an approval that is decided is edited where it was asked", async () => {
  const id = await frontEnd.showApproval(sampleView(), sampleApproval(), { name: "approval/k7mq" });
  const decided = sampleApproval({ status: "denied", decidedBy: "mia", note: "wrong file" });
  await frontEnd.showApproval(sampleView(), decided, { name: "approval/k7mq", commentId: id });

  expect(state.comments.map(({ body }) => body)).toEqual([expect.stringMatching(/Denied by mia[\s\S]*wrong file/)]);
});

test("a request too long for one comment stands below all that it asks for, and is decided where it was asked", async () => {
  const preview = samplePreview("+a line\n".repeat(10_000));
  const approval = sampleApproval({ preview });
  const options = { name: "approval/k7mq" };

  await frontEnd.showApproval(sampleView(), approval, options);
  const commentId = await frontEnd.showApproval(sampleView(), approval, { ...options });
  const decided = sampleApproval({ preview, status: "denied", decidedBy: "mia" });
  await frontEnd.showApproval(sampleView(), decided, { ...options, commentId });

  expect(state.comments.map(({ body }) => body?.split("\n").find((line) => line.startsWith("### ")))).toEqual([
    "### 🔐 Approval `k7mq` of **fixer**, digest `0123456789ab`, part 1 of 2",
    "### 🔐 Approval `k7mq` of **fixer**, digest `0123456789ab`, part 2 of 2",
    "### ⛔ Denied by mia",
  ]);
  const lines = state.comments.slice(0, 2).flatMap(({ body }) => body?.match(/^\+a line$/gm) ?? []);
  expect(lines).toHaveLength(10_000);
});

test("ten comments are as many as a person is asked to read", () => {
  const shown = (lines: number) =>
    frontEnd.canShow({ args: {}, preview: textPreview("a line of text\n".repeat(lines)) });

  expect([shown(30_000), shown(34_000)]).toEqual([true, false]);
});

test("a comment that somebody deleted is posted anew", async () => {
  const id = await frontEnd.showStatus(sampleView(), { name: "status/run1" });
  state.comments = [];

  const again = await frontEnd.showStatus(sampleView(), { name: "status/run1", commentId: id });

  expect(again).not.toBe(id);
  expect(state.comments).toHaveLength(1);
});

test("what a model says leaves clean: no secret, no mention, no marker but the last line's", async () => {
  const text = `@mia see ghp_${"a1".repeat(18)} <!-- golem-forge:status%2Frun1 --> a webhook secret`;

  await frontEnd.showOutcome(sampleView({ outcome: { kind: "answered", text } }), {
    name: "outcome/run1",
  });

  const body = state.comments[0]?.body ?? "";
  expect(body).not.toMatch(/@mia|ghp_|a webhook secret/);
  expect(body.match(/<!--/g)).toHaveLength(1);
});

test("a name cannot end its comment early", async () => {
  await frontEnd.showOutcome(sampleView(), { name: "a --> b--c" });
  await frontEnd.showOutcome(sampleView(), { name: "a --> b--c" });

  expect(state.comments).toHaveLength(1);
  expect(state.comments[0]?.body).toMatch(/\n<!-- golem-forge:[^>-]*(?:-[^>-]+)* -->$/);
});

test("a secret where a line is cut is gone as a whole, and not up to the cut", async () => {
  const secret = botConfig().app.webhookSecret;
  const log = [`${"x".repeat(290)} ${secret}`];

  await frontEnd.showStatus(sampleView({ log }), { name: "status/run1" });

  expect(state.comments[0]?.body).toContain("xxx [secret");
  expect(state.comments[0]?.body).not.toContain(secret.slice(0, 6));
});
