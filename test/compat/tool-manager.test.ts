import { describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { ApprovalController, createInterruptSignal, type ToolEvent, ToolEvents, ToolManager } from "#compat/index.ts";
import { memoryWorkspace } from "../support/memory-workspace.ts";
import { aTool } from "../support/toolbox-world.ts";

describe("a program of its own", () => {
  test("gets tools and their definitions", () => {
    const tool = aTool({ aliases: ["read"] });
    const manager = new ToolManager([tool]);

    expect(manager.getTool("read")).toBe(tool);
    expect(manager.getTool("nothing")).toBeUndefined();
    expect(manager.getFunctionDefinitions()).toMatchObject([
      { type: "function", function: { name: "read_file", parameters: { required: ["path"] } } },
    ]);
  });

  test("executes, and hears of it", async () => {
    const events = new ToolEvents();
    const heard: ToolEvent["type"][] = [];
    events.subscribe("*", ({ type }) => heard.push(type));
    const manager = new ToolManager([aTool({ execute: ({ path }) => ({ count: path.length }) })], { events });

    expect(await manager.executeTool("read_file", { path: "abc" })).toMatchObject({
      success: true,
      error: "",
      count: 3,
    });
    expect(heard).toEqual(["tool_call_start", "tool_call_end"]);
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

  test("a read repeated in one turn is refused, in the next it warns, and after clearing the state it is new", async () => {
    const manager = new ToolManager([aTool({ readOnly: true })]);
    const read = () => manager.executeTool("read_file", { path: "a" });

    expect((await read()).content).toBe("content of a");
    expect((await read()).error).toContain("Redundant tool call");
    manager.clearCurrentTurn();
    expect((await read()).content).toContain("previously made in turn 1 (1 turn ago)");
    manager.clearState();
    expect((await read()).content).toBe("content of a");
  });

  test("without somebody to approve, what needs approval is denied", async () => {
    const execute = vi.fn();
    const manager = new ToolManager([aTool({ needsApproval: true, execute })]);

    expect((await manager.call("read_file", { path: "a" })).error).toMatchObject({
      code: "DENIED",
      type: "permission_error",
    });
    expect(execute).not.toHaveBeenCalled();
  });

  test("a denial tells the model that it was denied, and why", async () => {
    const approvals = new ApprovalController({ approvalCallback: () => ({ approved: false, note: "not on Fridays" }) });
    const manager = new ToolManager([aTool({ needsApproval: true })], { approvals });
    expect((await manager.call("read_file", { path: "a" })).llmContent).toContain("denied: not on Fridays");
  });

  test("changed arguments are validated again, and the model is told what ran", async () => {
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

  test("many approvals may be open at once, and each tool runs once", async () => {
    const execute = vi.fn(({ path }) => path);
    const open: ((approved: boolean) => void)[] = [];
    const approvalCallback = () =>
      new Promise<{ approved: boolean }>((resolve) => open.push((approved) => resolve({ approved })));
    const approvals = new ApprovalController({ approvalCallback });
    const manager = new ToolManager([aTool({ needsApproval: true, execute })], { approvals });

    const calls = ["a", "b", "c"].map((path) => manager.call("read_file", { path }));
    await vi.waitFor(() => expect(open).toHaveLength(3));
    for (const decide of open.reverse()) decide(true);

    expect((await Promise.all(calls)).map(({ llmContent }) => llmContent)).toEqual(["a", "b", "c"]);
    expect(execute).toHaveBeenCalledTimes(3);
  });

  test("an interrupt ends the call under way and those still to come", async () => {
    const interrupt = createInterruptSignal();
    const execute = vi.fn(() => new Promise(() => interrupt.interrupt()));
    const manager = new ToolManager([aTool({ execute })]);

    const first = await manager.call("read_file", { path: "a" }, { abortSignal: interrupt.signal });
    const second = await manager.call("read_file", { path: "b" }, { abortSignal: interrupt.signal });

    expect(first.value).toMatchObject({ data: { type: "interrupted" } });
    expect(second.value).toMatchObject({ data: { type: "interrupted" } });
    expect(execute).toHaveBeenCalledOnce();
  });

  test("a person may call manual tools, which the model may not", async () => {
    const manager = new ToolManager([aTool({ manualExecution: { mode: "manual" } })]);
    expect((await manager.call("read_file", { path: "a" })).error?.code).toBe("MANUAL_TOOL");
    expect((await manager.call("read_file", { path: "a" }, { invokedBy: "person" })).llmContent).toBe("content of a");
  });

  test("tools see the sandbox they are given, and are told when there is none", async () => {
    const tool = aTool({
      inputSchema: z.object({}),
      execute: async (_, { sandbox }) => String(await sandbox.read("a.txt")),
    });
    const workspace = memoryWorkspace({ "a.txt": "hello" });

    expect((await new ToolManager([tool], { workspace }).call("read_file", {})).error).toBeUndefined();
    expect((await new ToolManager([tool]).call("read_file", {})).error).toMatchObject({
      code: "UNAVAILABLE",
      message: "There is no sandbox here.",
    });
  });
});
