import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { removals } from "../scripts/feature-removals.ts";
import { isNamedTest, tableRows } from "./support/named-tests.ts";

const rows = tableRows("docs/features.md", "document");

test("every feature names a test that exists", () => {
  const missing = rows
    .filter(([, , proof = ""]) => !isNamedTest(proof))
    .map(([, feature, proof]) => `${feature}: ${proof}`);

  expect(rows.length).toBeGreaterThan(80);
  expect(missing).toEqual([]);
});

test("every removal of a feature names a feature, and code that occurs once", () => {
  const outdated = removals.filter(
    ({ feature, file, code }) =>
      readFileSync(file, "utf8").split(code).length !== 2 || !rows.some(([, name = ""]) => name.startsWith(feature)),
  );

  expect(outdated).toEqual([]);
});
