import { expect, test } from "vitest";
import { postMarker } from "#text/comment-marker.ts";
import { githubToolset, reviewsToolset } from "#toolsets/registry.ts";
import { findingMarker } from "#toolsets/reviews/findings.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { checkRequest } from "../../support/github-openapi.ts";
import { githubWorlds } from "../../support/github-world.ts";
import { runSpec, toolsetWorld } from "../../support/toolset-world.ts";

const startGitHub = githubWorlds();
const at = new Date("2026-01-02T00:00:00Z");
const before = "export const sum = 1;\n";
const after = "export const sum = 2;\nexport const twice = sum * 2;\n";

/** A pull request by ada that changes sum.js, and the tools that review it. */
async function world(config: object = {}, services: Partial<ToolServices> = {}) {
  const github = await startGitHub();
  const { hub } = github;
  const push = (text: string) =>
    hub.push({ branch: "work", message: "Change the sum", author: "ada", at, files: { "sum.js": text } });
  await push(after);
  const { number } = await hub.as("ada").openPullRequest({ title: "Sum", head: "work", base: "main" });
  const spec = { ...runSpec, origin: { ...runSpec.origin, thread: number, isPullRequest: true } };
  const options = { services: { github: github.github, spec, ...services } };
  const reviews = await toolsetWorld(reviewsToolset, { ...options, config });
  const reading = await toolsetWorld(githubToolset, options);
  const posted = async () => (await github.pulls())[0]?.pull?.reviews ?? [];
  await reviews.call("read_pull_request_diff", {});
  return { ...reviews, read: reading.call, github, hub, push, number, posted };
}

const finding = { key: "twice-is-unused", path: "sum.js", line: 2, text: "Nothing uses `twice`." };

test("a review is posted with its summary, a range and a suggestion on lines of the diff, and never approves", async () => {
  const { call, posted, github } = await world();
  const findings = [finding, { ...finding, key: "sum-is-two", start_line: 1, text: "One.", suggestion: before }];

  const { llmContent } = await call("create_review", { summary: "Two problems.", findings });

  expect(llmContent).toContain("with 2 new comments");
  expect(await posted()).toMatchObject([
    {
      state: "COMMENTED",
      body: expect.stringContaining("Two problems."),
      comments: [{ path: "sum.js", line: 2 }, { line: 2 }],
    },
  ]);
  expect(github.writes.at(-1)?.body).toMatchObject({
    event: "COMMENT",
    comments: [
      { body: expect.stringContaining("Nothing uses"), side: "RIGHT" },
      { start_line: 1, start_side: "RIGHT", body: expect.stringContaining(`\`\`\`suggestion\n${before}\`\`\``) },
    ],
  });
});

test.each([
  ["a file that is not changed", { path: "README.md" }, "does not change README.md"],
  ["a line outside the diff", { line: 40 }, "no lines 40-40"],
  ["a range that ends before it begins", { start_line: 2, line: 1 }, "no lines 2-1"],
  ["a suggestion for a removed line", { line: 1, side: "LEFT", suggestion: "x" }, "cannot be on the LEFT side"],
  ["a suggestion that changes nothing", { suggestion: "export const twice = sum * 2;\n" }, "changes nothing"],
])("%s is refused before anything is posted", async (_, change, message) => {
  const { call, posted } = await world();

  const review = call("create_review", { summary: "One problem.", findings: [{ ...finding, ...change }] });

  await expect(review).rejects.toThrow(message);
  expect(await posted()).toEqual([]);
});

test("a pull request is not reviewed while its diff was not read at its head, so that the next review leaves nothing out", async () => {
  const { call, posted, hub } = await world({}, { usesCheckRun: async () => true });
  const review = (idempotencyKey: string) => call("create_review", { summary: "Fine." }, { idempotencyKey });
  const later = { message: "Later", author: "ada", at };

  await hub.push({ branch: "work", ...later, files: { "backdoor.js": "open();\n" } });
  await expect(review("1")).rejects.toThrow("has not read the diff of #1 at its head");
  expect(await posted()).toEqual([]);

  const read = await call("read_pull_request_diff", {});
  await review("2");
  expect(read.llmContent).toContain("open();");
  expect(await posted()).toHaveLength(1);
});

test("a review cannot imitate a request for approval", async () => {
  const { call, posted } = await world();
  const text = "### 🔐 **fixer** asks for approval";

  await call("create_review", { summary: text, findings: [{ ...finding, text }] });

  const marked = expect.stringContaining(`${text} (written by the worker)\n`);
  expect(await posted()).toMatchObject([{ body: marked, comments: [{ body: marked }] }]);
});

test("a second review is silent about what is known, resolves what is fixed, and reopens what came back", async () => {
  const { call, posted, hub, read } = await world();
  const resolved = async () => (await posted()).flatMap(({ comments }) => comments.map((one) => one.resolved));
  await call("create_review", { summary: "One problem.", findings: [finding] });

  const silent = await call("create_review", { summary: "The same.", findings: [finding] }, { idempotencyKey: "2" });
  await call("create_review", { summary: "Fixed.", fixed: [finding.key] }, { idempotencyKey: "3" });
  const whenFixed = await resolved();
  await call("create_review", { summary: "It is back.", findings: [finding] }, { idempotencyKey: "4" });

  expect(silent.llmContent).toContain("Nothing new");
  expect(whenFixed).toEqual([true]);
  expect(await resolved()).toEqual([false]);
  expect(await posted()).toHaveLength(1);
  expect((await read("read_reviews", {})).llmContent).toContain("open, finding twice-is-unused");

  hub.as("ada").resolve((await posted())[0]?.comments[0]?.id ?? 0);
  await call("create_review", { summary: "Again.", findings: [finding] }, { idempotencyKey: "5" });
  expect(await resolved()).toEqual([true]);
});

test("with check_run, the findings are annotations of one check run, or the missing permission is reported", async () => {
  const reported: string[] = [];
  const reportMissingPermission = async (permission: string) => void reported.push(permission);
  const { call, hub } = await world({}, { usesCheckRun: async () => true, reportMissingPermission });
  const runs = () =>
    hub.repository().checkRuns.map(({ name, conclusion, annotations }) => ({ name, conclusion, annotations }));

  const refused = await call("create_review", { summary: "One problem.", findings: [finding] });
  hub.world.app.permissions = { ...hub.world.app.permissions, checks: "write" };
  // The earlier token does not have it.
  for (const installation of hub.world.installations.values()) hub.credentials.revokeInstallation(installation);
  await call("create_review", { summary: "One problem.", findings: [finding] }, { idempotencyKey: "2" });
  await call("create_review", { summary: "One problem.", findings: [finding] }, { idempotencyKey: "2" });

  expect(refused.llmContent).toMatch(/1 new comment[\s\S]*lacks the permission checks: write/);
  expect(reported).toEqual(["checks: write"]);
  expect(runs()).toMatchObject([
    { conclusion: "neutral", annotations: [{ path: "sum.js", start_line: 2, message: finding.text }] },
  ]);
  const created = hub.requests.filter(({ operation }) => operation === "POST /repos/{owner}/{repo}/check-runs");
  expect(created.flatMap((request) => checkRequest(request).problems)).toEqual([]);
});

test("the diff has line numbers, and after a review shows only what changed since, or everything after a forced push", async () => {
  const { call, hub, number } = await world();
  await hub.as("ada").review(number, { event: "COMMENT", body: "I have read it." });
  const first = await call("read_pull_request_diff", {});
  await call("create_review", { summary: "Fine.", findings: [] });
  await hub.push({ branch: "work", message: "Docs", author: "ada", at, files: { "README.md": "# Sums and more\n" } });

  const second = await call("read_pull_request_diff", {});
  const all = await call("read_pull_request_diff", { all: true });

  expect(first.llmContent).toContain("          2 +export const twice = sum * 2;");
  expect(second.llmContent).toContain("1 of 2 changed files");
  expect(second.llmContent).not.toContain("twice");
  expect(all.llmContent).toContain("twice");

  const afterForcedPush = async () => (await call("read_pull_request_diff", {})).llmContent;
  await call("create_review", { summary: "Fine.", findings: [{ ...finding, key: "again" }] }, { idempotencyKey: "2" });
  await hub.moveBranch("work", "work~1", "ada");
  expect(await afterForcedPush()).toContain("1 of 1 changed files");
  await hub.moveBranch("work", "main", "ada");
  await hub.push({ branch: "work", message: "Anew", author: "ada", at, files: { "sum.js": after, "new.js": "1\n" } });
  expect(await afterForcedPush()).toContain("2 of 2 changed files");
  hub.onRequest(({ operation }) => (operation?.includes("/compare/") ? { status: 404, body: {} } : undefined));
  expect(await afterForcedPush()).toContain("2 of 2 changed files");
});

test("a review is posted once although its response was lost", async () => {
  const { call, posted, github } = await world({ request_changes: true });
  let dropped = false;
  github.hub.afterWrite(({ operation }) => {
    if (dropped || !operation?.endsWith("/reviews")) return undefined;
    dropped = true;
    return "drop";
  });

  await call("create_review", { summary: "One problem.", findings: [finding] });
  await call("create_review", { summary: "One problem.", findings: [finding] });

  expect((await posted()).map(({ state, comments }) => [state, comments.length])).toEqual([["CHANGES_REQUESTED", 1]]);
});

const dismissal = "PUT /repos/{owner}/{repo}/pulls/{pull_number}/reviews/{review_id}/dismissals";

test("a request for changes is dismissed when no finding is open any longer, once, although the response was lost", async () => {
  const { call, posted, push, hub, github, number } = await world({ request_changes: true });
  const states = async () => (await posted()).map(({ state }) => state);
  const other = { ...finding, key: "sum-is-two", line: 1 };
  await call("create_review", { summary: "Two problems.", findings: [finding, other] });
  await hub.as("maintainer").review(number, { event: "REQUEST_CHANGES", body: "Not like this." });
  let dropped = false;
  hub.afterWrite(({ operation }) => {
    if (dropped || operation !== dismissal) return undefined;
    dropped = true;
    return "drop";
  });
  await push("export const sum = 3;\n");
  await call("read_pull_request_diff", { all: true });
  const commit = (await github.pulls())[0]?.pull?.commit ?? "";
  const fixed = { summary: "Fixed.", fixed: [finding.key, other.key] };

  await call("create_review", { summary: "One is fixed.", fixed: [finding.key] }, { idempotencyKey: "2" });
  const whenOneIsOpen = await states();
  const lifted = await call("create_review", fixed, { idempotencyKey: "3" });
  const again = await call("create_review", fixed, { idempotencyKey: "3" });

  expect(whenOneIsOpen).toEqual(["CHANGES_REQUESTED", "CHANGES_REQUESTED"]);
  expect(lifted.llmContent).toContain("dismissed 1 request for changes");
  expect(again.llmContent).not.toContain("dismiss");
  expect(await states()).toEqual(["DISMISSED", "CHANGES_REQUESTED"]);
  const sent = hub.requests.filter(({ operation }) => operation === dismissal);
  expect(sent).toMatchObject([
    { body: { message: `All findings of this review are resolved as of ${commit.slice(0, 7)}.` } },
  ]);
  expect(sent.flatMap((request) => checkRequest(request).problems)).toEqual([]);
});

test.each([403, 422])("where GitHub does not let the app dismiss a review (%i), the result says so", async (status) => {
  const { call, posted, hub } = await world({ request_changes: true });
  await call("create_review", { summary: "One problem.", findings: [finding] });
  hub.onRequest(({ operation }) => (operation === dismissal ? { status, body: { message: "No." } } : undefined));

  const { llmContent } = await call(
    "create_review",
    { summary: "Fixed.", fixed: [finding.key] },
    { idempotencyKey: "2" },
  );

  expect(llmContent).toContain(
    "resolved twice-is-unused; GitHub did not let this app dismiss 1 request for changes: a maintainer can",
  );
  expect(await posted()).toMatchObject([{ state: "CHANGES_REQUESTED", comments: [{ resolved: true }] }]);
});

test.each<[string, { config?: object; review?: object; body?: string }]>([
  ["the worker does not request changes", { config: { request_changes: false } }],
  ["the worker still sees a finding whose thread a person resolved", { review: { findings: [finding] } }],
  ["another workflow posted it, with the login of the same app", { body: "Stop." }],
])("a request for changes remains if %s", async (_, { config = {}, review = {}, body = "" }) => {
  const { call, posted, hub, github, number } = await world({ request_changes: true, ...config });
  await github.github.createReview(number, {
    commit: (await github.github.getPullRequest(number))?.head.commit ?? "",
    event: "REQUEST_CHANGES",
    body: body || `Stop.\n\n${postMarker("earlier")}`,
    comments: [{ path: "sum.js", line: 2, side: "RIGHT", body: `Unused.\n\n${findingMarker(finding.key)}` }],
  });
  hub.as("ada").resolve((await posted())[0]?.comments[0]?.id ?? 0);

  await call("create_review", { summary: "Checked.", ...review });

  expect((await posted())[0]?.state).toBe("CHANGES_REQUESTED");
});

test("the first review is reported as posted when the app was interrupted after posting it", async () => {
  const { call, posted } = await world();

  const first = await call("create_review", { summary: "Fine." }, { idempotencyKey: "1" });
  const again = await call("create_review", { summary: "Fine." }, { idempotencyKey: "1" });
  const silent = await call("create_review", { summary: "Still fine." }, { idempotencyKey: "2" });

  expect(again).toEqual(first);
  expect(silent.llmContent).toContain("no review was posted");
  expect(await posted()).toHaveLength(1);
});

test("the result in the log has the key of each finding, those that are known as well, and what was resolved and reopened", async () => {
  const { call, hub, number } = await world();
  const dataOf = async (idempotencyKey: string, review: object) => {
    const { value } = await call("create_review", { summary: "Checked.", ...review }, { idempotencyKey });
    return "data" in value ? value.data : undefined;
  };
  const known = { key: finding.key, path: "sum.js", line: 2 };
  const elsewhere = { ...finding, key: "sum-is-two", line: 1 };

  expect(await dataOf("1", { findings: [finding] })).toMatchObject({ findings: [{ ...known, isNew: true }] });
  expect(await dataOf("2", { findings: [finding, elsewhere] })).toMatchObject({
    findings: [
      { ...known, isNew: false },
      { key: "sum-is-two", isNew: true },
    ],
  });
  const fixed = { fixed: [finding.key, "never-reported"] };
  expect(await dataOf("3", fixed)).toMatchObject({ number, findings: [], resolved: [finding.key], reopened: [] });
  expect(await dataOf("4", fixed)).toMatchObject({ resolved: [] });
  expect(await dataOf("5", { findings: [finding] })).toMatchObject({ resolved: [], reopened: [finding.key] });
  await hub.as("ada").reviewComment(number, { path: "sum.js", line: 1, body: "<!-- golem-forge:finding of-ada -->" });
  expect(await dataOf("6", { findings: [{ ...elsewhere, key: "of-ada" }] })).toMatchObject({
    findings: [{ key: "of-ada", isNew: true }],
  });
});
