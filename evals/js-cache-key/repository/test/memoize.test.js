import assert from "node:assert/strict";
import { test } from "node:test";
import { memoize } from "../src/memoize.js";

test("loads once", async () => {
  let calls = 0;
  const load = memoize(async (name) => `${name} ${++calls}`);

  assert.equal(await load("a"), "a 1");
  assert.equal(await load("a"), "a 1");
});
