import { describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { adaptTool } from "#compat/adapt-tool.ts";
import { ApprovalController, type NamedTool, ToolManager } from "#compat/index.ts";
import { embedded } from "../support/embed-world.ts";
import { aContext, aTool, toolboxWorld } from "../support/toolbox-world.ts";

const silent = aTool({ needsApproval: undefined });

describe("requiresApproval, the other name of needsApproval", () => {
  test.each<[string, boolean | ((args: { path: string }) => boolean), boolean]>([
    ["true asks", true, true],
    ["false does not ask", false, false],
    ["a function that returns true", ({ path }) => path === "a", true],
    ["a function that returns false", ({ path }) => path !== "a", false],
  ])("%s", async (_, requiresApproval, asks) => {
    const approvalCallback = vi.fn(() => ({ approved: false }));
    const approvals = new ApprovalController({ approvalCallback });
    const execute = vi.fn(() => "ran");
    const manager = new ToolManager([{ ...silent, requiresApproval, execute }], { approvals });

    await manager.call("read_file", { path: "a" });

    expect(approvalCallback).toHaveBeenCalledTimes(asks ? 1 : 0);
    expect(execute).toHaveBeenCalledTimes(asks ? 0 : 1);
  });

  test("applies to tools of a WorkerRuntime", async () => {
    const execute = vi.fn(() => "deployed");
    const deploy = { ...silent, name: "deploy", inputSchema: z.object({}), requiresApproval: () => true, execute };
    const call = { calls: [{ name: "deploy", args: {} }] };
    const { runtime } = await embedded([call, "Ok."], { tools: [deploy], approvalMode: "auto_deny" });

    await runtime.run("Deploy");

    expect(execute).not.toHaveBeenCalled();
  });

  test("needsApproval takes precedence where a tool has both", () => {
    expect(adaptTool({ ...silent, needsApproval: false, requiresApproval: true } as NamedTool).needsApproval).toBe(
      false,
    );
  });
});

test("a tool without an approval setting needs approval in a ToolManager and in a WorkerRuntime", async () => {
  const execute = vi.fn(() => "ran");
  const tool = { ...silent, inputSchema: z.object({}), execute };
  const call = { calls: [{ name: "read_file", args: {} }] };
  const { runtime } = await embedded([call, "Ok."], { tools: [tool], approvalMode: "auto_deny" });

  expect((await new ToolManager([tool]).call("read_file", {})).error?.code).toBe("DENIED");
  await runtime.run("Read");

  expect(execute).not.toHaveBeenCalled();
});

test("a plain JSON Schema is accepted as a tool's schema", async () => {
  const inputSchema = {
    type: "object" as const,
    properties: { path: { type: "string" as const } },
    required: ["path"],
  };
  const manager = new ToolManager([
    { ...aTool(), inputSchema, execute: ({ path }: { path: string }) => `content of ${path}` },
  ]);

  expect((await manager.call("read_file", { path: "a" })).llmContent).toBe("content of a");
  expect((await manager.call("read_file", {})).error?.code).toBe("INVALID_ARGUMENTS");
});

test("the last value of an execution that yields is its result", async () => {
  async function* execute() {
    yield "half";
    yield "whole";
  }
  const { toolbox } = await toolboxWorld([adaptTool(aTool({ execute: execute as never }))]);

  const result = await toolbox.execute({ callId: "1", tool: "read_file", args: { path: "a" } }, aContext());

  expect(result.llmContent).toBe("whole");
});

test("an object of a class keeps what its class defines", async () => {
  class Reader {
    name = "read_file";
    description = "Reads a file";
    inputSchema = z.object({ path: z.string() });
    needsApproval = false;
    prefix = "content of";
    execute({ path }: { path: string }) {
      return `${this.prefix} ${path}`;
    }
  }

  const result = await new ToolManager([new Reader()]).call("read_file", { path: "a" });

  expect(result.llmContent).toBe("content of a");
});
