import { expect, test } from "vitest";
import {
  type Check,
  type CommitChecks,
  type GitHub,
  GitHubRefusalError,
  type Review,
  type ReviewComment,
} from "#domain/github.ts";
import { describeChecks, describeReview, listOpenFeedback } from "#runtime/service/describe-feedback.ts";

function comment(id: number, changes: Partial<ReviewComment> = {}): ReviewComment {
  const place = { path: "src/total.js", startLine: null, line: 1, isOutdated: false, side: "RIGHT" as const };
  return {
    id,
    reviewId: 1,
    ...place,
    body: `Remark ${id}.`,
    author: "mia",
    updatedAt: new Date(0),
    diffHunk: "@@ -0,0 +1 @@\n+total",
    ...changes,
  };
}

/** Describes review 1 of pull request 7, by @mia, to the app `forge[bot]`. */
function describeIt(comments: ReviewComment[], { state = "commented", body = "" } = {}) {
  const github = { listReviewComments: async () => comments, ownLogin: async () => "forge[bot]" };
  return describeReview(github as unknown as GitHub, { by: "mia", number: 7, review: { id: 1, state, body } });
}

test("the suggestions of a comment become exact edits, and 4,000 that are not closed are read quickly", async () => {
  const suggested =
    "~~~suggestion\r\n```\r\none\r\n~~~\r\nAnd:\n````suggestion\n```suggestion\n````  \n```suggestion\n```";
  const before = process.threadCpuUsage();
  for (let round = 0; round < 20; round += 1) await describeIt([comment(2, { body: "```suggestion\n".repeat(4_000) })]);

  const { text } = await describeIt([comment(3, { body: suggested })]);

  const edits = [...text.matchAll(/"new_text":("(?:\\.|[^"])*")/g)].map(([, json = ""]) => JSON.parse(json));
  expect(edits).toEqual(["```\none", "```suggestion", ""]);
  expect(process.threadCpuUsage(before).user / 1_000).toBeLessThan(2_500);
});

test.each([
  ["changes_requested", "@mia requests changes on pull request #7."],
  ["approved", "@mia approved pull request #7."],
  ["commented", "@mia commented on pull request #7."],
])("a review that is %s says so", async (state, first) => {
  const { text } = await describeIt([], { state, body: " Look. " });

  expect(text).toBe(`${first}\n\nLook.`);
});

test("each comment of the review is quoted with its earlier ones, and is to be answered", async () => {
  const { text } = await describeIt([
    comment(10, { reviewId: 2, body: "From another review." }),
    comment(11, { inReplyTo: 10, body: "I agree." }),
    comment(12, { reviewId: 2, body: "Of no interest here.", line: 5 }),
  ]);

  expect(text).toContain("Earlier comments of this thread:");
  expect(text).toContain("From another review.");
  expect(text).toContain("@mia says: I agree.");
  expect(text).not.toContain("Of no interest here.");
  expect(text).toContain("answer each review comment once with reply_to_review");
});

test.each<[string, ReviewComment[], { state?: string; body?: string }]>([
  ["requests changes", [], { state: "changes_requested" }],
  ["mentions the app", [], { body: "Please, @Forge, look." }],
  ["mentions the app in a comment", [comment(11, { body: "@forge" })], {}],
  [
    "answers a comment of the app",
    [comment(10, { reviewId: 2, author: "forge[bot]" }), comment(11, { inReplyTo: 10 })],
    {},
  ],
])("a review that %s resumes the run", async (_, comments, review) => {
  expect(await describeIt(comments, review)).toMatchObject({ resumesRun: true });
});

test.each<[string, ReviewComment[], { state?: string; body?: string }]>([
  ["approves", [comment(11)], { state: "approved" }],
  ["mentions a login that only begins like the app's", [], { body: "@forge-two @forger me@forge x/@forge" }],
  ["comes with another review that mentions the app", [comment(10, { reviewId: 2, body: "@forge" })], {}],
  [
    "comes before the app's answer",
    [comment(10), comment(11, { reviewId: 2, inReplyTo: 10, author: "forge[bot]" })],
    {},
  ],
])("a review that %s does not wake the run", async (_, comments, review) => {
  expect(await describeIt(comments, review)).toMatchObject({ resumesRun: false });
});

test("of a long review, the comments that do not fit are shortened, and only long ones say so", async () => {
  const long = (id: number, size: number) =>
    comment(id, { line: id, body: "a".repeat(size), diffHunk: "old line\nnew line" });
  const { text } = await describeIt([long(1, 59_800), long(2, 2_000), long(3, 300), long(4, 301)]);

  expect(text).toContain("a".repeat(59_800));
  expect(text.match(/old line/g)).toHaveLength(1);
  expect(text.match(/new line/g)).toHaveLength(4);
  expect(text).toContain(`@mia says: ${"a".repeat(300)} (shortened: the review is long)`);
  expect(text.match(/shortened/g)).toHaveLength(2);
});

const commit = "c".repeat(40);

function check(name: string, conclusion: string | null, changes: Partial<Check> = {}): Check {
  const status = conclusion === null ? "in_progress" : "completed";
  return {
    id: name.length,
    name,
    app: "ci",
    status,
    conclusion,
    summary: "Broken.",
    url: `https://ci/${name}`,
    annotations: 0,
    ...changes,
  };
}

/** Describes these checks of the head of pull request 7. */
function describeChecksOf(
  checks: Check[],
  {
    unfinished = [],
    base = [],
    required = [],
    head = commit,
    missingPermissions = [],
  }: {
    unfinished?: string[];
    base?: Check[] | "deleted";
    required?: string[];
    head?: string;
    missingPermissions?: string[];
  } = {},
) {
  const read = (found: Check[], names: string[]): CommitChecks => ({
    checks: found,
    unfinished: names,
    missingPermissions,
  });
  const github = {
    getPullRequest: async () => ({ head: { commit: head }, base: { branch: "main" } }),
    readChecks: async (ref: string) => {
      if (ref === commit) return read(checks, unfinished);
      if (base === "deleted") throw new GitHubRefusalError("There is no branch.", { status: 422, cause: undefined });
      return read(base, []);
    },
    listRequiredChecks: async () => required,
    listAnnotations: async () => [],
    readJobLog: async () => undefined,
  };
  return describeChecks(github as unknown as GitHub, { number: 7, commit });
}

const isStatus = { id: undefined, app: undefined } as unknown as Partial<Check>;

test.each<[string, Check[], Parameters<typeof describeChecksOf>[1]]>([
  ["there are none", [], {}],
  ["a newer commit is the head", [check("test", "success")], { head: "d".repeat(40) }],
  ["one has not completed", [check("test", "success")], { unfinished: ["lint"] }],
  [
    "one has failed, and a check run has not completed",
    [check("test", "failure"), check("lint", null)],
    { unfinished: ["lint"] },
  ],
  [
    "one has failed, and a check run has not completed, beside a commit status that has",
    [check("test", "failure"), check("lint", null), check("deploy", "success", isStatus)],
    { unfinished: ["lint"] },
  ],
  ["one was cancelled and none has failed", [check("test", "success"), check("lint", "cancelled")], {}],
  ["one is stale and none has failed", [check("test", "success"), check("lint", "stale")], {}],
  ["a required one is missing", [check("test", "success")], { required: ["test", "lint"] }],
  ["a required one has not completed", [check("test", "success"), check("lint", null)], { required: ["lint"] }],
])("checks are not reported while %s", async (_, checks, options) => {
  expect(await describeChecksOf(checks, options)).toBeUndefined();
});

test.each<[string, Check]>([
  ["a commit status that stays pending", check("deploy", null, isStatus)],
  ["a deployment that waits for a person", check("deploy", null, { status: "waiting" })],
  ["a check that was cancelled because of it", check("other", "cancelled")],
])("after a failure, %s is not waited for", async (_, other) => {
  const unfinished = other.conclusion === null ? [other.name] : [];
  const report = await describeChecksOf([check("test", "failure"), other], { unfinished });

  expect(report).toMatchObject({ passed: false, failedOnBase: false });
});

test("checks that all passed are reported without a text, with the permissions that are missing", async () => {
  const options = { required: ["test"], missingPermissions: ["statuses"] };
  const report = await describeChecksOf([check("lint", "success"), check("test", "success")], options);

  expect(report).toMatchObject({ passed: true, failedOnBase: false, text: "", base: "main", baseFailures: [] });
  expect(report?.missingPermissions).toEqual(["statuses"]);
});

test("failures that the base branch has, too, are named and not to be repaired", async () => {
  const checks = [check("test", "failure"), check("lint", "failure")];
  const lint = check("lint", "failure", { url: "https://ci/base" });
  const other = check("test", "failure", { app: "another" });

  const report = await describeChecksOf(checks, { base: [lint, other, check("lint", "success")] });

  expect(report).toMatchObject({
    passed: false,
    failedOnBase: false,
    baseFailures: [{ name: "lint", url: "https://ci/base" }],
  });
  expect(report?.text).toMatch(
    /^These checks failed on ccccccc\. [\s\S]*test[\s\S]*These also fail on main, so leave them alone: lint/,
  );
  expect(await describeChecksOf([check("lint", "failure")], { base: [lint] })).toMatchObject({
    failedOnBase: true,
    text: "",
  });
});

test("failures are the pull request's own if its base branch was deleted", async () => {
  const report = await describeChecksOf([check("test", "failure")], { base: "deleted" });

  expect(report).toMatchObject({ passed: false, failedOnBase: false, baseFailures: [] });
});

test("a report is recognized by its results in any order, but not after a check has run again", async () => {
  const [one, two] = [check("test", "failure"), check("build", "failure")];
  const digest = async (...checks: Check[]) => (await describeChecksOf(checks))?.digest;

  expect(await digest(one, two)).toBe(await digest(two, one));
  expect(await digest(one, two)).not.toBe(await digest(one, { ...two, id: 99 }));
  expect(await digest(one)).not.toBe(await digest({ ...one, conclusion: "timed_out" }));
  const status = { ...one, ...isStatus };
  expect(await digest(status)).not.toBe(await digest({ ...status, url: "https://ci/again" }));
  expect(await digest(one)).toMatch(/^[0-9a-f]{16}$/);
  const passed = check("docs", "success");
  expect(await digest(passed)).not.toBe(await digest({ ...passed, id: 99 }));
  // Beside a failure, those that passed do not matter.
  expect(await digest(one, passed)).toBe(await digest(one, { ...passed, id: 99 }));
});

test("open feedback is the latest review of each person that asks for changes, if it was written before", async () => {
  const review = (author: string, state: string, body: string, at = 1): Review & { submittedAt: Date } => {
    return { id: at, author, state, body, commit: null, submittedAt: new Date(at) };
  };
  const reviews = [
    review("mia", "approved", "Fine."),
    review("mia", "changes_requested", "Not yet."),
    review("mia", "commented", "By the way."),
    review("ada", "changes_requested", "Wrong."),
    review("ada", "approved", "Right."),
    review("tom", "changes_requested", "  "),
    review("eve", "changes_requested", "Too late.", 100),
  ];
  const github = {
    listReviews: async () => reviews,
    listReviewComments: async () => [],
    ownLogin: async () => "forge[bot]",
  };

  expect(await listOpenFeedback(github as unknown as GitHub, 7, new Date(100))).toEqual([
    { author: "mia", kind: "review", text: "Not yet." },
  ]);
});

test("open feedback is also each thread without an answer of the app, unless it was resolved or hidden", async () => {
  const at = new Date(1);
  const app = "forge[bot]";
  const comments = [
    comment(1),
    comment(2, { inReplyTo: 1, author: app, body: "Done." }),
    comment(3, { inReplyTo: 1, author: "ada", body: "Not quite." }),
    comment(4),
    comment(5, { inReplyTo: 4, author: app, body: "Done." }),
    comment(6, { author: app, body: "By the app itself." }),
    comment(7, { body: "Resolved." }),
    comment(8, { body: "Spam." }),
    comment(9, { body: "Too late.", updatedAt: at }),
  ];
  const thread = { id: "t", isResolved: false, minimized: [] as number[] };
  const github = {
    listReviews: async () => [],
    listReviewComments: async () => comments,
    listReviewThreads: async () => [
      { ...thread, firstCommentId: 1, minimized: [8] },
      { ...thread, firstCommentId: 7, isResolved: true },
    ],
    ownLogin: async () => app,
  };

  const open = await listOpenFeedback(github as unknown as GitHub, 7, at);

  expect(open).toEqual([
    { author: "mia", kind: "review comment", text: expect.stringMatching(/^Review comment 3 on .*Remark 1\.$/s) },
    { author: app, kind: "reply", text: "Done." },
    { author: "ada", kind: "reply", text: "Not quite." },
    { author: app, kind: "review comment", text: expect.stringMatching(/^Review comment 6 .*By the app itself\.$/s) },
  ]);
});
