import { beforeEach, describe, expect, it, test, vi } from "vitest";
import {
  ActivityEventType,
  ActivityStream,
  ApprovalController,
  BaseTool,
  type FunctionDefinition,
  type ToolEvent,
  ToolManager,
  ToolRegistry,
  type ToolResponse,
  ToolValidator,
} from "#compat/index.ts";
import { embedded } from "../support/embed-world.ts";
import { resultsIn } from "../support/scripted-models.ts";
import { toolboxWorld } from "../support/toolbox-world.ts";

class MyTool extends BaseTool {
  readonly name = "my_tool";
  readonly description = "What my tool does";
  readonly requiresConfirmation: boolean = false;

  override getFunctionDefinition(): FunctionDefinition {
    return {
      type: "function",
      function: {
        name: this.name,
        description: this.description,
        parameters: {
          type: "object",
          properties: { param1: { type: "string", description: "Description of param1" } },
          required: ["param1"],
        },
      },
    };
  }

  protected async executeImpl(args: { param1?: string }): Promise<ToolResponse> {
    this.captureParams(args);
    if (!args.param1) {
      return this.formatErrorResponse("param1 is required", "validation_error", 'Example: my_tool(param1="value")');
    }
    try {
      return this.formatSuccessResponse({ result: await this.performOperation(args.param1) });
    } catch (error) {
      return this.formatErrorResponse(error instanceof Error ? error.message : String(error), "system_error");
    }
  }

  protected async performOperation(_param: string): Promise<string> {
    return "success";
  }

  override getResultPreview(result: ToolResponse, maxLines = 3): string[] {
    if (!result.success) return super.getResultPreview(result, maxLines);
    return [`Result: ${result.result}`];
  }
}

/** A MyTool whose work is given by a test. */
class OtherTool extends MyTool {
  work: (tool: OtherTool, args: { param1: string }) => Promise<ToolResponse> = async (tool) => tool.fail();

  fail(message = "File not found"): ToolResponse {
    return this.formatErrorResponse(message, "user_error", "Check the file path and try again");
  }

  print(chunk: string): void {
    this.emitOutputChunk("call-7", chunk);
  }

  succeed(fields: Record<string, unknown>): ToolResponse {
    return this.formatSuccessResponse(fields);
  }

  protected override async executeImpl(args: { param1: string }): Promise<ToolResponse> {
    this.captureParams(args);
    return this.work(this, args);
  }
}

function listenTo(stream: ActivityStream): ToolEvent[] {
  const received: ToolEvent[] = [];
  stream.subscribe("*", (event) => received.push(event));
  return received;
}

describe("MyTool", () => {
  let activityStream: ActivityStream;
  let tool: MyTool;

  beforeEach(() => {
    activityStream = new ActivityStream();
    tool = new MyTool(activityStream);
  });

  it("should execute with valid parameters", async () => {
    const result = await tool.execute({ param1: "test" });
    expect(result.success).toBe(true);
  });

  it("should require param1", async () => {
    const result = await tool.execute({});
    expect(result.success).toBe(false);
    expect(result.error).toContain("param1 is required");
  });

  it("should show preview", async () => {
    expect(tool.getResultPreview(await tool.execute({ param1: "test" }))).toEqual(["Result: success"]);
    expect(tool.getResultPreview(await tool.execute({}))).toEqual([
      "Error: my_tool(): param1 is required",
      'Suggestion: Example: my_tool(param1="value")',
    ]);
  });
});

describe("tool written as a class", () => {
  test("emits the start, the output and the end of a call", async () => {
    const stream = new ActivityStream();
    const received = listenTo(stream);
    const tool = new OtherTool(stream);
    tool.work = async () => {
      tool.print("Processing...\n");
      return tool.succeed({ count: 42 });
    };

    expect(await tool.execute({ param1: "a" })).toEqual({ success: true, error: "", count: 42 });
    expect(received).toMatchObject([
      { type: ActivityEventType.TOOL_CALL_START, data: { toolName: "my_tool", arguments: { param1: "a" } } },
      { type: ActivityEventType.TOOL_OUTPUT_CHUNK, id: "call-7", data: { chunk: "Processing...\n" } },
      { type: ActivityEventType.TOOL_CALL_END, id: received[0]?.id, data: { success: true } },
    ]);
  });

  test("a tool written as a class names its call in an error, and emits it", async () => {
    const stream = new ActivityStream();
    const received = listenTo(stream);

    expect(await new OtherTool(stream).execute({ param1: "value" })).toEqual({
      success: false,
      error: 'my_tool(param1="value"): File not found',
      error_type: "user_error",
      suggestion: "Check the file path and try again",
    });
    expect(received.map(({ type }) => type)).toEqual(["tool_call_start", "error"]);
    expect(received[1]?.data).toMatchObject({ toolName: "my_tool", error: 'my_tool(param1="value"): File not found' });
  });

  test("a tool written as a class answers with an error if it throws", async () => {
    const tool = new OtherTool(new ActivityStream());
    tool.work = () => Promise.reject(new Error("disk on fire"));
    expect(await tool.execute({ param1: "a" })).toMatchObject({
      success: false,
      error: 'my_tool(param1="a"): disk on fire',
      error_type: "system_error",
    });
  });

  test("a tool written as a class answers with an error if it does not return a response", async () => {
    const tool = new OtherTool(new ActivityStream());
    tool.work = async () => undefined as never;
    const [direct, managed] = [
      await tool.execute({ param1: "a" }),
      await new ToolManager([tool]).executeTool("my_tool", { param1: "a" }),
    ];

    for (const response of [direct, managed]) {
      expect(response.error).toBe('my_tool(param1="a"): It did not return a response with `success` and `error`.');
    }
  });

  test("a tool written as a class keeps the arguments of concurrent calls apart", async () => {
    const tool = new OtherTool(new ActivityStream());
    const open: (() => void)[] = [];
    tool.work = async () => {
      await new Promise<void>((resolve) => open.push(resolve));
      return tool.fail();
    };

    const calls = ["a", "b"].map((param1) => tool.execute({ param1 }));
    await vi.waitFor(() => expect(open).toHaveLength(2), { timeout: 60_000 });
    for (const resolve of open) resolve();

    expect((await Promise.all(calls)).map(({ error }) => error)).toEqual([
      'my_tool(param1="a"): File not found',
      'my_tool(param1="b"): File not found',
    ]);
  });

  test("a tool written as a class has a definition without parameters by default", () => {
    class Plain extends BaseTool {
      readonly name = "plain";
      readonly description = "Plain";
      readonly requiresConfirmation = false;
      protected executeImpl = async () => this.formatSuccessResponse({});
    }
    const tool = new Plain(new ActivityStream());

    expect(tool.suppressExecutionAnimation).toBe(false);
    expect(tool.getFunctionDefinition().function).toEqual({
      name: "plain",
      description: "Plain",
      parameters: { type: "object", properties: {}, required: [] },
    });
  });

  test("a tool written as a class works in a ToolManager, which validates its arguments and emits each call once", async () => {
    const stream = new ActivityStream();
    const received = listenTo(stream);
    const tool = new OtherTool(stream);
    tool.work = async () => {
      tool.print("working");
      return tool.succeed({ result: "done" });
    };
    const manager = new ToolManager([tool], stream);

    expect(manager.getFunctionDefinitions()).toEqual([tool.getFunctionDefinition()]);
    expect(await manager.executeTool("my_tool", { param1: "a" })).toMatchObject({ success: true, result: "done" });
    expect(received.map(({ type }) => type)).toEqual(["tool_call_start", "tool_output_chunk", "tool_call_end"]);
    expect(new Set(received.map(({ id }) => id)).size).toBe(1);
    expect(await manager.executeTool("my_tool", {})).toMatchObject({ success: false, error_type: "validation_error" });
  });

  test("a tool written as a class is named once in the error of a ToolManager, and the fields of a failure reach the model", async () => {
    const tool = new OtherTool(new ActivityStream());
    tool.work = async () => ({ ...tool.fail("exit 1"), output: "2 tests failed" });
    const response = await new ToolManager([tool]).executeTool("my_tool", { param1: "a" });

    expect(response).toMatchObject({ error: 'my_tool(param1="a"): exit 1', error_type: "user_error" });
    expect(response.content).toContain("2 tests failed");
  });

  test("a tool written as a class needs approval for a model's call if it requires confirmation", async () => {
    class Careful extends MyTool {
      override readonly requiresConfirmation = true;
    }
    const decide = vi.fn().mockReturnValueOnce({ approved: false }).mockReturnValueOnce({ approved: true });
    const approvals = new ApprovalController({ approvalCallback: decide });
    const manager = new ToolManager([new Careful(new ActivityStream())], { approvals });

    expect((await manager.call("my_tool", { param1: "a" })).error?.code).toBe("DENIED");
    expect((await manager.call("my_tool", { param1: "b" })).error).toBeUndefined();
  });

  test("a tool written as a class works in a registry and in the toolbox of a run", async () => {
    const tool = new MyTool(new ActivityStream());
    const { execute } = await toolboxWorld([tool.toNamedTool()]);

    expect(new ToolRegistry([tool]).toOpenAIFunctions()).toEqual([tool.getFunctionDefinition().function]);
    expect(await execute("my_tool", { param1: "a" })).toMatchObject({ value: { data: { result: "success" } } });
  });
});

test("a worker's run calls a tool written as a class", async () => {
  const { runtime, models } = await embedded([{ calls: [{ name: "my_tool", args: { param1: "a" } }] }, "Done."], {
    tools: [new MyTool(new ActivityStream()).toNamedTool()],
  });

  expect(await runtime.run("Go")).toMatchObject({ success: true, response: "Done.", toolCallCount: 1 });
  expect(resultsIn(models.requests[1])[0]).toContain("success");
});

describe("ToolValidator", () => {
  const tool = new MyTool(new ActivityStream());
  const validate = (args: Record<string, unknown>) =>
    new ToolValidator().validateArguments(tool, tool.getFunctionDefinition(), args);

  test("ToolValidator accepts valid arguments", async () => {
    expect(await validate({ param1: "a" })).toEqual({ valid: true });
  });

  test.each([{}, { param1: { not: "text" } }])(
    "ToolValidator names the problem of %j, with an example",
    async (args) => {
      expect(await validate(args)).toEqual({
        valid: false,
        error: expect.stringContaining("param1"),
        error_type: "validation_error",
        suggestion: 'Example: my_tool(param1="value")',
      });
    },
  );
});
