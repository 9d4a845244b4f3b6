import { afterEach, expect, test } from "vitest";
import {
  type ActionWorld,
  type ActionWorldOptions,
  actionRepository,
  startActionWorld,
} from "../support/action-world.ts";
import { fixScript } from "../support/fix-story.ts";
import { approvalIdIn } from "../support/forge-world.ts";

let world: ActionWorld;

afterEach(() => world.close());

async function start(options: Partial<ActionWorldOptions> = {}): Promise<ActionWorld> {
  world = await startActionWorld({ script: fixScript, ...options });
  return world;
}

test("from /run to the merge, jobs that end when everything waits do the work, although one is killed", async () => {
  const { github, runner, botComment, inThread } = await start({ environment: { GOLEM_FORGE_LEASE_SECONDS: "3" } });
  const maintainer = github.as("maintainer");
  const issue = github.as("visitor").openIssue({ title: "The total is one too high", body: "Two items give 3." });
  maintainer.comment(issue.number, "/run fixer");
  const request = await botComment(issue.number, /asks for approval/);
  await runner.idle();
  let kills = 0;
  github.afterWrite(({ operation }) => {
    if (operation !== "POST /repos/{owner}/{repo}/pulls" || kills > 0) return undefined;
    kills += 1;
    runner.kill();
    return "drop";
  });

  maintainer.comment(issue.number, `/approve ${approvalIdIn(request)}`);
  await expect.poll(() => kills).toBe(1);
  await runner.triggerSchedule(actionRepository);
  await botComment(issue.number, /✅ \*\*fixer\*\*\n/);
  await runner.idle();

  const [pull, ...more] = Object.values(await github.snapshot()).flatMap(({ pulls }) => pulls);
  expect(more).toEqual([]);
  expect(pull).toMatchObject({ title: "Count every item once", author: "github-actions[bot]" });
  const checks = await github.checks(pull?.pull?.head ?? "");
  checks.completeWorkflow(checks.startWorkflow("CI", "pull_request"), "action_required");
  await runner.triggerSchedule(actionRepository);
  await botComment(pull?.number ?? 0, /Checks are waiting for approval[\s\S]*\*\*CI\*\*/);

  const ci = checks.startWorkflow("CI", "pull_request");
  checks.report("test", { conclusion: "failure", title: "1 test fails" });
  // Nothing waits for the check of a job.
  checks.report("golem-forge", { status: "in_progress" });
  checks.completeWorkflow(ci, "failure");
  const learned = () => world.model.requests.some((request) => JSON.stringify(request).includes("1 test fails"));
  await expect.poll(learned).toBe(true);
  await runner.idle();

  maintainer.markReady(pull?.number ?? 0);
  await maintainer.merge(pull?.number ?? 0);
  await botComment(pull?.number ?? 0, /was merged by/);
  await runner.idle();
  const outputs = runner.finished.map(({ output }) => output);
  expect(runner.finished.filter(({ exitCode }) => exitCode !== 0)).toHaveLength(kills);
  // Nothing was posted twice.
  const comments = await inThread(issue.number, ({ comments }) => comments, "the thread");
  const markers = comments.map(({ body }) => /<!-- golem-forge:\S+ -->/.exec(body)?.[0]).filter(Boolean);
  expect(new Set(markers).size).toBe(markers.length);
  // The limit is 1,000 requests in an hour and repository.
  const sum = (pattern: RegExp) => outputs.reduce((total, output) => total + Number(pattern.exec(output)?.[1] ?? 0), 0);
  const requests = sum(/REST API: (\d+) of 1,000/);
  expect(requests).toBeGreaterThan(30);
  expect(requests).toBeLessThan(150);
  expect(github.unknownRequests()).toEqual([]);
  // The state is encrypted, and no branch or tag shows it.
  expect(Object.keys(Object.values(await github.snapshot())[0]?.branches ?? {})).not.toContain("state");
});

test("a status that a suspended job sent last, after another job had shown a newer one, is replaced by the newest", async () => {
  const { github, runner, botComment, inThread } = await start({
    environment: { GOLEM_FORGE_LEASE_SECONDS: "3" },
    parallel: 2,
  });
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  let isHeld = false;
  let isRequested = false;
  github.onRequest(async ({ method, body }) => {
    const text = JSON.stringify(body) ?? "";
    isRequested ||= method === "POST" && text.includes("asks for approval");
    if (isHeld || !isRequested || method !== "PATCH" || !/Waiting for approval.*status%2F/.test(text)) return;
    isHeld = true;
    runner.kill("SIGSTOP");
    await released;
  });
  const maintainer = github.as("maintainer");
  const issue = maintainer.openIssue({ title: "The total is one too high", body: "/run fixer" });
  const shown = (pattern: RegExp) =>
    inThread(
      issue.number,
      ({ comments }) => comments.find(({ body }) => body.includes("status%2F") && pattern.test(body)),
      `a status like ${pattern}`,
    );
  const request = await botComment(issue.number, /asks for approval/);
  await expect.poll(() => isHeld, { timeout: 60_000 }).toBe(true);
  maintainer.comment(issue.number, `/approve ${approvalIdIn(request)}`);
  const { body: newest } = await shown(/waits for|review/);
  release();
  await shown(/Waiting for approval/);
  runner.kill("SIGCONT");

  await inThread(issue.number, ({ comments }) => comments.find(({ body }) => body === newest), "the newest status");
});

test("a job that may not open pull requests names the setting, in the thread as well as in its log", async () => {
  const { github, runner, botComment } = await start({
    repository: { actionsOpenPullRequests: false },
    script: (request) => {
      const isRefused = JSON.stringify(request).includes("does not let GitHub Actions open pull requests");
      return isRefused ? { text: "I could not open it." } : (fixScript(request) ?? { text: "" });
    },
  });
  const maintainer = github.as("maintainer");
  const issue = maintainer.openIssue({ title: "The total is one too high", body: "/run fixer" });
  const request = await botComment(issue.number, /asks for approval/);

  maintainer.comment(issue.number, `/approve ${approvalIdIn(request)}`);

  await botComment(issue.number, /Settings → Actions → General/);
  await runner.idle();
  expect(world.printed()).toMatch(/^::error title=Golem Forge::.*Allow GitHub Actions to create and approve/m);
});

test("a workflow that uses a repository instead of the npm package runs what its action.yml says, with the env of the step", async () => {
  const { github, runner, botComment } = await start({
    from: { uses: "acme/golem-forge@v1" },
    script: () => ({ text: "It adds one." }),
  });

  const issue = github.as("maintainer").openIssue({ title: "What does total do?", body: "/run explainer" });

  await botComment(issue.number, /It adds one\./);
  await runner.idle();
  expect(runner.finished).toMatchObject([{ exitCode: 0 }]);
});

test("without the model's key, the job says which secret is missing", async () => {
  const { github, runner } = await start({ environment: { OPENAI_API_KEY: "" } });

  github.as("maintainer").openIssue({ title: "Anything", body: "/run fixer" });

  await expect.poll(() => runner.finished.length).toBe(1);
  expect(runner.finished[0]).toMatchObject({
    exitCode: 2,
    output: expect.stringContaining("No model API key is set"),
  });
});
