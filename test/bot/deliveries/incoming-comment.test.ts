import { describe, expect, test } from "vitest";
import { ignoreThread, queueIn, threadEventKey } from "#bot/deliveries/handler.ts";
import {
  ignoreAuthor,
  readCommentPayload,
  readIncomingReviewComment,
  readIssueText,
  readReviewSummary,
} from "#bot/deliveries/incoming-comment.ts";
import { CommentPayload, IssuePayload, ReviewCommentPayload, ReviewPayload } from "#bot/deliveries/payloads.ts";

const at = "2026-11-02T10:00:00.000Z";
const mia = { login: "mia", id: 3, type: "User" };
const bot = { login: "helper[bot]", id: 4, type: "Bot" };
const thread = { repositoryId: 11, installationId: 1, owner: "ada", repo: "engine", thread: 7 };

const issue = {
  ...{ number: 7, state: "open", locked: false, title: "It fails", body: "/run fixer", created_at: at },
  ...{ user: { login: "ada", id: 1 }, labels: [{ name: "bug" }], comments: 1 },
};
const payload = {
  action: "created",
  installation: { id: 1 },
  repository: { id: 11, name: "engine", owner: { id: 1, login: "ada" } },
  sender: mia,
};
const comment = { id: 5, body: "/run fixer", user: mia, created_at: at };
const app = { id: 9, name: "Helper" };

function readComment(changes: object = {}, inIssue: object = {}) {
  const given = { ...payload, issue: { ...issue, ...inIssue }, comment: { ...comment, ...changes } };
  return readCommentPayload(CommentPayload.parse(given), "d1");
}

describe("a text is ignored", () => {
  test.each<[string, object, unknown, string | undefined]>([
    ["not if a person wrote and sent it", {}, mia, undefined],
    ["not if the account has no type", { user: { ...mia, type: undefined } }, { ...mia, type: undefined }, undefined],
    ["not if another app posted it for the person", { performed_via_github_app: app }, mia, undefined],
    ["if this app wrote it", { performed_via_github_app: { id: 2 } }, mia, "this app wrote it"],
    ["if its author's account was deleted", { user: null }, mia, "its author's account is gone"],
    ["if its sender's account was deleted", {}, undefined, "its author's account is gone"],
    ["if a bot wrote it", { user: bot }, mia, "its author is not a human"],
    ["if a bot sent it", {}, bot, "its author is not a human"],
    ["if its author has a bot's login", { user: { ...mia, login: "mia[bot]" } }, mia, "its author is not a human"],
    ["if an organization wrote it", { user: { ...mia, type: "Organization" } }, mia, "its author is not a human"],
    ["if the ghost wrote it", { user: { ...mia, login: "Ghost" } }, mia, "its author is not a human"],
    ["if another account sent it", {}, { ...mia, id: 33 }, "its sender is not its author"],
    ["if another login sent it", {}, { ...mia, login: "mia2" }, "its sender is not its author"],
  ])("a text is ignored %s", (_, changes, sender, reason) => {
    const parsed = CommentPayload.parse({ ...payload, sender, issue, comment: { ...comment, ...changes } });

    expect(ignoreAuthor(parsed.comment, parsed.sender, 2)).toBe(reason);
  });

  test("a text is ignored if its repository is not served, or if it is more than a week old", () => {
    const daysAgo = (days: number) => new Date(Date.now() - days * 24 * 60 * 60_000);
    const ignore = (time: Date | undefined, served: string) =>
      ignoreThread(payload, time, { appId: 2, serves: ({ owner, repo }) => `${owner}/${repo}` === served });

    expect(ignore(daysAgo(6.9), "ada/engine")).toBeUndefined();
    expect(ignore(undefined, "ada/engine")).toBeUndefined();
    expect(ignore(daysAgo(7.1), "ada/engine")).toBe("it is more than a week old");
    expect(ignore(daysAgo(1), "ada/other")).toBe("ada/engine is not on the list of repositories");
  });
});

test("a comment is read with its author, its thread and the issue as it was", () => {
  expect(readComment()).toEqual({
    key: `comment 5 ${at}`,
    ...{ thread, isPullRequest: false, closed: false, locked: false },
    ...{ by: "mia", byId: 3, viaApp: undefined, text: "/run fixer", commentId: 5 },
    seen: {
      ...{ at: new Date(at), title: "It fails", body: "/run fixer", labels: ["bug"], hasNoComments: true },
      ...{ author: "ada", authorId: 1 },
    },
  });
});

test.each<[string, object, object, object]>([
  ["a later one", {}, { comments: 2 }, { seen: expect.not.objectContaining({ hasNoComments: true }) }],
  [
    "one in an issue whose comments are not counted",
    {},
    { comments: undefined },
    { seen: expect.not.objectContaining({ hasNoComments: true }) },
  ],
  ["one on a pull request", {}, { pull_request: {} }, { isPullRequest: true }],
  ["one in a thread that is no pull request", {}, { pull_request: null }, { isPullRequest: false }],
  ["one in a closed and locked thread", {}, { state: "closed", locked: true }, { closed: true, locked: true }],
  ["one by a deleted account", { user: null }, {}, { by: "ghost", byId: undefined }],
  ["one without text or time", { body: null, created_at: undefined }, {}, { text: "", key: "d1", seen: undefined }],
  ["one that another app posted", { performed_via_github_app: app }, {}, { viaApp: "Helper" }],
  ["one that an app without a name posted", { performed_via_github_app: { id: 9 } }, {}, { viaApp: "another app" }],
  [
    "one in an issue of a deleted account",
    {},
    { user: null, title: undefined, body: null },
    { seen: expect.objectContaining({ author: "ghost", title: "", body: "" }) },
  ],
])("a comment is read as what it is: %s", (_, changes, inIssue, expected) => {
  expect(readComment(changes, inIssue)).toMatchObject(expected);
});

test("the text of an issue counts as its first comment, by the author of the issue", () => {
  const read = (changes: object = {}) =>
    readIssueText(IssuePayload.parse({ ...payload, action: "opened", issue: { ...issue, ...changes } }), "d1");

  expect(read()).toMatchObject({
    ...{ key: `ada/engine#7 opened ${at}`, thread, by: "ada", byId: 1, text: "/run fixer", commentId: undefined },
    seen: { hasNoComments: true },
  });
  expect(read({ user: null, body: null, created_at: undefined, performed_via_github_app: app })).toMatchObject({
    ...{ key: "d1", by: "ghost", byId: undefined, text: "", viaApp: "Helper" },
  });
});

test("a comment on lines says which ones, and a review's text has the key of the review", () => {
  const inPullRequest = { ...payload, pull_request: issue };
  const onLine = { ...comment, body: "@golem-forge look", path: "src/`a`.ts", line: 3, pull_request_review_id: 8 };
  const readLine = (changes: object = {}) =>
    readIncomingReviewComment(
      ReviewCommentPayload.parse({ ...inPullRequest, comment: { ...onLine, ...changes } }),
      "d1",
    );
  const readReview = (changes: object = {}) => {
    const review = { id: 8, state: "commented", body: "@golem-forge look", user: mia, submitted_at: at };
    return readReviewSummary(ReviewPayload.parse({ ...inPullRequest, review: { ...review, ...changes } }));
  };
  const gone = { user: null, body: null, performed_via_github_app: app };

  expect(readLine()).toMatchObject({
    ...{ key: `review comment 5 ${at}`, thread, isPullRequest: true, by: "mia", byId: 3, commentId: undefined },
    text: expect.stringMatching(/^@golem-forge look\n\nThis is about .*src\/.*, line 3 \(review comment 5\)/),
    seen: expect.not.objectContaining({ hasNoComments: true }),
  });
  expect(readLine({ ...gone, line: null, created_at: undefined })).toMatchObject({
    ...{ key: "d1", by: "ghost", byId: undefined, viaApp: "Helper" },
    text: expect.stringMatching(/^\n\nThis is about [^,]* \(review comment 5\)/),
  });
  expect(readReview()).toMatchObject({
    ...{ key: "review summary 8", thread, isPullRequest: true, by: "mia", byId: 3, text: "@golem-forge look" },
    ...{ commentId: undefined, seen: expect.not.objectContaining({ hasNoComments: true }) },
  });
  expect(readReview(gone)).toMatchObject({ by: "ghost", byId: undefined, text: "", viaApp: "Helper" });
});

test("deliveries of one thread have one queue, and an event of a thread has one key if it has a time", () => {
  expect(queueIn(thread, 7)).toBe("1 11#7");
  expect(queueIn({ ...thread, repositoryId: undefined }, 7)).toBe("1 ada/engine#7");
  expect(threadEventKey(payload, 7, new Date(at))).toBe(`ada/engine#7 created ${at}`);
  expect(threadEventKey(payload, 7, undefined)).toBeUndefined();
});
