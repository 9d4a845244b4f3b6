import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { RequestPacer } from "#bot/github/request-pacer.ts";
import type { RequestPriority } from "#domain/github.ts";

let pacer: RequestPacer;
let admitted: string[];

beforeEach(() => {
  vi.useFakeTimers();
  pacer = new RequestPacer();
  admitted = [];
});
afterEach(() => vi.useRealTimers());

function send(name: string, { isWrite = true, priority = "high" as RequestPriority, repository = "octo/shop" } = {}) {
  void pacer.admit({ isWrite, priority, repository }).then(() => admitted.push(name));
}

const pass = (ms: number) => vi.advanceTimersByTimeAsync(ms);

test("a burst is sent at once, and no more than 80 writes a minute and 500 an hour", async () => {
  for (let count = 0; count < 600; count++) send("write");

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
  for (let count = 0; count < 1_000; count++) send("read", { isWrite: false });

  await pass(0);
  expect(admitted.length).toBeLessThanOrEqual(900);
  await pass(61_000);
  expect(admitted).toHaveLength(1_000);
});

test("status edits leave room for outcomes, and both for approval requests", async () => {
  for (let count = 0; count < 100; count++) send("status", { priority: "low" });
  for (let count = 0; count < 100; count++) send("outcome", { priority: "normal" });
  send("approval");

  await pass(0);

  expect(admitted.filter((name) => name === "status").length).toBeLessThanOrEqual(40);
  expect(admitted.filter((name) => name === "outcome").length).toBeGreaterThan(10);
  expect(admitted).toContain("approval");
});

test("what waits is sent by its urgency, whenever it came", async () => {
  for (let count = 0; count < 80; count++) send("first");
  await pass(0);
  admitted = [];
  send("status", { priority: "low" });
  send("approval");

  await pass(61_000);

  expect(admitted.filter((name) => name !== "first")).toEqual(["approval", "status"]);
});

test("repositories take turns", async () => {
  for (let count = 0; count < 100; count++) send("busy", { repository: "octo/busy" });
  send("quiet", { repository: "octo/quiet" });
  await pass(0);
  admitted = [];

  await pass(61_000);

  expect(admitted.indexOf("quiet")).toBeGreaterThanOrEqual(0);
  expect(admitted.indexOf("quiet")).toBeLessThan(2);
});
