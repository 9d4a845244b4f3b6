import { expect, test, vi } from "vitest";
import { type BotWorld, botWorlds, eventTime } from "../../support/bot-world.ts";
import { sampleView } from "../../support/run-view.ts";

const startWorld = botWorlds();

async function review(
  world: BotWorld,
  change: object = {},
  sender = world.commentPayload().sender,
  pull: object = {},
): Promise<void> {
  world.hub.onRequest(({ operation }) => (operation?.includes("/reviews/") ? { status: 200, body: [] } : undefined));
  const { installation, repository } = world.commentPayload();
  await world.send(
    {
      action: "submitted",
      installation,
      repository,
      sender,
      pull_request: { number: 1, ...pull },
      review: {
        id: 5,
        state: "changes_requested",
        body: "Rename it.",
        user: sender,
        submitted_at: eventTime,
        ...change,
      },
    },
    { name: "pull_request_review" },
  );
}

const viaBot = { performed_via_github_app: { id: 99 } };

test("a push to a pull request asks GitHub about conflicts if its branch is a run's, and not a fork's of that name", async () => {
  const world = await startWorld();
  const { installation, repository, sender } = world.commentPayload();
  const saved = vi.spyOn(world.store, "saveDelivery");
  const push = (id: number) => {
    const head = { ref: "golem/1-abc", sha: String(id).repeat(40).slice(0, 40), repo: { id } };
    const pull = { number: 2, state: "open", user: sender, head, base: { ref: "main" } };
    const payload = { action: "synchronize", installation, repository, sender, pull_request: pull };
    return world.send(payload, { name: "pull_request" });
  };
  const checks = () => saved.mock.calls.filter(([{ key }]) => key.includes("merge check"));

  await push(99_999);
  expect(checks()).toHaveLength(0);
  await push(Number(repository.id));

  expect(checks()).toHaveLength(1);
});

test("checks of a commit are reported when a check suite completes, but not this app's own", async () => {
  const world = await startWorld();
  const { installation, repository, sender } = world.commentPayload();
  const complete = (app: number) => {
    const check_suite = {
      head_sha: "a".repeat(40),
      head_branch: "golem/1-abc",
      updated_at: eventTime,
      app: { id: app },
    };
    return world.send({ action: "completed", installation, repository, sender, check_suite }, { name: "check_suite" });
  };

  await complete(world.hub.world.app.id);
  expect(world.runs.reportChecks).not.toHaveBeenCalled();
  await complete(15_368);

  expect(world.runs.reportChecks).toHaveBeenCalledOnce();
});

const commit = { head_sha: "a".repeat(40), head_branch: "golem/1-abc", updated_at: eventTime };

test.each<[string, string, object, number]>([
  ["a check suite", "check_suite", { check_suite: commit }, 1],
  ["a check suite of a fork", "check_suite", { check_suite: { ...commit, head_branch: null } }, 0],
  ["a workflow", "workflow_run", { workflow_run: commit }, 1],
  ["a workflow of a fork", "workflow_run", { workflow_run: { ...commit, head_branch: null } }, 0],
  ["a workflow that waits", "workflow_run", { workflow_run: { ...commit, conclusion: "action_required" } }, 0],
  ["a status", "status", { sha: commit.head_sha, state: "success", branches: [{ name: "golem/1-abc" }] }, 1],
  ["a status that is pending", "status", { sha: commit.head_sha, state: "pending", branches: [] }, 0],
])("checks are read when they may have completed on a branch of the repository: %s", async (_, name, change, count) => {
  const world = await startWorld();
  const { installation, repository, sender } = world.commentPayload();
  const action = name === "status" ? {} : { action: "completed" };

  await world.send({ ...action, installation, repository, sender, ...change }, { name });

  expect(world.runs.reportChecks).toHaveBeenCalledTimes(count);
});

test("checks are reported to the run although its pull request is locked and takes no comment", async () => {
  const world = await startWorld();
  const { installation, repository, sender } = world.commentPayload();
  const locked = { status: 403, body: { message: "Unable to create comment because issue is locked." } };
  world.hub.onRequest(({ method, path }) => (method === "POST" && path.endsWith("/comments") ? locked : undefined));
  const reported = vi.fn();
  world.runs.reportChecks.mockImplementation(async (_repository, _pushed, announce) => {
    const baseFailures = [{ name: "lint", url: null }];
    const result = {
      passed: false,
      failedOnBase: true,
      text: "",
      base: "main",
      baseFailures,
      missingPermissions: [],
      digest: "",
    };
    await announce({ thread: 1, ...result });
    reported();
  });
  const check_suite = { head_sha: "a".repeat(40), head_branch: "golem/1-abc", updated_at: eventTime };

  await world.send({ action: "completed", installation, repository, sender, check_suite }, { name: "check_suite" });

  expect(reported).toHaveBeenCalledOnce();
  expect(await world.store.nextDeliveryInMs()).toBeUndefined();
});

test("a review by someone with write access reaches the run, and no other", async () => {
  const world = await startWorld();
  const mallory = { ...world.commentPayload().sender, login: "mallory", id: 99 };

  await review(world, { id: 6, user: mallory }, mallory);
  await review(world);

  expect(world.runs.deliverReview).toHaveBeenCalledOnce();
  expect(world.runs.deliverReview.mock.calls[0]?.[1]).toMatchObject({
    by: "ada",
    review: { state: "changes_requested" },
  });
});

test("a review that another app submitted with a person's token reaches no run", async () => {
  const world = await startWorld();

  await review(world, viaBot);

  expect(world.runs.deliverReview).not.toHaveBeenCalled();
});

test("a review through another app is passed on where the deployment allows such comments", async () => {
  const world = await startWorld({ environment: { GOLEM_FORGE_ALLOW_APP_COMMENTS: "true" } });

  await review(world, viaBot);

  expect(world.runs.deliverReview).toHaveBeenCalledOnce();
});

/** A comment on a line of the pull request, which is a part of review 5. */
function lineComment(world: BotWorld, change: object = {}) {
  const { installation, repository, sender } = world.commentPayload();
  const body = "@golem-forge shorter, please";
  const comment = {
    id: 9,
    body,
    user: sender,
    created_at: eventTime,
    path: "a.js",
    line: 1,
    pull_request_review_id: 5,
    ...change,
  };
  const payload = { action: "created", installation, repository, sender, pull_request: { number: 1 }, comment };
  return world.send(payload, { name: "pull_request_review_comment" });
}

test("a mention in a line comment reaches the run of the pull request once, with its review", async () => {
  const world = await startWorld();
  world.runs.listOpenPullRequests.mockResolvedValue([1]);

  await lineComment(world);
  await review(world, { state: "commented", body: "" });

  expect(world.runs.deliverMessage).not.toHaveBeenCalled();
  expect(world.runs.deliverReview).toHaveBeenCalledOnce();
});

test("a run that a line comment started does not get the review of that comment again", async () => {
  const world = await startWorld();
  world.runs.threadActivity.mockResolvedValue("none");
  await lineComment(world);
  world.runs.threadActivity.mockResolvedValue("live");

  await review(world, { state: "commented", body: "" });

  expect(world.runs.startRun).toHaveBeenCalledOnce();
  expect(world.runs.deliverReview).not.toHaveBeenCalled();
});

test("if a line comment of a review started a run, a mention in the review's summary is a message to it", async () => {
  const world = await startWorld();
  world.runs.threadActivity.mockResolvedValue("none");
  await lineComment(world);
  world.runs.threadActivity.mockResolvedValue("live");

  await review(world, { state: "commented", body: "@golem-forge and explain it" });

  expect(world.runs.startRun).toHaveBeenCalledOnce();
  expect(world.runs.deliverMessage.mock.calls.map(([, { text }]) => text)).toEqual(["and explain it"]);
});

test("a mention in a summary that started a run is not a message to it, also when it is delivered again", async () => {
  const world = await startWorld();
  world.runs.threadActivity.mockResolvedValue("none");
  await review(world, { state: "commented", body: "@golem-forge explain it" });
  world.runs.threadActivity.mockResolvedValue("live");

  await review(world, { state: "commented", body: "@golem-forge explain it", author_association: "MEMBER" });

  expect(world.runs.startRun).toHaveBeenCalledOnce();
  expect(world.runs.deliverMessage).not.toHaveBeenCalled();
});

test("a mention in a summary is a message where the pull request is not the run's own", async () => {
  const world = await startWorld();
  world.runs.deliverReview.mockResolvedValue(undefined);

  await review(world, { state: "commented", body: "@golem-forge what is this for?" });

  expect(world.runs.deliverMessage.mock.calls[0]?.[1]).toMatchObject({ by: "ada", text: "what is this for?" });
});

test.each([false, true])("a late review or line comment counts only if it still exists: %s", async (exists) => {
  const world = await startWorld();
  world.runs.threadActivity.mockResolvedValue("none");
  const late = new Date(Date.now() - 60 * 60_000);
  world.hub.onRequest(({ operation }) => {
    const id = {
      "GET /repos/{owner}/{repo}/pulls/{pull_number}/comments": 9,
      "GET /repos/{owner}/{repo}/pulls/{pull_number}/reviews": 5,
    }[operation ?? ""];
    const found = {
      id,
      path: "a.js",
      user: null,
      state: "COMMENTED",
      body: "",
      updated_at: late,
      diff_hunk: "",
      side: "RIGHT",
      commit_id: "a".repeat(40),
    };
    return id === undefined ? undefined : { status: 200, body: exists ? [found] : [] };
  });

  await lineComment(world, { created_at: late });
  expect(world.runs.startRun).toHaveBeenCalledTimes(exists ? 1 : 0);
  world.runs.threadActivity.mockResolvedValue("live");
  await review(world, { id: 5, submitted_at: late, body: "@golem-forge and this" });

  expect(world.runs.deliverReview.mock.calls.length + world.runs.deliverMessage.mock.calls.length).toBe(exists ? 1 : 0);
});

test("a review that requests changes is passed to a paused run, and a reply says that it is paused", async () => {
  const world = await startWorld();
  world.runs.findPaused.mockResolvedValue({ worker: "fixer", key: "pause" });

  await review(world, { state: "commented" });
  await review(world, { id: 6 });

  expect(world.runs.deliverReview).toHaveBeenCalledTimes(2);
  expect(world.replies).toEqual([
    expect.stringContaining("fixer is paused. It reads this review when someone comments `/resume`."),
  ]);
});

test("a review of a locked pull request whose run is paused is processed once, without a reply", async () => {
  const world = await startWorld();
  world.runs.findPaused.mockResolvedValue({ worker: "fixer", key: "pause" });
  const locked = { status: 403, body: { message: "Unable to create comment because issue is locked." } };
  world.hub.onRequest(({ method, path }) => (method === "POST" && path.endsWith("/comments") ? locked : undefined));

  await review(world);

  expect(world.runs.deliverReview).toHaveBeenCalledOnce();
  expect(await world.store.nextDeliveryInMs()).toBeUndefined();
});

test.each([
  ["changes_requested", 1],
  ["dismissed", 0],
])("a review that arrives late reaches the run unless it was dismissed: it is %s", async (state, count) => {
  const world = await startWorld();
  const found = { id: 5, user: null, state: state.toUpperCase(), body: "", commit_id: null };
  world.hub.onRequest(({ operation }) =>
    operation?.endsWith("/reviews") ? { status: 200, body: [found] } : undefined,
  );

  await review(world, { submitted_at: new Date(Date.now() - 3_600_000) });

  expect(world.runs.deliverReview).toHaveBeenCalledTimes(count);
});

const remark = (pull_request_review_id: number, body: string) => ({
  ...{ id: 9, body, pull_request_review_id, path: "a.js", user: null, diff_hunk: "", side: "RIGHT" },
  ...{ updated_at: eventTime, created_at: eventTime, commit_id: "a".repeat(40) },
});

test.each<[string, number, { change?: object; pull?: object; remarks?: object[]; ended?: number; by?: string }]>([
  ["requests changes", 1, {}],
  ["requests changes, after one that mentions the app", 1, { remarks: [remark(4, "@golem-forge why?")] }],
  ["only comments", 0, { change: { state: "commented" } }],
  ["requests changes, of a closed pull request", 0, { pull: { state: "closed" } }],
  ["requests changes, of a pull request that a run has not opened", 0, { ended: 12 }],
  ["requests changes, by someone without write access", 0, { by: "tom" }],
  ["mentions somebody", 0, { change: { body: "@mia, look." } }],
  ["mentions the app in a comment", 0, { remarks: [remark(5, "@golem-forge why?")] }],
])("a review that no run reads gets a reply if somebody may wait for it: one that %s", async (_, count, given) => {
  const { change, pull, remarks = [], ended = 1, by = "ada" } = given;
  const world = await startWorld();
  world.runs.threadActivity.mockResolvedValue("ended");
  world.runs.listRunViews.mockResolvedValue([sampleView({ pullRequest: ended })]);
  world.hub.onRequest(({ operation }) =>
    operation?.endsWith("/pulls/{pull_number}/comments") ? { status: 200, body: remarks } : undefined,
  );
  const { sender } = world.commentPayload({ login: by });

  await review(world, change, sender, { state: "open", ...pull });

  expect(world.replies.filter((body) => body.includes("no worker reads this review"))).toHaveLength(count);
});
