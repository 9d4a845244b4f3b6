import { expect, test } from "vitest";
import { SerialQueue } from "#domain/serial-queue.ts";

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
