import { expect, test } from "vitest";
import { createInterruptSignal, InterruptError, isInterruptError } from "#compat/index.ts";

test("an interrupt signal can be interrupted and reset", () => {
  const signal = createInterruptSignal();
  expect(signal.interrupted).toBe(false);

  signal.interrupt();
  signal.interrupt();
  expect(signal.interrupted).toBe(true);

  signal.reset();
  expect(signal.interrupted).toBe(false);
});

test("it provides an AbortSignal, and a new one after each reset", () => {
  const interrupt = createInterruptSignal();
  const first = interrupt.signal;

  interrupt.interrupt("Ctrl+C");
  expect(first.aborted).toBe(true);
  expect(isInterruptError(first.reason)).toBe(true);
  expect((first.reason as Error).message).toBe("Ctrl+C");

  interrupt.reset();
  expect(interrupt.signal.aborted).toBe(false);
  expect(interrupt.signal).not.toBe(first);
});

test("interrupt errors are distinguished from others", () => {
  expect(new InterruptError().message).toBe("Execution interrupted");
  expect(new InterruptError().name).toBe("InterruptError");
  expect([new InterruptError("x"), new Error("x"), "x", null, undefined].map(isInterruptError)).toEqual([
    true,
    false,
    false,
    false,
    false,
  ]);
});
