import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { HandlerServices } from "#bot/deliveries/handler.ts";
import { DeliveryProcessor, type DeliveryProcessorOptions } from "#bot/deliveries/process-deliveries.ts";
import { describePosted } from "#bot/github/posted-comment.ts";
import { checkboxOf } from "#bot/render/render-approval.ts";
import { DatabaseError, OutageError, UserError } from "#domain/errors.ts";
import { type Comment, type CommentBody, type GitHub, GitHubRefusalError } from "#domain/github.ts";
import { confirmLease, LeaseLostError } from "#domain/work-context.ts";
import { openMemoryStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import type { Store } from "#runtime/store/store.ts";
import { type RecordingRuns, recordingRuns } from "../../support/bot-world.ts";
import { sampleApproval } from "../../support/run-view.ts";

let store: Store;
let runs: RecordingRuns;
let replies: string[];
let errors: string[];
let reactions: number[];
/** The time that a reaction waits for GitHub's limits. */
let reactionDelayMs: number;
let deleted: Set<number>;
let processors: DeliveryProcessor[];

beforeEach(() => {
  const timers = ["setTimeout", "clearTimeout", "setInterval", "clearInterval", "setImmediate"] as const;
  vi.useFakeTimers({ toFake: ["Date", ...timers] });
  store = openMemoryStore();
  runs = recordingRuns();
  replies = [];
  errors = [];
  reactions = [];
  reactionDelayMs = 0;
  deleted = new Set();
  processors = [];
});
afterEach(async () => {
  vi.restoreAllMocks();
  vi.useRealTimers();
  await Promise.all(processors.map((processor) => processor.stop(0)));
});

function startProcessor(
  getPermission: GitHub["getPermission"] = async () => "write",
  options: Partial<DeliveryProcessorOptions> = {},
  canComment = () => true,
): DeliveryProcessor {
  const github = {
    repository: { installationId: 7, owner: "octo", repo: "shop" },
    getPermission,
    addReaction: async (id) => {
      await new Promise((resolve) => setTimeout(resolve, reactionDelayMs));
      await confirmLease();
      reactions.push(id);
    },
    listComments: async () => [],
    ownLogin: async () => "golem-forge[bot]",
    isPerson: async () => false,
    getComment: async (id) => (deleted.has(id) ? undefined : ({ id } as Comment)),
    createComment: async (_: number, body: CommentBody) => {
      await confirmLease();
      if (!canComment()) throw new OutageError("GitHub did not answer");
      replies.push(typeof body === "string" ? body : await body());
      return { id: replies.length } as Comment;
    },
  } as Partial<GitHub> as GitHub;
  const services: HandlerServices = {
    appId: 1,
    serves: () => true,
    allowAppComments: false,
    linksTo: async () => ({}),
    openGitHub: () => github,
    runs: () => runs,
    saveDelivery: (delivery) => store.saveDelivery(delivery),
    redact: (text) => text,
    sanitize: (text) => text,
    log: { info: () => {} },
    inBackground: () => {},
  };
  const onError = (message: string) => errors.push(message);
  const processor = new DeliveryProcessor({ store, services, onError, ...options });
  processors.push(processor);
  processor.start();
  return processor;
}

/** Stores the delivery of a comment in the thread of this number. */
async function save(
  key: string,
  body = "/run fixer",
  thread = 1,
  repository = "7 octo/shop",
  changes: object = {},
  created_at = new Date(),
): Promise<void> {
  const ada = { login: "ada", id: 5 };
  const payload = {
    action: "created",
    installation: { id: 7 },
    repository: { id: 11, name: "shop", owner: { id: 6, login: "octo" } },
    sender: ada,
    issue: { number: thread },
    comment: { id: Number(key), body, user: ada, created_at },
  };
  const content = { id: `delivery ${key}`, event: "issue_comment.created", payload, ...changes };
  const saved = store.saveDelivery({ key, queue: `${repository}#${thread}`, content });
  await pass(10);
  await saved;
}

const refusal = new GitHubRefusalError("GitHub does not allow it.", { status: 403, cause: undefined });

/** Stores the delivery of a label that was added to issue 1. */
function saveLabeled(key: string): Promise<void> {
  const payload = {
    action: "labeled",
    installation: { id: 7 },
    repository: { id: 11, name: "shop", owner: { id: 6, login: "octo" } },
    sender: { login: "ada", id: 5 },
    issue: { number: 1, updated_at: new Date() },
  };
  return save(key, "", 1, "7 octo/shop", { event: "issues.labeled", payload });
}

/** Lets time pass, and processes everything that becomes due. */
const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

test("the deliveries of a thread are processed in order, those of other threads concurrently", async () => {
  const first = Promise.withResolvers<never>();
  runs.startRun.mockImplementationOnce(() => first.promise);
  await save("1", "/run fixer");
  await save("2", "/stop");
  await save("3", "/stop", 2);
  startProcessor();

  await pass(10_000);
  expect(runs.requestStop.mock.calls.map(([{ thread }]) => thread)).toEqual([2]);
  first.resolve(undefined as never);
  await pass(10_000);

  expect(runs.requestStop.mock.calls.map(([{ thread }]) => thread)).toEqual([2, 1]);
});

test("a burst in one repository keeps neither another repository nor another installation waiting", async () => {
  runs.startRun.mockImplementation(() => new Promise(() => {}));
  for (let thread = 1; thread <= 150; thread += 1) await save(`${thread}`, "/run fixer", thread);
  startProcessor();
  await pass(1_000);
  const ofBurst = runs.startRun.mock.calls.length;

  await save("201", "/stop", 201, "7 octo/attic");
  await save("202", "/stop", 202, "8 mona/den");
  await pass(10_000);

  expect(ofBurst).toBe(50);
  expect(runs.requestStop.mock.calls.map(([{ thread }]) => thread)).toEqual([201, 202]);
});

test("a few deliveries are started in each turn of the event loop, so that others can be acknowledged in between", async () => {
  const startedIn: number[] = [];
  let turn = 0;
  const nextTurn = setImmediate;
  vi.spyOn(globalThis, "setImmediate").mockImplementation(((callback: () => void) =>
    nextTurn(() => {
      turn += 1;
      callback();
    })) as typeof setImmediate);
  runs.startRun.mockImplementation(() => {
    startedIn.push(turn);
    return new Promise(() => {});
  });
  for (let thread = 1; thread <= 30; thread += 1) await save(`${thread}`, "/run fixer", thread);

  startProcessor();
  await pass(1_000);

  const started = Map.groupBy(startedIn, (turn) => turn);
  expect([...started.values()].map(({ length }) => length)).toEqual([8, 8, 8, 6]);
});

test("a delivery that takes long is not processed by another process at the same time", async () => {
  runs.startRun.mockImplementationOnce(() => new Promise(() => {}));
  await save("1");
  startProcessor();
  startProcessor();

  await pass(5 * 60_000);

  expect(runs.startRun).toHaveBeenCalledOnce();
});

test("a delivery whose process died is processed by another", async () => {
  await save("1");
  const claimed = store.claimDeliveries({ leaseMs: 15_000, limit: 1 });
  await pass(10);
  await claimed;
  startProcessor();

  await pass(14_000);
  expect(runs.startRun).not.toHaveBeenCalled();
  await pass(7_000);

  expect(runs.startRun).toHaveBeenCalledOnce();
});

test("a processor that is stopped starts nothing more, and waits for the delivery that it is processing", async () => {
  const starting = Promise.withResolvers<never>();
  runs.startRun.mockImplementationOnce(() => starting.promise);
  await save("1");
  const processor = startProcessor();
  await pass(10);
  const onStopped = vi.fn();

  const stopped = processor.stop(60_000).then(onStopped);
  await save("2", "/stop", 2);
  await pass(10_000);
  expect(onStopped).not.toHaveBeenCalled();
  starting.resolve(undefined as never);
  await pass(1_000);
  await stopped;

  expect(runs.startRun).toHaveBeenCalledOnce();
  expect(runs.requestStop).not.toHaveBeenCalled();
  expect(await store.nextDeliveryInMs()).toBeLessThanOrEqual(0);
});

test("a process that was suspended for longer than its claim leaves a delivery to the one that took over", async () => {
  const permission = Promise.withResolvers<"write">();
  const [suspended, other] = [vi.fn(() => permission.promise), vi.fn(async () => "write" as const)];
  await save("1", "/runn fixer");
  startProcessor(suspended);
  await pass(10);

  vi.setSystemTime(Date.now() + 60_000);
  startProcessor(other);
  await pass(5_000);
  permission.resolve("write");
  await pass(60_000);

  expect([suspended.mock.calls.length, other.mock.calls.length]).toEqual([1, 1]);
  expect(replies).toHaveLength(1);
});

test("a suspended process that finds GitHub silent says nothing about a command that another one has executed", async () => {
  const answer = Promise.withResolvers<"write">();
  const silent = () => Promise.reject(new OutageError("GitHub did not answer"));
  const suspended = vi.fn<GitHub["getPermission"]>(() => answer.promise);
  for (let attempt = 1; attempt < 4; attempt++) suspended.mockImplementationOnce(silent);
  startProcessor(suspended);
  await save("1");
  await pass(10_000);
  expect(suspended).toHaveBeenCalledTimes(4);

  vi.setSystemTime(Date.now() + 60_000);
  startProcessor();
  await pass(5_000);
  answer.reject(new OutageError("GitHub did not answer"));
  await pass(60_000);

  expect(runs.startRun).toHaveBeenCalledOnce();
  expect([replies, errors]).toEqual([[], []]);
});

test("a suspended process that fails for the last time does not end a delivery that another one is processing", async () => {
  const answer = Promise.withResolvers<"write">();
  const failing = vi.fn<GitHub["getPermission"]>(() => answer.promise);
  for (let attempt = 1; attempt < 6; attempt++) failing.mockRejectedValueOnce(new Error("a bug"));
  startProcessor(failing);
  await save("1");
  await pass(32_000);
  expect(failing).toHaveBeenCalledTimes(6);

  vi.setSystemTime(Date.now() + 60_000);
  startProcessor(() => new Promise(() => {}));
  await pass(5_000);
  answer.reject(new Error("a bug"));
  await pass(1_000);

  expect(replies).toEqual([]);
  expect(await store.nextDeliveryInMs()).toBeGreaterThan(0);
});

test("a process that has lost its lease writes nothing, and leaves its deliveries to others", async () => {
  const confirmLease = vi.fn(() => Promise.reject(new LeaseLostError()));
  await save("1", "/runn fixer");
  startProcessor(async () => "write", { confirmLease });

  await pass(67_000);

  expect(confirmLease.mock.calls.length).toBeGreaterThan(3);
  expect([replies, errors]).toEqual([[], []]);
  expect(await store.nextDeliveryInMs()).toBeLessThanOrEqual(15_000);
});

test("a comment gets its reaction although the database did not say at first who processes the delivery", async () => {
  const cut = new DatabaseError("The database is not responding.");
  vi.spyOn(store, "holdsDelivery").mockRejectedValueOnce(cut).mockRejectedValueOnce(cut);
  startProcessor();
  await save("1", "/approve k7");
  await save("2", "Please also change the title.", 2);

  await pass(30_000);

  expect(reactions.toSorted()).toEqual([1, 2]);
  expect(errors).toEqual([]);
});

test("a reaction that waits for longer than the command is sent after the delivery is completed", async () => {
  reactionDelayMs = 10_000;
  startProcessor();
  await save("1", "/approve k7");
  await pass(8_000);
  expect([reactions, await store.nextDeliveryInMs()]).toEqual([[], undefined]);

  await pass(5_000);

  expect(reactions).toEqual([1]);
});

test("a comment whose process lost its lease gets its reaction when the delivery is processed again", async () => {
  let isLost = true;
  const confirmLease = async () => {
    if (isLost) throw new LeaseLostError();
  };
  startProcessor(undefined, { confirmLease });
  await save("1", "/approve k7");
  await save("2", "Please also change the title.", 2);
  await pass(6_000);
  expect(reactions).toEqual([]);

  isLost = false;
  await pass(30_000);

  expect(reactions.toSorted()).toEqual([1, 2]);
  expect(await store.nextDeliveryInMs()).toBeUndefined();
});

test("an event that this release does not handle is kept for another one", async () => {
  await save("1", "", 1, "7 octo/shop", { event: "issue_comment.translated" });
  startProcessor();

  await pass(5 * 60_000);

  expect(errors).toEqual([]);
  expect(await store.nextDeliveryInMs()).toBeGreaterThan(0);
});

test("an event that has a time waits for it, and GitHub may be away for a day from then on", async () => {
  const hour = 60 * 60_000;
  const getPermission = vi.fn<GitHub["getPermission"]>(async () => "write");
  getPermission.mockRejectedValueOnce(new OutageError("GitHub did not answer"));
  await save("1", "/run fixer", 1, "7 octo/shop", { notBefore: Date.now() + 30 * hour });
  startProcessor(getPermission);

  await pass(60_000);
  expect(getPermission).not.toHaveBeenCalled();
  vi.setSystemTime(Date.now() + 30 * hour);
  await pass(60_000);

  expect(getPermission).toHaveBeenCalledTimes(2);
  expect(runs.startRun).toHaveBeenCalledOnce();
});

test("a delivery waits until GitHub's limit is free again, and its author is told until when", async () => {
  const getPermission = vi.fn<GitHub["getPermission"]>(async () => "write");
  const retryAt = Date.now() + 30 * 60_000;
  getPermission.mockRejectedValueOnce(new OutageError("The limit is used up.", { retryAt }));
  await save("1");
  startProcessor(getPermission);

  await pass(29 * 60_000);
  expect(getPermission).toHaveBeenCalledOnce();
  const until = new Date(retryAt).toISOString().slice(11, 16);
  expect(replies).toEqual([
    expect.stringMatching(
      `^GitHub's rate limit .* until ${until} UTC. Your comment is saved and takes effect after that.`,
    ),
  ]);
  await pass(2 * 60_000);

  expect(runs.startRun).toHaveBeenCalledOnce();
  expect(replies.at(-1)).toContain("your comment has taken effect.");
});

test("while GitHub does not answer a command waits, its author is told once, and then it is carried out", async () => {
  let isDown = true;
  await save("1");
  startProcessor(async () => {
    if (isDown) throw new OutageError("GitHub did not answer");
    return "write";
  });

  await pass(5_000);
  expect(replies).toEqual([]);
  await pass(10 * 60_000);
  expect(replies).toEqual([expect.stringContaining("GitHub is not responding at the moment")]);
  expect(runs.startRun).not.toHaveBeenCalled();
  isDown = false;
  await pass(2 * 60_000);

  expect(runs.startRun).toHaveBeenCalledOnce();
  expect(replies.at(-1)).toContain("GitHub is responding again, and your comment has taken effect.");
  expect(await store.nextDeliveryInMs()).toBeUndefined();
});

test("a box that was ticked while GitHub did not answer for a day is not ticked any more, and a comment says so", async () => {
  const box = checkboxOf("k7mq");
  const from = `Approve?\n\n${box}\n\n<!-- golem-forge:approval%2Fk7mq -->`;
  const posted = describePosted({ id: 9, body: from, updatedAt: new Date() } as Comment);
  runs.pendingApprovals.mockResolvedValue([sampleApproval({ hasCheckbox: true })]);
  runs.findRequest.mockResolvedValue({ commentId: 9, updatedAt: 1, shown: { comments: [posted], revision: 0 } });
  const comment = { id: 9, body: from.replace("[ ]", "[x]"), user: { login: "golem-forge[bot]", id: 8, type: "Bot" } };
  await save("1", "", 1, "7 octo/shop", {
    event: "issue_comment.edited",
    payload: {
      action: "edited",
      installation: { id: 7 },
      repository: { id: 11, name: "shop", owner: { id: 6, login: "octo" } },
      sender: { login: "ada", id: 5 },
      issue: { number: 1 },
      comment: { ...comment, performed_via_github_app: { id: 1 }, updated_at: new Date() },
      changes: { body: { from } },
    },
  });
  startProcessor(async () => {
    throw new OutageError("GitHub did not answer");
  });

  await pass(60_000);
  expect(runs.repostRequest).not.toHaveBeenCalled();
  vi.setSystemTime(Date.now() + 25 * 60 * 60_000);
  await pass(60_000);

  const request = expect.objectContaining({ approvalId: "k7mq", isAltered: false });
  expect(runs.repostRequest).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ thread: 1 }), request);
  expect(runs.decideApprovals).not.toHaveBeenCalled();
  expect(replies).toEqual([
    expect.stringContaining("GitHub did not respond for a day, so nothing was approved. Tick the box again."),
  ]);
});

test("the author of a command is told that GitHub does not answer as soon as that can be posted, once", async () => {
  let canComment = false;
  await save("1");
  startProcessor(
    async () => {
      throw new OutageError("GitHub did not answer");
    },
    {},
    () => canComment,
  );

  await pass(10 * 60_000);
  expect(replies).toEqual([]);
  canComment = true;
  await pass(10 * 60_000);

  expect(replies).toEqual([expect.stringContaining("GitHub is not responding at the moment")]);
});

test.each<["write" | "read", string]>([
  ["write", "GitHub is responding again, and your comment has taken effect."],
  ["read", "ada, you need write access to octo/shop"],
])(
  "an answer to a question waits while GitHub does not answer, and its author is told: %s",
  async (permission, end) => {
    let isDown = true;
    runs.mayAnswer.mockResolvedValue(true);
    await save("1", "The first one.");
    startProcessor(async () => {
      if (isDown) throw new OutageError("GitHub did not answer");
      return permission;
    });

    await pass(10 * 60_000);
    expect(replies).toEqual([expect.stringContaining("GitHub is not responding at the moment. Your comment is saved")]);
    isDown = false;
    await pass(2 * 60_000);

    expect(replies.at(-1)).toContain(end);
    expect(runs.deliverMessage).toHaveBeenCalledTimes(permission === "write" ? 1 : 0);
  },
);

test.each<["write" | "read", string]>([
  ["write", "GitHub is responding again, and your review has taken effect."],
  ["read", "ada, workers only read reviews of people with write access."],
])(
  "a review that requests changes waits while GitHub does not answer, and its author is told: %s",
  async (permission, end) => {
    let isDown = true;
    const ada = { login: "ada", id: 5 };
    const payload = {
      action: "submitted",
      installation: { id: 7 },
      repository: { id: 11, name: "shop", owner: { id: 6, login: "octo" } },
      sender: ada,
      pull_request: { number: 1, state: "open" },
      review: { id: 3, user: ada, state: "changes_requested", body: "Shorter.", submitted_at: new Date() },
    };
    await save("1", "", 1, "7 octo/shop", { event: "pull_request_review.submitted", payload });
    startProcessor(async () => {
      if (isDown) throw new OutageError("GitHub did not answer");
      return permission;
    });

    await pass(5 * 60_000);
    expect(replies).toEqual([expect.stringContaining("GitHub is not responding at the moment. Your review is saved")]);
    isDown = false;
    await pass(2 * 60_000);

    expect(replies.at(-1)).toContain(end);
    expect(runs.deliverReview).toHaveBeenCalledTimes(permission === "write" ? 1 : 0);
  },
);

test.each([
  ["a mention in a line comment", "pull_request_review_comment.created", 1],
  ["a mention in the summary of a review", "pull_request_review.submitted", 1],
  ["a line comment for somebody else", "pull_request_review_comment.created", 0],
])("%s waits while GitHub does not answer, and its author is told if it is for the app", async (_, event, count) => {
  let isDown = true;
  runs.threadActivity.mockResolvedValue("none");
  const ada = { login: "ada", id: 5 };
  const body = `@${count === 1 ? "golem-forge" : "mia"} shorter, please`;
  const payload = {
    action: event.split(".")[1],
    installation: { id: 7 },
    repository: { id: 11, name: "shop", owner: { id: 6, login: "octo" } },
    sender: ada,
    pull_request: { number: 1, state: "open" },
    comment: { id: 9, user: ada, body, created_at: new Date(), path: "a.js", pull_request_review_id: 3 },
    review: { id: 3, user: ada, state: "commented", body, submitted_at: new Date() },
  };
  await save("1", "", 1, "7 octo/shop", { event, payload });
  startProcessor(async () => {
    if (isDown) throw new OutageError("GitHub did not answer");
    return "write";
  });

  await pass(5 * 60_000);
  const notice = expect.stringContaining("GitHub is not responding at the moment. Your comment is saved");
  expect(replies).toEqual(Array(count).fill(notice));
  isDown = false;
  await pass(2 * 60_000);

  expect(replies.slice(count)).toEqual(
    Array(count).fill(expect.stringContaining("GitHub is responding again, and your comment has taken effect.")),
  );
  expect(runs.startRun).toHaveBeenCalledTimes(count);
});

test("other comments wait without a notice while GitHub does not answer", async () => {
  await save("1", "I have seen this, too.");
  startProcessor(async () => {
    throw new OutageError("GitHub did not answer");
  });

  await pass(10 * 60_000);

  expect(replies).toEqual([]);
});

test("a command whose processing was interrupted several times is executed without a notice about GitHub", async () => {
  await save("1");
  for (let attempt = 1; attempt <= 5; attempt++) {
    const claimed = store.claimDeliveries({ leaseMs: 1_000, limit: 1 });
    await pass(1_001);
    expect(await claimed).toMatchObject([{ key: "1", attempts: attempt }]);
  }
  startProcessor();
  await pass(2 * 60_000);

  expect(runs.startRun).toHaveBeenCalledOnce();
  expect(replies).toEqual([]);
});

test("a command is given up when GitHub did not answer for a day, and its author is told", async () => {
  await save("1");
  startProcessor(async () => {
    throw new OutageError("GitHub did not answer");
  });

  await pass(60_000);
  vi.setSystemTime(Date.now() + 25 * 60 * 60_000);
  await pass(60_000);

  expect(replies.at(-1)).toContain("GitHub did not respond for a day, so your comment had no effect.");
  expect(errors).toEqual(["Delivery delivery 1 was dropped: GitHub did not answer for a day."]);
  expect(await store.nextDeliveryInMs()).toBeUndefined();
});

test("a command that fails on our side is retried, and then answered with where the details are", async () => {
  runs.startRun.mockRejectedValue(new Error("the disk is full"));
  await save("1");
  startProcessor();

  await pass(5 * 60_000);

  expect(runs.startRun).toHaveBeenCalledTimes(6);
  expect(replies).toEqual([expect.stringMatching(/Something failed on our side[\s\S]*`delivery 1`/)]);
  expect(errors).toContain("Delivery delivery 1 failed.");
  expect(await store.nextDeliveryInMs()).toBeUndefined();
});

test("what GitHub refuses for good is not retried", async () => {
  runs.startRun.mockRejectedValue(new UserError("There is no worker like that."));
  await save("1");
  startProcessor(async () => "write");
  await pass(60_000);

  expect(runs.startRun).toHaveBeenCalledOnce();
  expect(await store.nextDeliveryInMs()).toBeUndefined();
});

test("an event that starts workers is retried when GitHub refuses a request for a moment, and not for ever", async () => {
  runs.startTriggered.mockRejectedValueOnce(refusal).mockRejectedValueOnce(refusal);
  await saveLabeled("1");
  startProcessor();
  await pass(10_000);
  expect(runs.startTriggered).toHaveBeenCalledTimes(3);
  expect(await store.nextDeliveryInMs()).toBeUndefined();

  runs.startTriggered.mockRejectedValue(refusal);
  await saveLabeled("2");
  await pass(5 * 60_000);

  expect(runs.startTriggered).toHaveBeenCalledTimes(12);
  expect(errors).toEqual([]);
  expect(await store.nextDeliveryInMs()).toBeUndefined();
});

test("deliveries that arrive together are retried for three minutes in all while GitHub refuses, not three minutes each", async () => {
  runs.startTriggered.mockRejectedValue(refusal);
  for (const key of ["1", "2", "3"]) await saveLabeled(key);
  startProcessor();

  await pass(3 * 60_000 + 30_000);

  expect(await store.nextDeliveryInMs()).toBeUndefined();
});

test("after GitHub has refused several times, a failure on our side is retried", async () => {
  for (let time = 0; time < 6; time += 1) runs.startTriggered.mockRejectedValueOnce(refusal);
  runs.startTriggered.mockRejectedValueOnce(new Error("a bug"));
  await saveLabeled("1");
  startProcessor();

  await pass(5 * 60_000);

  expect(runs.startTriggered).toHaveBeenCalledTimes(8);
  expect(errors).toEqual(["Delivery delivery 1 failed."]);
});

test("waiting for deliveries ends when the processor is stopped, although some are due", async () => {
  const processor = startProcessor();
  await processor.stop(0);
  await save("1");
  const reads = vi.spyOn(store, "nextDeliveryInMs");

  await Promise.race([processor.idle(), pass(1_000)]);

  expect(reads.mock.calls.length).toBeLessThan(2);
  expect(runs.startRun).not.toHaveBeenCalled();
});

test("a command that arrives late counts only if its comment was not deleted meanwhile", async () => {
  startProcessor();
  const written = new Date(Date.now() - 2 * 24 * 60 * 60_000);
  const deliver = (id: number) => save(`${id}`, "/stop", id, "7 octo/shop", {}, written);

  deleted.add(1);
  await deliver(1);
  await deliver(2);
  await pass(5_000);

  expect(runs.requestStop.mock.calls.map(([{ thread }]) => thread)).toEqual([2]);
  expect(replies).toEqual([]);
});

test("a delivery that nobody can carry out is neither retried nor an error", async () => {
  const getPermission = vi.fn(() => Promise.reject(new UserError("This app is no longer installed there.")));
  await save("1");
  startProcessor(getPermission);
  await pass(60_000);

  expect(getPermission).toHaveBeenCalledOnce();
  expect(errors).toEqual([]);
  expect(await store.nextDeliveryInMs()).toBeUndefined();
});

test("deliveries are processed once the store answers again", async () => {
  vi.spyOn(store, "claimDeliveries").mockRejectedValueOnce(new Error("the connection was lost"));
  await save("1");
  startProcessor();

  await pass(6_000);

  expect(errors).toEqual(["Deliveries could not be read from the store."]);
  expect(runs.startRun).toHaveBeenCalledOnce();
});

test("failures while the database is away do not count, however long it is", async () => {
  const started = runs.startRun.getMockImplementation();
  runs.startRun.mockRejectedValue(new DatabaseError("The database is not responding."));
  await save("1");
  startProcessor();

  await pass(60 * 60_000);
  expect(runs.startRun.mock.calls.length).toBeGreaterThan(20);
  expect(replies).toEqual([]);
  runs.startRun.mockRejectedValueOnce(new Error("a bug"));
  if (started) runs.startRun.mockImplementation(started);
  runs.startRun.mockClear();
  await pass(3 * 60_000);

  expect(runs.startRun).toHaveBeenCalledTimes(2);
  expect(await store.nextDeliveryInMs()).toBeUndefined();
});
