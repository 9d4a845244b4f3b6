import { expect, test, vi } from "vitest";
import type { z } from "zod";
import { findLinkedIssues, postReview, readStateChange, readWasViaApp } from "#bot/github/conversation.ts";
import type { RepositoryApi } from "#bot/github/repository-api.ts";
import type { ThreadAction } from "#domain/github.ts";

test.each([
  ["See #12 and (#13), GH-14.", [12, 13, 14]],
  ["octo/sums#5, Octo/Sums#6, octo/other#7, x/octo/sums#8", [5, 6]],
  ["https://github.com/octo/sums/issues/3 https://github.com/octo/sums/pull/4#discussion_r1", [3, 4]],
  ["https://github.com/octo/other/issues/3 https://evil.example/octo/sums/issues/4", []],
  ["a#1 &#39; ##2 #0 #1234567890 color: #123abc", []],
  ["#2 #1 #2", [2, 1]],
])("issues that %j names", (text, expected) => {
  expect(findLinkedIssues(text, { owner: "octo", repo: "sums", webUrl: "https://github.com" })).toEqual(expected);
});

test("a review is posted with the ranges of lines that its comments are about", async () => {
  const call = vi.fn(async () => ({ id: "5", html_url: "https://github.com/ada/engine/pull/8#r5" }));
  const comment = { path: "a.ts", line: 9, side: "RIGHT" as const, body: "Why?" };
  const comments = [comment, { ...comment, startLine: 7 }, { ...comment, startLine: 9 }];
  const review = { commit: "c".repeat(40), event: "COMMENT" as const, body: "Look.", comments };

  const posted = await postReview({ call } as unknown as RepositoryApi, 8, review);

  expect(posted).toEqual({ id: 5, url: "https://github.com/ada/engine/pull/8#r5" });
  expect(call).toHaveBeenCalledExactlyOnceWith("POST /repos/{owner}/{repo}/pulls/{pull_number}/reviews", {
    ...{ pull_number: 8, commit_id: review.commit, event: "COMMENT", body: "Look." },
    comments: [comment, { ...comment, start_line: 7, start_side: "RIGHT" }, comment],
  });
});

test.each([
  [
    "ReopenedEvent",
    { __typename: "User", login: "ada", databaseId: 1 },
    { state: "open", by: { type: "User", id: 1, login: "ada" } },
  ],
  [
    "ClosedEvent",
    { __typename: "Bot", login: "stale", databaseId: 2 },
    { state: "closed", by: { type: "Bot", id: 2, login: "stale[bot]" } },
  ],
  ["ClosedEvent", null, { state: "closed", by: undefined }],
])("who closed or reopened a pull request last is read: %s by %j", async (__typename, actor, change) => {
  const createdAt = "2026-11-02T10:00:00.000Z";
  const pullRequestWith = (nodes: object[]) => ({ repository: { pullRequest: { timelineItems: { nodes } } } });
  const query = vi.fn(async (_query: string, _values: object, schema: z.ZodType) =>
    schema.parse(pullRequestWith([{ __typename, createdAt, actor }])),
  );
  const none = async () => pullRequestWith([]);

  expect(await readStateChange({ query } as unknown as RepositoryApi, 8)).toEqual({
    ...change,
    at: new Date(createdAt),
  });
  expect(query.mock.calls[0]?.[1]).toEqual({ number: 8 });
  expect(await readStateChange({ query: none } as unknown as RepositoryApi, 8)).toBeUndefined();
});

const at = (second: number) => new Date(Date.UTC(2026, 5, 1, 12, 0, second));
/** An event as GitHub lists it: the maintainer, with the id 1, labels an issue with `bug` at 12:00:10. */
const labeled = (changes: object = {}) => ({
  ...{ event: "labeled", actor: { id: 1 }, label: { name: "Bug" }, performed_via_github_app: null },
  created_at: at(10).toISOString(),
  ...changes,
});
const app = { performed_via_github_app: { id: 99 } };

test.each<[string, object[], Partial<ThreadAction>, boolean | undefined]>([
  ["a person", [labeled()], {}, false],
  ["a person, whom the event reports later", [labeled()], { at: at(50) }, false],
  ["an app", [labeled(app)], {}, true],
  ["an app, and before it the person", [labeled({ created_at: at(1).toISOString() }), labeled(app)], {}, true],
  ["the person, and long before an app", [labeled({ ...app, created_at: at(1).toISOString() }), labeled()], {}, false],
  ["an app and the person at the same time", [labeled(app), labeled()], {}, true],
  ["a person, who did the same long before", [labeled({ created_at: at(-3_600).toISOString() })], {}, undefined],
  ["an app later", [labeled(), labeled({ ...app, created_at: at(30).toISOString() })], {}, false],
  ["somebody else", [labeled({ actor: { id: 2 } }), labeled({ actor: null })], {}, undefined],
  ["a person who adds another label", [labeled({ label: { name: "wontfix" } })], {}, undefined],
  ["a person who removes it", [labeled({ event: "unlabeled" })], {}, undefined],
  ["a person, in an event that has no record yet", [labeled({ created_at: at(30).toISOString() })], {}, undefined],
  [
    "a person who assigns somebody",
    [
      labeled({
        event: "assigned",
        actor: { id: 5 },
        assigner: { id: 1 },
        assignee: { login: "bot-user" },
        label: undefined,
      }),
    ],
    { type: "assigned", subject: "bot-user" },
    false,
  ],
  [
    "an app that asks for a review",
    [labeled({ ...app, event: "review_requested", requested_reviewer: { login: "bot-user" }, label: undefined })],
    { type: "review_requested", subject: "bot-user" },
    true,
  ],
  [
    "an app that reopens it",
    [labeled({ ...app, event: "reopened", label: undefined })],
    { type: "reopened", subject: undefined },
    true,
  ],
])("an action by %s", async (_, events, action, expected) => {
  const api = { callLastPages: async () => [events.slice(0, 1), events.slice(1)] } as unknown as RepositoryApi;

  expect(await readWasViaApp(api, 7, { type: "labeled", byId: 1, subject: "bug", at: at(10), ...action })).toBe(
    expected,
  );
});
