import { expect, test } from "vitest";
import { OutageError, UserError } from "#domain/errors.ts";
import { withRetries } from "#domain/with-retries.ts";

/** Counts how often work is done that always fails like this. */
async function triesOf(error: unknown): Promise<number> {
  let tries = 0;
  const work = async () => {
    tries += 1;
    throw error;
  };
  await expect(withRetries(work, { pausesMs: [0, 1, 0] })).rejects.toBe(error);
  return tries;
}

test.each<[string, unknown, number]>([
  ["a server that cannot be reached", new OutageError("reset"), 4],
  ["an answer of 503", Object.assign(new Error("Unavailable"), { status: 503 }), 4],
  ["an answer of 422", Object.assign(new Error("Unprocessable"), { status: 422 }), 1],
  ["a refusal in words", new UserError("Somebody else pushed."), 1],
  ["a bug", new TypeError("undefined is not a function"), 1],
])("%s is met with as many tries as there are pauses, or one", async (_, error, tries) => {
  expect(await triesOf(error)).toBe(tries);
});

test("the first success is the answer", async () => {
  const answers = [() => Promise.reject(new OutageError("down")), async () => "up"];

  expect(await withRetries(async () => answers.shift()?.(), { pausesMs: [0] })).toBe("up");
});

test("a pause ends with the signal", async () => {
  const controller = new AbortController();
  const work = async () => {
    setImmediate(() => controller.abort(new Error("stopped")));
    throw new OutageError("down");
  };

  await expect(withRetries(work, { signal: controller.signal, pausesMs: [600_000] })).rejects.toThrow("stopped");
});
