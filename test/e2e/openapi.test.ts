import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { endpoints } from "#bot/manifest.ts";
import { byTurn, call, messageText, type Script } from "../support/forge-stories.ts";
import { approvalIdIn, type Forge, forgeRepository, startForge } from "../support/forge-world.ts";
import { checkRequest } from "../support/github-openapi.ts";

let forge: Forge;

beforeAll(async () => {
  const policy = join(await mkdtemp(join(tmpdir(), "golem-forge-policy-")), "policy.yml");
  await writeFile(policy, "always_ask: []\n");
  const environment = { GOLEM_FORGE_POLICY: policy };
  forge = await startForge({ script: (request) => scriptFor(request), repositories: [repository], environment });
  // As if the app had been down for hours, so that it requests missed deliveries.
  forge.github.onRequest(({ operation }) => {
    return operation === "GET /app/hook/deliveries" ? { status: 200, body: [missedDelivery] } : undefined;
  });
  forge.github.world.teams.set("playground/maintainers", new Set(["maintainer"]));
  await forge.start();
});
afterAll(() => forge.close());

test("every request has a path, a query and a body as GitHub describes them", async () => {
  const { github, botComment } = forge;
  const maintainer = github.as("maintainer");

  // An issue that is itself a command, for a worker of the repository that uses every tool on GitHub.
  const issue = github.as("maintainer").openIssue({ title: "Count right", body: "/run clerk please" });
  await botComment(issue.number, /asks for approval/);
  maintainer.comment(issue.number, "/help");
  await botComment(issue.number, /\/run clerk/);
  maintainer.comment(issue.number, "/status");
  maintainer.comment(issue.number, `/approve ${approvalIdIn(await botComment(issue.number, /asks for approval/))}`);
  await botComment(issue.number, /Every tool was used\./);

  // Its pull request is reviewed, and the worker answers there.
  const { number } = await github.until((snapshot) => Object.values(snapshot)[0]?.pulls[0]);
  await maintainer.reviewComment(number, { path: "src/total.js", line: 1, body: "Why?" });
  maintainer.comment(number, "/run clerk answer the review");
  await botComment(number, /The review is answered\./);

  // All checks of its commit pass, and then one fails.
  const [pull] = Object.values(await github.snapshot()).flatMap(({ pulls }) => pulls);
  const checks = await github.checks(pull?.pull?.head ?? "");
  checks.report("lint", { conclusion: "success" });
  await expect.poll(asked).toContain("GET /repos/{owner}/{repo}/rules/branches/{branch}");
  const annotation = { path: "src/total.js", start_line: 1, end_line: 1, message: "Expected 2" };
  const workflow = checks.startWorkflow("CI");
  checks.report("unit", {
    conclusion: "failure",
    log: "failed\n",
    annotations: [{ ...annotation, annotation_level: "failure" }],
  });
  checks.completeWorkflow(workflow);
  await expect.poll(asked).toContain("GET /repos/{owner}/{repo}/actions/jobs/{job_id}/logs");
  maintainer.comment(number, `@${github.botLogin.replace("[bot]", "")} thank you`);
  await expect.poll(asked).toContain("GET /users/{username}");
  // A page of a run asks whether its repository is public.
  const page = /http[^)\s]+\/runs\/[^)\s]+/.exec((await botComment(issue.number, /\/runs\//)).body)?.[0] ?? "";
  await fetch(page);
  await expect.poll(asked).toContain("POST /app/hook/deliveries/{delivery_id}/attempts");
  // A label that would start a worker was added by an app.
  github.as("maintainer", undefined, "labeler").label(issue.number, "sort");
  await expect.poll(asked).toContain("GET /repos/{owner}/{repo}/issues/{issue_number}/events");
  // A push makes the settings invalid.
  const files = { ".github/golem-forge.yml": "on: { fixer: { isues: {} } }" };
  await github.push({ branch: "main", message: "Settings", author: "maintainer", at: new Date(), files });
  const [said] = await github.until(() => (commitComments().length > 0 ? commitComments() : undefined));
  expect(said?.body).toContain("No event or schedule starts a worker until it is corrected.");

  const wrong = restRequests().flatMap((request) => {
    const { problems } = checkRequest(request);
    return problems.length > 0 ? [{ request: `${request.method} ${request.path}`, problems }] : [];
  });
  expect(wrong).toEqual([]);
  expect(github.unknownRequests()).toEqual([]);
});

function commitComments() {
  return forge.github.repository().commitComments;
}

/**
 * Used in other stories: replicas delete comments that were posted twice, jobs of the Action look for missed events, and
 * reviews of other people's pull requests request changes.
 */
const endpointsOfOthers = [
  "DELETE /repos/{owner}/{repo}/issues/comments/{comment_id}",
  "GET /repos/{owner}/{repo}/actions/runs",
  "GET /repos/{owner}/{repo}/issues/comments",
  "PUT /repos/{owner}/{repo}/pulls/{pull_number}/reviews/{review_id}/dismissals",
];

test("each endpoint of the manifest was requested, and no other", () => {
  const isOfThisStory = (endpoint = "") => !endpointsOfOthers.includes(endpoint);

  expect([...asked()].filter(isOfThisStory).sort()).toEqual(Object.keys(endpoints).filter(isOfThisStory).sort());
});

/** Requests to the REST API; where GitHub redirects, it does so by the id of the repository. */
function restRequests() {
  return forge.github.requests
    .filter(({ operation }) => !/^(git-|info\/refs|POST \/graphql$)/.test(operation ?? ""))
    .map((request) => ({ ...request, path: request.path.replace(/^\/repositories\/\d+/, "/repos/playground/shop") }));
}

/** The endpoints that were requested. */
function asked(): Set<string | undefined> {
  return new Set(restRequests().map((request) => checkRequest(request).operation));
}

/** Uses every tool on GitHub, first on the issue and then on the review of the pull request. */
const scriptFor: Script = (request) => {
  const read = request.messages.map(messageText).findLast((text) => text.includes("Review comment"));
  const id = Number(/Review comment (\d+)/.exec(read ?? "")?.[1]);
  return byTurn(
    call("read_issue", {}),
    call("read_thread", {}),
    call("list_issues", { labels: ["bug"], state: "all", limit: 5 }),
    call("add_labels", { labels: ["bug", "good first issue"] }),
    call("reply", { text: "I am on it." }),
    call("read_file", { path: "src/total.js" }),
    call("edit_file", { path: "src/total.js", old_text: "items.length + 1", new_text: "items.length" }),
    call("open_pull_request", { title: "Count every item once", body: "One too many.", closes_issue: true }),
    call("read_checks", {}),
    call("write_file", { path: "CHANGES.md", content: "# The total is right\n\f" }),
    call("update_pull_request", { message: "A better title", title: "Count right", body: "It counts right." }),
    { text: "Every tool was used." },
    call("read_pull_request", {}),
    call("reply_to_review", { review_comment_id: id, text: "Because it counted one too many." }),
    call("create_review", { summary: "Fine." }),
    call("read_pull_request_diff", {}),
    call("read_reviews", {}),
    call("request_review", { reviewers: ["maintainer"] }),
    { text: "The review is answered." },
  )(request);
};

const clerk = `---
name: clerk
on: { issues: { types: [labeled], labels: [sort] } }
toolsets:
  filesystem: {}
  github:
    approval: { default: preApproved }
  reviews:
    approval: { default: preApproved }
  pull_request:
    approval: { default: preApproved, tools: { open_pull_request: ask } }
sandbox:
  approval: { write: preApproved }
---
You follow instructions.
`;

const repository = {
  ...forgeRepository,
  commits: forgeRepository.commits.map((commit) => ({
    ...commit,
    files: {
      ...commit.files,
      ".github/workers/clerk.worker": clerk,
      ".github/golem-forge.yml":
        "approvals: [{ tools: [open_pull_request], people: [contributor], teams: [maintainers] }]\nverified_commits: true\n",
      // Too large for GitHub to send with the file's metadata.
      ".github/workers/novelist.worker": `---\nname: novelist\n---\n${"It was a dark and stormy night.\n".repeat(40_000)}`,
    },
  })),
};

const missedDelivery = {
  id: 1,
  guid: "0b989ba4-242f-11e5-81e1-c7b6966d2516",
  delivered_at: new Date(Date.now() - 60 * 60_000).toISOString(),
  redelivery: false,
  duration: 0.03,
  status: "Service Unavailable",
  status_code: 503,
  event: "issue_comment",
  action: "created",
  installation_id: 1,
  repository_id: 1,
};
