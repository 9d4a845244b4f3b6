import { expect, test } from "vitest";
import { filesystemToolset } from "#toolsets/filesystem/filesystem-toolset.ts";
import { toolsetWorld, type WorldOptions } from "../../support/toolset-world.ts";

const world = (files: WorldOptions["files"], options: WorldOptions = {}) =>
  toolsetWorld(filesystemToolset, { files, ...options });

test("a file is shown under its path with line numbers six wide and a tab", async () => {
  const { call } = await world({ "src/a.ts": "one\ntwo\n" });

  const { llmContent, value } = await call("read_file", { path: "/src/a.ts" });

  expect(llmContent).toBe("=== src/a.ts ===\n[2 lines]\n     1\tone\n     2\ttwo");
  expect(value).toMatchObject({ kind: "file_content", path: "src/a.ts", content: "one\ntwo\n", size: 8 });
});

test.each([
  [{ offset: 2, limit: 2 }, "[Showing lines 2-3 of 5 total lines]\n     2\tb\n     3\tc"],
  [{ offset: -2 }, "[Showing lines 4-5 of 5 total lines]\n     4\td\n     5\te"],
  [{ limit: 1 }, "[Showing lines 1-1 of 5 total lines]\n     1\ta"],
  [{ limit: 0 }, "[5 lines]\n     1\ta\n     2\tb\n     3\tc\n     4\td\n     5\te"],
  [{ offset: -99 }, "[5 lines]\n     1\ta\n     2\tb\n     3\tc\n     4\td\n     5\te"],
])("offset and limit choose lines: %j", async (range, shown) => {
  const { call } = await world({ "a.txt": "a\nb\nc\nd\ne" });

  expect((await call("read", { path: "a.txt", ...range })).llmContent).toBe(`=== a.txt ===\n${shown}`);
});

test("any part of a file of thousands of lines is found", async () => {
  const lines = Array.from({ length: 2_100 }, (_, at) => (at % 3 === 0 ? "" : `line ${at + 1}`));
  const { call } = await world({ "a.txt": lines.join("\r\n") });

  for (const offset of [1, 1_023, 1_024, 1_025, 1_026, 2_047, 2_048, 2_049, 2_100]) {
    const last = Math.min(offset + 1, lines.length);
    const shown = lines.slice(offset - 1, last).map((line, at) => `${String(offset + at).padStart(6)}\t${line}`);
    expect((await call("read_file", { path: "a.txt", offset, limit: 2 })).llmContent).toBe(
      [`=== a.txt ===\n[Showing lines ${offset}-${last} of 2100 total lines]`, ...shown].join("\n"),
    );
  }
});

test("an offset past the end is refused with the number of lines", async () => {
  const { call } = await world({ "a.txt": "a\n" });

  await expect(call("read_file", { path: "a.txt", offset: 9 })).rejects.toThrow("a.txt has 1 line;");
});

test("several files are read in one call, and a missing one does not hide the others", async () => {
  const { call } = await world({ "a.txt": "a", "b.txt": "b" });

  const { llmContent, value } = await call("read_file", { file_paths: ["a.txt", "nope.txt", "b.txt"] });

  expect(llmContent).toContain("=== a.txt ===\n[1 line]\n     1\ta");
  expect(llmContent).toContain("=== nope.txt ===\nnope.txt does not exist.");
  expect(llmContent).toContain("=== b.txt ===");
  expect(value).toMatchObject({ kind: "filesystem.files", summary: "Read 3 files (2 bytes)" });
});

test("a missing file is refused with its code", async () => {
  const { call } = await world({});

  await expect(call("read_file", { path: "nope" })).rejects.toMatchObject({ code: "FILE_NOT_FOUND" });
  await expect(call("read_file", { path: "../etc/passwd" })).rejects.toMatchObject({ code: "INVALID_PATH" });
  await expect(call("read_file", {})).rejects.toMatchObject({ code: "INVALID_ARGUMENTS" });
});

test("binary files are recognized, and read as base64 on request", async () => {
  const { call } = await world({ "a.png": new Uint8Array([137, 80, 0, 1]), "b.bin": new Uint8Array([0xe9, 2]) });

  await expect(call("read_file", { path: "a.png" })).rejects.toMatchObject({ code: "BINARY_FILE" });
  await expect(call("read_file", { path: "b.bin" })).rejects.toMatchObject({ code: "BINARY_FILE" });
  expect((await call("read_file", { path: "a.png", encoding: "base64" })).value).toMatchObject({ content: "iVAAAQ==" });
});

test("a very long line is shown in parts, and the rest is read by column", async () => {
  const { call } = await world({ "a.min.js": `${"x".repeat(5_000)}END\n` });

  const first = await call("read_file", { path: "a.min.js" });
  const rest = await call("read_file", { path: "a.min.js", column: 4_001 });

  expect(first.llmContent).toContain("[… 3003 more characters; read on with column 2001]");
  expect(first.llmContent.length).toBeLessThan(2_500);
  expect(rest.llmContent).toMatch(/\[from character 4001 of each line\]\n {5}1\tx{1000}END$/);
});

test("a Git LFS pointer is recognized with the size of its content", async () => {
  const { call } = await world({ "model.bin": lfsPointer });

  await expect(call("read_file", { path: "model.bin" })).rejects.toThrow("Git LFS pointer to 12345 bytes");
});

test("a file too large for the context is refused with an estimate, the limit and a read that fits", async () => {
  const { call } = await world({ "big.txt": "some words on a line\n".repeat(20_000) });

  const refusal = await call("read_file", { path: "big.txt", limit: 0 }).catch((error) => error);

  expect(refusal).toMatchObject({ code: "TOO_LARGE", details: { limit: 25_000 } });
  expect(refusal.details.estimate).toBeGreaterThan(25_000);
  const { offset, limit } = JSON.parse(refusal.suggestion.slice(refusal.suggestion.indexOf("{"), -1));
  expect((await call("read_file", { path: "big.txt", offset, limit })).error).toBeUndefined();
});

test("a long file is shown by its start, its end and the declarations between, unless the call names lines", async () => {
  const functions = Array.from(
    { length: 400 },
    (_, at) => `export function f${at}() {\n  return "value ${at} of many";\n}\n`,
  );
  const { call } = await world({
    "long.ts": functions.join("\n"),
    "long.md": "# Title\n\nSome words.\n".repeat(1_500),
    "data.ts": functions.join("\n").repeat(50),
  });

  const { llmContent } = await call("read_file", { path: "long.ts" });

  const lines = String(llmContent).split("\n");
  expect(lines[1]).toContain("[1599 lines: the first 80, the last 20, and an outline of the others.");
  expect(lines).toHaveLength(2 + 80 + 150 + 20);
  expect(lines).toContain("    85\texport function f21() {");
  expect(lines).not.toContain('    86\t  return "value 21 of many";');
  expect((await call("read_file", { path: "long.md" })).llmContent).toMatch(/\n {4}82\t# Title\n {4}85\t# Title\n/);
  // Outlining megabytes would block other runs.
  const data = String((await call("read_file", { path: "data.ts" })).llmContent).split("\n");
  expect(data[1]).toMatch(/^\[\d+ lines: the first 80 and the last 20\. Read the part you need/);
  expect(data).toHaveLength(2 + 80 + 20);
  // A line that was not shown has to be read before it is changed.
  const edit = { path: "long.ts", old_text: '"value 21 of many"', new_text: '"other"' };
  await expect(call("edit_file", edit)).rejects.toThrow("read line 86");
  await call("read_file", { path: "long.ts", offset: 85, limit: 3 });
  expect((await call("edit_file", edit)).error).toBeUndefined();
});

test("an unchanged file is not repeated while the first result is in context, unless asked for again", async () => {
  const { call } = await world({ "a.txt": "a\n" });

  await call("read_file", { path: "a.txt" });

  expect((await call("read_file", { path: "./a.txt" })).llmContent).toContain("unchanged since you read it");
  expect((await call("read_file", { path: "a.txt" })).llmContent).toContain("     1\ta");
});

test("invalid earlier calls do not prevent a file from being read", async () => {
  const { call, history } = await world({ "a.txt": "a\n" });
  const result = { llmContent: "odd", value: { kind: "text" as const, content: "odd" } };
  for (const args of [undefined, null, "a.txt", { path: 7 }]) {
    history.push({ callId: "odd", tool: "Read-File", args, step: 1, result });
  }

  expect((await call("read_file", { path: "a.txt" })).llmContent).toContain("     1\ta");
});

test("an unchanged file is repeated if the first result has left the context", async () => {
  const { call } = await world({ "a.txt": "a\n" });
  await call("read_file", { path: "a.txt" });

  const { llmContent } = await call(
    "read_file",
    { path: "a.txt" },
    { messages: [{ role: "user", content: "The conversation so far was summed up." }] },
  );

  expect(llmContent).toContain("     1\ta");
});

test("a changed file is read again", async () => {
  const { call, sandbox } = await world({ "a.txt": "a\n" });
  await call("read_file", { path: "a.txt" });
  await sandbox.write("a.txt", "b\n");

  expect((await call("read_file", { path: "a.txt" })).llmContent).toContain("     1\tb");
});

const lfsPointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${"0".repeat(64)}\nsize 12345\n`;
