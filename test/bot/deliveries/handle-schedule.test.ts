import { randomUUID } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { OutageError, UserError } from "#domain/errors.ts";
import { GitHubRefusalError } from "#domain/github.ts";
import { type BotWorld, botWorlds, type RecordingRuns } from "../../support/bot-world.ts";

const startWorld = botWorlds();
let world: BotWorld;
let runs: RecordingRuns;

const minute = 60_000;
const schedule = { cron: "*/10 * * * *", issue: 1, task: "Look for dead links." };

beforeEach(async () => {
  world = await startWorld();
  runs = world.runs;
  runs.listSchedules.mockResolvedValue({ schedules: [{ worker: "gardener", schedule }], invalidFiles: [] });
  vi.useFakeTimers({ toFake: ["Date"] });
});

afterEach(() => {
  vi.useRealTimers();
});

/** A push of a worker file to the default branch. */
function push(change: object = {}) {
  const { installation, repository } = world.issuePayload("opened");
  const commits = [{ added: [".github/workers/gardener.worker"], modified: [], removed: [] }];
  return world.send({ ref: "refs/heads/main", installation, repository, commits, ...change }, { name: "push" });
}

/** Lets time pass, and processes everything that is due then. */
async function pass(minutes: number) {
  vi.setSystemTime(Date.now() + minutes * minute);
  await world.bot.idle();
}

test("a schedule that was pushed starts its run when it is due, every time and once", async () => {
  await push();
  await push({ after: "again" });
  expect(runs.startScheduled).not.toHaveBeenCalled();

  await pass(10);
  expect(runs.startScheduled).toHaveBeenCalledExactlyOnceWith(
    expect.objectContaining({ worker: "gardener", schedule, repository: expect.objectContaining({ repo: "shop" }) }),
  );
  await pass(10);
  expect(runs.startScheduled).toHaveBeenCalledTimes(2);
});

test("several replicas start a scheduled run once", async () => {
  await push();
  const { bot } = await world.startBot();
  vi.setSystemTime(Date.now() + 10 * minute);

  await Promise.all([world.bot.idle(), bot.idle()]);

  expect(runs.startScheduled).toHaveBeenCalledOnce();
  await bot.stop();
});

test("missed times are made up for by one run", async () => {
  await push();

  await pass(47);

  expect(runs.startScheduled).toHaveBeenCalledOnce();
});

test("a schedule that was removed no longer starts a run", async () => {
  await push();
  runs.listSchedules.mockResolvedValue({ schedules: [], invalidFiles: [] });

  await pass(30);

  expect(runs.startScheduled).not.toHaveBeenCalled();
});

test.each([
  ["is renamed", "octo/shop", () => world.hub.accountChanges.rename(world.hub.repository(), "store")],
  ["is no longer on the list", "octo/other", () => {}],
])(
  "no scheduled run starts in a repository that %s, so that the deployment does not serve it",
  async (_, served, change) => {
    await push();
    await world.bot.stop();
    const { bot } = await world.startBot({ environment: { GOLEM_FORGE_REPOSITORIES: served } });
    change();
    vi.setSystemTime(Date.now() + 10 * minute);
    await bot.idle();

    expect(runs.startScheduled).not.toHaveBeenCalled();
    await bot.stop();
  },
);

test("a run that is due while GitHub does not answer starts when it answers again", async () => {
  await push();
  runs.startScheduled.mockRejectedValueOnce(new OutageError("Bad gateway"));

  await pass(10);
  await vi.waitFor(
    async () => {
      vi.setSystemTime(Date.now() + 5_000);
      await world.bot.idle();
      expect(runs.startScheduled).toHaveBeenCalledTimes(2);
    },
    { timeout: 60_000 },
  );

  const [first, second] = runs.startScheduled.mock.calls;
  expect(second?.[0].deliveryId).toBe(first?.[0].deliveryId);
  expect(world.replies).toEqual([]);
});

test("the reason why a run cannot start is posted once a day in the issue of its schedule", async () => {
  vi.setSystemTime(new Date(Date.now() - (Date.now() % (24 * 60 * minute))));
  await push();
  runs.startScheduled.mockRejectedValue(new UserError("The budget of the day is used up."));

  await pass(10);
  await pass(10);

  expect(runs.startScheduled).toHaveBeenCalledTimes(2);
  expect(world.replies).toEqual([expect.stringContaining("did not start: The budget of the day is used up.")]);
});

test("the pause of a worker that keeps events and schedules from starting one is reported once in its thread", async () => {
  const pause = { key: "paused/r1/4", text: "@ada paused fixer in this thread." };
  await push();
  runs.startScheduled.mockResolvedValue(pause);
  runs.startTriggered.mockResolvedValue({ problems: [], pause });

  await pass(10);
  await pass(10);
  await world.send(world.issuePayload("labeled"), { name: "issues" });

  expect(runs.startScheduled).toHaveBeenCalledTimes(2);
  expect(runs.startTriggered).toHaveBeenCalledTimes(1);
  expect(world.replies).toEqual([expect.stringContaining("ada paused fixer in this thread.")]);
});

test("two schedules of an issue that are due at the same time report the pause of its worker once", async () => {
  const schedules = ["gardener", "librarian"].map((worker) => ({ worker, schedule }));
  runs.listSchedules.mockResolvedValue({ schedules, invalidFiles: [] });
  await push();
  runs.startScheduled.mockResolvedValue({ key: "paused/r1/4", text: "@ada paused fixer in this thread." });

  await pass(10);

  expect(runs.startScheduled).toHaveBeenCalledTimes(2);
  expect(world.replies).toEqual([expect.stringContaining("ada paused fixer in this thread.")]);
});

test("a schedule continues after a time when the app was suspended, and one when it could not say why nothing started", async () => {
  const refused = { status: 403, body: { message: "This installation has been suspended" } };
  await push();
  runs.listSchedules.mockRejectedValueOnce(new GitHubRefusalError("Suspended", { ...refused, cause: undefined }));
  runs.startScheduled.mockRejectedValueOnce(new UserError("The budget of the day is used up."));

  await pass(10);
  const restore = world.hub.onRequest(({ operation }) => (operation?.endsWith("/comments") ? refused : undefined));
  await pass(10);
  restore();
  expect(runs.startScheduled).toHaveBeenCalledTimes(1);
  await pass(10);

  expect(runs.startScheduled).toHaveBeenCalledTimes(2);
  expect(world.replies).toEqual([]);
});

describe("invalid settings", () => {
  const path = ".github/golem-forge.yml";
  const problem = `${path} on the default branch is not valid: on.gardener: There is no field shedule.`;
  const commit = (text: string) =>
    world.hub.push({ branch: "main", message: "Settings", author: "ada", at: new Date(), files: { [path]: text } });
  const pushSettings = () => push({ commits: [{ added: [], modified: [path], removed: [] }], after: randomUUID() });

  beforeEach(() => {
    runs.listSchedules.mockResolvedValue({ schedules: [], invalidFiles: [{ path, problem }] });
  });

  test("invalid settings are reported in a comment on the commit that broke them, once for any number of events", async () => {
    await commit("on: { gardener: { shedule: [] } }\n");

    await pushSettings();
    await world.send(world.issuePayload("labeled"), { name: "issues" });
    await world.send(world.issuePayload("reopened"), { name: "issues" });

    expect(world.hub.repository().commitComments).toEqual([
      expect.objectContaining({
        body: expect.stringContaining("There is no field shedule"),
        commit: world.hub.repository().knownBranches.get("refs/heads/main"),
      }),
    ]);
    expect(world.replies).toEqual([]);
  });

  test("invalid settings are reported once although several events arrive at the same time", async () => {
    await commit("on: { gardener: { shedule: [] } }\n");

    await Promise.all([
      pushSettings(),
      world.send(world.issuePayload("labeled"), { name: "issues" }),
      world.send(world.issuePayload("reopened"), { name: "issues" }),
    ]);

    expect(world.hub.repository().commitComments).toHaveLength(1);
  });

  test("invalid settings are reported again when a later commit breaks them in the same way", async () => {
    await commit("on: { gardener: { shedule: [] } }\n");
    await pushSettings();

    await commit("on: { gardener: { shedule: [ ] } }\n");
    await pushSettings();

    expect(world.hub.repository().commitComments).toHaveLength(2);
  });

  test("invalid settings do not keep the app from noticing conflicts with the pushed base", async () => {
    runs.listOpenPullRequests.mockResolvedValue([1]);

    await push();

    expect(runs.listOpenPullRequests).toHaveBeenCalled();
  });
});

test.each([
  ["another branch", { ref: "refs/heads/topic" }],
  ["other files", { commits: [{ added: ["src/a.ts"], modified: [], removed: [] }] }],
])("a push to %s is ignored", async (_, change) => {
  await push(change);

  expect(runs.listSchedules).not.toHaveBeenCalled();
});
