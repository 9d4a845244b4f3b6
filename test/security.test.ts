import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const rows = readFileSync("docs/security.md", "utf8")
  .split("\n")
  .filter((line) => line.startsWith("| ") && !line.startsWith("| attack") && !line.startsWith("| **"))
  .map((line) => line.split(/(?<!\\)\|/).map((cell) => cell.trim()));

test("every attack names a test that is there", () => {
  const missing = rows.flatMap(([, attack, , proof = ""]) => {
    const [file = "", ...title] = proof.split(" › ");
    const isThere = existsSync(file) && readFileSync(file, "utf8").includes(`"${title.join(" › ")}"`);
    return isThere ? [] : [`${attack}: ${proof}`];
  });

  expect(rows.length).toBeGreaterThan(90);
  expect(missing).toEqual([]);
});
