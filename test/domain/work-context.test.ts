import { expect, onTestFinished, test, vi } from "vitest";
import { startStopwatch } from "#domain/work-context.ts";

test.each([
  ["the machine was suspended, which stops the monotonic clock", Date, 20_000],
  ["the system's clock was set back", performance, 20_000],
])("a stopwatch counts the time although %s", (_, clock, elapsedMs) => {
  onTestFinished(() => void vi.restoreAllMocks());
  const elapsed = startStopwatch();
  const now = clock.now();
  if (clock === performance) vi.spyOn(Date, "now").mockReturnValue(Date.now() - 3_600_000);
  vi.spyOn(clock, "now").mockReturnValue(now + elapsedMs);

  expect(elapsed()).toBeGreaterThanOrEqual(elapsedMs);
});
