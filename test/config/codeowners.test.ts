import { setImmediate } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { parseCodeowners, unknownOwner } from "#config/codeowners.ts";
import { compilePathPattern } from "#text/path-pattern.ts";

describe("patterns, as GitHub documents them", () => {
  test.each([
    ["*", ["a.js", "deep/b.js"], []],
    ["*.js", ["a.js", "deep/b.js"], ["a.ts"]],
    ["/build/logs/", ["build/logs/a.log", "build/logs/x/b.log"], ["deep/build/logs/a.log", "build/logs"]],
    ["docs/*", ["docs/start.md"], ["docs/build/trouble.md", "deep/docs/start.md"]],
    ["apps/", ["apps/a", "deep/apps/x/b"], ["apps", "my-apps/a"]],
    ["/docs/", ["docs/a", "docs/x/b"], ["deep/docs/a"]],
    ["/apps/github", ["apps/github", "apps/github/a"], ["apps/github2", "deep/apps/github"]],
    ["**/logs", ["logs/a", "build/logs/a", "deep/x/logs/y/a"], ["blogs/a"]],
    ["src/**/test.js", ["src/test.js", "src/a/b/test.js"], ["test.js", "src/a/test.jsx"]],
    ["a?c", ["abc", "x/abc"], ["a/c", "ABC"]],
    ["with\\ space", ["with space"], ["with"]],
  ])("%s", (pattern, matching, others) => {
    const matches = compilePathPattern(pattern);

    expect(matching.filter((path) => !matches(path))).toEqual([]);
    expect(others.filter((path) => matches(path))).toEqual([]);
  });

  test("in settings, braces are a choice", () => {
    const matches = compilePathPattern("src/**/*.{ts,js}", { braces: true });

    expect(["src/a.ts", "src/x/b.js", "src/c.css"].map(matches)).toEqual([true, true, false]);
  });

  test("a hostile pattern takes linear time", () => {
    const matches = compilePathPattern("*a".repeat(99));
    const started = performance.now();

    expect(matches(`${"a".repeat(4_000)}b`)).toBe(false);
    expect(performance.now() - started).toBeLessThan(20_000);
  });
});

test("the last line that matches decides, also when it names nobody", async () => {
  const ownersOf = parseCodeowners(`# Everything
*       @acme/all
*.js    @ada  # inline comment
/apps/  @grace @acme/apps help@example.com
/apps/github
`);

  expect(await ownersOf("readme.md")).toEqual(["@acme/all"]);
  expect(await ownersOf("src/a.js")).toEqual(["@ada"]);
  expect(await ownersOf("apps/a.js")).toEqual(["@grace", "@acme/apps", "help@example.com"]);
  expect(await ownersOf("apps/github/a.js")).toEqual([]);
});

test("lines with syntax that GitHub does not support are skipped", async () => {
  const ownersOf = parseCodeowners(`*.md @ada
!*.md @eve
\\#odd @eve
[a-z].md @eve
*.md eve
`);

  expect(await ownersOf("a.md")).toEqual(["@ada"]);
});

test("of more than 5,000 rules an early one never loses its file to everyone: its owner is unknown", async () => {
  const others = Array.from({ length: 5_000 }, (_, index) => `/other/${index}.js @ada`);
  const ownersOf = parseCodeowners(["* @acme/security", ...others].join("\n"));

  expect(await ownersOf("other/7.js")).toEqual(["@ada"]);
  expect(await ownersOf("src/login.js")).toEqual([unknownOwner]);
});

test("a file with many more lines is read from its end, and matching it lets other work run after each rule", async () => {
  const rules = Array.from({ length: 60_000 }, (_, index) => `/src/${index}/**/file*.ts @ada`);
  const { promise: otherWork, resolve: endOtherWork } = Promise.withResolvers<void>();
  let pauses = 0;
  const pause = () => (++pauses === 3_000 ? otherWork : undefined);
  const ownersOf = parseCodeowners(["* @acme/security", ...rules].join("\n"), pause);

  expect(await ownersOf("src/59999/a/file1.ts")).toEqual(["@ada"]);
  expect(pauses).toBe(0);
  const owners = ownersOf("src/login.js");
  await setImmediate();
  expect(pauses).toBe(3_000);
  endOtherWork();

  expect(await owners).toEqual([unknownOwner]);
  expect(pauses).toBe(5_000);
});

test("of a file with mostly comments the last 20,000 lines count", async () => {
  const ownersOf = parseCodeowners(`*.md @eve\n${"# a comment\n".repeat(20_000)}*.js @ada\n`);

  expect(await ownersOf("a.js")).toEqual(["@ada"]);
  expect(await ownersOf("a.md")).toEqual([unknownOwner]);
});
