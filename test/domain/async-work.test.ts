import { expect, test, vi } from "vitest";
import {
  abandonOnAbort,
  EventLoopYielder,
  runAtOnce,
  runInTurns,
  SerialQueue,
  unlessAborted,
  withRetries,
} from "#domain/async-work.ts";
import { OutageError, UserError } from "#domain/errors.ts";

test("a task starts when the one before it has ended", async () => {
  const queue = new SerialQueue();
  const gate = Promise.withResolvers<void>();
  const started: string[] = [];

  const first = queue.run(async () => {
    started.push("first");
    await gate.promise;
    return 1;
  });
  const second = queue.run(() => started.push("second"));
  await Promise.resolve();
  expect(started).toEqual(["first"]);
  gate.resolve();

  expect(await first).toBe(1);
  expect(await second).toBe(2);
});

test("a task that fails rejects its own promise and does not stop the next one", async () => {
  const queue = new SerialQueue();

  const failed = queue.run(() => {
    throw new Error("no");
  });
  const next = queue.run(() => "yes");

  await expect(failed).rejects.toThrow("no");
  expect(await next).toBe("yes");
});

test("the queue is idle when everything added so far has ended, whether or not it failed", async () => {
  const queue = new SerialQueue();
  const ended: string[] = [];

  void queue.run(async () => void ended.push("first"));
  queue.run(() => Promise.reject(new Error("no"))).catch(() => ended.push("second"));
  await queue.idle();

  expect(ended).toEqual(["first", "second"]);
});

/** The number of calls of an operation that always fails with this error. */
async function countCalls(error: unknown): Promise<number> {
  let calls = 0;
  const operation = async () => {
    calls += 1;
    throw error;
  };
  await expect(withRetries(operation, { delaysMs: [0, 1, 0] })).rejects.toBe(error);
  return calls;
}

test.each<[string, unknown, number]>([
  ["an unreachable server", new OutageError("reset"), 4],
  ["status 500", Object.assign(new Error("Broken"), { status: 500 }), 4],
  ["status 503", Object.assign(new Error("Unavailable"), { status: 503 }), 4],
  ["a text as status", Object.assign(new Error("Odd"), { status: "500" }), 1],
  ["status 422", Object.assign(new Error("Unprocessable"), { status: 422 }), 1],
  ["a UserError", new UserError("The branch has new commits."), 1],
  ["a bug", new TypeError("undefined is not a function"), 1],
])("retries only temporary errors: %s", async (_, error, calls) => {
  expect(await countCalls(error)).toBe(calls);
});

test("the result of the first successful call is returned", async () => {
  const results = [() => Promise.reject(new OutageError("down")), async () => "up"];

  expect(await withRetries(async () => results.shift()?.(), { delaysMs: [0] })).toBe("up");
});

test("a call that fails because it was aborted fails with the signal's reason, and is not made again", async () => {
  const controller = new AbortController();
  let calls = 0;
  const operation = async () => {
    calls += 1;
    controller.abort(new Error("stopped"));
    throw new Error("The socket was closed.");
  };

  await expect(withRetries(operation, { signal: controller.signal, delaysMs: [0] })).rejects.toThrow("stopped");
  expect(calls).toBe(1);
});

test("waiting ends when the signal is aborted", async () => {
  const controller = new AbortController();
  const operation = async () => {
    setImmediate(() => controller.abort(new Error("stopped")));
    throw new OutageError("down");
  };

  await expect(withRetries(operation, { signal: controller.signal, delaysMs: [600_000] })).rejects.toThrow("stopped");
});

test("work is abandoned shortly after its signal was aborted, and reports what it has done until then", async () => {
  const stopping = new AbortController();
  const slow = Promise.withResolvers<string>();
  const work = vi.fn();

  const reported = abandonOnAbort(() => slow.promise, stopping.signal);
  const abandoned = abandonOnAbort(() => new Promise(() => {}), stopping.signal);
  stopping.abort();
  slow.resolve("half done");

  expect(await reported).toEqual({ abandoned: false, value: "half done" });
  expect(await abandoned).toEqual({ abandoned: true });
  expect(await abandonOnAbort(work, stopping.signal)).toEqual({ abandoned: true });
  expect(work).not.toHaveBeenCalled();
  expect(await abandonOnAbort(() => "done", new AbortController().signal)).toEqual({ abandoned: false, value: "done" });
  await expect(abandonOnAbort(() => Promise.reject(new Error("no")), new AbortController().signal)).rejects.toThrow(
    "no",
  );
});

test("a promise rejects as soon as its signal is aborted, and otherwise settles as the work does", async () => {
  const controller = new AbortController();
  const { signal } = controller;
  const remove = vi.spyOn(signal, "removeEventListener");

  expect(await unlessAborted(Promise.resolve(1), undefined)).toBe(1);
  expect(await unlessAborted(Promise.resolve(1), signal)).toBe(1);
  await expect(unlessAborted(Promise.reject(new Error("no")), signal)).rejects.toThrow("no");
  expect(remove).toHaveBeenCalledTimes(2);
  const waiting = unlessAborted(new Promise(() => {}), signal);
  controller.abort(new Error("stopped"));
  await expect(waiting).rejects.toThrow("stopped");
});

test("a computation gives the same result in turns as at once, and ends at the next turn once its signal is aborted", async () => {
  function* sum() {
    let total = 0;
    for (let step = 1; step <= 10; step++) {
      total += step;
      yield;
    }
    return total;
  }
  const loop = new EventLoopYielder({ everyMs: -1 });
  const turn = vi.spyOn(loop, "turn");

  expect(runAtOnce(sum())).toBe(55);
  expect(await runInTurns(sum(), loop)).toBe(55);
  expect(turn).toHaveBeenCalledTimes(10);
  const stopped = new EventLoopYielder({ everyMs: -1, signal: AbortSignal.abort(new Error("stopped")) });
  await expect(runInTurns(sum(), stopped)).rejects.toThrow("stopped");
  expect(new EventLoopYielder({ everyMs: 60_000 }).isDue).toBe(false);
});
