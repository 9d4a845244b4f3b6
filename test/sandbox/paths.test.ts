import fc from "fast-check";
import { expect, test } from "vitest";
import { ToolError } from "#domain/errors.ts";
import { foldPath, isGitName, isWithin, parsePath } from "#sandbox/paths.ts";
import { propertyRuns } from "../support/property-runs.ts";

test.each([
  ["", ""],
  ["/", ""],
  [".", ""],
  ["/src/", "src"],
  ["./src//a.ts", "src/a.ts"],
  ["src/./a.ts", "src/a.ts"],
  [".github/workflows/ci.yml", ".github/workflows/ci.yml"],
  [".gitignore", ".gitignore"],
  ["a..b/c...d", "a..b/c...d"],
  ["with space/ümlaut:colon", "with space/ümlaut:colon"],
])("%j is the path %j", (given, parsed) => {
  expect(parsePath(given)).toBe(parsed);
});

test.each([
  "..",
  "../x",
  "a/../../x",
  "a/..",
  "a/.. /b",
  "a/.../b",
  "a\0b",
  "a\nb",
  "a\\b",
  "..\\x",
  "C:/x",
  "c:x",
  "/c:/x",
  "./c:",
  "//server/share",
  "\\\\server\\share",
  ".git",
  ".git/config",
  "a/.git/hooks/post-checkout",
  ".GIT/config",
  ".Git",
  ".git./config",
  ".git /config",
  ".git. . /config",
  "git~1/config",
  "GIT~1",
  ".git::$INDEX_ALLOCATION/config",
  ".git:stream",
  ".g\u200cit/config",
  "\ufeff.git",
  ".\u202egit",
  "．git/config",
  "a\ud800b",
])("%j is refused", (path) => {
  expect(() => parsePath(path)).toThrow(ToolError);
  expect(() => parsePath(path)).toThrow(expect.objectContaining({ code: "INVALID_PATH" }));
});

test("a path or name that is too long for file systems is refused", () => {
  expect(() => parsePath("x".repeat(256))).toThrow(/longer than 255 bytes/);
  expect(() => parsePath("\u00fc".repeat(128))).toThrow(/longer than 255 bytes/);
  expect(() => parsePath("x/".repeat(3_000))).toThrow(/longer than 4096 bytes/);
});

const piece = fc.oneof(
  fc.constantFrom(
    "..",
    ".",
    "",
    ".git",
    ".GIT",
    "git~1",
    "a",
    "src",
    "C:",
    "\\",
    "\0",
    "\u200c",
    " ",
    "~",
    "é",
    ".git ",
  ),
  fc.string({ unit: "grapheme", maxLength: 6 }),
);

test("an accepted path is inside the root, is not git's own data, and is already normalized", () => {
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 6 }), fc.constantFrom("/", "", "//"), (pieces, start) => {
      const path = parseOrRefuse(start + pieces.join("/"));
      if (path === undefined) return;

      const names = path.split("/");
      expect(path.startsWith("/")).toBe(false);
      expect(names).not.toContain("..");
      expect(names.some(isGitName)).toBe(false);
      expect(path).not.toMatch(/\\|\p{Cc}/u);
      expect(parsePath(path)).toBe(path);
      expect(parsePath(`/${path}`)).toBe(path);
      expect(isWithin(path, "")).toBe(true);
    }),
    { numRuns: propertyRuns(2_000) },
  );
});

test("every spelling of .git that some file system accepts is refused", () => {
  const ignored = fc.array(fc.constantFrom("\u200c", "\u200d", "\u200e", "\u202a", "\u206f", "\ufeff"), {
    maxLength: 3,
  });
  const decorated = fc
    .tuple(
      ignored,
      ignored,
      ignored,
      fc.array(fc.boolean(), { minLength: 4, maxLength: 4 }),
      fc.constantFrom("", ".", " ", " .", "::$DATA"),
    )
    .map(([a, b, c, upper, end]) => {
      const letters = [...".git"].map((letter, index) => (upper[index] ? letter.toUpperCase() : letter));
      return `${letters[0]}${a.join("")}${letters[1]}${b.join("")}${letters[2]}${c.join("")}${letters[3]}${end}`;
    });

  fc.assert(
    fc.property(
      decorated,
      fc.constantFrom("", "src/", "/a/b/"),
      fc.constantFrom("", "/config"),
      (name, before, after) => {
        expect(() => parsePath(before + name + after)).toThrow(ToolError);
      },
    ),
  );
});

test("folding makes paths equal that differ in case or Unicode form", () => {
  expect(foldPath("README.md")).toBe(foldPath("readme.MD"));
  expect(foldPath("caf\u00e9")).toBe(foldPath("CAFE\u0301"));
  expect(foldPath("stra\u00dfe")).toBe(foldPath("STRASSE"));
  for (const same of ["docs./a", "docs . /a ", "do\u200ccs/a", "DOCS/a\ufeff."]) expect(foldPath(same)).toBe("DOCS/A");
  expect(foldPath("a")).not.toBe(foldPath("b"));
  expect(foldPath("..a/.b.c")).toBe("..A/.B.C");
});

function parseOrRefuse(path: string): string | undefined {
  try {
    return parsePath(path);
  } catch (error) {
    expect(error).toBeInstanceOf(ToolError);
    return undefined;
  }
}
