import { expect, test } from "vitest";
import { filesystemToolset } from "#toolsets/filesystem/filesystem-toolset.ts";
import { toolsetWorld } from "../../support/toolset-world.ts";

const world = () => toolsetWorld(filesystemToolset, { files: { "a.txt": "a\n", "b.txt": "b\n" } });

test("the last step is undone as a whole, then the one before it", async () => {
  const { call, sandbox } = await world();
  await call("write_file", { path: "a.txt", content: "A\n" });
  await call("move_file", { from: "b.txt", to: "c.txt" });

  const { llmContent, value } = await call("undo", {});

  expect(await sandbox.paths()).toEqual(["a.txt", "b.txt"]);
  expect(llmContent).toContain("Undid the last change of b.txt, c.txt");
  expect(value).toMatchObject({ kind: "filesystem.undo", data: { undone: { paths: ["b.txt", "c.txt"] } } });
  await call("undo", {});
  expect(sandbox.text("a.txt")).toBe("a\n");
  await expect(call("undo", {})).rejects.toThrow("made no change that can be undone");
});

test("the last change of one file is undone, even after other changes", async () => {
  const { call, sandbox, preview } = await world();
  await call("write_file", { path: "a.txt", content: "A\n" });
  await call("write_file", { path: "b.txt", content: "B\n" });

  expect(await preview("undo", { path: "a.txt" })).toContain("-A\n+a");
  await call("undo", { path: "a.txt" });

  expect([sandbox.text("a.txt"), sandbox.text("b.txt")]).toEqual(["a\n", "B\n"]);
});

test("undoing a creation deletes the file, and undoing a deletion restores it", async () => {
  const { call, sandbox } = await world();
  await call("write_file", { path: "new.txt", content: "n" });
  await call("delete_file", { path: "a.txt" });

  await call("undo", {});
  await call("undo", {});

  expect(await sandbox.paths()).toEqual(["a.txt", "b.txt"]);
});

test("a file that someone else changed since then is not restored", async () => {
  const { call, sandbox } = await world();
  await call("write_file", { path: "a.txt", content: "A\n" });
  await sandbox.write("a.txt", "someone else\n");

  await expect(call("undo", { path: "a.txt" })).rejects.toMatchObject({ code: "STALE" });
  expect(sandbox.text("a.txt")).toBe("someone else\n");
});

test("a file that the run never changed is refused", async () => {
  const { call } = await world();

  await expect(call("undo", { path: "b.txt" })).rejects.toThrow("This run has not changed b.txt.");
});

test("changes that came with the sandbox are not undone", async () => {
  const { call, sandbox } = await world();
  await sandbox.write("a.txt", "by the parent\n");
  sandbox.markStored();

  await expect(call("undo", {})).rejects.toMatchObject({ code: "NO_MATCH" });
  expect(sandbox.text("a.txt")).toBe("by the parent\n");
});

test("undoing one side of a move undoes the other, so that the only copy is never deleted", async () => {
  const { call, sandbox, preview } = await world();
  await call("move_file", { from: "b.txt", to: "c.txt" });

  expect(await preview("undo", { path: "c.txt" })).toContain("b.txt\nadded");
  await call("undo", { path: "c.txt" });

  expect(await sandbox.paths()).toEqual(["a.txt", "b.txt"]);
  expect(sandbox.text("b.txt")).toBe("b\n");
});

test("undoing one side of a move with changes restores the original", async () => {
  const { call, sandbox } = await world();
  await call("read_file", { path: "b.txt" });
  const patch = "*** Begin Patch\n*** Update File: b.txt\n*** Move to: c.txt\n@@\n-b\n+B\n*** End Patch";
  await call("apply_patch", { patch });

  await call("undo", { path: "c.txt" });

  expect(await sandbox.paths()).toEqual(["a.txt", "b.txt"]);
  expect(sandbox.text("b.txt")).toBe("b\n");
});

test("undoing one of several moved files leaves the others where they are", async () => {
  const files = { "old/a.txt": "a\n", "old/b.txt": "b\n" };
  const { call, sandbox } = await toolsetWorld(filesystemToolset, { files });
  await call("move_file", { from: "old", to: "new" });

  await call("undo", { path: "new/a.txt" });

  expect(await sandbox.paths()).toEqual(["new/b.txt", "old/a.txt"]);
});
