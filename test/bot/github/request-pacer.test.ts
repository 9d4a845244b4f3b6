import fc from "fast-check";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { RequestPacer } from "#bot/github/request-pacer.ts";
import { OutageError } from "#domain/errors.ts";
import type { RequestPriority } from "#domain/github.ts";
import { propertyRuns } from "../../support/property-runs.ts";

let pacer: RequestPacer;
let admitted: string[];

beforeEach(() => {
  vi.useFakeTimers();
  pacer = new RequestPacer();
  admitted = [];
});
afterEach(() => vi.useRealTimers());

interface Request {
  isWrite?: boolean;
  createsContent?: boolean;
  priority?: RequestPriority;
  repository?: string;
}

/** Sends a request that is answered after `answerMs`. By default it is the creation of a comment. */
function send(name: string, { answerMs = 0, ...request }: Request & { answerMs?: number } = {}): Promise<unknown> {
  const { isWrite = true, createsContent = isWrite, priority = "high", repository = "octo/shop" } = request;
  return pacer.run({ isWrite, createsContent, priority, repository }, async () => {
    admitted.push(name);
    if (answerMs > 0) await wait(answerMs);
  });
}

/** Sends a request again at the time that its error names. */
async function insist(name: string): Promise<void> {
  await send(name).catch(async (error: OutageError) => {
    await wait(Number(error.retryAt) - Date.now());
    await insist(name);
  });
}

const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

test("a burst is sent at once, and no more than 80 writes a minute and 500 an hour", async () => {
  for (let count = 0; count < 600; count++) void insist("write");

  await pass(0);
  expect(admitted.length).toBeGreaterThan(60);
  expect(admitted.length).toBeLessThanOrEqual(80);
  await pass(59_000);
  expect(admitted.length).toBeLessThanOrEqual(80);
  await pass(59 * 60_000 - 60_000);
  expect(admitted.length).toBeLessThanOrEqual(500);
  await pass(62 * 60_000);
  expect(admitted).toHaveLength(600);
});

test("reads count, too: no more than 900 points a minute", async () => {
  for (let count = 0; count < 1_000; count++) void send("read", { isWrite: false });

  await pass(0);
  expect(admitted.length).toBeLessThanOrEqual(900);
  await pass(61_000);
  expect(admitted).toHaveLength(1_000);
});

test("status edits leave room for outcomes, and both for approval requests", async () => {
  for (let count = 0; count < 100; count++) send("status", { priority: "low" }).catch(() => {});
  for (let count = 0; count < 100; count++) void send("outcome", { priority: "normal" });
  void send("approval");

  await pass(0);

  expect(admitted.filter((name) => name === "status").length).toBeLessThanOrEqual(40);
  expect(admitted.filter((name) => name === "outcome").length).toBeGreaterThan(10);
  expect(admitted).toContain("approval");
});

test("50 runs that start at once get half of their statuses and all requests for approval within the first minute", async () => {
  const refused: unknown[] = [];
  for (let count = 0; count < 50; count++) {
    send("status", { priority: "low" }).catch((error: unknown) => refused.push(error));
  }
  await pass(1_000);
  for (let count = 0; count < 49; count++) void send("approval");
  await pass(0);

  expect(admitted.filter((name) => name === "status").length).toBeGreaterThanOrEqual(25);
  expect(admitted.filter((name) => name === "approval")).toHaveLength(49);
  expect(admitted.length + refused.length).toBe(99);
});

test("a status that would wait longer than some seconds is refused, with the time at which it can be made again", async () => {
  for (let count = 0; count < 30; count++) send("status", { priority: "low" }).catch(() => {});
  await pass(20_000);

  const error = await send("late status", { priority: "low" }).catch((reason: unknown) => reason);

  expect((error as OutageError).retryAt).toBe(Date.now() + 41_000);
  await pass(37_000);
  void send("later status", { priority: "low" });
  await pass(4_000);
  expect(admitted).toContain("later status");
});

test("statuses are sent behind 50 requests for approval of the same minute, and leave room for a few more", async () => {
  for (let count = 0; count < 50; count++) void send("approval");
  for (let count = 0; count < 50; count++) send("status", { priority: "low" }).catch(() => {});
  await pass(30_000);
  for (let count = 0; count < 7; count++) void send("late approval");
  await pass(0);

  expect(admitted.filter((name) => name === "status").length).toBeGreaterThan(15);
  expect(admitted.filter((name) => name === "late approval")).toHaveLength(7);
});

test("the limit of an hour, too, is kept for requests for approval and not used up by statuses", async () => {
  for (let minute = 0; minute < 59; minute++) {
    for (let count = 0; count < 30; count++) send("status", { priority: "low" }).catch(() => {});
    await pass(60_000);
  }
  const statuses = admitted.length;
  for (let count = 0; count < 49; count++) void send("approval");
  await pass(0);

  expect(statuses).toBeGreaterThan(150);
  expect(admitted.filter((name) => name === "approval")).toHaveLength(49);
});

test("whatever else is sent and whenever, a request for approval is sent at once while a minute has few of them", async () => {
  const others = fc.record({
    priority: fc.constantFrom<RequestPriority[]>("normal", "low"),
    isApproval: fc.constant(false),
    afterMs: fc.nat(2_000),
    copies: fc.nat(40),
  });
  const approval = fc.record({
    priority: fc.constant<RequestPriority>("high"),
    isApproval: fc.constant(true),
    afterMs: fc.constant(8_000),
    copies: fc.constant(1),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(fc.oneof(others, approval), { maxLength: 30 }), async (mix) => {
      pacer = new RequestPacer();
      admitted = [];
      for (const { priority, isApproval, afterMs, copies } of mix) {
        await pass(afterMs);
        const name = isApproval ? `approval ${admitted.length}` : "other";
        for (let copy = 0; copy < copies; copy++) void send(name, { priority }).catch(() => {});
        await pass(0);
        if (isApproval) expect(admitted).toContain(name);
      }
    }),
    { numRuns: propertyRuns(100) },
  );
});

test("what waits is sent by its urgency, whenever it came", async () => {
  for (let count = 0; count < 80; count++) void send("first");
  await pass(0);
  admitted = [];
  void send("outcome", { priority: "normal" });
  void send("approval");

  await pass(61_000);

  expect(admitted.filter((name) => name !== "first")).toEqual(["approval", "outcome"]);
});

test("repositories take turns", async () => {
  for (let count = 0; count < 100; count++) void send("busy", { repository: "octo/busy" });
  void send("quiet", { repository: "octo/quiet" });
  await pass(0);
  admitted = [];

  await pass(61_000);

  expect(admitted.indexOf("quiet")).toBeGreaterThanOrEqual(0);
  expect(admitted.indexOf("quiet")).toBeLessThan(2);
});

test("edits of status comments do not count as new content", async () => {
  for (let count = 0; count < 80; count++) void send("edit", { createsContent: false });
  void send("approval");

  await pass(0);

  expect(admitted).toHaveLength(81);
});

test("no more than 90 requests are on their way at the same time", async () => {
  for (let count = 0; count < 100; count++) void send("read", { isWrite: false, answerMs: 1_500 });

  await pass(0);
  expect(admitted).toHaveLength(90);
  await pass(1_500);
  expect(admitted).toHaveLength(100);
});

test("a reaction is skipped if it would have to wait", async () => {
  for (let count = 0; count < 850; count++) void send("read", { isWrite: false });

  await expect(send("reaction", { createsContent: false, priority: "optional" })).rejects.toThrow(OutageError);
  await pass(0);

  expect(admitted).not.toContain("reaction");
});

test("a reaction shows that a command was received while its comments wait for the limit of comments", async () => {
  for (let count = 0; count < 80; count++) void send("write");
  await pass(0);
  expect(admitted).toHaveLength(76);

  await send("reaction", { createsContent: false, priority: "optional" });

  expect(admitted).toContain("reaction");
});

test("when GitHub asks for a pause, nothing is sent until the pause ends", async () => {
  pacer.pause(20_000);
  void send("approval");

  await pass(19_000);
  expect(admitted).toEqual([]);
  await pass(1_000);
  expect(admitted).toEqual(["approval"]);
});

test("a request that would wait longer than two minutes fails, and says when to try again", async () => {
  const begunAt = Date.now();
  pacer.pause(30 * 60_000);

  const error = await send("approval").catch((reason: unknown) => reason);

  expect(error).toBeInstanceOf(OutageError);
  expect((error as OutageError).retryAt).toBe(begunAt + 30 * 60_000);
  expect((error as OutageError).message).not.toContain("number");
});

test("requests that are waiting already fail when GitHub asks for a long pause", async () => {
  for (let count = 0; count < 90; count++) void send("first", { isWrite: false, answerMs: 1_000 });
  const errors: OutageError[] = [];
  for (let count = 0; count < 3; count++) send("waiting").catch((error: OutageError) => errors.push(error));
  await pass(0);
  const begunAt = Date.now();

  pacer.pause(30 * 60_000);
  await pass(1_000);

  expect(errors.map(({ retryAt }) => retryAt)).toEqual([1, 2, 3].map(() => begunAt + 30 * 60_000));
  expect(errors[2]?.message).toContain("This request is number 3 in the queue.");
  expect(pacer.state().waiting).toBe(0);
});

test("requests that have to wait longer report their position, which starts again when the limit is free", async () => {
  const messageOf = (request: Promise<unknown>) => request.then(String, (error: OutageError) => error.message);
  pacer.pause(30 * 60_000);
  await messageOf(send("first"));
  await messageOf(send("second"));

  expect(await messageOf(send("third"))).toMatch(
    /used up until \d\d:\d\d UTC\. This request is number 3 in the queue\.$/,
  );

  await pass(30 * 60_000);
  pacer.pause(30 * 60_000);
  expect(await messageOf(send("later"))).toMatch(/used up until \d\d:\d\d UTC\.$/);
});

test("what GitHub says is left of the hour is kept for urgent requests, and then waited for", async () => {
  const reset = Math.ceil(Date.now() / 1_000) + 60;
  const observe = (remaining: number) =>
    pacer.observe({ "x-ratelimit-limit": 5_000, "x-ratelimit-remaining": remaining, "x-ratelimit-reset": reset });

  observe(400);
  void send("read", { isWrite: false, priority: "normal" });
  void send("approval");
  await pass(0);
  expect(admitted).toEqual(["approval"]);

  observe(0);
  void send("second approval");
  await pass(0);
  expect(admitted).toEqual(["approval"]);
  await pass(61_000);
  expect(admitted).toEqual(["approval", "second approval", "read"]);
});

test.each([-60, 60])(
  "a system clock that is set by %s minutes changes neither a limit nor a pause",
  async (minutes) => {
    for (let count = 0; count < 77; count++) void send("write");
    await pass(30_000);
    vi.setSystemTime(Date.now() + minutes * 60_000);

    await pass(20_000);
    expect(admitted).toHaveLength(76);
    await pass(12_000);
    expect(admitted).toHaveLength(77);

    pacer.pause(10_000);
    void send("paused", { isWrite: false });
    await pass(9_000);
    expect(admitted).toHaveLength(77);
    await pass(1_000);
    expect(admitted).toHaveLength(78);
  },
);
