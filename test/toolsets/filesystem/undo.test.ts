import { expect, test } from "vitest";
import { filesystemToolset } from "#toolsets/filesystem/filesystem-toolset.ts";
import { toolsetWorld } from "../../support/toolset-world.ts";

const world = () => toolsetWorld(filesystemToolset, { files: { "a.txt": "a\n", "b.txt": "b\n" } });

test("the last step is taken back as a whole, then the one before it", async () => {
  const { call, sandbox } = await world();
  await call("write_file", { path: "a.txt", content: "A\n" });
  await call("move_file", { from: "b.txt", to: "c.txt" });

  const { llmContent, value } = await call("undo", {});

  expect(await sandbox.paths()).toEqual(["a.txt", "b.txt"]);
  expect(llmContent).toContain("Took back the last change of b.txt, c.txt");
  expect(value).toMatchObject({ kind: "filesystem.undo", data: { undone: { paths: ["b.txt", "c.txt"] } } });
  await call("undo", {});
  expect(sandbox.text("a.txt")).toBe("a\n");
  await expect(call("undo", {})).rejects.toThrow("changed nothing that could be undone");
});

test("the last change of one file is taken back, whatever came after", async () => {
  const { call, sandbox, preview } = await world();
  await call("write_file", { path: "a.txt", content: "A\n" });
  await call("write_file", { path: "b.txt", content: "B\n" });

  expect(await preview("undo", { path: "a.txt" })).toContain("-A\n+a");
  await call("undo", { path: "a.txt" });

  expect([sandbox.text("a.txt"), sandbox.text("b.txt")]).toEqual(["a\n", "B\n"]);
});

test("undo of a created file deletes it, and of a deleted file brings it back", async () => {
  const { call, sandbox } = await world();
  await call("write_file", { path: "new.txt", content: "n" });
  await call("delete_file", { path: "a.txt" });

  await call("undo", {});
  await call("undo", {});

  expect(await sandbox.paths()).toEqual(["a.txt", "b.txt"]);
});

test("what changed since from elsewhere is refused and left alone", async () => {
  const { call, sandbox } = await world();
  await call("write_file", { path: "a.txt", content: "A\n" });
  await sandbox.write("a.txt", "someone else\n");

  await expect(call("undo", { path: "a.txt" })).rejects.toMatchObject({ code: "STALE" });
  expect(sandbox.text("a.txt")).toBe("someone else\n");
});

test("a file the run never changed is refused", async () => {
  const { call } = await world();

  await expect(call("undo", { path: "b.txt" })).rejects.toThrow("This run has not changed b.txt.");
});

test("steps that came with the sandbox are not this run's to take back", async () => {
  const { call, sandbox } = await world();
  await sandbox.write("a.txt", "by the parent\n");
  sandbox.markStored();

  await expect(call("undo", {})).rejects.toMatchObject({ code: "NO_MATCH" });
  expect(sandbox.text("a.txt")).toBe("by the parent\n");
});
