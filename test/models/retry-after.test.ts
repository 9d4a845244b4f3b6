import fc from "fast-check";
import { expect, test } from "vitest";
import { retryAfter } from "#models/explain-failure.ts";

const now = Date.parse("2026-11-20T12:00:00Z");

test.each([
  [{ "retry-after-ms": "1500", "retry-after": "9" }, undefined, 1_500],
  [{ "retry-after": "30" }, undefined, 30_000],
  [{ "retry-after": "0.5" }, undefined, 500],
  [{ "retry-after": "Fri, 20 Nov 2026 12:01:00 GMT" }, undefined, 60_000],
  [{ "retry-after": "Fri, 20 Nov 2026 11:00:00 GMT" }, undefined, 0],
  [{ "retry-after": "soon" }, undefined, undefined],
  [{ "retry-after": "-5" }, undefined, undefined],
  [{ "retry-after": "" }, undefined, undefined],
  [{}, '{"details":[{"retryDelay": "34s"}]}', 34_000],
  [undefined, undefined, undefined],
])("%j with the body %j asks for %s ms", (headers, body, expected) => {
  expect(retryAfter(headers, body, now)).toBe(expected);
});

test("any header gives undefined or a delay of at least 0", () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), (value, body) => {
      const delay = retryAfter({ "retry-after": value }, body, now);
      expect(delay === undefined || delay >= 0).toBe(true);
    }),
  );
});
