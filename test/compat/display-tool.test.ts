import { describe, expect, test } from "vitest";
import {
  ApprovalController,
  DisplayErrorType,
  type DisplayResult,
  Tool,
  type ToolContext,
  ToolManager,
  ToolRegistry,
} from "#compat/index.ts";
import { toolboxWorld } from "../support/toolbox-world.ts";

interface YourToolParams {
  param1: string;
  param2?: number;
}

class YourTool extends Tool<YourToolParams> {
  name = "your_tool";
  displayName = "Your Tool";
  description = "What your tool does";

  getInputSchema() {
    return {
      type: "object",
      properties: {
        param1: { type: "string", description: "Parameter description" },
        param2: { type: "number", description: "Optional parameter" },
      },
      required: ["param1"],
    };
  }

  protected async run(_params: YourToolParams, _context?: ToolContext): Promise<DisplayResult> {
    return { llmContent: "Summary for Claude", returnDisplay: "Display for user" };
  }

  override formatParams(params: Record<string, unknown>): string {
    return params.param1 as string;
  }

  override summarizeResult(result: DisplayResult): string {
    if (result.error) return `Error: ${result.error.message}`;
    return "Completed successfully";
  }
}

class OtherTool extends Tool<YourToolParams> {
  name = "other_tool";
  displayName = "Other Tool";
  description = "Does what a test wants";
  work: () => DisplayResult;

  constructor(work: () => DisplayResult) {
    super();
    this.work = work;
  }

  getInputSchema() {
    return new YourTool().getInputSchema();
  }

  protected async run(): Promise<DisplayResult> {
    return this.work();
  }
}

const missing = (): DisplayResult => ({
  llmContent: "Error: File not found: a.ts",
  returnDisplay: "File not found: a.ts",
  error: { message: "File does not exist: a.ts", type: DisplayErrorType.FILE_NOT_FOUND },
});

describe("tool with a display", () => {
  test("a tool with a display returns a text for the model and a display for people", async () => {
    const tool = new YourTool();
    const result = await tool.execute({ param1: "a" });

    expect(result).toEqual({ llmContent: "Summary for Claude", returnDisplay: "Display for user" });
    expect(tool.summarizeResult(result)).toBe("Completed successfully");
    expect(tool.formatParams({ param1: "a" })).toBe("a");
  });

  test("a tool with a display is not run with invalid parameters", async () => {
    const { error, llmContent } = await new YourTool().execute({ param2: 1 });
    expect(error).toMatchObject({
      type: DisplayErrorType.INVALID_ARGUMENTS,
      message: expect.stringContaining("param1"),
    });
    expect(llmContent).toContain('your_tool(param1="value")');
  });

  test("a tool with a display returns a thrown error as a result", async () => {
    const tool = new OtherTool(() => {
      throw new Error("disk on fire");
    });
    const result = await tool.execute({ param1: "a" });

    expect(result).toMatchObject({
      returnDisplay: "disk on fire",
      error: { message: "disk on fire", type: DisplayErrorType.EXECUTION_FAILED },
    });
    expect(tool.summarizeResult(result)).toBe("Error: disk on fire");
  });

  test("a tool with a display formats its parameters and its result in a line by default", async () => {
    const tool = new OtherTool(() => ({ llmContent: "Updated 2 items\nand more", returnDisplay: "" }));
    expect(tool.formatParams({ param1: "a", param2: 2 })).toBe("a, 2");
    expect(tool.summarizeResult(await tool.execute({ param1: "a" }))).toBe("Updated 2 items");
  });

  test("a tool with a display is registered as an instance, and its summary is that of the value", async () => {
    const tool = new YourTool();
    expect(new ToolRegistry([tool]).toOpenAIFunctions()).toEqual([
      { name: "your_tool", description: "What your tool does", parameters: tool.getInputSchema() },
    ]);
    expect(
      await new ToolManager([tool], { approvals: new ApprovalController({ mode: "approve_all" }) }).call("your_tool", {
        param1: "a",
      }),
    ).toMatchObject({
      llmContent: "Summary for Claude",
      value: { kind: "text", content: "Display for user", summary: "Completed successfully" },
    });
  });

  test("a tool with a display keeps its display and its error in the toolbox of a run", async () => {
    const display = { type: "ansi" as const, content: "\u001b[32mok\u001b[0m" };
    const shows = new OtherTool(() => ({ llmContent: "exit code 0", returnDisplay: display }));
    const fails = new OtherTool(missing);
    const args = { param1: "a" };

    const shown = await (await toolboxWorld([shows.toNamedTool()])).execute("other_tool", args);
    const failed = await (await toolboxWorld([fails.toNamedTool()])).execute("other_tool", args);
    expect(shown).toMatchObject({ value: { kind: "terminal", content: display.content } });
    expect(failed.error).toMatchObject({ code: "FILE_NOT_FOUND", message: "File does not exist: a.ts" });
  });

  test("a tool with a display is named by its display name in an approval request", async () => {
    const tool = { ...new YourTool().toNamedTool(), needsApproval: true };
    const { review } = await toolboxWorld([tool]);
    expect(await review("your_tool", { param1: "a" })).toMatchObject({
      kind: "ask",
      reason: "The worker wants to use Your Tool(a).",
    });
  });
});
