import { expect, test } from "vitest";
import { compactCount } from "#text/pluralize.ts";

test("a count is shortened as Intl.NumberFormat does", () => {
  const format = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
  const counts = [
    0, 7, 999, 1_000, 1_049, 1_050, 12_345, 99_949, 999_949, 999_950, 1_999_999, 2_000_000, 3_450_000_000,
  ];

  expect(counts.map(compactCount)).toEqual(counts.map((count) => format.format(count)));
});
