import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

/** The code blocks of STYLE.md, each with the file it is taken from. */
const snippets = [...readFileSync("STYLE.md", "utf8").matchAll(/^```ts (\S+)\n([\s\S]*?)^```$/gm)].map(
  ([, file = "", code = ""]) => ({ file, code }),
);

test.each(snippets)("STYLE.md quotes $file as it is", ({ file, code }) => {
  const source = readFileSync(file, "utf8");
  const parts = code.split(/^\s*\/\/ …\n/m);

  expect(parts.filter((part) => !source.includes(part))).toEqual([]);
});

test("STYLE.md has examples", () => {
  expect(snippets.length).toBeGreaterThan(5);
});
