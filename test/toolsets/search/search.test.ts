import fc from "fast-check";
import picomatch from "picomatch";
import { describe, expect, test } from "vitest";
import { compileGlob } from "#text/path-pattern.ts";
import { searchToolset } from "#toolsets/registry.ts";
import { toolsetWorld, type WorldOptions } from "../../support/toolset-world.ts";

const world = (files: WorldOptions["files"]) => toolsetWorld(searchToolset, { files });

const files = {
  "README.md": "# Sums\nAdds numbers.\n",
  "src/add.ts": "export function add(a: number, b: number) {\n  return a - b;\n}\n",
  "src/sub.ts": "export function subtract(a: number, b: number) {\r\n  return a - b;\r\n}\r\n",
  "test/add.test.ts": 'import { add } from "../src/add";\n',
  "logo.png": new Uint8Array([0, 97, 100, 100]),
};

describe("grep", () => {
  test("grep shows path, line and text of each match and skips binary files", async () => {
    const { call } = await world(files);

    const { llmContent, value } = await call("grep", { pattern: "add" });

    expect(llmContent).toBe(
      '2 matches in 2 files:\nsrc/add.ts\n1:export function add(a: number, b: number) {\ntest/add.test.ts\n1:import { add } from "../src/add";',
    );
    expect(value).toMatchObject({ kind: "search.matches", data: { total: 2, files: 2 } });
  });

  test.each<[object, string]>([
    [{ pattern: "ADD", case_insensitive: true, output_mode: "files" }, "README.md\nsrc/add.ts\ntest/add.test.ts"],
    [{ pattern: "a - b", output_mode: "count" }, "src/add.ts:1\nsrc/sub.ts:1"],
    [{ pattern: "return", glob: "*.ts", path: "src", output_mode: "files_with_matches" }, "src/add.ts\nsrc/sub.ts"],
    [{ pattern: "return", glob: "!**/sub.ts", output_mode: "files" }, "src/add.ts"],
    [{ pattern: "b;$", output_mode: "files" }, "src/add.ts"],
    [{ pattern: "b;\\r?$", output_mode: "files" }, "src/add.ts\nsrc/sub.ts"],
    [{ pattern: "add(a", literal: true, output_mode: "files" }, "src/add.ts"],
    [{ pattern: "^# Sums$", path: "README.md" }, "README.md\n1:# Sums"],
  ])("grep with %j finds %s", async (args, expected) => {
    const { call } = await world(files);

    const { llmContent } = await call("grep", args);

    expect(llmContent.split("\n").slice(1).join("\n")).toBe(expected);
  });

  test("grep shows lines around a match, with separators between groups", async () => {
    const { call } = await world({ "a.txt": "1\n2\nx\n4\n5\n6\n7\nx\n" });

    const { llmContent } = await call("grep", { pattern: "x", context: 1 });

    expect(llmContent).toBe("2 matches in 1 file:\na.txt\n2-2\n3:x\n4-4\n--\n7-7\n8:x");
  });

  test("of a long line, grep shows the part with the match", async () => {
    const text = `short needle\r\n${"ä".repeat(1_000)} a needle ${"ö".repeat(1_000)}\r\n`;
    const { call } = await world({ "a.txt": text });

    const results = [
      { pattern: "needle" },
      { pattern: "n.edle" },
      { pattern: "SHORT needle|a ne+dle", case_insensitive: true },
    ];
    for (const args of results) {
      const [, , first, long = ""] = (await call("grep", args)).llmContent.split("\n");
      expect(first).toBe("1:short needle");
      expect(long).toMatch(/^2:…ä+ a needle ö+…$/);
      expect(long.length).toBeLessThan(310);
    }
  });

  test("grep reports how many matches are not shown", async () => {
    const { call } = await world({ "a.txt": "x\n".repeat(30), "b.txt": "x\n".repeat(30) });

    const { llmContent } = await call("grep", { pattern: "x", limit: 40 });

    expect(llmContent.split("\n")).toHaveLength(44);
    expect(llmContent).toContain("60 matches in 2 files:");
    expect(llmContent).toContain("… and 20 more");
    const counted = await call("grep", { pattern: "x", output_mode: "count", limit: 1 });
    expect(counted.llmContent).toBe("60 matches in 2 files:\na.txt:30\n… and 1 more file.");
    expect(counted.value).toMatchObject({ data: [{ path: "a.txt", count: 30 }], summary: "60 matches in 2 files" });
  });

  test.each(["(?=a)b", "(a)\\1", "(?<!x)a", "(?>a)"])("grep explains that %s is not supported", async (pattern) => {
    const { call } = await world(files);

    await expect(call("grep", { pattern })).rejects.toThrow("lookaround, atomic groups or backreferences");
  });

  test("grep explains that a pattern cannot match across lines", async () => {
    const { call } = await world(files);

    for (const args of [{ pattern: "\\{\\n  return" }, { pattern: "a\nb", literal: true }]) {
      await expect(call("grep", args)).rejects.toThrow("it contains a line break, and the search is line by line");
    }
  });

  test("grep reports that a requested binary file was not searched", async () => {
    const { call } = await world(files);

    const { llmContent } = await call("grep", { pattern: "add", path: "logo.png" });

    expect(llmContent).toBe("Nothing matches add in logo.png.\nlogo.png is a binary file and was not searched.");
  });

  test("grep explains an invalid pattern and a missing path", async () => {
    const { call } = await world(files);

    await expect(call("grep", { pattern: "add(" })).rejects.toMatchObject({ code: "INVALID_ARGUMENTS" });
    await expect(call("grep", { pattern: "a", path: "nope" })).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
    expect((await call("grep", { pattern: "zebra" })).llmContent).toBe("Nothing matches zebra.");
  });

  test("a pattern with catastrophic backtracking in RegExp is fast", async () => {
    const { call } = await world({ "a.txt": "a".repeat(100_000) });

    expect((await call("grep", { pattern: "^(a+)+$b" })).llmContent).toContain("Nothing");
  });

  test("a stopped run stops searching", async () => {
    const { call } = await world(files);

    await expect(
      call("grep", { pattern: "a" }, { abortSignal: AbortSignal.abort(new Error("stopped")) }),
    ).rejects.toThrow("stopped");
  });
});

describe("glob", () => {
  test.each<[object, string[]]>([
    [{ pattern: "**/*.ts" }, ["src/add.ts", "src/sub.ts", "test/add.test.ts"]],
    [{ pattern: "*.ts", path: "src" }, ["src/add.ts", "src/sub.ts"]],
    [{ pattern: "/src/*" }, ["src/add.ts", "src/sub.ts"]],
    [{ pattern: "**/add*", exclude: ["*.test.ts"] }, ["src/add.ts"]],
    [{ pattern: "{README,LICENSE}.*" }, ["README.md"]],
    [{ pattern: "src/[!s]??.ts" }, ["src/add.ts"]],
  ])("glob with %j finds %j", async (args, expected) => {
    const { call } = await world(files);

    expect((await call("glob", args)).value).toMatchObject({ kind: "file_list", files: expected });
  });

  test("glob reports how many paths are not shown, and suggests ** when nothing matches", async () => {
    const { call } = await world(files);

    expect((await call("glob", { pattern: "**", limit: 2 })).llmContent).toContain("… and 3 more");
    expect((await call("glob", { pattern: "*.ts" })).llmContent).toContain("Use **/*.ts to search all folders.");
    expect((await call("glob", { pattern: "src" })).llmContent).toContain("Use src/** to list this folder.");
    await expect(call("glob", { pattern: "*".repeat(501) })).rejects.toMatchObject({ code: "INVALID_ARGUMENTS" });
  });

  test("glob finds a file by its name, whatever characters it has", async () => {
    const { call } = await world({ "app/[slug]/page (1).ts": "", "app/s/page 1.ts": "" });

    const { llmContent } = await call("glob", { pattern: "[slug]/page (1).ts", path: "app" });

    expect(llmContent).toBe("1 file matches [slug]/page (1).ts:\napp/[slug]/page (1).ts");
  });

  test("glob agrees with picomatch on ordinary patterns", () => {
    const part = fc.constantFrom("a", "b", "*", "?", "/", "**/", ".b", "[ab]", "{a,b}");
    const path = fc
      .array(fc.constantFrom("a", "b", "ab", ".b", "aab"), { minLength: 1, maxLength: 4 })
      .map((names) => names.join("/"));
    fc.assert(
      fc.property(fc.array(part, { minLength: 1, maxLength: 5 }), path, (parts, candidate) => {
        const pattern = parts.join("");
        // The two treat malformed patterns differently, such as names next to `**` or double slashes.
        fc.pre(!/[^/]\*\*|\*\*[^/]|\/\/|\*\*\*|^\/|\/$|\}\*|\*\{/.test(pattern));
        fc.pre(!/(^|\/)\*+(\/|$)/.test(pattern) || !candidate.includes("/."));

        expect(compileGlob(pattern)(candidate)).toBe(picomatch(pattern, { dot: true, strictSlashes: true })(candidate));
      }),
    );
  });

  test.each([
    ["**", "a/b", true],
    ["**/b", "b", true],
    ["**b", "a/b", false],
    ["a**", "a/b", false],
    ["a\\*b", "a*b", true],
    ["a\\*b", "axb", false],
    ["{a,b/**}", "b/c/d", true],
    ["[", "[", true],
  ])("%s on %s: %s", (pattern, path, expected) => {
    expect(compileGlob(pattern)(path)).toBe(expected);
  });

  test("any pattern compiles and matches a hostile path quickly", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 60 }), fc.string({ maxLength: 60 }), (pattern, path) => {
        expect(compileGlob(pattern)(path)).toBeTypeOf("boolean");
      }),
    );
    expect(compileGlob(`${"*a".repeat(100)}b`)("a".repeat(5_000))).toBe(false);
  });
});
