import { createTwoFilesPatch } from "diff";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { runAtOnce } from "#domain/async-work.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import type { GitSandbox } from "#sandbox/sandbox.ts";
import { applyHunks } from "#toolsets/filesystem/apply-hunks.ts";
import { filesystemToolset } from "#toolsets/filesystem/filesystem-toolset.ts";
import { parsePatch } from "#toolsets/filesystem/parse-patch.ts";
import { propertyRuns } from "../../support/property-runs.ts";
import { toolsetWorld, type WorldOptions } from "../../support/toolset-world.ts";

async function world(files: Record<string, string>, options: WorldOptions = {}) {
  const opened = await toolsetWorld(filesystemToolset, { files, ...options });
  for (const path of Object.keys(files)) await opened.call("read_file", { path });
  return opened;
}

const marked = (...lines: string[]) => ["*** Begin Patch", ...lines, "*** End Patch"].join("\n");

describe("unified diff", () => {
  test("a unified diff applies where its lines are, although its line numbers are stale", async () => {
    const { call, sandbox } = await world({ "a.txt": "one\ntwo\nthree\nfour\n" });

    const { llmContent, value } = await call("apply_patch", {
      patch: "--- a/a.txt\n+++ b/a.txt\n@@ -90,3 +95,3 @@\n two\n-three\n+3\n four\n",
    });

    expect(sandbox.text("a.txt")).toBe("one\ntwo\n3\nfour\n");
    expect(llmContent).toContain("     3\t3");
    expect(value).toMatchObject({ kind: "diff", stats: { additions: 1, deletions: 1, changes: 2 } });
  });

  test("a unified diff is refused if it matches two places, and both are listed", async () => {
    const { call, sandbox } = await world({ "a.txt": "x\ny\nx\ny\n" });
    const patch = (start: number) => `--- a/a.txt\n+++ b/a.txt\n@@ -${start},2 +${start},2 @@\n x\n-y\n+z\n`;

    await expect(call("apply_patch", { patch: patch(9) })).rejects.toMatchObject({
      code: "AMBIGUOUS_MATCH",
      message: "The patch matches a.txt in several places: lines 1, 3.",
    });
    await call("apply_patch", { patch: patch(3) });
    expect(sandbox.text("a.txt")).toBe("x\ny\nx\nz\n");
  });

  test("a unified diff may have wrong counts, no numbers, or no file name if a path is given", async () => {
    const { call, sandbox } = await world({ "a.txt": "one\ntwo\n" });

    await call("apply_patch", { path: "a.txt", patch: "@@ -1,9 +1,7 @@\n one\n-two\n+2\n" });
    await call("read_file", { path: "a.txt" });
    await call("apply_patch", { patch: "```diff\n--- a.txt\n+++ a.txt\n@@\n-one\n+1\n 2\n```" });

    expect(sandbox.text("a.txt")).toBe("1\n2\n");
  });

  test("a unified diff creates, deletes and renames files, all in one patch", async () => {
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

  test("a unified diff keeps CRLF, the byte order mark and a missing last line ending", async () => {
    const { call, sandbox } = await world({ "a.cs": "\uFEFFone\r\ntwo\r\nthree" });

    await call("apply_patch", { patch: "--- a/a.cs\n+++ b/a.cs\n@@ -1,2 +1,3 @@\n one\n-two\n+2\n+2b\n" });

    expect(sandbox.text("a.cs")).toBe("\uFEFFone\r\n2\r\n2b\r\nthree");
  });

  test("a unified diff does not change the trailing space of a context line", async () => {
    const { call, sandbox } = await world({ "a.txt": "one  \ntwo\n" });

    await call("apply_patch", { patch: "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n" });

    expect(sandbox.text("a.txt")).toBe("one  \n2\n");
  });

  test("a unified diff removes and adds lines that look like file headers", async () => {
    const { call, sandbox } = await world({ "a.sql": "-- old\nselect 1\n" });

    await call("apply_patch", {
      patch: "--- a/a.sql\n+++ b/a.sql\n@@ -1,2 +1,2 @@\n--- old\n+++ new\n select 1\n",
    });

    expect(sandbox.text("a.sql")).toBe("++ new\nselect 1\n");
  });
});

describe("a diff of git", () => {
  async function gitWorld(files: Record<string, string>) {
    const sandbox = createMemoryWorkspace(files) as unknown as GitSandbox;
    const opened = await toolsetWorld(filesystemToolset, { sandbox });
    for (const path of Object.keys(files)) await opened.call("read_file", { path });
    const text = async (path: string) => Buffer.from(await sandbox.readBytes(path)).toString();
    return { ...opened, text, sandbox: sandbox as GitSandbox };
  }

  test("a diff of git keeps the line endings of new files and lines, unless the patch has the same in every line", async () => {
    const { call, text } = await gitWorld({ "a.txt": "one\ntwo\n" });
    const lines = [
      "diff --git a/a.txt b/a.txt",
      "--- a/a.txt",
      "+++ b/a.txt",
      "@@ -1,2 +1,3 @@",
      " one",
      "+half\r",
      " two",
      "diff --git a/new.txt b/new.txt",
      "new file mode 100644",
      "--- /dev/null",
      "+++ b/new.txt",
      "@@ -0,0 +1,2 @@",
      "+first\r",
      "+last\r",
    ];

    await call("apply_patch", { patch: lines.join("\n") });
    await call("apply_patch", { patch: "--- /dev/null\r\n+++ b/other.txt\r\n@@ -0,0 +1 @@\r\n+first\r\n" });

    expect(await text("a.txt")).toBe("one\nhalf\r\ntwo\n");
    expect(await text("new.txt")).toBe("first\r\nlast\r\n");
    expect(await text("other.txt")).toBe("first\n");
  });

  test("a diff of git can copy a file and keep its source", async () => {
    const { call, text } = await gitWorld({ "a.txt": "one\ntwo\n" });

    await call("apply_patch", {
      patch: [
        "diff --git a/a.txt b/b.txt",
        "similarity index 60%",
        "copy from a.txt",
        "copy to b.txt",
        "index 814f4a4..3b8e7e1 100644",
        "--- a/a.txt",
        "+++ b/b.txt",
        "@@ -1,2 +1,2 @@",
        " one",
        "-two",
        "+2",
      ].join("\n"),
    });

    expect([await text("a.txt"), await text("b.txt")]).toEqual(["one\ntwo\n", "one\n2\n"]);
  });

  test("a diff of git can rename and change a file in one", async () => {
    const { call, sandbox, text } = await gitWorld({ "a.txt": "one\ntwo\n" });

    await call("apply_patch", {
      patch:
        "diff --git a/a.txt b/sub/b.txt\nsimilarity index 60%\nrename from a.txt\nrename to sub/b.txt\n--- a/a.txt\n+++ b/sub/b.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n",
    });

    expect(await sandbox.paths()).toEqual(["sub/b.txt"]);
    expect(await text("sub/b.txt")).toBe("one\n2\n");
  });

  test("a diff of git changes the mode of a file, with or without its content", async () => {
    const { call, preview, sandbox } = await gitWorld({ "a.sh": "a\n", "b.sh": "b\n" });
    const patch = [
      "diff --git a/a.sh b/a.sh",
      "old mode 100644",
      "new mode 100755",
      "diff --git a/b.sh b/b.sh",
      "old mode 100644",
      "new mode 100755",
      "--- a/b.sh",
      "+++ b/b.sh",
      "@@ -1 +1 @@",
      "-b",
      "+B",
      "diff --git a/c.sh b/c.sh",
      "new file mode 100755",
      "--- /dev/null",
      "+++ b/c.sh",
      "@@ -0,0 +1 @@",
      "+c",
    ].join("\n");

    expect(await preview("apply_patch", { patch })).toContain("mode 100644 → 100755");
    await call("apply_patch", { patch });

    for (const path of ["a.sh", "b.sh", "c.sh"]) expect((await sandbox.stat(path)).executable).toBe(true);
  });

  test("a diff of git creates and deletes empty files", async () => {
    const { call, sandbox } = await gitWorld({ "old.txt": "", "keep.txt": "k" });

    await call("apply_patch", {
      patch:
        "diff --git a/new.txt b/new.txt\nnew file mode 100644\nindex 0000000..e69de29\ndiff --git a/old.txt b/old.txt\ndeleted file mode 100644\nindex e69de29..0000000\n",
    });

    expect(await sandbox.paths()).toEqual(["keep.txt", "new.txt"]);
  });

  test("a diff of git may be the mails of git format-patch", async () => {
    const { call, text } = await gitWorld({ "a.txt": "one\n", "b.txt": "two\n" });
    const mail = (path: string, old: string, next: string) =>
      [
        "From 6dcb09b5b57875f334f61aebed695e2e4193db5e Mon Sep 17 00:00:00 2001",
        "From: Ada <ada@example.com>",
        `Subject: [PATCH] Change ${path}`,
        "",
        "- a list in the message",
        "+ another",
        "---",
        ` ${path} | 2 +-`,
        " 1 file changed, 1 insertion(+), 1 deletion(-)",
        "",
        `diff --git a/${path} b/${path}`,
        "index 5626abf..814f4a4 100644",
        `--- a/${path}`,
        `+++ b/${path}`,
        "@@ -1 +1 @@",
        `-${old}`,
        `+${next}`,
        "-- ",
        "2.43.0",
        "",
      ].join("\n");

    await call("apply_patch", { patch: `${mail("a.txt", "one", "1")}\n${mail("b.txt", "two", "2")}` });

    expect([await text("a.txt"), await text("b.txt")]).toEqual(["1\n", "2\n"]);
  });

  test.each<[string, string]>([
    [
      "a symbolic link",
      "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+a.txt\n\\ No newline at end of file\n",
    ],
    [
      "a submodule",
      "diff --git a/s b/s\nnew file mode 160000\n--- /dev/null\n+++ b/s\n@@ -0,0 +1 @@\n+Subproject commit abc\n",
    ],
    ["a merge", "diff --cc a.txt\n--- a/a.txt\n+++ b/a.txt\n@@@ -1,1 -1,1 +1,1 @@@\n- a\n -b\n++c\n"],
    ["a file without a change", "diff --git a/a.txt b/a.txt\nindex 1..2 100644\n--- a/a.txt\n+++ b/a.txt\n"],
  ])("a diff of git is refused by name if it has %s", async (_, patch) => {
    const { call } = await gitWorld({ "a.txt": "a\n" });
    await expect(call("apply_patch", { patch })).rejects.toMatchObject({ code: "INVALID_ARGUMENTS" });
  });
});

describe("wrong counts in a hunk's heading", () => {
  const before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
  const after = "1\ntwo\n3\n4\n5\n6\n7\neight\n9\n";

  test.each<[string, string, string]>([
    ["too large in the first", "@@ -1,9 +1,9 @@", "@@ -7,3 +7,3 @@"],
    ["too large in the last", "@@ -1,3 +1,3 @@", "@@ -7,30 +7,30 @@"],
    ["too small in the first", "@@ -1,1 +1,1 @@", "@@ -7,3 +7,3 @@"],
    ["too small in both", "@@ -1 +1 @@", "@@ -7 +7 @@"],
  ])("wrong counts in a hunk's heading are repaired: %s", async (_, first, last) => {
    const { call, sandbox } = await world({ "a.txt": before, "b.txt": before });
    const hunks = `${first}\n 1\n-2\n+two\n 3\n${last}\n 7\n-8\n+eight\n 9\n`;

    await call("apply_patch", { patch: `--- a/a.txt\n+++ b/a.txt\n${hunks}--- a/b.txt\n+++ b/b.txt\n${hunks}` });

    expect([sandbox.text("a.txt"), sandbox.text("b.txt")]).toEqual([after, after]);
  });
});

describe("a *** Begin Patch patch", () => {
  test("a *** Begin Patch patch adds, updates, moves and deletes files", async () => {
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

  test("an anchor chooses among several places", async () => {
    const body = "  x\n  return 1\n";
    const { call, sandbox } = await world({ "a.py": `def a():\n${body}def b():\n${body}` });

    await call("apply_patch", {
      patch: marked("*** Update File: a.py", "@@ def a():", "-  return 1", "+  return 2"),
    });
    await call("read_file", { path: "a.py" });
    await call("apply_patch", { patch: marked("*** Update File: a.py", "@@ def b():", "   x", "+  y") });

    expect(sandbox.text("a.py")).toBe("def a():\n  x\n  return 2\ndef b():\n  x\n  y\n  return 1\n");
  });

  test("nested anchors lead to the method of a class", async () => {
    const body = "    def go(self):\n        return 1\n";
    const { call, sandbox } = await world({ "a.py": `class A:\n${body}class B:\n${body}` });

    await call("apply_patch", {
      patch: marked(
        "*** Update File: a.py",
        "@@ class B:",
        "@@     def go(self):",
        "-        return 1",
        "+        return 2",
      ),
    });

    expect(sandbox.text("a.py")).toBe(`class A:\n${body}class B:\n${body.replace("1", "2")}`);
  });

  test("an anchor that the file does not have is refused, although the lines occur once", async () => {
    const { call, sandbox } = await world({ "a.py": "def a():\n  return 1\n" });

    await expect(
      call("apply_patch", { patch: marked("*** Update File: a.py", "@@ def b():", "-  return 1", "+  return 2") }),
    ).rejects.toMatchObject({ code: "NO_MATCH", message: expect.stringContaining('has no line "def b():"') });
    expect(sandbox.text("a.py")).toBe("def a():\n  return 1\n");
  });

  test("lines above their anchor are refused", async () => {
    const { call } = await world({ "a.py": "def a():\n  return 1\ndef b():\n  pass\n" });

    await expect(
      call("apply_patch", { patch: marked("*** Update File: a.py", "@@ def b():", "-  return 1", "+  return 2") }),
    ).rejects.toMatchObject({ code: "NO_MATCH", message: expect.stringContaining('below "def b():"') });
  });

  test("*** End of File chooses the last of several places", async () => {
    const { call, sandbox } = await world({ "a.txt": "x\ny\nx\n" });

    await call("apply_patch", { patch: marked("*** Update File: a.txt", "@@", "-x", "+z", "*** End of File") });

    expect(sandbox.text("a.txt")).toBe("x\ny\nz\n");
  });

  test("two places without an anchor are refused", async () => {
    const { call } = await world({ "a.py": "x\nx\n" });

    await expect(
      call("apply_patch", { patch: marked("*** Update File: a.py", "@@", "-x", "+y") }),
    ).rejects.toMatchObject({ code: "AMBIGUOUS_MATCH", details: { lines: [1, 2] } });
  });
});

describe("invalid patches", () => {
  test.each<[string, string, string]>([
    ["blank text", "   ", "INVALID_ARGUMENTS"],
    ["prose", "please change a.txt", "INVALID_ARGUMENTS"],
    ["a hunk without a file", "@@ -1 +1 @@\n-a\n+b\n", "INVALID_ARGUMENTS"],
    ["a binary patch", "diff --git a/a b/a\nGIT binary patch\n", "INVALID_ARGUMENTS"],
    ["an unmarked line", "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\nxyz\n", "INVALID_ARGUMENTS"],
    ["an unfinished patch", "*** Begin Patch\n*** Delete File: a.txt\n", "INVALID_ARGUMENTS"],
    ["context that the file does not have", "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-nope\n+b\n", "NO_MATCH"],
    ["added lines without a location", marked("*** Update File: a.txt", "@@", "+b"), "NO_MATCH"],
    ["a missing file", "--- a/no.txt\n+++ b/no.txt\n@@ -1 +1 @@\n-a\n+b\n", "FILE_NOT_FOUND"],
    [
      "a path outside of the repository",
      "--- a/../../etc/passwd\n+++ b/../../etc/passwd\n@@ -1 +1 @@\n-a\n+b\n",
      "INVALID_PATH",
    ],
    [
      "a target outside of the repository",
      marked("*** Update File: a.txt", "*** Move to: ../x", "@@", "-a", "+b"),
      "INVALID_PATH",
    ],
    ["a path in .git", marked("*** Add File: .git/hooks/pre-commit", "+x"), "INVALID_PATH"],
    ["creating an existing file", marked("*** Add File: a.txt", "+x"), "FILE_EXISTS"],
    ["no change", "--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-a\n+a\n", "INVALID_ARGUMENTS"],
    ["one file twice", marked("*** Delete File: a.txt", "*** Delete File: ./a.txt"), "CONFLICT"],
    ["hunks that overlap", marked("*** Update File: a.txt", "@@", "-a", "+b", "@@", "-a", "+c"), "CONFLICT"],
  ])("%s", async (_, patch, code) => {
    const { call, sandbox } = await world({ "a.txt": "a\n" });

    await expect(call("apply_patch", { patch })).rejects.toMatchObject({ code });
    expect(sandbox.text("a.txt")).toBe("a\n");
  });

  test("a file that does not match leaves all others unchanged", async () => {
    const { call, sandbox } = await world({ "a.txt": "a\n", "b.txt": "b\n" });
    const update = (path: string, old: string) => [`*** Update File: ${path}`, "@@", `-${old}`, "+new"];

    await expect(
      call("apply_patch", { patch: marked(...update("a.txt", "a"), ...update("b.txt", "nope")) }),
    ).rejects.toMatchObject({ code: "NO_MATCH" });
    expect(sandbox.text("a.txt")).toBe("a\n");
  });

  test("a deletion whose lines are not all of the file", async () => {
    const { call, sandbox } = await world({ "a.txt": "a\nb\n" });

    await expect(
      call("apply_patch", { patch: "--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n" }),
    ).rejects.toMatchObject({
      code: "NO_MATCH",
    });
    expect(sandbox.text("a.txt")).toBe("a\nb\n");
  });

  test("unread lines are refused by their actual numbers", async () => {
    const { call } = await toolsetWorld(filesystemToolset, { files: { "a.txt": "1\n2\n3\n4\n" } });
    await call("read_file", { path: "a.txt", limit: 2 });

    await expect(
      call("apply_patch", { patch: "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n 3\n-4\n+four\n" }),
    ).rejects.toThrow("read lines 3-4 in their current state");
  });
});

test("a patch that fails halfway leaves every file as it was", async () => {
  const { call, sandbox } = await world({ "a.txt": "a\n", "b.txt": "b\n", "c.txt": "c\n" });
  const write = sandbox.write.bind(sandbox);
  sandbox.write = async (path, content, options) => {
    if (path === "b.txt" && content.toString() === "B\n") throw new Error("the disk is full");
    await write(path, content, options);
  };
  const patch = marked(
    "*** Delete File: c.txt",
    ...["*** Update File: a.txt", "@@", "-a", "+A"],
    ...["*** Update File: b.txt", "@@", "-b", "+B"],
  );

  await expect(call("apply_patch", { patch })).rejects.toThrow("the disk is full");

  expect(await sandbox.paths()).toEqual(["a.txt", "b.txt", "c.txt"]);
  expect([sandbox.text("a.txt"), sandbox.text("c.txt")]).toEqual(["a\n", "c\n"]);
});

test("approval depends on each file of the patch", async () => {
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

test("a diff of two texts turns one into the other", () => {
  fc.assert(
    fc.property(text, text, (before, after) => {
      fc.pre(before !== after && before !== "" && after !== "");
      const patch = createTwoFilesPatch("a/f", "b/f", before, after, "", "", { context: 3 });
      const [file] = parsePatch(patch);

      expect(file?.kind === "update" && runAtOnce(applyHunks(before, file.hunks, "f")).text).toBe(after);
    }),
    { numRuns: propertyRuns(500) },
  );
});

test("a patch with many hunks pauses at each of them, so that it does not block the event loop", () => {
  const before = Array.from({ length: 100 }, (_, at) => `“line ${at}”\n`).join("");
  const hunk = (at: number) => `@@ "line ${at}"\n-"line ${at + 1}"\n+changed ${at}\n`;
  const [file] = parsePatch(marked("*** Update File: f", Array.from({ length: 20 }, (_, at) => hunk(at * 4)).join("")));
  const steps = applyHunks(before, file?.kind === "update" ? file.hunks : [], "f");

  const paused = Array.from({ length: 20 }, () => steps.next().done);

  expect(paused).toEqual(Array(20).fill(false));
  expect(runAtOnce(steps).text).toBe(
    before.replace(/“line (\d+)”/g, (own, n) => (n % 4 === 1 && n < 80 ? `changed ${n - 1}` : own)),
  );
});

test("any text is either a valid patch or refused as invalid", () => {
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
    { numRuns: propertyRuns(500) },
  );
});
