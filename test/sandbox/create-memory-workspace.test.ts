import { describe, expect, test } from "vitest";
import { createMemoryWorkspace, FilesystemToolset, ToolManager } from "#compat/index.ts";

describe("workspace without a repository", () => {
  test("a workspace without a repository reads the given files and tracks changes to them", async () => {
    const workspace = createMemoryWorkspace({ "src/a.ts": "one", "/readme.md": "hello" });

    await workspace.write("src/b.ts", "two");

    expect(await workspace.paths()).toEqual(["readme.md", "src/a.ts", "src/b.ts"]);
    expect(String(await workspace.readBytes("/src/a.ts"))).toBe("one");
    expect(await workspace.changes()).toEqual([{ path: "src/b.ts", status: "added" }]);
    expect(String(await workspace.readBase("readme.md"))).toBe("hello");
  });

  test("a workspace without a repository applies the same path checks and zones as a run's sandbox", async () => {
    const workspace = createMemoryWorkspace({ "docs/a": "x" }, { zones: [{ name: "docs", mode: "ro" }] });

    await expect(workspace.write("docs/a", "y")).rejects.toMatchObject({ code: "READ_ONLY" });
    await expect(workspace.readBytes("../etc/passwd")).rejects.toMatchObject({ code: "INVALID_PATH" });
    expect(() => createMemoryWorkspace({ "../a": "x" })).toThrow(expect.objectContaining({ code: "INVALID_PATH" }));
  });

  test("a workspace without a repository works with the file tools outside a run, with approval by zone", async () => {
    const sandbox = createMemoryWorkspace(
      { "a.txt": "hello" },
      {
        zones: [
          { name: "scratch", mode: "rw", keep: "run" },
          { name: "output", mode: "rw" },
        ],
      },
    );
    const zoneApprovalConfig = {
      scratch: { write: "preApproved", delete: "preApproved" },
      output: { write: "ask", delete: "blocked" },
    } as const;
    const tools = new FilesystemToolset({ sandbox, zoneApprovalConfig }).getTools();
    const manager = new ToolManager(tools, { workspace: sandbox });

    const read = await manager.call("read_file", { path: "a.txt" });
    const scratch = await manager.call("write_file", { path: "/scratch/temp.txt", content: "x" });
    const output = await manager.call("write_file", { path: "/output/report.md", content: "x" });
    const gone = await manager.call("delete_file", { path: "/output/report.md" });

    expect(read.llmContent).toContain("hello");
    expect(scratch.error).toBeUndefined();
    expect(output.error?.code).toBe("DENIED");
    expect(gone.error?.code).toBe("BLOCKED");
  });
});
