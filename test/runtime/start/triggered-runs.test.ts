import { randomUUID } from "node:crypto";
import { describe, expect, test } from "vitest";
import type { Permission } from "#domain/github.ts";
import { origin, runtimeWorlds } from "../../support/runtime-world.ts";

const world = runtimeWorlds();

async function sorterWorld({
  policy = {},
  permissions = {},
  settings = "{}",
}: {
  policy?: object;
  permissions?: Record<string, Permission>;
  settings?: string;
} = {}) {
  const sorter =
    "---\nname: sorter\non: { issues: { types: [labeled] }, task: Sort it. }\nlimits: { cost: 3 }\n---\nHi.";
  const made = await world({
    script: () => ({ text: "Sorted." }),
    github: { permissions, files: { ".github/workers/sorter.worker": sorter, ".github/golem-forge.yml": settings } },
    policy,
  });
  let count = 0;
  const label = (by = "ada", isViaApp = false) =>
    made.runs.startTriggered({
      isViaApp: async () => isViaApp,
      event: "issues",
      type: "labeled",
      label: "bug",
      labels: ["bug"],
      author: "visitor",
      origin: { ...origin, requestedBy: by },
      deliveryId: `label ${count++}`,
    });
  const started = async () =>
    (await made.runs.listRunViews(origin)).filter(({ spec }) => spec.worker.name === "sorter");
  return { ...made, label, started };
}

test("an event starts a worker with the task of its trigger", async () => {
  const { label, ended, model } = await sorterWorld();

  expect(await label()).toEqual({ problems: [] });

  expect(await ended()).toMatchObject({ spec: { origin: { trigger: "issues: labeled" } } });
  expect(JSON.stringify(model.requests[0]?.messages)).toContain("started by this event: issues: labeled.\\nSort it.");
});

test("events start no more runs in a thread and hour than the policy allows", async () => {
  const { label, ended, started } = await sorterWorld({ policy: { triggered_runs_per_hour: 1 } });
  await label();
  await ended();

  expect(await label()).toEqual({
    problems: [expect.stringContaining("Events started 1 run here in the last hour")],
  });
  expect(await started()).toHaveLength(1);
});

describe("while a person has paused a worker in the thread", () => {
  async function pausedWorld(reason?: string) {
    const made = await sorterWorld();
    const schedule = { cron: "0 6 * * *", issue: origin.thread, task: "Look for dead links." };
    const runScheduled = () =>
      made.runs.startScheduled({ repository: origin, worker: "explorer", schedule, deliveryId: randomUUID() });
    await made.runs.startRun({ origin, worker: "fixer", text: "please" });
    await made.runs.requestStop(origin, { by: "ada", ...(reason && { reason }) });
    await made.waitUntilShown(({ view }) => view.state === "interrupted");
    return { ...made, runScheduled };
  }

  test("while a person has paused a worker in the thread, no event and no schedule starts one until the run is resumed or cancelled", async () => {
    const { label, started, runs, runScheduled, waitUntilShown } = await pausedWorld();

    const first = await label();

    expect(first).toEqual({
      problems: [],
      pause: { key: expect.stringContaining("paused/"), text: expect.stringContaining("@ada paused fixer") },
    });
    expect(await label()).toEqual(first);
    expect(await runScheduled()).toEqual(first.pause);
    expect(await started()).toEqual([]);
    await runs.requestResume(origin, { by: "ada" });
    await runs.requestStop(origin, { by: "ada" });
    expect((await label()).pause?.key).not.toBe(first.pause?.key);
    await runs.requestCancel(origin, { by: "ada" });
    await waitUntilShown(({ view }) => view.state === "ended");
    expect(await label()).toEqual({ problems: [] });
    expect(await started()).toHaveLength(1);
  });

  test("while a person has paused a worker in the thread, no event starts one until a person starts a run", async () => {
    const { label, started, runs } = await pausedWorld();
    expect(await label()).toHaveProperty("pause");

    await runs.startRun({ origin, worker: "explorer", text: "What is this?" });

    expect(await label()).toEqual({ problems: [] });
    expect(await started()).toHaveLength(1);
  });

  test("a pause of the app after a person's /stop, such as for a question that cannot be posted, does not let events start workers", async () => {
    const { label, started, store } = await pausedWorld();
    const [run] = await store.runsOfThread(origin);
    const reason = "The question could not be posted.";

    await store.ingest({
      events: [{ runId: run?.id ?? "", event: { type: "run.stop", by: "golem-forge", reason } }],
    });

    expect(await label()).toMatchObject({ pause: { text: expect.stringContaining("@ada paused fixer") } });
    expect(await started()).toEqual([]);
  });

  test("a /stop counts for events even if closing the thread had paused its worker before", async () => {
    const { label, started, runs } = await pausedWorld("@ada closed #7.");

    await runs.requestStop(origin, { by: "ada" });

    expect(await label()).toMatchObject({ pause: { text: expect.stringContaining("@ada paused fixer") } });
    expect(await started()).toEqual([]);
  });

  test("after closing a thread paused its worker, an event starts one when it is open again", async () => {
    const { label, started } = await pausedWorld("@ada closed #7.");

    expect(await label()).toEqual({ problems: [] });
    expect(await started()).toHaveLength(1);
  });
});

test("people without write access start only the workers that the policy names for them, at a lower cost", async () => {
  const refused = await sorterWorld({ permissions: { tom: "read" } });
  expect(await refused.label("tom")).toEqual({ problems: [] });
  expect(await refused.started()).toEqual([]);

  const allowed = await sorterWorld({
    permissions: { tom: "read" },
    policy: { outsiders: { workers: ["sorter"], cost: 0.1 } },
  });
  await allowed.label("tom");
  const viaApp = await sorterWorld();
  expect(await viaApp.label("ada", true)).toEqual({ problems: [] });
  expect(await viaApp.started()).toEqual([]);
  expect(await allowed.started()).toMatchObject([{ spec: { worker: { limits: { cost: 0.1 } } } }]);
});

test.each([
  ["an empty entry in the settings", "on: { sorter: {} }"],
  ["a list of workers without it", "workers: [fixer]"],
])("%s turns the triggers of a worker file off", async (_, settings) => {
  const { label, started } = await sorterWorld({ settings });

  await label();

  expect(await started()).toEqual([]);
});

test("invalid settings start nothing, and are listed with invalid worker files", async () => {
  const { runs, label, started, github } = await sorterWorld({ settings: "on: { sorter: { isues: {} } }" });
  const files = { ".github/workers/broken.worker": "---\nname: broken\non: { issues: {} }\n---\nHi." };
  await github.hub.push({ branch: "main", message: "Break", author: "ada", at: new Date(), files });

  expect(await label()).toEqual({ problems: [] });

  expect(await started()).toEqual([]);
  const { schedules, invalidFiles } = await runs.listSchedules(origin, { isChanged: true });
  expect(schedules).toEqual([]);
  expect(invalidFiles).toEqual([
    { path: ".github/golem-forge.yml", problem: expect.stringContaining("Did you mean issues?") },
    { path: ".github/workers/broken.worker", problem: expect.stringContaining("types") },
  ]);
});

test("a push that changes triggers counts at once", async () => {
  const { runs, label, github } = await sorterWorld({ settings: "{}" });
  await label();
  const settings = 'on: { sorter: { schedule: [{ cron: "0 6 * * *", issue: 7, task: Look. }] } }';
  const files = { ".github/golem-forge.yml": settings };
  await github.hub.push({ branch: "main", message: "Schedule", author: "ada", at: new Date(), files });

  const { schedules } = await runs.listSchedules(origin, { isChanged: true });

  expect(schedules).toMatchObject([{ worker: "sorter", schedule: { cron: "0 6 * * *" } }]);
});

describe("a scheduled run", () => {
  const schedule = { cron: "0 6 * * *", issue: 7, task: "Look for dead links." };

  async function start({ text, policy = {} }: { text: string; policy?: object }) {
    const made = await world({ script: () => ({ text }), policy });
    const { thread: _, isPullRequest: __, requestedBy: ___, ...repository } = origin;
    const run = (worker = "explorer") =>
      made.runs.startScheduled({ repository, worker, schedule, deliveryId: randomUUID() });
    return { ...made, run };
  }

  test("a scheduled run that finds nothing to do posts nothing", async () => {
    const { run, runs, runtime, shown, model } = await start({ text: "Nothing to do." });

    await run();
    await runtime.idle();

    expect(await runs.listRunViews(origin)).toMatchObject([
      { state: "ended", spec: { origin: { requestedBy: "golem-forge[bot]" } } },
    ]);
    expect(JSON.stringify(model.requests[0]?.messages)).toContain("schedule: 0 6 * * *.\\nLook for dead links.");
    expect(shown).toEqual([]);
  });

  test("a scheduled run posts what it found, once", async () => {
    const { run, runtime, shown } = await start({ text: "Two links are dead." });

    await run();
    await runtime.idle();

    expect(shown.map(({ kind }) => kind)).toEqual(["outcome"]);
  });

  test("a scheduled run has the cost of the deployment's policy, and needs its permission", async () => {
    const { run, runs, runtime } = await start({
      text: "Nothing to do.",
      policy: { schedules: { workers: ["explorer"], cost: 0.2 } },
    });

    await run();
    await runtime.idle();

    expect(await runs.listRunViews(origin)).toMatchObject([{ spec: { worker: { limits: { cost: 0.2 } } } }]);
    await expect(run("fixer")).rejects.toThrow("does not allow fixer to run on a schedule");
  });

  test("a scheduled run does not start while its issue is closed", async () => {
    const { run, runs, github } = await start({ text: "Two links are dead." });
    github.hub.as("ada").close(7);

    await run();

    expect(await runs.listRunViews(origin)).toEqual([]);
  });
});

test("a worker whose start GitHub refuses with 403 starts when the event is processed again, and nothing is posted", async () => {
  const { label, started, github } = await sorterWorld();
  const restore = github.hub.onRequest(({ operation }) =>
    operation === "GET /repos/{owner}/{repo}/issues/{issue_number}" ? { status: 403, body: {} } : undefined,
  );

  await expect(label()).rejects.toMatchObject({ status: 403 });
  restore();

  expect(await label()).toEqual({ problems: [] });
  expect(await started()).toHaveLength(1);
});
