import { describe, expect, test } from "vitest";
import { UserError } from "#domain/errors.ts";
import { closeApprovals, postApproval, postQuestion } from "#runtime/effects/post-requests.ts";
import { effectWorld } from "../../support/effect-world.ts";
import { sampleApproval, sampleEffect, sampleRun, sampleSnapshot } from "../../support/store-samples.ts";

/** A run, `r1`, and its child `r2` with these approvals, of which those with a comment were posted. */
async function withApprovals(...approvals: { approval: ReturnType<typeof sampleApproval>; commentId?: number }[]) {
  const made = await effectWorld();
  const { store } = made;
  await store.ingest({ run: sampleRun("r2", [], { rootId: "r1", parentId: "r1" }), events: [] });
  for (const { approval, commentId } of approvals) {
    const key = `request ${approval.id}`;
    await store.ingest({ events: [], effects: [sampleEffect("r1", key)] });
    const posts = commentId === undefined ? [] : [{ name: `approval/${approval.id}`, commentId }];
    await store.completeEffect({ runId: "r1", key, approvals: [approval], posts });
  }
  return made;
}

const asked = {
  type: "model.answered" as const,
  text: "",
  messages: [],
  usage: { inputTokens: 1, outputTokens: 1 },
  finishReason: "tool-calls" as const,
  lastSeenId: 0,
};

describe("an approval request", () => {
  const comment = { id: 1, digest: "digest 1", updatedAt: 1 };
  const request = { kind: "approval.post" as const, approvalId: "a1" };

  test("an approval request is posted, and remembered as shown", async () => {
    const { services, perform, effect, posts } = await withApprovals({ approval: sampleApproval("r1", "a1") });

    expect(await perform(postApproval(services), effect(request))).toEqual({
      posts: [{ name: "approval/a1", commentId: 1, shown: { comments: [comment], revision: 0 } }],
      shownApproval: "a1",
    });
    expect(posts).toEqual([
      { kind: "approval", options: { name: "approval/a1", commentId: undefined, isFirstAttempt: true } },
    ]);
  });

  test("an approval request is edited in its comment once it is decided, and does not count as shown again", async () => {
    const approval = sampleApproval("r1", "a1", { status: "denied" });
    const { services, perform, effect, posts } = await withApprovals({ approval, commentId: 5 });

    const result = await perform(postApproval(services), effect({ ...request, replaces: 5 }, { attempts: 2 }));

    expect(result).not.toHaveProperty("shownApproval");
    expect(posts).toEqual([
      { kind: "approval", options: { name: "approval/a1", commentId: 5, isFirstAttempt: false } },
    ]);
  });

  test("an approval request that somebody edited is replaced by a new comment", async () => {
    const { services, perform, effect, posts } = await withApprovals({
      approval: sampleApproval("r1", "a1"),
      commentId: 5,
    });

    await perform(postApproval(services), effect({ ...request, replaces: 5 }));

    const options = { name: "approval/a1", commentId: undefined, isFirstAttempt: true, replaces: 5 };
    expect(posts).toEqual([{ kind: "approval", options }]);
  });

  test("an approval request that does not exist is not posted", async () => {
    const { services, perform, effect, posts } = await effectWorld();

    expect(await perform(postApproval(services), effect(request))).toEqual({});
    expect(posts).toEqual([]);
  });

  test("an approval request that cannot be posted stops the run with the reason, unless it is decided", async () => {
    const { services, effect, run, store } = await withApprovals({ approval: sampleApproval("r1", "a1") });
    const fail = (error: Error) => postApproval(services).onFailure(effect(request), run, error);

    expect(await fail(new UserError("The issue is locked."))).toMatchObject({
      events: [{ runId: "r1", event: { type: "run.stop", reason: expect.stringContaining("The issue is locked.") } }],
    });
    expect(await fail(new Error("secret detail"))).toMatchObject({
      events: [{ event: { reason: expect.stringMatching(/GitHub did not accept it for a long time\.$/) } }],
    });
    await store.decideApproval({ approvalId: "a1", decision: "denied", by: "ada", now: 2_000 });
    expect(await fail(new Error("secret detail"))).toEqual({});
  });
});

test("of the requests of a stopped run, those that were withdrawn and posted are edited", async () => {
  const withdrawn = (id: string, changes = {}) => sampleApproval("r1", id, { status: "withdrawn", ...changes });
  const { services, perform, effect, posts, run } = await withApprovals(
    { approval: withdrawn("a1"), commentId: 5 },
    { approval: withdrawn("a2") },
    { approval: sampleApproval("r1", "a3", { status: "denied" }), commentId: 7 },
    { approval: withdrawn("a4", { runId: "r2", rootId: "r1" }), commentId: 8 },
  );

  const close = effect({ kind: "approvals.close" as const });
  expect(await perform(closeApprovals(services), close)).toEqual({});
  expect(await closeApprovals(services).onFailure(close, run, new Error("The comment is gone."))).toEqual({});

  expect(posts).toEqual([{ kind: "approval", options: { name: "approval/a1", commentId: 5 } }]);
});

describe("the question of a worker", () => {
  const open = { kind: "question.post" as const, callId: "call-1" };

  /** A run that asks with these arguments, and the questions that were shown. */
  async function withQuestion(args: unknown) {
    const made = await effectWorld();
    await made.append({ ...asked, calls: [{ callId: "call-1", tool: "ask_question", args }] });
    const questions: unknown[] = [];
    const frontEnd = {
      ...made.services.frontEnd,
      askQuestion: async (_view: unknown, question: unknown) => questions.push(question),
    };
    const handler = postQuestion({ store: made.store, frontEnd });
    return { ...made, questions, handler };
  }

  test("the question of a worker is posted with its choices", async () => {
    const { handler, perform, effect, questions } = await withQuestion({ question: "Which?", options: ["One", 2] });

    expect(await perform(handler, effect(open))).toEqual({
      posts: [{ name: expect.stringMatching(/^question\/r1\/\d+\/call-1$/), commentId: 1 }],
    });
    expect(questions).toEqual([
      { runId: "r1", callId: "call-1", step: 1, text: "Which?\n- One\n- 2", workerPath: "fixer", isPreceded: false },
    ]);
  });

  test("the question of a worker is posted as preceded while an earlier one of its thread is open", async () => {
    const { handler, perform, effect, questions, store } = await withQuestion({ question: "Which?" });
    const openCalls = [{ callId: "c0", tool: "ask_user", answeredBy: "person" as const, status: "running" as const }];
    const snapshot = sampleSnapshot({ handlingCalls: "awaitingAnswer" }, { openCalls });
    await store.ingest({ run: { ...sampleRun("r0"), snapshot }, events: [] });

    await perform(handler, effect(open));

    expect(questions).toMatchObject([{ isPreceded: true }]);
  });

  test.each([[{}], ["Which?"], [{ options: "none" }]])("a question has a text for any options: %j", async (args) => {
    const { handler, perform, effect, questions } = await withQuestion(args);

    await perform(handler, effect(open));

    expect(questions).toMatchObject([{ text: "What should I do?" }]);
  });

  test("the question of a worker shows that it was withdrawn, or who answered what", async () => {
    const { handler, perform, effect, questions, append } = await withQuestion({ question: "Which?" });

    await perform(handler, effect({ ...open, kind: "question.close" }));
    await append({ type: "question.answered", callId: "call-1", text: "The first.", by: "mia" });
    await perform(handler, effect({ ...open, kind: "question.close" }));

    expect(questions).toMatchObject([
      { end: { kind: "withdrawn" } },
      { end: { kind: "answered", by: "mia", text: "The first." } },
    ]);
  });

  test("the end of a question is shown at that question, although a later one has the same id", async () => {
    const { handler, perform, effect, questions, append } = await withQuestion({ question: "Which?" });
    await append({ type: "question.answered", callId: "call-1", step: 1, text: "The first.", by: "mia" });
    await append({ ...asked, calls: [{ callId: "call-1", tool: "ask_question", args: { question: "And then?" } }] });

    await perform(handler, effect({ ...open, step: 1 }));
    await perform(handler, effect({ ...open, kind: "question.close", step: 1 }));
    await perform(handler, effect({ ...open, step: 2 }));

    const first = { text: "Which?", step: 1, end: { kind: "answered", text: "The first." } };
    expect(questions).toMatchObject([first, first, { text: "And then?", step: 2 }]);
    expect(questions.at(-1)).not.toHaveProperty("end");
  });

  test("the question of a worker that cannot be posted stops the run; one that cannot be edited does not", async () => {
    const { handler, effect, run } = await withQuestion({ question: "Which?" });

    expect(await handler.onFailure(effect(open), run, new Error("no"))).toMatchObject({
      events: [{ event: { type: "run.stop" } }],
    });
    expect(await handler.onFailure(effect({ ...open, kind: "question.close" }), run, new Error("no"))).toEqual({});
  });
});
