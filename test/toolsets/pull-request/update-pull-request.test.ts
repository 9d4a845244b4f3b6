import { expect, test } from "vitest";
import type { PushRequest } from "#sandbox/sandbox.ts";
import { createSanitizer } from "#text/sanitize.ts";
import { pullRequestToolset } from "#toolsets/pull-request/pull-request-toolset.ts";
import { type MemoryGitHubOptions, memoryGitHub } from "../../support/memory-github.ts";
import { toolsetWorld } from "../../support/toolset-world.ts";

async function world(hub: MemoryGitHubOptions = {}) {
  const pushes: PushRequest[] = [];
  const { github, writes } = memoryGitHub(hub);
  const opened = await toolsetWorld(pullRequestToolset, {
    files: { "a.txt": "a\n" },
    push: async (request) => {
      pushes.push(request);
      return { commit: String(pushes.length).repeat(40), moved: true };
    },
    services: { github, sanitize: createSanitizer([]) },
  });
  return { ...opened, writes, pushes };
}

test("further changes are pushed on top, and texts change only when given", async () => {
  const { call, sandbox, pushes, writes } = await world();
  await sandbox.write("a.txt", "b\n");
  await call("open_pull_request", { title: "First", body: "" });
  await sandbox.write("a.txt", "c\n");

  const { llmContent } = await call("update_pull_request", { message: "Use c" });
  await call("update_pull_request", { message: "Name it", title: "Second", body: "New text" });

  expect(pushes).toMatchObject([{}, { message: "Use c", expectedTip: "1".repeat(40) }]);
  expect(llmContent).toContain("Updated draft pull request #100: First");
  expect(writes).toMatchObject([
    { method: "createPullRequest" },
    { method: "updatePullRequest", args: { number: 100, title: "Second", body: expect.stringContaining("New text") } },
  ]);
});

test("nothing new is said and not pushed", async () => {
  const { call, sandbox, pushes } = await world();
  await sandbox.write("a.txt", "b\n");
  await call("open_pull_request", { title: "First", body: "" });

  expect((await call("update_pull_request", { message: "Again" })).llmContent).toContain("Nothing new for");
  expect(pushes).toHaveLength(1);
});

test("without a pull request, or with one that people closed, nothing is pushed", async () => {
  const none = await world();
  const closed = await world({ pulls: [{ state: "closed" }] });
  await none.sandbox.write("a.txt", "b\n");
  await closed.sandbox.write("a.txt", "b\n");

  await expect(none.call("update_pull_request", { message: "x" })).rejects.toThrow("has not opened a pull request");
  await expect(closed.call("update_pull_request", { message: "x" })).rejects.toThrow("was closed already");
  expect([...none.pushes, ...closed.pushes]).toEqual([]);
});

test("a review comment of this pull request is answered once, and no other", async () => {
  const { call, writes, asks } = await world({
    pulls: [{}],
    reviewComments: [{ id: 5, path: "a.txt", line: 1, body: "Why?", author: "ada" }],
  });
  const args = { review_comment_id: 5, text: "Because." };

  await call("reply_to_review", args, { idempotencyKey: "k" });
  await call("reply_to_review", args, { idempotencyKey: "k" });

  expect(writes).toMatchObject([{ method: "replyToReview", args: { number: 100, reviewCommentId: 5 } }]);
  await expect(call("reply_to_review", { ...args, review_comment_id: 6 })).rejects.toThrow("no review comment 6");
  expect(await asks("reply_to_review", args)).toBe(true);
});
