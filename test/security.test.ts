import { expect, test } from "vitest";
import { isNamedTest, tableRows } from "./support/named-tests.ts";

const rows = tableRows("docs/security.md", "attack");

test("every attack names a test that exists", () => {
  const missing = rows
    .filter(([, , proof = ""]) => !isNamedTest(proof))
    .map(([attack, , proof]) => `${attack}: ${proof}`);

  expect(rows.length).toBeGreaterThan(90);
  expect(missing).toEqual([]);
});
