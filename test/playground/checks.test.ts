import type { Octokit } from "@octokit/rest";
import { beforeEach, expect, onTestFinished, test } from "vitest";
import { commitTo, PlaygroundWorld, shop } from "../support/playground-world.ts";

let world: PlaygroundWorld;
let octokit: Octokit;
beforeEach(async () => {
  world = await PlaygroundWorld.start();
  onTestFinished(() => world.close());
  octokit = await world.client();
  await commitTo(world.github, "work", { "a.txt": "1" });
  await world.github.deliveriesSettled();
  world.received.length = 0;
});

test("a failing check has annotations, and completes its suite", async () => {
  const ci = await world.github.checks("work", { app: "circle" });
  const annotation = {
    path: "a.txt",
    start_line: 1,
    end_line: 1,
    annotation_level: "failure",
    message: "Bad",
  } as const;

  ci.report("tests", { conclusion: "failure", summary: "1 failed", annotations: [annotation] });

  await world.github.deliveriesSettled();
  expect(world.events.sort()).toEqual(["check_run.completed", "check_run.created", "check_suite.completed"]);
  const { data } = await octokit.rest.checks.listForRef({ ...shop, ref: "work" });
  const { data: annotations } = await octokit.rest.checks.listAnnotations({
    ...shop,
    check_run_id: Number(data.check_runs[0]?.id),
  });
  const { data: suites } = await octokit.rest.checks.listSuitesForRef({ ...shop, ref: "work" });
  expect(data.check_runs).toMatchObject([{ name: "tests", conclusion: "failure", output: { annotations_count: 1 } }]);
  expect(annotations).toMatchObject([{ path: "a.txt", message: "Bad" }]);
  expect(suites.check_suites).toMatchObject([{ status: "completed", conclusion: "failure", app: { slug: "circle" } }]);
});

test("a suite without runs stays queued", async () => {
  const ci = await world.github.checks("work", { app: "abandoned" });

  ci.openSuite();

  const { data } = await octokit.rest.checks.listSuitesForRef({ ...shop, ref: "work" });
  expect(data.check_suites).toMatchObject([{ status: "queued", conclusion: null, latest_check_runs_count: 0 }]);
});

test("a workflow has no check runs until its jobs start, and the log of a failed job can be read", async () => {
  const ci = await world.github.checks("work");
  const workflow = ci.startWorkflow("CI");
  const { data: early } = await octokit.rest.checks.listForRef({ ...shop, ref: "work" });

  ci.report("build", { conclusion: "success", log: "It builds.\n" });
  ci.report("test", { conclusion: "failure", log: "not ok 1 - total\n" });
  ci.completeWorkflow(workflow);

  await world.github.deliveriesSettled();
  const { data: runs } = await octokit.rest.actions.listWorkflowRunsForRepo({ ...shop, branch: "work" });
  const { data: jobs } = await octokit.rest.checks.listForRef({ ...shop, ref: "work" });
  const failed = jobs.check_runs.find(({ conclusion }) => conclusion === "failure");
  const { data: log } = await octokit.rest.actions.downloadJobLogsForWorkflowRun({
    ...shop,
    job_id: Number(failed?.id),
  });
  expect(early.total_count).toBe(0);
  expect(world.events.filter((event) => event.startsWith("workflow_run")).sort()).toEqual([
    "workflow_run.completed",
    "workflow_run.requested",
  ]);
  expect(world.events.filter((event) => event === "check_suite.completed")).toHaveLength(1);
  expect(runs.workflow_runs).toMatchObject([{ name: "CI", status: "completed", conclusion: "failure" }]);
  expect(failed?.name).toBe("test");
  expect(log).toBe("not ok 1 - total\n");
});

test("statuses of a commit are combined, the latest of each context", async () => {
  const ci = await world.github.checks("work");
  ci.setStatus("deploy", "pending");
  ci.setStatus("deploy", "failure", { description: "No space left" });
  ci.setStatus("coverage", "success");

  await world.github.deliveriesSettled();
  const { data } = await octokit.rest.repos.getCombinedStatusForRef({ ...shop, ref: "work" });
  expect(data.state).toBe("failure");
  expect(data.statuses.map(({ context, state }) => [context, state])).toEqual([
    ["deploy", "failure"],
    ["coverage", "success"],
  ]);
  expect(world.events).toEqual(["status", "status", "status"]);
});

test("an app that may write checks gets a suite on every push, and adds its own runs", async () => {
  const permissions = { checks: "write", contents: "write", pull_requests: "write" } as const;
  const writing = await PlaygroundWorld.start({ app: { permissions } });
  onTestFinished(() => writing.close());

  await commitTo(writing.github, "work", { "a.txt": "1" });
  const client = await writing.client();
  const { data: suites } = await client.rest.checks.listSuitesForRef({ ...shop, ref: "work" });
  await client.rest.checks.create({
    ...shop,
    name: "review",
    head_sha: String(suites.check_suites[0]?.head_sha),
    conclusion: "neutral",
    output: { title: "Two remarks", summary: "See the files" },
  });

  const { data: listed } = await client.rest.checks.listForRef({ ...shop, ref: "work" });
  expect(suites.check_suites).toMatchObject([{ status: "queued", app: { slug: "golem-forge" } }]);
  expect(listed.check_runs).toMatchObject([
    { name: "review", conclusion: "neutral", output: { title: "Two remarks" } },
  ]);
});
