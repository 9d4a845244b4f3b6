import assert from "node:assert/strict";
import { test } from "node:test";
import { memoize } from "../src/memoize.js";

test("different arguments have different entries", async () => {
  const join = memoize(async (...args) => args);

  assert.deepEqual(await join("ab", "c"), ["ab", "c"]);
  assert.deepEqual(await join("a", "bc"), ["a", "bc"]);
  assert.deepEqual(await join("a,b"), ["a,b"]);
  assert.deepEqual(await join("a", "b"), ["a", "b"]);
  assert.deepEqual(await join(1), [1]);
  assert.deepEqual(await join("1"), ["1"]);
});

test("a failure is not remembered, and calls at one time share it", async () => {
  let calls = 0;
  const load = memoize(async () => {
    if (++calls === 1) throw new Error("busy");
    return calls;
  });

  const both = await Promise.allSettled([load("x"), load("x")]);
  assert.deepEqual(both.map(({ status }) => status), ["rejected", "rejected"]);
  assert.equal(await load("x"), 2);
});
