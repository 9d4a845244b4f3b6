import { existsSync, readFileSync } from "node:fs";

/** Returns the cells of the tables in a document, row by row, without their headers. */
export function tableRows(document: string, head: string): string[][] {
  return readFileSync(document, "utf8")
    .split("\n")
    .filter((line) => line.startsWith("| ") && !line.startsWith(`| ${head}`) && !line.startsWith("| **"))
    .map((line) =>
      line
        .split(/(?<!\\)\|/)
        .slice(1, -1)
        .map((cell) => cell.trim()),
    );
}

/** True if `path › title` names a test in that file. */
export function isNamedTest(proof: string): boolean {
  const [file = "", ...title] = proof.split(" › ");
  return existsSync(file) && readFileSync(file, "utf8").includes(`"${title.join(" › ")}"`);
}
