import { expect, test } from "vitest";
import { isNamedTest, tableRows } from "./support/named-tests.ts";

const rows = tableRows("docs/features.md", "document");

test("every feature names a test that exists", () => {
  const missing = rows
    .filter(([, , proof = ""]) => !isNamedTest(proof))
    .map(([, feature, proof]) => `${feature}: ${proof}`);

  expect(rows.length).toBeGreaterThan(80);
  expect(missing).toEqual([]);
});
