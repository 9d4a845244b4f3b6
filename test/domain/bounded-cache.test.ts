import { expect, test } from "vitest";
import { createBoundedCache } from "#domain/bounded-cache.ts";

test("a bounded cache keeps the entries that were used last", () => {
  const cache = createBoundedCache<string, number>(2);
  cache.set("a", 1).set("b", 2);

  cache.get("a");
  cache.set("c", 3);

  expect(["a", "b", "c"].map((key) => cache.get(key))).toEqual([1, undefined, 3]);
});
