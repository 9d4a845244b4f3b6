import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";

const rows = readFileSync("docs/features.md", "utf8")
  .split("\n")
  .filter((line) => line.startsWith("| ") && !line.startsWith("| document"))
  .map((line) => line.split(/(?<!\\)\|/).map((cell) => cell.trim()));

test("every feature names a test that is there", () => {
  const missing = rows.flatMap(([, , feature, proof = ""]) => {
    const [file = "", ...title] = proof.split(" › ");
    const isThere = existsSync(file) && readFileSync(file, "utf8").includes(`"${title.join(" › ")}"`);
    return isThere ? [] : [`${feature}: ${proof}`];
  });

  expect(rows.length).toBeGreaterThan(80);
  expect(missing).toEqual([]);
});
