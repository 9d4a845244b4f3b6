import { expect, test } from "vitest";
import { closestMatch } from "#text/closest-match.ts";

test("the known word with the fewest edits is found, in any case, if there are few", () => {
  expect(closestMatch("Fixr", ["reviewer", "mixer", "fixer"])).toBe("fixer");
  expect(closestMatch("fixer", ["reviewer", "documenter"])).toBeUndefined();
});

test("a word is compared with at most five thousand others of about its length", () => {
  const others = Array.from({ length: 5_000 }, () => "z".repeat(10));

  expect(closestMatch("mistakenly", [...others, "mistakanly"])).toBeUndefined();
  expect(closestMatch("mistakenly", [...others.map((other) => other.repeat(2)), "mistakanly"])).toBe("mistakanly");
});
