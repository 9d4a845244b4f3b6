import { pino } from "pino";
import { expect, onTestFinished, test, vi } from "vitest";
import {
  cautiousClock,
  confirmLease,
  LeaseLostError,
  logContext,
  startStopwatch,
  withLease,
  withLogContext,
} from "#domain/work-context.ts";

test("the fields of one log line are not on later lines of the same work", () => {
  const lines: string[] = [];
  const log = pino({ mixin: logContext, base: null, timestamp: false }, { write: (line) => lines.push(line) });

  withLogContext({ run: "r1" }, () => {
    log.info({ approval: "k3f9" }, "An approval is requested.");
    withLogContext({ run: "r2" }, () => log.info("The run has started."));
  });

  expect(lines.map((line) => JSON.parse(line))).toEqual([
    { level: 30, run: "r1", approval: "k3f9", msg: "An approval is requested." },
    { level: 30, run: "r2", msg: "The run has started." },
  ]);
});

test.each([
  ["the machine was suspended, which stops the monotonic clock", { wall: 20_000, monotonic: 5 }],
  ["the system's clock was set back", { wall: -3_600_000, monotonic: 20_000 }],
])("a stopwatch counts the time although %s", (_, passed) => {
  onTestFinished(() => void vi.restoreAllMocks());
  const time = { wall: 1_000_000, monotonic: 50 };
  vi.spyOn(Date, "now").mockImplementation(() => time.wall);
  vi.spyOn(performance, "now").mockImplementation(() => time.monotonic);

  const elapsed = startStopwatch();
  time.wall += passed.wall;
  time.monotonic += passed.monotonic;

  expect(elapsed()).toBe(20_000);
});

test("a cautious clock accepts that the clock was set forward only after ten minutes, and follows it back at once", () => {
  onTestFinished(() => void vi.restoreAllMocks());
  const time = { wall: 1_000_000, monotonic: 50 };
  vi.spyOn(Date, "now").mockImplementation(() => time.wall);
  vi.spyOn(performance, "now").mockImplementation(() => time.monotonic);
  const clock = cautiousClock();
  const startedAt = time.wall;
  const pass = (minutes: number, jumpMs = 0) => {
    time.monotonic += minutes * 60_000;
    time.wall += minutes * 60_000 + jumpMs;
    return (clock() - startedAt) / 60_000;
  };
  const hourMs = 3_600_000;

  expect(pass(1)).toBe(1);
  expect(pass(1, 72 * hourMs)).toBe(2);
  expect(pass(1, hourMs)).toBe(3);
  expect(pass(2, -73 * hourMs)).toBe(5);
  expect(pass(1, hourMs)).toBe(6);
  expect(pass(9)).toBe(15);
  expect(pass(1)).toBe(16 + 60);
  expect(pass(1, -2 * hourMs)).toBe(17 - 60);
});

test("a cautious clock that starts far ahead of a time that has passed accepts that only after ten minutes", () => {
  onTestFinished(() => void vi.restoreAllMocks());
  const time = { wall: 90 * 24 * 3_600_000, monotonic: 50 };
  vi.spyOn(Date, "now").mockImplementation(() => time.wall);
  vi.spyOn(performance, "now").mockImplementation(() => time.monotonic);
  const clock = cautiousClock(1_000_000);
  const corrected = cautiousClock(1_000_000);
  const pass = (minutes: number) => {
    time.monotonic += minutes * 60_000;
    time.wall += minutes * 60_000;
  };

  expect(clock()).toBe(1_000_000);
  pass(9);
  expect(clock()).toBe(1_000_000 + 9 * 60_000);
  pass(1);
  expect(clock()).toBe(time.wall);
  time.wall = 1_000_000 + 10 * 60_000;
  expect(corrected()).toBe(time.wall);
});

test("a write is sent only while the lease of its work is confirmed, and always outside of leased work", async () => {
  const confirm = vi.fn(async () => {});
  const lost = async () => Promise.reject(new LeaseLostError());

  await confirmLease();
  expect(await withLease(confirm, async () => confirmLease().then(() => "sent"))).toBe("sent");
  await expect(withLease(lost, confirmLease)).rejects.toThrow("Another process has taken over");
  expect(confirm).toHaveBeenCalledOnce();
});
