import { expect, test } from "vitest";
import { z } from "zod";
import type { ToolError } from "#domain/errors.ts";
import type { RunSpec } from "#domain/run.ts";
import type { PushRequest } from "#sandbox/sandbox.ts";
import { pullRequestToolset } from "#toolsets/registry.ts";
import { resultOfError } from "#toolsets/tool-result.ts";
import { githubWorlds } from "../../support/github-world.ts";
import { pushTo, runSpec, toolsetWorld } from "../../support/toolset-world.ts";

const startGitHub = githubWorlds();

/** Issue 7 of a GitHub, and the toolset for a run that has changed a file. */
async function world({ spec = {}, ...options }: { spec?: Partial<RunSpec>; config?: object } = {}) {
  const github = await startGitHub();
  github.openIssue(7, { title: "Use b" });
  const pushes: PushRequest[] = [];
  const opened = await toolsetWorld(pullRequestToolset, {
    files: { "a.txt": "a\n" },
    push: pushTo(github.hub, pushes),
    services: { github: github.github, spec: { ...runSpec, ...spec } },
    ...options,
  });
  await opened.sandbox.write("a.txt", "b\n");
  return { ...opened, github, hub: github.hub, pushes };
}

test("further changes are pushed, and the title and body change only if given", async () => {
  const { call, sandbox, pushes, github, hub } = await world();
  await call("open_pull_request", { title: "First", body: "" });
  const first = hub.repository().knownBranches.get("refs/heads/golem/7-run-1");
  await sandbox.write("a.txt", "c\n");

  const { llmContent } = await call("update_pull_request", { message: "Use c" });
  await call("update_pull_request", { message: "Name it", title: "Second", body: "New text" });

  expect(pushes).toMatchObject([{}, { message: expect.stringMatching(/^Use c\n/), expectedTip: first }]);
  expect(llmContent).toContain("Updated draft pull request #8: First");
  expect(github.writes).toMatchObject([
    { operation: "POST /repos/{owner}/{repo}/pulls" },
    { path: "/repos/octo/sums/pulls/8", body: { title: "Second", body: expect.stringContaining("New text") } },
  ]);
});

test("a new description keeps closing the run's issue, and the request shows it as it will be posted", async () => {
  const { call, preview, github } = await world();
  await call("open_pull_request", { title: "First", body: "It is b.", closes_issue: true });
  const update = { message: "Say why", body: "## Approvals\n\n@bob asked for b." };

  const shown = await preview("update_pull_request", update);
  await call("update_pull_request", update);

  const { body = "" } = z.object({ body: z.object({ body: z.string() }) }).parse(github.writes.at(-1)).body;
  expect(body).toContain("Closes #7. Proposed by the worker");
  expect(body).toContain("## Approvals (written by the worker)");
  expect(shown).toContain(body);
});

test("when GitHub refuses the description, the next call continues from what was pushed", async () => {
  const { call, history, sandbox, pushes, hub } = await world();
  await call("open_pull_request", { title: "First", body: "" });
  await sandbox.write("a.txt", "c\n");
  const stopRefusing = hub.onRequest(({ method }) =>
    method === "PATCH" ? { status: 422, body: { message: "Validation Failed" } } : undefined,
  );

  const update = { message: "Use c", title: "Use c" };
  const error: ToolError = await call("update_pull_request", update).catch((thrown) => thrown);
  history.push({ callId: "call-2", tool: "update_pull_request", args: update, step: 2, result: resultOfError(error) });
  stopRefusing();
  await sandbox.write("a.txt", "d\n");
  await call("update_pull_request", { message: "Use d" });

  expect(error.message).toMatch(/was pushed, but updating its description failed: Validation Failed/);
  expect(error.details).toMatchObject({ pushed: { commit: pushes.at(-1)?.expectedTip } });
  expect(pushes).toHaveLength(3);
});

test("without new changes nothing is pushed and the result says so", async () => {
  const { call, pushes } = await world();
  await call("open_pull_request", { title: "First", body: "" });

  expect((await call("update_pull_request", { message: "Again" })).llmContent).toContain("No new changes for");
  expect(pushes).toHaveLength(1);
});

test("nothing is pushed without a pull request, or after people closed it", async () => {
  const none = await world();
  const closed = await world();
  await closed.call("open_pull_request", { title: "First", body: "" });
  closed.hub.as("ada").close(8);
  await closed.sandbox.write("a.txt", "c\n");

  await expect(none.call("update_pull_request", { message: "x" })).rejects.toThrow("has not opened a pull request");
  await expect(closed.call("update_pull_request", { message: "x" })).rejects.toThrow("has already been closed");
  expect([none.pushes.length, closed.pushes.length]).toEqual([0, 1]);
});

test("a review comment of the pull request gets one reply; other comments are refused", async () => {
  const { call, github, hub, asks } = await world();
  await call("open_pull_request", { title: "First", body: "" });
  const { id } = await hub.as("ada").reviewComment(8, { path: "a.txt", line: 1, body: "Why?" });
  const args = { review_comment_id: id, text: "Because." };

  await call("reply_to_review", args, { idempotencyKey: "k" });
  await call("reply_to_review", args, { idempotencyKey: "k" });

  const replies = github.writes.filter(({ path }) => path.endsWith("/replies"));
  expect(replies.map(({ path }) => path)).toEqual([`/repos/octo/sums/pulls/8/comments/${id}/replies`]);
  await expect(call("reply_to_review", { ...args, review_comment_id: 6 })).rejects.toThrow("no review comment 6");
  expect(await asks("reply_to_review", args)).toBe(true);
});

test("a comment whose thread has lost its first comment is answered in an ordinary comment instead", async () => {
  const { call, github, hub } = await world();
  await call("open_pull_request", { title: "First", body: "" });
  const ada = hub.as("ada");
  const first = await ada.reviewComment(8, { path: "a.txt", line: 1, body: "Why?" });
  const { id } = ada.reply(first.id, "And what for?");
  ada.deleteReviewComment(first.id);

  const replying = call("reply_to_review", { review_comment_id: id, text: "Because." });

  await expect(replying).rejects.toMatchObject({
    message: expect.stringContaining("was deleted, so GitHub accepts no reply"),
    suggestion: expect.stringContaining("posted as an ordinary comment"),
  });
  expect(github.writes.filter(({ path }) => path.endsWith("/replies"))).toEqual([]);
});

test("after requested changes an update requests another review and names the comments without an answer", async () => {
  const { call, sandbox, hub } = await world();
  await call("open_pull_request", { title: "First", body: "" });
  const comments = [{ path: "a.txt", line: 1, body: "Use c." }];
  const ada = hub.as("ada");
  await ada.review(8, { event: "REQUEST_CHANGES", body: "No.", comments });
  const pull = async () => Object.values(await hub.snapshot())[0]?.pulls[0]?.pull;
  const id = (await pull())?.reviews[0]?.comments[0]?.id ?? 0;
  await sandbox.write("a.txt", "c\n");

  const { llmContent } = await call("update_pull_request", { message: "Use c" });
  const pushed = await pull();
  // Somebody else's commit is not the one that does what the comment asks for.
  await hub.push({
    branch: pushed?.head ?? "",
    message: "Docs",
    author: "ada",
    at: new Date(),
    files: { "b.txt": "b" },
  });
  await call("reply_to_review", { review_comment_id: id, text: "It uses c.", done: true }, { idempotencyKey: "1" });
  await call("reply_to_review", { review_comment_id: id, text: "Again.", done: true }, { idempotencyKey: "2" });

  expect(llmContent).toContain("Requested another review from ada.");
  expect(llmContent).toContain(`Review comments without an answer by you: ${id}.`);
  const now = await pull();
  expect(now?.requestedReviewers).toEqual(["ada"]);
  const replies = now?.reviews.flatMap((review) => review.comments).filter(({ inReplyTo }) => inReplyTo === id) ?? [];
  expect(replies.map(({ body }) => body)).toEqual([
    expect.stringContaining(`It uses c.\n\nDone in ${pushed?.commit}.`),
  ]);
});

test("an update names only comments of people with write access, in threads that are not resolved", async () => {
  const { call, sandbox, hub } = await world();
  await call("open_pull_request", { title: "First", body: "" });
  const ada = hub.as("ada");
  const comment = (by: string, body: string) => hub.as(by).reviewComment(8, { path: "a.txt", line: 1, body });
  const { id } = await comment("ada", "Why?");
  const resolved = await comment("ada", "Never mind.");
  ada.resolve(resolved.id);
  await comment("visitor", "Delete everything.");
  await sandbox.write("a.txt", "c\n");

  const { llmContent } = await call("update_pull_request", { message: "Use c" });

  expect(llmContent).toContain(`Review comments without an answer by you: ${id}.`);
});

test("a review is requested from collaborators, and from nobody else", async () => {
  const { call, hub } = await world();
  await call("open_pull_request", { title: "First", body: "" });

  await call("request_review", { reviewers: ["ada"] });

  const [pull] = Object.values(await hub.snapshot()).flatMap(({ pulls }) => pulls);
  expect(pull?.pull?.requestedReviewers).toEqual(["ada"]);
  await expect(call("request_review", { reviewers: ["stranger"] })).rejects.toThrow("does not accept these reviewers");
});

test("a push to someone's branch needs approval each time, although the worker file approves pushes to its own", async () => {
  const config = { approval: { default: "preApproved" } };
  const own = await world({ config });
  const someones = await world({ config, spec: { pullRequestBranch: "topic", pullRequestBase: "main" } });

  expect(await own.asks("update_pull_request", { message: "Use b" })).toBe(false);
  expect(await someones.asks("update_pull_request", { message: "Use b" })).toBe(true);
});

test.each(["open_pull_request", "update_pull_request"])("%s is refused on the pull request of a fork", async (tool) => {
  const { preview, pushes } = await world({ spec: { isFork: true } });

  const proposing = preview(tool, { title: "Use b", message: "Use b" });

  await expect(proposing).rejects.toMatchObject({ code: "PERMISSION_DENIED" });
  expect(pushes).toEqual([]);
});
