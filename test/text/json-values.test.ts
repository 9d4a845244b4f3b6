import fc from "fast-check";
import { expect, test } from "vitest";
import { hasMoreValues, JsonValueCounter } from "#text/json-values.ts";
import { propertyRuns } from "../support/property-runs.ts";

/** The items, members and containers of a value. */
function countValues(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  return Object.values(value).reduce((sum: number, item) => sum + countValues(item), Object.keys(value).length);
}

test("no value is missed, however the text is divided", () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 4 }), fc.integer({ min: 1, max: 20 }), fc.boolean(), (value, size, pretty) => {
      const bytes = Buffer.from(JSON.stringify(value, null, pretty ? 2 : 0));
      const counter = new JsonValueCounter();
      let count = 0;
      for (let at = 0; at < bytes.length; at += size) count = counter.add(bytes.subarray(at, at + size));

      expect(count).toBeGreaterThanOrEqual(countValues(value));
      expect(count).toBeLessThanOrEqual(2 * countValues(value) + 1);
    }),
    { numRuns: propertyRuns(300) },
  );
});

test.each([
  ["separators in a string", '["a,b,[{,", "\\\\", "\\",,,"]', 3],
  ["separators after a line that is not JSON", 'data: "\n[1,2,3]', 3],
  ["separators after a quotation mark in a comment of a stream", ': "\ndata: [[],[],[]]\n', 6],
])("%s", (_, text, count) => {
  expect(new JsonValueCounter().add(Buffer.from(text))).toBe(count);
});

test("a text with more values than the limit is recognized", () => {
  expect(hasMoreValues(Buffer.from("[1,2,3,4]"), 4)).toBe(false);
  expect(hasMoreValues(Buffer.from("[1,2,3,4]"), 3)).toBe(true);
});
