import { describe, expect, onTestFinished, test } from "vitest";
import { FilesystemToolset } from "#compat/class-tools.ts";
import { ToolError } from "#domain/errors.ts";
import type { SandboxPolicy } from "#domain/worker.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import { isProtectedPath, namesPath } from "#toolsets/filesystem/file-changes.ts";
import { filesystemToolset } from "#toolsets/filesystem/filesystem-toolset.ts";
import { createDeleteFileTool } from "#toolsets/filesystem/move-and-delete.ts";
import { createReadFileTool } from "#toolsets/filesystem/read-file.ts";
import { createWriteFileTool } from "#toolsets/filesystem/write-file.ts";
import { memoryWorkspace } from "../../support/memory-workspace.ts";
import { startSandboxWorld } from "../../support/sandbox-world.ts";
import { toolContext, toolsetWorld, type WorldOptions } from "../../support/toolset-world.ts";

const world = (files: WorldOptions["files"], options: WorldOptions = {}) =>
  toolsetWorld(filesystemToolset, { files, ...options });

describe("write_file", () => {
  test("write_file creates a file and reports it as a new file with its diff", async () => {
    const { call, sandbox } = await world({});

    const { llmContent, value } = await call("write_file", { path: "docs/a.md", content: "hello\n" });

    expect(sandbox.text("docs/a.md")).toBe("hello\n");
    expect(llmContent).toBe("Created docs/a.md (6 bytes).");
    expect(value).toMatchObject({
      kind: "diff",
      path: "docs/a.md",
      modified: "hello\n",
      isNew: true,
      bytesWritten: 6,
      action: "create",
      stats: { additions: 1, deletions: 0, changes: 1 },
    });
  });

  test("write_file overwrites a file and keeps its old text for people", async () => {
    const { call } = await world({ "a.txt": "one\n" });

    const { value } = await call("write_file", { path: "a.txt", content: "two\n" });

    expect(value).toMatchObject({ original: "one\n", modified: "two\n", isNew: false, action: "update" });
    expect(value).toMatchObject({ diff: "--- a/a.txt\n+++ b/a.txt\n@@ -1,1 +1,1 @@\n-one\n+two\n" });
  });

  test("write_file writes bytes given as base64 and refuses invalid base64", async () => {
    const { call, sandbox } = await world({});

    await call("write_file", { path: "a.bin", content: "AAEC", encoding: "base64" });

    expect([...(await sandbox.readBytes("a.bin"))]).toEqual([0, 1, 2]);
    await expect(call("write_file", { path: "b", content: "not base64!", encoding: "base64" })).rejects.toMatchObject({
      code: "INVALID_ARGUMENTS",
    });
  });

  test("write_file creates no directory with createDirs: false", async () => {
    const { call } = await world({});

    await expect(call("write_file", { path: "new/a", content: "", createDirs: false })).rejects.toThrow(
      "The directory new does not exist",
    );
  });

  test("write_file does not change Git LFS pointers", async () => {
    const { call } = await world({ "model.bin": lfsPointer });

    await expect(call("write_file", { path: "model.bin", content: "x" })).rejects.toThrow("Git LFS pointer");
    await expect(call("edit_file", { path: "model.bin", old_text: "size", new_text: "x" })).rejects.toThrow(
      "Git LFS pointer",
    );
  });
});

describe("edit_file", () => {
  test("edit_file shows a small change of a large file", async () => {
    const lines = Array.from({ length: 50_000 }, (_, index) => `line ${index} of many\n`);
    const { call } = await world({ "large.txt": lines.join("") });
    await call("read_file", { path: "large.txt", offset: 40_000, limit: 5 });

    const { llmContent, value } = await call("edit_file", {
      path: "large.txt",
      old_text: "line 40000 of many",
      new_text: "line 40000 of few",
    });

    expect(llmContent).toMatch(
      /^Changed large\.txt \(\+1 −1\)\.\n=== large\.txt ===\n 39998\tline 39997 of many\n.* 40001\tline 40000 of few\n/s,
    );
    expect(value).toMatchObject({ diff: expect.stringContaining("@@ -39998,7 +39998,7 @@"), stats: { changes: 2 } });
  });

  test("edit_file answers briefly beside very long lines", async () => {
    const long = Array.from({ length: 11 }, (_, index) => `${index} ${"x".repeat(80_000)}`).join("\n");
    const { call } = await world({ "bundle.js": `${long}\n` });

    await call("read_file", { path: "bundle.js" });
    const one = await call("edit_file", { path: "bundle.js", old_text: "\n7 x", new_text: "\nseven x" });
    await call("read_file", { path: "bundle.js" });
    const edits = ["1", "5", "9"].map((line) => ({ old_text: `\n${line} x`, new_text: `\n${line}! x` }));
    const several = await call("edit_file", { path: "bundle.js", edits });

    expect(one.llmContent.length).toBeLessThan(13_000);
    expect(several.llmContent.length).toBeLessThan(13_000);
    expect(several.llmContent).toContain("Read bundle.js again");
  });

  test("edit_file replaces the text and shows the new lines", async () => {
    const { call, sandbox } = await world({ "a.ts": "let a = 1;\nlet b = 2;\n" });
    await call("read_file", { path: "a.ts" });

    const { llmContent, value } = await call("edit_file", { path: "a.ts", old_text: "a = 1", new_text: "a = 3" });

    expect(sandbox.text("a.ts")).toBe("let a = 3;\nlet b = 2;\n");
    expect(llmContent).toContain("Changed a.ts (+1 −1).");
    expect(llmContent).toContain("     1\tlet a = 3;");
    expect(value).toMatchObject({ kind: "diff", stats: { additions: 1, deletions: 1, changes: 2 } });
  });

  test("edit_file makes several edits in one call, all or none", async () => {
    const { call, sandbox } = await world({ "a.ts": "a\nb\nc\n" });
    await call("read_file", { path: "a.ts" });
    const edits = [
      { old_text: "a", new_text: "x\ny" },
      { old_text: "c", new_text: "z" },
    ];

    await expect(
      call("edit_file", { path: "a.ts", edits: [...edits, { old_text: "nope", new_text: "" }] }),
    ).rejects.toMatchObject({
      code: "NO_MATCH",
      message: expect.stringMatching(/^Edit 3 of 3 cannot be made, so none was:/),
    });
    expect(sandbox.text("a.ts")).toBe("a\nb\nc\n");

    await call("edit_file", { path: "a.ts", edits });
    expect(sandbox.text("a.ts")).toBe("x\ny\nb\nz\n");
  });

  test("edit_file refuses several matches and lists their lines", async () => {
    const { call, sandbox } = await world({ "a.ts": "x\na\nx\n" });
    await call("read_file", { path: "a.ts" });

    await expect(call("edit_file", { path: "a.ts", old_text: "x", new_text: "y" })).rejects.toMatchObject({
      code: "AMBIGUOUS_MATCH",
      message: "old_text matches several places in a.ts: lines 1, 3.",
    });

    await call("edit_file", { path: "a.ts", old_text: "x", new_text: "y", replace_all: true });
    expect(sandbox.text("a.ts")).toBe("y\na\ny\n");
  });

  test("edit_file keeps CRLF and the byte order mark", async () => {
    const { call, sandbox } = await world({ "a.cs": "\uFEFFusing A;\r\nusing B;\r\n" });
    await call("read_file", { path: "a.cs" });

    await call("edit_file", { path: "a.cs", old_text: "using B;\n", new_text: "using C;\nusing D;\n" });

    expect(sandbox.text("a.cs")).toBe("\uFEFFusing A;\r\nusing C;\r\nusing D;\r\n");
  });

  test("edit_file names the difference where text did not match exactly", async () => {
    const { call } = await world({ "a.txt": "say “hi”\n" });
    await call("read_file", { path: "a.txt" });

    const { llmContent } = await call("edit_file", { path: "a.txt", old_text: 'say "hi"', new_text: "say ho" });

    expect(llmContent).toContain("The text did not match exactly; it was matched by punctuation.");
  });

  test.each([
    [{ path: "a.txt" }, "INVALID_ARGUMENTS"],
    [{ path: "a.txt", old_text: "a" }, "INVALID_ARGUMENTS"],
    [{ path: "a.txt", old_text: "", new_text: "b" }, "INVALID_ARGUMENTS"],
    [{ path: "a.txt", old_text: "a", new_text: "a" }, "INVALID_ARGUMENTS"],
    [{ path: "a.bin", old_text: "a", new_text: "b" }, "BINARY_FILE"],
    [{ path: "nope", old_text: "a", new_text: "b" }, "FILE_NOT_FOUND"],
    [{ path: "large.txt", old_text: "a", new_text: "b" }, "TOO_LARGE"],
  ])("edit_file refuses %j with %s", async (args, code) => {
    const { call } = await world({ "a.txt": "a", "a.bin": new Uint8Array([0]), "large.txt": "a".repeat(1_000_001) });
    await call("read_file", { path: "a.txt" });

    await expect(call("edit_file", args)).rejects.toMatchObject({ code });
  });
});

describe("encoding of a file", () => {
  const latin1 = Buffer.from("// Gr\u00fc\u00dfe\nlet a = 1;\n", "latin1");
  const utf16 = Buffer.concat([Buffer.from([0xff, 0xfe]), Buffer.from("Gr\u00fc\u00dfe\r\nlet a = 1;\r\n", "utf16le")]);
  const utf16be = Buffer.from(utf16).swap16();

  test.each<[string, Buffer, string]>([
    ["Latin-1", latin1, "Gr\u00fc\u00dfe"],
    ["UTF-16", utf16, "Gr\u00fc\u00dfe"],
    ["UTF-16, big-endian", utf16be, "Gr\u00fc\u00dfe"],
    ["UTF-16 without a byte order mark", utf16.subarray(2), "let a = 1;"],
  ])("a file's encoding is kept by edit_file, apply_patch and write_file: %s", async (_, content, shown) => {
    const { call, sandbox } = await world({ "a.txt": new Uint8Array(content) });
    const replaced = (from: string, to: string) => {
      const encodings = { latin1: () => Buffer.from(content.toString("latin1").replace(from, to), "latin1") };
      const wide = (text: string) => Buffer.from(text, "utf16le");
      const isBig = content === utf16be;
      const at = (isBig ? Buffer.from(content).swap16() : content).indexOf(wide(from));
      if (at === -1) return encodings.latin1();
      const little = isBig ? Buffer.from(content).swap16() : Buffer.from(content);
      const result = Buffer.concat([little.subarray(0, at), wide(to), little.subarray(at + wide(from).length)]);
      return isBig ? result.swap16() : result;
    };

    expect((await call("read_file", { path: "a.txt" })).llmContent).toContain(shown);
    await call("edit_file", { path: "a.txt", old_text: "let a = 1;", new_text: "let b = 2;" });
    expect(Buffer.from(await sandbox.readBytes("a.txt"))).toEqual(replaced("let a = 1;", "let b = 2;"));

    await call("apply_patch", { path: "a.txt", patch: "@@\n-let b = 2;\n+let a = 1;\n" });
    expect(Buffer.from(await sandbox.readBytes("a.txt"))).toEqual(content);

    const { value } = await call("read_file", { path: "a.txt", offset: 1 });
    await call("write_file", { path: "a.txt", content: (value as { content: string }).content });
    expect(Buffer.from(await sandbox.readBytes("a.txt"))).toEqual(content);
  });

  test("a file's encoding refuses a character that it does not have", async () => {
    const { call, sandbox } = await world({ "a.txt": new Uint8Array(latin1) });
    await call("read_file", { path: "a.txt" });

    await expect(
      call("edit_file", { path: "a.txt", old_text: "let a", new_text: "let \u{1F600}" }),
    ).rejects.toMatchObject({
      code: "INVALID_ARGUMENTS",
      message: expect.stringContaining("Latin-1"),
    });
    expect(Buffer.from(await sandbox.readBytes("a.txt"))).toEqual(latin1);
  });
});

describe("files that someone else changed", () => {
  test("a file that someone else changed since it was read is not overwritten", async () => {
    const { call, sandbox } = await world({ "a.txt": "a\n" });
    await call("read_file", { path: "a.txt" });
    await sandbox.write("a.txt", "someone else\n");

    await expect(call("write_file", { path: "a.txt", content: "mine\n" })).rejects.toMatchObject({ code: "STALE" });
    expect(sandbox.text("a.txt")).toBe("someone else\n");

    await call("read_file", { path: "a.txt" });
    await call("write_file", { path: "a.txt", content: "mine\n" });
    expect(sandbox.text("a.txt")).toBe("mine\n");
  });

  test("a file that someone else changed since it was read is not overwritten after the run wrote it, either", async () => {
    const { call, sandbox } = await world({});
    await call("write_file", { path: "a.txt", content: "mine\n" });
    await call("write_file", { path: "a.txt", content: "mine again\n" });
    await sandbox.write("a.txt", "someone else\n");

    await expect(call("write_file", { path: "a.txt", content: "mine\n" })).rejects.toMatchObject({ code: "STALE" });
  });
});

test("replacing 40,000 places takes less than three seconds", async () => {
  const { call, sandbox } = await world({ "a.txt": "value = old;\n".repeat(40_000) });
  for (let offset = 1; offset < 40_000; offset += 2_000)
    await call("read_file", { path: "a.txt", offset, limit: 2_000 });
  const started = performance.now();

  await call("edit_file", { path: "a.txt", old_text: "old", new_text: "new", replace_all: true });

  expect(performance.now() - started).toBeLessThan(20_000);
  expect(sandbox.text("a.txt")).toBe("value = new;\n".repeat(40_000));
});

test("an edit next to a very long line shows a part of it", async () => {
  const { call } = await world({ "a.js": `${"x".repeat(100_000)}\nlet a = 1;\n` });
  await call("read_file", { path: "a.js" });

  const { llmContent } = await call("edit_file", { path: "a.js", old_text: "a = 1", new_text: "a = 2" });

  expect(llmContent.length).toBeLessThan(3_000);
});

describe("reading before editing", () => {
  const edit = (from: string, to: string) => ({ path: "a.txt", old_text: from, new_text: to });

  test("lines of an unread file are not edited, and the error names the read to make", async () => {
    const { call } = await world({ "a.txt": "a\nb\n" });

    await expect(call("edit_file", edit("b", "c"))).rejects.toMatchObject({
      code: "STALE",
      suggestion: 'Call read_file with {"path":"a.txt","offset":2,"limit":1}, then edit again.',
    });
  });

  test("lines outside of the part that was read are not edited", async () => {
    const { call, sandbox } = await world({ "a.txt": "a\nb\nc\n" });
    await call("read_file", { path: "a.txt", offset: 1, limit: 2 });

    await expect(call("edit_file", edit("b\nc", "x"))).rejects.toThrow("read line 3 in its current state");
    await call("edit_file", edit("b", "x"));
    expect(sandbox.text("a.txt")).toBe("a\nx\nc\n");
  });

  test("after an edit the shown lines are known, and lines further down must be read again", async () => {
    const lines = Array.from({ length: 40 }, (_, index) => `line ${index + 1}.`);
    const { call } = await world({ "a.txt": `${lines.join("\n")}\n` });
    await call("read_file", { path: "a.txt" });
    await call("edit_file", edit("line 5.", "line 5.\nline 5b."));

    await expect(call("edit_file", edit("line 30.", "x"))).rejects.toThrow("read line 31 in its current state");
    await call("edit_file", edit("line 5b.", "line 5c."));
    await call("edit_file", edit("line 2.", "line 2b."));
  });

  test("a file that the run wrote is known to it", async () => {
    const { call, sandbox } = await world({});
    await call("write_file", { path: "a.txt", content: "a\nb\n" });

    await call("edit_file", edit("b", "c"));

    expect(sandbox.text("a.txt")).toBe("a\nc\n");
  });

  test("a file that someone else changed must be read again", async () => {
    const { call, sandbox } = await world({ "a.txt": "a\nb\n" });
    await call("read_file", { path: "a.txt" });
    await sandbox.write("a.txt", "new\na\nb\n");

    await expect(call("edit_file", edit("b", "c"))).rejects.toMatchObject({ code: "STALE" });
  });

  test("a very long line can be edited after a part of it was read", async () => {
    const { call, sandbox } = await world({ "a.txt": `${"x".repeat(5_000)}b${"y".repeat(5_000)}\n` });
    await call("read_file", { path: "a.txt", column: 4_900 });

    await call("edit_file", edit("xb", "xc"));

    expect(sandbox.text("a.txt")).toBe(`${"x".repeat(5_000)}c${"y".repeat(5_000)}\n`);
    await sandbox.write("a.txt", `${"x".repeat(4_000)}b${"z".repeat(5_000)}\n`);
    await expect(call("edit_file", edit("xb", "xc"))).rejects.toMatchObject({ code: "STALE" });
  });

  test("a file's content cannot make another file count as read", async () => {
    const { call } = await world({ "a.txt": "secret\n", "b.txt": "=== a.txt ===\n     1\tsecret\n" });
    await call("read_file", { path: "b.txt" });

    await expect(call("edit_file", edit("secret", "x"))).rejects.toMatchObject({ code: "STALE" });
  });
});

describe("delete, move, exists, info, list", () => {
  const files = { "a.txt": "a\n", "src/b.ts": "b\n", "src/deep/c.ts": "c\n", ".env": "X=1" };

  test("delete_file deletes a file, and a directory only with recursive", async () => {
    const { call, sandbox } = await world(files);

    expect((await call("delete_file", { path: "a.txt" })).value).toMatchObject({ data: { deleted: ["a.txt"] } });
    await expect(call("delete_file", { path: "src" })).rejects.toMatchObject({ code: "NOT_A_FILE" });
    expect((await call("delete_file", { path: "src", recursive: true })).value).toMatchObject({
      data: { deleted: ["src/b.ts", "src/deep/c.ts"] },
    });
    expect(await sandbox.paths()).toEqual([".env"]);
  });

  test("move_file moves a file, and onto another only with overwrite", async () => {
    const { call, sandbox } = await world(files);

    await expect(call("move_file", { from: "a.txt", to: "src/b.ts" })).rejects.toMatchObject({ code: "FILE_EXISTS" });
    await call("move_file", { from: "a.txt", to: "src/b.ts", overwrite: true });

    expect(sandbox.text("src/b.ts")).toBe("a\n");
    await expect(call("move_file", { from: "src", to: "src/inside" })).rejects.toThrow("into itself");
  });

  test("file_exists reports whether a path exists", async () => {
    const { call } = await world(files);

    expect((await call("file_exists", { path: "/src/b.ts" })).value).toMatchObject({
      data: { path: "src/b.ts", exists: true },
    });
    expect((await call("file_exists", { path: "nope" })).llmContent).toBe("nope does not exist.");
  });

  test("file_info describes a file", async () => {
    const { call } = await world({ ...files, "model.bin": lfsPointer });

    expect((await call("file_info", { path: "src/b.ts" })).value).toMatchObject({
      data: { path: "src/b.ts", type: "file", size: 2, isDirectory: false, lines: 1, modified: expect.any(String) },
    });
    expect((await call("file_info", { path: "model.bin" })).value).toMatchObject({ data: { lfsBytes: 12345 } });
    expect((await call("file_info", { path: ".env" })).llmContent).toContain("size: 3");
  });

  test("list_files lists a directory with types, sizes and times, hidden names on request", async () => {
    const { call } = await world(files);

    const { llmContent, value } = await call("list_directory", {});

    expect(llmContent).toBe("2 entries in /:\na.txt  2\nsrc/\n(1 hidden; includeHidden shows them)");
    expect(value).toMatchObject({
      kind: "file_list",
      count: 2,
      files: [
        { name: "a.txt", type: "file", size: 2, modified: "1970-01-01T00:00:00.000Z" },
        { name: "src", type: "directory" },
      ],
    });
    expect((await call("list_files", { path: "/", includeHidden: true, recursive: true })).value).toMatchObject({
      count: 6,
    });
  });
});

describe("approval", () => {
  test.each([
    ["write_file", { path: "new.txt", content: "" }, false],
    ["write_file", { path: "a.txt", content: "" }, true],
    ["edit_file", { path: "a.txt", old_text: "a", new_text: "b" }, true],
    ["delete_file", { path: "a.txt" }, true],
    ["move_file", { from: "a.txt", to: "b.txt" }, false],
    ["move_file", { from: "a.txt", to: "c.txt", overwrite: true }, true],
    ["read_file", { path: "a.txt" }, false],
    ["write_file", { path: "scratch/x", content: "" }, false],
    ["delete_file", { path: "scratch/old" }, false],
    ["write_file", { path: "output/new.md", content: "" }, true],
    ["edit_file", { path: "scratch/old", old_text: "a", new_text: "b" }, false],
    ["move_file", { from: "a.txt", to: "output/a.txt" }, true],
    ["write_file", { path: ".github/workflows/ci.yml", content: "" }, true],
    ["write_file", { path: "scratch/../.GitHub/Workflows/ci.yml", content: "" }, "INVALID_PATH"],
    ["write_file", { path: "scratch/AGENTS.md", content: "" }, true],
    ["write_file", { path: "scratch/package-lock.json", content: "" }, true],
    ["write_file", { path: "scratch/x/.husky/pre-commit", content: "" }, true],
    ["write_file", { path: "scratch/bunfig.toml", content: "" }, true],
    ["write_file", { path: "scratch/CLAUDE.local.md", content: "" }, true],
    ["write_file", { path: "scratch/vitest.config.ts", content: "" }, true],
    ["write_file", { path: "scratch/eslint.config.js", content: "" }, true],
    ["write_file", { path: "scratch/Makefile", content: "" }, true],
    ["write_file", { path: "scratch/api/Dockerfile.dev", content: "" }, true],
    ["write_file", { path: "scratch/conftest.py", content: "" }, true],
    ["write_file", { path: "scratch/action.yml", content: "" }, true],
    ["write_file", { path: "scratch/makefile.md", content: "" }, false],
    ["move_file", { from: "a.txt", to: "docs/CODEOWNERS" }, true],
    ["delete_file", { path: "output/old" }, "BLOCKED"],
    ["delete_file", { path: "output", recursive: true }, "BLOCKED"],
    ["move_file", { from: "output/old", to: "scratch/old2" }, "BLOCKED"],
  ])("%s %j needs approval: %s", async (tool, args, expected) => {
    const { asks } = await world(
      { "a.txt": "a", "c.txt": "c", "scratch/old": "a", "output/old": "x" },
      {
        rules: {
          scratch: { write: "preApproved", delete: "preApproved" },
          output: { write: "ask", delete: "blocked" },
        },
      },
    );

    if (typeof expected === "string") await expect(asks(tool, args)).rejects.toMatchObject({ code: expected });
    else expect(await asks(tool, args)).toBe(expected);
  });

  test.each([
    ["lib/tasks/x:.rake", true],
    ["a/:x/Makefile", true],
    ["a/:x/Makefile.", true],
    ["lib/x:.ſbt", true],
    ["native/binding.gyp", true],
    ["webpack.config.babel.js", true],
    ["package.yaml", true],
    ["WORKSPACE", true],
    ["rust-toolchain.toml", true],
    ["tasks/db.rake", true],
    ["lefthook-local.yml", true],
    ["project/plugins.sbt", true],
    ["wrangler.jsonc", true],
    ["reviewer.agent.md", true],
    ["src/build.ts", false],
    ["src/app.config.md", false],
    ["Justfile", true],
    ["api/.justfile", true],
    [".ripgreprc", true],
    [".claude.json", true],
    ["babel.config.json", true],
    ["pyproject.toml", true],
    ["api/requirements-dev.txt", true],
    ["requirements/base.txt", true],
    ["Cargo.toml", true],
    ["go.mod", true],
    ["Gemfile", true],
    ["composer.json", true],
    ["pom.xml", true],
    ["app/build.gradle.kts", true],
    ["src/App.csproj", true],
    ["setup.py", true],
    ["playwright.config.mts", true],
    [".eslintrc.json", true],
    ["web/.mocharc.cjs", true],
    [".pre-commit-config.yaml", true],
    [".drone.yml", true],
    [".mcp.json", true],
    [".yarnrc.yml", true],
    [".npmrc", true],
    ["docker-compose.prod.yml", true],
    ["CMakeLists.txt", true],
    ["docs/review.prompt.md", true],
    ["x.code-workspace", true],
    [".GITHUB/x", true],
    [".g\u200cithub/workflows/ci.yml", true],
    ["Makefile.", true],
    ["package.json ", true],
    ["package.json::$DATA", true],
    ["ﬁx/ＡＧＥＮＴＳ.md", true],
    ["a\nb/package.json", true],
    ["a\\.github\\x", true],
    [".env.production", true],
    ["mise.toml", true],
    ["lib/sitecustomize.py", true],
    ["gradle/wrapper/gradle-wrapper.properties", true],
    ["cmake/Find.cmake", true],
    ["bots/fixer.worker", true],
    ["AGENTS.override.md", true],
    ["packages/a/project.json", true],
    ["gradle/libs.versions.toml", true],
    ["lib/core.cabal", true],
    [".rspec", true],
    [".Rprofile", true],
    ["web/.php-cs-fixer.dist.php", true],
    [".formatter.exs", true],
    [".ghci", true],
    [".sbtopts", true],
    ["public/.user.ini", true],
    [".simplecov", true],
    [".lldbinit", true],
    ["pylintrc", true],
    ["docs/mkdocs.yml", true],
    ["phpstan.neon.dist", true],
    ["lib/dune", true],
    ["deps.edn", true],
    ["cpanfile", true],
    ["web/webpack.prod.js", true],
    ["tools/defs.bzl", true],
    ["Cartfile.resolved", true],
    ["src/project.ts", false],
    ["src/environment.ts", false],
    ["src/config.ts", false],
    ["docs/package.md", false],
    ["src/makefile.ts", false],
    [".gitignore", false],
    ["web/.eslintignore", false],
    ["logs/.gitkeep", false],
    [".editorconfig", false],
    ["src/dune.ts", false],
    ["requirements.md", false],
  ])("%j is protected: %s", (path, expected) => {
    expect(isProtectedPath(path)).toBe(expected);
  });

  test.each([
    ["echo > .github/ci.yml", ".github/ci.yml", true],
    ["cp x './action.yml'", "action.yml", true],
    ["cat src/reaction.yml", "action.yml", false],
    ["make Makefile.md", "Makefile", false],
  ])("%j names the file %j: %s", (command, path, expected) => {
    expect(namesPath(command, path)).toBe(expected);
  });

  test.each([
    ["write_file", { path: "docs/b.md", content: "" }],
    ["edit_file", { path: "docs/a.md", old_text: "a", new_text: "b" }],
    ["delete_file", { path: "docs/a.md" }],
    ["move_file", { from: "docs/a.md", to: "b.md" }],
  ])("%s in a read-only zone is refused without an approval request", async (tool, args) => {
    const { asks } = await world(
      { "docs/a.md": "a" },
      { rules: { docs: { mode: "ro", write: "ask", delete: "ask" } } },
    );

    await expect(asks(tool, args)).rejects.toMatchObject({ code: "READ_ONLY" });
  });

  test("an operation that a zone blocks does not run", async () => {
    const { call } = await world({ "output/old": "x" }, { rules: { output: { write: "blocked", delete: "blocked" } } });

    await expect(call("delete_file", { path: "output/old" })).rejects.toMatchObject({ name: "BlockedError" });
    await expect(call("write_file", { path: "output/new", content: "" })).rejects.toMatchObject({ code: "BLOCKED" });
    await expect(call("move_file", { from: "output/old", to: "b" })).rejects.toMatchObject({ code: "BLOCKED" });
  });

  test("approval can be configured by zone, and never widens what the sandbox allows", async () => {
    const sandbox = memoryWorkspace({}, { rules: { locked: { write: "blocked" } } });
    const tools = new FilesystemToolset({
      sandbox,
      zoneApprovalConfig: {
        scratch: { write: "preApproved", delete: "preApproved" },
        output: { write: "ask", delete: "blocked" },
        locked: { write: "preApproved" },
      },
    }).getTools();
    const write = tools.find(({ name }) => name === "write_file");
    const asks = async (path: string) =>
      typeof write?.needsApproval === "function" &&
      write.needsApproval({ path, content: "" }, toolContext({ sandbox }));

    expect(await asks("/scratch/temp.txt")).toBe(false);
    expect(await asks("/output/report.md")).toBe(true);
    await expect(asks("/locked/a")).rejects.toMatchObject({ code: "BLOCKED" });
  });

  test("zoneApprovalConfig by name applies to a zone with a path", async () => {
    const zones = [
      { name: "scratch", mode: "rw" as const, path: "tmp/scratch" },
      { name: "vault", mode: "rw" as const, path: "src/vault" },
    ];
    const sandbox = createMemoryWorkspace({ "tmp/scratch/a": "a", "src/vault/b": "b" }, { zones });
    const zoneApprovalConfig = { scratch: { write: "preApproved" }, vault: { write: "blocked" } } as const;
    const write = new FilesystemToolset({ sandbox, zoneApprovalConfig })
      .getTools()
      .find(({ name }) => name === "write_file");
    const asks = async (path: string) =>
      typeof write?.needsApproval === "function" &&
      write.needsApproval({ path, content: "" }, toolContext({ sandbox }));

    expect(await asks("tmp/scratch/a")).toBe(false);
    await expect(asks("src/vault/b")).rejects.toMatchObject({ code: "BLOCKED" });
    await expect(
      write?.execute?.({ path: "src/vault/b", content: "" }, toolContext({ sandbox })),
    ).rejects.toMatchObject({ code: "BLOCKED" });
  });

  test("single tools have their own approval rules", async () => {
    const sandbox = memoryWorkspace({});
    const remove = createDeleteFileTool(sandbox, { needsApproval: ({ path }) => path.startsWith("/important/") });

    expect(createWriteFileTool(sandbox).needsApproval).toBe(true);
    expect(createReadFileTool(sandbox).needsApproval).toBe(false);
    expect(createDeleteFileTool(sandbox).needsApproval).toBe(true);
    expect(remove.needsApproval).toBeTypeOf("function");
  });

  test("a preview shows what would change", async () => {
    const { preview, sandbox, call } = await world({ "a.txt": "a\n", "b/c": "", "b/d": "" });
    await call("read_file", { path: "a.txt" });

    expect(await preview("write_file", { path: "a.txt", content: "b\n" })).toContain("-a\n+b");
    expect(await preview("write_file", { path: "n.txt", content: "b\n" })).toMatch(
      /^n\.txt\nadded, mode 100644, blob \w{10}, 2 bytes\n/,
    );
    expect(await preview("edit_file", { path: "a.txt", old_text: "a", new_text: "c" })).toContain("-a\n+c");
    expect(await preview("delete_file", { path: "b", recursive: true })).toMatch(
      /^b\/c\ndeleted, .*\n\nb\/d\ndeleted, /,
    );
    expect(await preview("move_file", { from: "a.txt", to: "z" })).toMatch(/^a\.txt\ndeleted, [\s\S]*z\nadded, /);
    expect(sandbox.text("a.txt")).toBe("a\n");
  });

  test.each([
    ["delete_file", { path: "b" }, "NOT_A_FILE"],
    ["move_file", { from: "a.txt", to: "b/c" }, "FILE_EXISTS"],
    ["move_file", { from: "b", to: "d", overwrite: true }, "FILE_EXISTS"],
    ["move_file", { from: "b", to: "b/inside" }, "INVALID_ARGUMENTS"],
    ["move_file", { from: "a.txt", to: "a.txt", overwrite: true }, "INVALID_ARGUMENTS"],
  ])("a call that can only fail has no preview, so that nobody is asked: %s %j", async (tool, args, code) => {
    const { preview } = await world({ "a.txt": "a\n", "b/c": "", "d/e": "" });

    await expect(preview(tool, args)).rejects.toMatchObject({ code });
  });
});

test("changes that reach only the sandbox of a run ask where a policy asks, for protected files, and for deleting a file", async () => {
  const git = await startSandboxWorld();
  onTestFinished(() => git.close());
  const files = { "a.txt": "a\n", "b.txt": "b\n", "src/c.txt": "c\n", "careful/d.txt": "d\n", Justfile: "j\n" };
  const repository = await git.repositoryWith(files);
  const zones = [{ name: "careful", mode: "rw" as const, approval: { write: "ask" as const } }];
  const asksWith = async (child: SandboxPolicy | undefined, tool: string, args: unknown) => {
    const sandbox = await git.open(repository, { policy: [{ zones }, child] });
    const { asks, call } = await toolsetWorld(filesystemToolset, { sandbox });
    if (tool === "apply_patch") await call("read_file", { path: "a.txt" });
    return asks(tool, args);
  };
  const edit = (path: string, letter: string) => ({ path, old_text: letter, new_text: "x" });
  const asks = (tool: string, args: unknown) => asksWith(undefined, tool, args);
  const rename = "*** Begin Patch\n*** Update File: a.txt\n*** Move to: z.txt\n@@\n-a\n+b\n*** End Patch\n";

  expect(await asks("edit_file", edit("a.txt", "a"))).toBe(false);
  expect(await asks("write_file", { path: "a.txt", content: "b" })).toBe(false);
  expect(await asks("apply_patch", { path: "a.txt", patch: "@@\n-a\n+b\n" })).toBe(false);
  expect(await asks("apply_patch", { patch: rename })).toBe(false);
  expect(await asks("move_file", { from: "a.txt", to: "z.txt" })).toBe(false);

  expect(await asks("move_file", { from: "a.txt", to: "b.txt", overwrite: true })).toBe(true);
  expect(await asks("delete_file", { path: "a.txt" })).toBe(true);
  expect(await asks("write_file", { path: "Justfile", content: "x" })).toBe(true);
  expect(await asks("write_file", { path: ".github/workflows/x.yml", content: "x" })).toBe(true);
  expect(await asks("edit_file", edit("careful/d.txt", "d"))).toBe(true);

  expect(await asksWith({ approval: { write: "ask" } }, "edit_file", edit("a.txt", "a"))).toBe(true);
  expect(await asksWith({ restrict: "/src" }, "edit_file", edit("src/c.txt", "c"))).toBe(false);
  expect(await asksWith({ approval: { write: "preApproved" } }, "edit_file", edit("careful/d.txt", "d"))).toBe(true);
});

test("nobody is asked about a change through a link, or of a file whose name differs from an existing one only in case", async () => {
  const git = await startSandboxWorld();
  onTestFinished(() => git.close());
  const link = { link: ".github" };
  const repository = await git.repositoryWith({ ".github/ci.yml": "a\n", Justfile: "a\n", "a.txt": "a\n", link });
  const sandbox = await git.open(repository);
  const { preview, call } = await toolsetWorld(filesystemToolset, { sandbox });

  for (const path of ["link/ci.yml", "JUSTFILE", "a.txt/b"]) {
    await expect(preview("write_file", { path, content: "b\n" })).rejects.toThrow(ToolError);
    await expect(preview("move_file", { from: "a.txt", to: path })).rejects.toThrow(ToolError);
  }
  await expect(
    preview("apply_patch", { patch: "--- /dev/null\n+++ b/link/x.yml\n@@ -0,0 +1 @@\n+b\n" }),
  ).rejects.toThrow("Writing through links is not supported.");
  await call("read_file", { path: "a.txt" });
  const replaced = "--- a/a.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n--- /dev/null\n+++ b/a.txt/b\n@@ -0,0 +1 @@\n+b\n";
  expect(await preview("apply_patch", { patch: replaced })).toContain("a.txt/b\nadded");
});

const lfsPointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${"0".repeat(64)}\nsize 12345\n`;
