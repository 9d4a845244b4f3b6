import { expect, test } from "vitest";
import { isNamedTest, tableRows } from "./support/named-tests.ts";

const rows = tableRows("docs/abuse-cases.md", "case");

test("each of the forty abuse cases names its tests, and they exist", () => {
  const missing = rows
    .filter(([, , , proof = ""]) => !isNamedTest(proof))
    .map(([number, , attack]) => `${number}: ${attack}`);
  const cases = new Set(rows.map(([number]) => Number(number)));

  expect(missing).toEqual([]);
  expect([...cases].sort((a, b) => a - b)).toEqual(Array.from({ length: 40 }, (_, at) => at + 1));
});

test("every abuse case is tried in each place it applies to", () => {
  const tried = (place: string) => [
    ...new Set(rows.filter(([, where]) => where === place).map(([number]) => Number(number))),
  ];

  expect(tried("os")).toEqual([
    ...[1, 2, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19],
    ...[20, 21, 22, 23, 24, 25, 27, 30, 32],
  ]);
  expect(tried("memory")).toEqual([3, 5, 6, 10, 14, 17, 19, 26, 29, 30, 32, 33, 34, 35, 36, 37]);
  expect(tried("remote")).toEqual([16, 17, 19, 26, 28, 29, 30, 31, 32]);
  expect(tried("fetch")).toEqual([38, 39]);
  expect(tried("host")).toEqual([16, 19, 26, 27, 28, 29, 30, 31, 32, 40]);
});
