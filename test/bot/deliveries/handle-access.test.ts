import { beforeEach, expect, test, vi } from "vitest";
import { type BotWorld, botWorlds, eventTime, type RecordingRuns } from "../../support/bot-world.ts";

const startWorld = botWorlds();
let world: BotWorld;
let runs: RecordingRuns;

beforeEach(async () => {
  world = await startWorld();
  runs = world.runs;
});

const made = "2020-01-02T03:04:05Z";
const now = "2026-01-02T03:04:05Z";
const shop = {
  id: 11,
  name: "shop",
  owner: { id: 5, login: "octo", type: "User" },
  created_at: made,
  updated_at: now,
};
const there = { repositoryId: 11, installationId: 1, ownerId: 5, owner: "octo", repo: "shop" };
const installation = { id: 1, account: { id: 5, login: "octo" } };
const send = (name: string, payload: object) => world.send(payload, { name, id: "d-change" });

test("the location of a repository is stored before an event in it is handled", async () => {
  const payload = world.issuePayload("closed", { issue: { updated_at: eventTime.toISOString() } });

  await send("issues", { ...payload, repository: shop });

  expect(runs.reportLocation).toHaveBeenCalledExactlyOnceWith({
    ...there,
    at: eventTime.getTime(),
    createdAt: Date.parse(made),
  });
  expect(runs.requestStop.mock.calls[0]?.[0]).toMatchObject({ repositoryId: 11, thread: 1 });
  expect(runs.reportLocation.mock.invocationCallOrder[0]).toBeLessThan(
    runs.requestStop.mock.invocationCallOrder[0] ?? 0,
  );
});

test.each(["issue_comment", "issues"])(
  "%s with a command reports the location, if the owner's id is known",
  async (name) => {
    const issue = world.issuePayload("opened", { login: "mia", issue: { body: "/run fixer" } });
    const payload = name === "issues" ? issue : world.commentPayload();
    const { id: _, ...owner } = shop.owner;

    await world.send({ ...payload, repository: { ...shop, owner } }, { name });
    expect(runs.reportLocation).not.toHaveBeenCalled();
    await world.send({ ...payload, repository: shop }, { name });

    expect(runs.reportLocation).toHaveBeenCalledExactlyOnceWith(expect.objectContaining(there));
  },
);

test.each([
  ["renamed", { repository: { name: { from: "store" } } }, { owner: "octo", repo: "store" }],
  ["transferred", { owner: { from: { user: { id: 6, login: "ada" } } } }, { owner: "ada", repo: "shop" }],
])("repository.%s reports the new location and the previous name", async (action, changes, previousName) => {
  await send("repository", { action, changes, repository: shop, installation });

  const reported = { ...there, at: Date.parse(now), createdAt: Date.parse(made), previousName };
  expect(runs.reportLocation).toHaveBeenCalledExactlyOnceWith(reported);
  expect(runs.stopUnreachable).not.toHaveBeenCalled();
});

test("renamed to a name that is not on the list of repositories: its runs stop", async () => {
  world = await startWorld({ environment: { GOLEM_FORGE_REPOSITORIES: "octo/store" }, runs });

  await send("repository", { action: "renamed", changes: {}, repository: shop, installation });

  expect(runs.stopUnreachable).toHaveBeenCalledExactlyOnceWith(
    { installationId: 1, repositoryIds: [11] },
    { reason: expect.stringContaining("octo/shop, which is not on the list"), deliveryId: "d-change" },
  );
});

test.each([
  ["repository", "deleted", { repository: shop }, { installationId: 1, repositoryIds: [11] }],
  ["installation", "deleted", {}, { installationId: 1 }],
  ["installation", "suspend", {}, { installationId: 1 }],
  [
    "installation_repositories",
    "removed",
    { repositories_removed: [{ id: 11, name: "shop" }] },
    { installationId: 1, repositoryIds: [11] },
  ],
])("%s.%s stops the runs there, and GitHub is asked nothing", async (name, action, more, where) => {
  await send(name, { action, installation, ...more });

  const reason = expect.stringMatching(/^(The repository|This app) .*\.$/);
  expect(runs.stopUnreachable).toHaveBeenCalledExactlyOnceWith(where, { reason, deliveryId: "d-change" });
  expect(world.requests).toEqual([]);
});

test.each([
  ["installation", "unsuspend", {}, { installationId: 1 }, []],
  ["installation", "created", { repositories: [{ id: 11, name: "shop" }] }, undefined, [there]],
  ["installation_repositories", "added", { repositories_added: [{ id: 11, name: "shop" }] }, undefined, [there]],
])("%s.%s shows the waiting runs again", async (name, action, more, where, places) => {
  await send(name, { action, installation, ...more });

  expect(runs.refreshReachable).toHaveBeenCalledExactlyOnceWith(
    where ?? { installationId: 1, repositoryIds: [11] },
    places.map((place) => ({ ...place, at: expect.any(Number) })),
  );
});

test.each([
  ["installation", "created", { repositories: [{ id: 11, name: "shop" }] }],
  ["installation", "unsuspend", { repositories: [{ id: 11, name: "shop" }] }],
  ["installation_repositories", "added", { repositories_added: [{ id: 11, name: "shop" }] }],
])("%s.%s stores the schedules that the repositories have", async (name, action, more) => {
  await send(name, { action, installation, ...more });

  const { installationId, repositoryId, owner, repo } = there;
  expect(runs.listSchedules).toHaveBeenCalledExactlyOnceWith(
    { installationId, repositoryId, owner, repo },
    { isChanged: true },
  );
});

test("an event is retried while the location cannot be stored, and not carried out before", async () => {
  runs.reportLocation.mockRejectedValueOnce(new Error("the disk is full"));

  await world.comment();
  expect(runs.startRun).not.toHaveBeenCalled();

  await vi.waitFor(() => expect(runs.startRun).toHaveBeenCalledOnce(), { timeout: 60_000 });
});
