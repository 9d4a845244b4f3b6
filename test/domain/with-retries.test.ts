import { expect, test } from "vitest";
import { OutageError, UserError } from "#domain/errors.ts";
import { withRetries } from "#domain/with-retries.ts";

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
  ["status 503", Object.assign(new Error("Unavailable"), { status: 503 }), 4],
  ["status 422", Object.assign(new Error("Unprocessable"), { status: 422 }), 1],
  ["a UserError", new UserError("The branch has new commits."), 1],
  ["a bug", new TypeError("undefined is not a function"), 1],
])("retries only temporary errors: %s", async (_, error, calls) => {
  expect(await countCalls(error)).toBe(calls);
});

test("returns the result of the first successful call", async () => {
  const results = [() => Promise.reject(new OutageError("down")), async () => "up"];

  expect(await withRetries(async () => results.shift()?.(), { delaysMs: [0] })).toBe("up");
});

test("stops waiting when the signal is aborted", async () => {
  const controller = new AbortController();
  const operation = async () => {
    setImmediate(() => controller.abort(new Error("stopped")));
    throw new OutageError("down");
  };

  await expect(withRetries(operation, { signal: controller.signal, delaysMs: [600_000] })).rejects.toThrow("stopped");
});
