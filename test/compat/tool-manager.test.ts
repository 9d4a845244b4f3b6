import { describe, expect, test, vi } from "vitest";
import { z } from "zod";
import {
  ApprovalController,
  createInterruptSignal,
  createMemoryWorkspace,
  FilesystemToolset,
  type ToolEvent,
  ToolEvents,
  ToolManager,
} from "#compat/index.ts";
import { memoryWorkspace } from "../support/memory-workspace.ts";
import { aTool } from "../support/toolbox-world.ts";

describe("program without a run", () => {
  test("a program without a run gets tools and their definitions", () => {
    const tool = aTool({ aliases: ["read"] });
    const manager = new ToolManager([tool]);

    expect(manager.getTool("read")).toBe(tool);
    expect(manager.getTool("nothing")).toBeUndefined();
    expect(manager.getFunctionDefinitions()).toMatchObject([
      { type: "function", function: { name: "read_file", parameters: { required: ["path"] } } },
    ]);
  });

  test("a program without a run executes a call and emits its events", async () => {
    const events = new ToolEvents();
    const received: ToolEvent["type"][] = [];
    events.subscribe("*", ({ type }) => received.push(type));
    const manager = new ToolManager([aTool({ execute: ({ path }) => ({ count: path.length }) })], { events });

    expect(await manager.executeTool("read_file", { path: "abc" })).toMatchObject({
      success: true,
      error: "",
      count: 3,
    });
    expect(received).toEqual(["tool_call_start", "tool_call_end"]);
  });

  test.each<[string, string, Record<string, unknown>, object]>([
    ["an unknown tool", "nothing", {}, { error: "nothing(): Unknown tool: nothing.", error_type: "validation_error" }],
    [
      "a missing parameter",
      "read_file",
      {},
      { error_type: "validation_error", suggestion: 'Example: read_file(path="src/main.ts")' },
    ],
  ])("%s is an error response", async (_, tool, args, expected) => {
    expect(await new ToolManager([aTool()]).executeTool(tool, args)).toMatchObject({ success: false, ...expected });
  });

  test("a repeated read is refused in its turn, noted in the next one, and new after clearing the state", async () => {
    const manager = new ToolManager([aTool({ readOnly: true })]);
    const read = () => manager.executeTool("read_file", { path: "a" });

    expect((await read()).content).toBe("content of a");
    expect((await read()).error).toContain("Redundant tool call");
    manager.clearCurrentTurn();
    expect((await read()).content).toContain("previously made in turn 1 (1 turn ago)");
    manager.clearState();
    expect((await read()).content).toBe("content of a");
  });

  test("a call that needs approval is denied without an approver", async () => {
    const execute = vi.fn();
    const manager = new ToolManager([aTool({ needsApproval: true, execute })]);

    expect((await manager.call("read_file", { path: "a" })).error).toMatchObject({
      code: "DENIED",
      type: "permission_error",
    });
    expect(execute).not.toHaveBeenCalled();
  });

  test("the model receives the reason of a denial", async () => {
    const approvals = new ApprovalController({ approvalCallback: () => ({ approved: false, note: "not on Fridays" }) });
    const manager = new ToolManager([aTool({ needsApproval: true })], { approvals });
    expect((await manager.call("read_file", { path: "a" })).llmContent).toContain("denied: not on Fridays");
  });

  test("changed arguments are validated again, and the model sees them", async () => {
    const execute = vi.fn(({ path }) => `read ${path}`);
    const decide = vi.fn().mockResolvedValueOnce({ approved: true, modifiedArgs: { path: "b" } });
    const approvals = new ApprovalController({ approvalCallback: decide });
    const manager = new ToolManager([aTool({ needsApproval: true, execute })], { approvals });

    const { llmContent } = await manager.call("read_file", { path: "a" });
    expect(llmContent).toMatch(/changed the arguments.*\{"path":"b"\}\n\nread b/s);

    decide.mockResolvedValueOnce({ approved: true, modifiedArgs: { path: 5 } });
    expect((await manager.call("read_file", { path: "a" })).error?.code).toBe("INVALID_ARGUMENTS");
    expect(execute).toHaveBeenCalledOnce();
  });

  test("several approvals may be open at once, and each tool runs once", async () => {
    const execute = vi.fn(({ path }) => path);
    const open: ((approved: boolean) => void)[] = [];
    const approvalCallback = () =>
      new Promise<{ approved: boolean }>((resolve) => open.push((approved) => resolve({ approved })));
    const approvals = new ApprovalController({ approvalCallback });
    const manager = new ToolManager([aTool({ needsApproval: true, execute })], { approvals });

    const calls = ["a", "b", "c"].map((path) => manager.call("read_file", { path }));
    await vi.waitFor(() => expect(open).toHaveLength(3), { timeout: 60_000 });
    for (const decide of open.reverse()) decide(true);

    expect((await Promise.all(calls)).map(({ llmContent }) => llmContent)).toEqual(["a", "b", "c"]);
    expect(execute).toHaveBeenCalledTimes(3);
  });

  test("an interrupt ends the current call and later ones", async () => {
    const interrupt = createInterruptSignal();
    const execute = vi.fn(() => new Promise(() => interrupt.interrupt()));
    const manager = new ToolManager([aTool({ execute })]);

    const first = await manager.call("read_file", { path: "a" }, { abortSignal: interrupt.signal });
    const second = await manager.call("read_file", { path: "b" }, { abortSignal: interrupt.signal });

    expect(first.value).toMatchObject({ data: { type: "interrupted" } });
    expect(second.value).toMatchObject({ data: { type: "interrupted" } });
    expect(execute).toHaveBeenCalledOnce();
  });

  test("a call that is aborted while it waits for approval is interrupted, not denied", async () => {
    const stop = new AbortController();
    const approvals = new ApprovalController({ approvalCallback: () => new Promise(() => stop.abort()) });
    const execute = vi.fn();
    const manager = new ToolManager([aTool({ needsApproval: true, execute })], { approvals });

    const result = await manager.call("read_file", { path: "a" }, { abortSignal: stop.signal });

    expect(result).toMatchObject({ error: { type: "interrupted" }, value: { data: { type: "interrupted" } } });
    expect(execute).not.toHaveBeenCalled();
  });

  test("a read that failed may be retried in its turn", async () => {
    const execute = vi.fn().mockRejectedValueOnce(new Error("busy")).mockReturnValueOnce("content");
    const manager = new ToolManager([aTool({ readOnly: true, execute })]);

    await manager.call("read_file", { path: "a" });

    expect((await manager.call("read_file", { path: "a" })).llmContent).toBe("content");
  });

  test("file tools require a read before an edit", async () => {
    const workspace = createMemoryWorkspace({ "a.txt": "one\n" });
    const history = () => manager.history;
    const tools = new FilesystemToolset({ sandbox: workspace, history }).getTools();
    const approvals = new ApprovalController({ mode: "approve_all" });
    const manager: ToolManager = new ToolManager(tools, { workspace, approvals });
    const edit = { path: "a.txt", old_text: "one", new_text: "two" };

    expect((await manager.call("edit_file", edit)).error?.code).toBe("STALE");
    await manager.call("read_file", { path: "a.txt" });
    expect((await manager.call("edit_file", edit)).error).toBeUndefined();
  });

  test("a person may call manual tools, which the model may not", async () => {
    const manager = new ToolManager([aTool({ manualExecution: { mode: "manual" } })]);
    expect((await manager.call("read_file", { path: "a" })).error?.code).toBe("MANUAL_TOOL");
    expect((await manager.call("read_file", { path: "a" }, { invokedBy: "person" })).llmContent).toBe("content of a");
  });

  test("tools use the given sandbox, and fail with the reason if there is none", async () => {
    const tool = aTool({
      inputSchema: z.object({}),
      execute: async (_, { sandbox }) => String(await sandbox.readBytes("a.txt")),
    });
    const workspace = memoryWorkspace({ "a.txt": "hello" });

    expect((await new ToolManager([tool], { workspace }).call("read_file", {})).error).toBeUndefined();
    expect((await new ToolManager([tool]).call("read_file", {})).error).toMatchObject({
      code: "UNAVAILABLE",
      message: "No sandbox is available.",
    });
  });
});
