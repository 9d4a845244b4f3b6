import fc from "fast-check";
import { expect, test } from "vitest";
import { LineSearch, SearchTimeoutError } from "#toolsets/search/search-lines.ts";
import { longestTurnMs } from "../../support/longest-turn.ts";
import { propertyRuns } from "../../support/property-runs.ts";

async function matchingLines(text: string | Uint8Array, pattern: string): Promise<number> {
  const bytes = Buffer.from(text as string);
  const search = new LineSearch(
    { pattern, literal: false, ignoreCase: false },
    { maxLinesPerFile: 10, timeoutMs: 60_000 },
  );
  await search.search({ bytes, files: [{ path: "a", start: 0, end: bytes.length }] });
  return search.matches[0]?.count ?? 0;
}

test("matches the lines that RegExp matches", async () => {
  const piece = fc.constantFrom(
    "a",
    "b",
    "ab",
    ".",
    "[ab]",
    "[^a]",
    "a*",
    "b+",
    "a?",
    "(a|bb)",
    "(ab|a)*",
    "b{2,3}",
    "^",
    "$",
    "\\b",
    "(?:a+b)+",
  );
  const text = fc.stringMatching(/^[ab \n]{0,40}$/);
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { minLength: 1, maxLength: 6 }), text, async (pieces, text) => {
      const pattern = pieces.join("");
      const lines = text.split("\n");
      if (lines.at(-1) === "") lines.pop();

      const expected = lines.filter((line) => new RegExp(pattern).test(line)).length;

      expect(await matchingLines(text, pattern)).toBe(expected);
    }),
    { numRuns: propertyRuns(2_000) },
  );
});

test.each([
  ["(a+)+b", "a"],
  ["(a|a)*b", "a"],
  ["(a*)*b", "a"],
  ["(.*)(.*)(.*)(.*)x", "a"],
  ["(\\w+\\s*)+:", "ab "],
  ["(a?){50}a{50}b", "a"],
  [".*.*.*=.*", "x"],
  ["[^]]*[^]]*z{3}", "z"],
])("%s takes linear time on a long line of %j", async (pattern, unit) => {
  const text = unit.repeat(Math.ceil(2_000_000 / unit.length));

  const begun = performance.now();
  await matchingLines(text, pattern);

  expect(performance.now() - begun).toBeLessThan(25_000);
});

test.each(["ledger", "ledger|zebra", "(?i)LEDGER", "ledger.*x", "ledger$"])(
  "%s is counted once per line where most lines contain it",
  async (pattern) => {
    const lines = Array.from({ length: 6_000 }, (_, line) => {
      if (line % 3 === 0) return `${line} zebras`;
      return line === 4_000
        ? `ledger ${"x ".repeat(200_000)}ledger`
        : `${line} ledger, ledger ${"x".repeat(line % 90)}`;
    });
    const text = `\ufeff${lines.join("\n")}`;

    const expected = lines.filter((line) => new RegExp(pattern.replace("(?i)", ""), "i").test(line)).length;

    expect(await matchingLines(text, pattern)).toBe(expected);
  },
);

test("a file is left after the maximum number of lines, and the next one is searched", async () => {
  const bytes = Buffer.from(`${"foo\n".repeat(10)}${"bar\n".repeat(1_000)}foo\n`);
  const search = new LineSearch(
    { pattern: "foo|bar", literal: false, ignoreCase: false },
    { maxLinesPerFile: 2, stopsAtMax: true, timeoutMs: 60_000 },
  );

  await search.search({
    bytes,
    files: [
      { path: "a", start: 0, end: 40 },
      { path: "b", start: 40, end: bytes.length },
    ],
  });

  expect(search.matches.map(({ path, count, lineStarts }) => ({ path, count, lineStarts }))).toEqual([
    { path: "a", count: 2, lineStarts: [0, 4] },
    { path: "b", count: 2, lineStarts: [0, 4] },
  ]);
});

test("the event loop is not blocked by a slow pattern over a long line", async () => {
  const random = Array.from({ length: 1_000_000 }, (_, index) => "ab"[((index * index * 7919) % 31) & 1]).join("");

  const blockedMs = await longestTurnMs(() => matchingLines(random, "(a|b)*a(a|b){14}[a-z]$"));

  expect(blockedMs).toBeLessThan(500);
});

test("a search that takes too long stops", async () => {
  const bytes = Buffer.from("xy".repeat(20_000_000));
  const search = new LineSearch(
    { pattern: "[a-w]{2}$", literal: false, ignoreCase: false },
    { maxLinesPerFile: 1, timeoutMs: 0 },
  );

  await expect(search.search({ bytes, files: [{ path: "a", start: 0, end: bytes.length }] })).rejects.toThrow(
    SearchTimeoutError,
  );
});

test("a text across a cut in a long line is found", async () => {
  for (const offset of [1024 ** 2 - 3, 1024 ** 2, 2 * 1024 ** 2 - 1]) {
    const text = `${"x".repeat(offset)}needle${"x".repeat(3 * 1024 ** 2)}`;

    expect(await matchingLines(text, "needle")).toBe(1);
    expect(await matchingLines(text, "[mn]eedle")).toBe(1);
    expect(await matchingLines(text, "e{2}dl?e+x+$")).toBe(1);
  }
});

test("an empty match at the start of a file is in its first line", async () => {
  const bytes = Buffer.from("one\n\ntwo\n");
  const search = new LineSearch(
    { pattern: "x*", literal: false, ignoreCase: false },
    { maxLinesPerFile: 10, timeoutMs: 1_000 },
  );

  await search.search({ bytes, files: [{ path: "a", start: 0, end: bytes.length }] });

  expect(search.matches).toMatchObject([{ count: 3, lineStarts: [0, 4, 5] }]);
});

test("equal files share their matches", async () => {
  const bytes = Buffer.from("one needle\n");
  const search = new LineSearch(
    { pattern: "needle", literal: true, ignoreCase: false },
    { maxLinesPerFile: 10, timeoutMs: 1_000 },
  );

  await search.search({ bytes, files: ["a", "b"].map((path) => ({ path, start: 0, end: bytes.length })) });

  expect(search.matches.map(({ path, count }) => [path, count])).toEqual([
    ["a", 1],
    ["b", 1],
  ]);
});
