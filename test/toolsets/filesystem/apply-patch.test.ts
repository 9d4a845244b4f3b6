import { createTwoFilesPatch } from "diff";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { applyHunks } from "#toolsets/filesystem/apply-hunks.ts";
import { filesystemToolset } from "#toolsets/filesystem/filesystem-toolset.ts";
import { parsePatch } from "#toolsets/filesystem/parse-patch.ts";
import { toolsetWorld, type WorldOptions } from "../../support/toolset-world.ts";

async function world(files: Record<string, string>, options: WorldOptions = {}) {
  const opened = await toolsetWorld(filesystemToolset, { files, ...options });
  for (const path of Object.keys(files)) await opened.call("read_file", { path });
  return opened;
}

const marked = (...lines: string[]) => ["*** Begin Patch", ...lines, "*** End Patch"].join("\n");

describe("a unified diff", () => {
  test("applies at the true place though its line numbers are stale", async () => {
    const { call, sandbox } = await world({ "a.txt": "one\ntwo\nthree\nfour\n" });

    const { llmContent, value } = await call("apply_patch", {
      patch: "--- a/a.txt\n+++ b/a.txt\n@@ -90,3 +95,3 @@\n two\n-three\n+3\n four\n",
    });

    expect(sandbox.text("a.txt")).toBe("one\ntwo\n3\nfour\n");
    expect(llmContent).toContain("     3\t3");
    expect(value).toMatchObject({ kind: "diff", stats: { additions: 1, deletions: 1, changes: 2 } });
  });

  test("is refused where it fits two places, and both are listed", async () => {
    const { call, sandbox } = await world({ "a.txt": "x\ny\nx\ny\n" });
    const patch = (start: number) => `--- a/a.txt\n+++ b/a.txt\n@@ -${start},2 +${start},2 @@\n x\n-y\n+z\n`;

    await expect(call("apply_patch", { patch: patch(9) })).rejects.toMatchObject({
      code: "AMBIGUOUS_MATCH",
      message: "The patch fits a.txt at several places: lines 1, 3.",
    });
    await call("apply_patch", { patch: patch(3) });
    expect(sandbox.text("a.txt")).toBe("x\ny\nx\nz\n");
  });

  test("may have wrong counts, no numbers, or no file when a path is given", async () => {
    const { call, sandbox } = await world({ "a.txt": "one\ntwo\n" });

    await call("apply_patch", { path: "a.txt", patch: "@@ -1,9 +1,7 @@\n one\n-two\n+2\n" });
    await call("read_file", { path: "a.txt" });
    await call("apply_patch", { patch: "```diff\n--- a.txt\n+++ a.txt\n@@\n-one\n+1\n 2\n```" });

    expect(sandbox.text("a.txt")).toBe("1\n2\n");
  });

  test("creates, deletes and renames files, all in one patch", async () => {
    const { call, sandbox } = await world({ "old.txt": "old\n", "name.txt": "name\n" });

    const { value } = await call("apply_patch", {
      patch: [
        "diff --git a/new.txt b/new.txt",
        "new file mode 100644",
        "--- /dev/null",
        "+++ b/new.txt",
        "@@ -0,0 +1 @@",
        "+new",
        "diff --git a/old.txt b/old.txt",
        "deleted file mode 100644",
        "--- a/old.txt",
        "+++ /dev/null",
        "@@ -1 +0,0 @@",
        "-old",
        "diff --git a/name.txt b/other.txt",
        "similarity index 100%",
        "rename from name.txt",
        "rename to other.txt",
        "",
      ].join("\n"),
    });

    expect(await sandbox.paths()).toEqual(["new.txt", "other.txt"]);
    expect(sandbox.text("other.txt")).toBe("name\n");
    expect(value).toMatchObject({ kind: "filesystem.patch" });
  });

  test("keeps CRLF, the byte order mark and a missing last line ending", async () => {
    const { call, sandbox } = await world({ "a.cs": "\uFEFFone\r\ntwo\r\nthree" });

    await call("apply_patch", { patch: "--- a/a.cs\n+++ b/a.cs\n@@ -1,2 +1,3 @@\n one\n-two\n+2\n+2b\n" });

    expect(sandbox.text("a.cs")).toBe("\uFEFFone\r\n2\r\n2b\r\nthree");
  });

  test("does not touch the end of a line it only has as context", async () => {
    const { call, sandbox } = await world({ "a.txt": "one  \ntwo\n" });

    await call("apply_patch", { patch: "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n" });

    expect(sandbox.text("a.txt")).toBe("one  \n2\n");
  });

  test("removes and adds lines that look like headings", async () => {
    const { call, sandbox } = await world({ "a.sql": "-- old\nselect 1\n" });

    await call("apply_patch", {
      patch: "--- a/a.sql\n+++ b/a.sql\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n select 1\n",
    });

    expect(sandbox.text("a.sql")).toBe("++ new\nselect 1\n");
  });
});

describe("a *** Begin Patch patch", () => {
  test("adds, updates, moves and deletes files", async () => {
    const { call, sandbox } = await world({ "a.py": "def a():\n  return 1\n", "b.py": "b\n", "c.py": "c\n" });

    await call("apply_patch", {
      patch: marked(
        "*** Add File: new/d.py",
        "+d",
        "+",
        "+e",
        "*** Update File: a.py",
        "@@ def a():",
        "-  return 1",
        "+  return 2",
        "*** Update File: b.py",
        "*** Move to: moved/b.py",
        "@@",
        "-b",
        "+B",
        "*** Delete File: c.py",
      ),
    });

    expect(await sandbox.paths()).toEqual(["a.py", "moved/b.py", "new/d.py"]);
    expect(sandbox.text("new/d.py")).toBe("d\n\ne\n");
    expect(sandbox.text("a.py")).toBe("def a():\n  return 2\n");
    expect(sandbox.text("moved/b.py")).toBe("B\n");
  });

  test("an anchor says which of several places is meant", async () => {
    const body = "  x\n  return 1\n";
    const { call, sandbox } = await world({ "a.py": `def a():\n${body}def b():\n${body}` });

    await call("apply_patch", {
      patch: marked("*** Update File: a.py", "@@ def a():", "-  return 1", "+  return 2"),
    });
    await call("read_file", { path: "a.py" });
    await call("apply_patch", { patch: marked("*** Update File: a.py", "@@ def b():", "   x", "+  y") });

    expect(sandbox.text("a.py")).toBe("def a():\n  x\n  return 2\ndef b():\n  x\n  y\n  return 1\n");
  });

  test("without an anchor two places are refused", async () => {
    const { call } = await world({ "a.py": "x\nx\n" });

    await expect(
      call("apply_patch", { patch: marked("*** Update File: a.py", "@@", "-x", "+y") }),
    ).rejects.toMatchObject({ code: "AMBIGUOUS_MATCH", details: { lines: [1, 2] } });
  });
});

describe("what is refused", () => {
  test.each<[string, string, string]>([
    ["nothing at all", "   ", "INVALID_ARGUMENTS"],
    ["prose", "please change a.txt", "INVALID_ARGUMENTS"],
    ["a hunk without a file", "@@ -1 +1 @@\n-a\n+b\n", "INVALID_ARGUMENTS"],
    ["a binary patch", "diff --git a/a b/a\nGIT binary patch\n", "INVALID_ARGUMENTS"],
    ["an unmarked line", "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\nxyz\n", "INVALID_ARGUMENTS"],
    ["an unfinished patch", "*** Begin Patch\n*** Delete File: a.txt\n", "INVALID_ARGUMENTS"],
    ["context that is not there", "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-nope\n+b\n", "NO_MATCH"],
    ["lines added nowhere", marked("*** Update File: a.txt", "@@", "+b"), "NO_MATCH"],
    ["a missing file", "--- a/no.txt\n+++ b/no.txt\n@@ -1 +1 @@\n-a\n+b\n", "FILE_NOT_FOUND"],
    ["a path out of the tree", "--- a/../../etc/passwd\n+++ b/../../etc/passwd\n@@ -1 +1 @@\n-a\n+b\n", "INVALID_PATH"],
    [
      "a target out of the tree",
      marked("*** Update File: a.txt", "*** Move to: ../x", "@@", "-a", "+b"),
      "INVALID_PATH",
    ],
    ["git's own folder", marked("*** Add File: .git/hooks/pre-commit", "+x"), "INVALID_PATH"],
    ["creating what is there", marked("*** Add File: a.txt", "+x"), "FILE_EXISTS"],
    ["no change", "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+a\n", "INVALID_ARGUMENTS"],
    ["one file twice", marked("*** Delete File: a.txt", "*** Delete File: ./a.txt"), "CONFLICT"],
    ["hunks that overlap", marked("*** Update File: a.txt", "@@", "-a", "+b", "@@", "-a", "+c"), "CONFLICT"],
  ])("%s", async (_, patch, code) => {
    const { call, sandbox } = await world({ "a.txt": "a\n" });

    await expect(call("apply_patch", { patch })).rejects.toMatchObject({ code });
    expect(sandbox.text("a.txt")).toBe("a\n");
  });

  test("one file that does not fit keeps all others as they were", async () => {
    const { call, sandbox } = await world({ "a.txt": "a\n", "b.txt": "b\n" });
    const update = (path: string, old: string) => [`*** Update File: ${path}`, "@@", `-${old}`, "+new"];

    await expect(
      call("apply_patch", { patch: marked(...update("a.txt", "a"), ...update("b.txt", "nope")) }),
    ).rejects.toMatchObject({ code: "NO_MATCH" });
    expect(sandbox.text("a.txt")).toBe("a\n");
  });

  test("lines that were not read, naming where the patch really goes", async () => {
    const { call } = await toolsetWorld(filesystemToolset, { files: { "a.txt": "1\n2\n3\n4\n" } });
    await call("read_file", { path: "a.txt", limit: 2 });

    await expect(
      call("apply_patch", { patch: "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n 3\n-4\n+four\n" }),
    ).rejects.toThrow("read lines 3-4 as");
  });
});

test("consent follows each file of the patch", async () => {
  const rules = { scratch: { write: "preApproved" as const }, locked: { write: "blocked" as const } };
  const { asks, preview } = await world({ "a.txt": "a\n", "scratch/a": "a\n", "locked/a": "a\n" }, { rules });
  const change = (path: string) => marked(`*** Update File: ${path}`, "@@", "-a", "+b");

  expect(await asks("apply_patch", { patch: change("a.txt") })).toBe(true);
  expect(await asks("apply_patch", { patch: change("scratch/a") })).toBe(false);
  expect(await asks("apply_patch", { patch: marked("*** Add File: n.txt", "+n") })).toBe(false);
  expect(await asks("apply_patch", { patch: marked("*** Add File: .github/workflows/x.yml", "+n") })).toBe(true);
  await expect(asks("apply_patch", { patch: change("locked/a") })).rejects.toMatchObject({ code: "BLOCKED" });
  expect(await preview("apply_patch", { patch: change("a.txt") })).toContain("-a\n+b");
});

const line = fc.constantFrom(
  "",
  "a",
  "b",
  "c",
  "  d",
  "--- x",
  "+++ y",
  "@@",
  "-",
  "+",
  "\\",
  "*** End Patch",
  "é “q”",
);
const text = fc.array(line, { maxLength: 14 }).map((lines) => lines.map((each) => `${each}\n`).join(""));

test("a diff made from two texts turns the one into the other", () => {
  fc.assert(
    fc.property(text, text, (before, after) => {
      fc.pre(before !== after && before !== "" && after !== "");
      const patch = createTwoFilesPatch("a/f", "b/f", before, after, "", "", { context: 3 });
      const [file] = parsePatch(patch);

      expect(file?.kind === "update" && applyHunks(before, file.hunks, "f").text).toBe(after);
    }),
    { numRuns: 500 },
  );
});

test("any text is either a patch or refused with a sentence", () => {
  const piece = fc.oneof(
    line,
    fc.constantFrom(
      "--- a/f",
      "+++ b/f",
      "@@ -1,2 +1 @@",
      "*** Begin Patch",
      "*** Add File: x",
      "diff --git a/f b/f",
      "rename from f",
      "```",
    ),
    fc.string(),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), (lines) => {
      try {
        expect(parsePatch(lines.join("\n")).length).toBeGreaterThan(0);
      } catch (error) {
        expect(error).toMatchObject({ code: "INVALID_ARGUMENTS" });
      }
    }),
    { numRuns: 500 },
  );
});
