import {
  ActivityEventType,
  ActivityStream,
  ApprovalController,
  type ApprovalRequest,
  type ApprovalResponse,
  BaseTool,
  BashTool,
  type CustomResultValue,
  calculateStats,
  classifyCommand,
  createMemoryWorkspace,
  type DiffResultValue,
  type DiffStat,
  type DisplayHints,
  type FileContentResultValue,
  type FileDiff,
  type FileListResultValue,
  FilesystemToolset,
  type FunctionDefinition,
  isCommand,
  isValidKind,
  isWellKnownKind,
  type JsonResultValue,
  parseCommand,
  ReadTool,
  type Result,
  ShellToolset,
  TaskWriteTool,
  type TextResultValue,
  Tool,
  type ToolContext,
  ToolError,
  ToolErrorType,
  ToolExecutor,
  ToolManager,
  ToolRegistry,
  type ToolResult,
  ToolValidator,
  toOkResult,
  toToolResult,
  WorkerCallToolset,
  WorkerRuntime,
} from "golem-forge/compat";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { scriptedModels } from "../support/scripted-models.ts";

/** The examples of the five documents, as written there but for their imports and for what they leave out. */

class MyTool extends BaseTool {
  readonly name = "my_tool";
  readonly description = "What my tool does";
  readonly requiresConfirmation = false; // true for destructive ops

  constructor(activityStream: ActivityStream) {
    super(activityStream);
  }

  // Optional: Provide custom function definition
  override getFunctionDefinition(): FunctionDefinition {
    return {
      type: "function",
      function: {
        name: this.name,
        description: this.description,
        parameters: {
          type: "object",
          properties: {
            param1: {
              type: "string",
              description: "Description of param1",
            },
          },
          required: ["param1"],
        },
      },
    };
  }

  // biome-ignore lint/suspicious/noExplicitAny: as in the document
  protected async executeImpl(args: any): Promise<ToolResult> {
    // 1. Capture parameters for error context
    this.captureParams(args);

    // 2. Validate parameters
    if (!args.param1) {
      return this.formatErrorResponse("param1 is required", "validation_error", 'Example: my_tool(param1="value")');
    }

    // 3. Execute tool logic
    try {
      const result = await this.performOperation(args.param1);

      // 4. Return success response
      return this.formatSuccessResponse({
        result: result,
      });
    } catch (error) {
      // 5. Return error response
      return this.formatErrorResponse(error instanceof Error ? error.message : String(error), "system_error");
    }
  }

  private async performOperation(_param: string): Promise<string> {
    // Tool-specific logic here
    return "success";
  }

  // Optional: Custom result preview
  override getResultPreview(result: ToolResult, maxLines: number = 3): string[] {
    if (!result.success) {
      return super.getResultPreview(result, maxLines);
    }

    return [`Result: ${result.result}`];
  }
}

describe("document 3: tools of one program", () => {
  const activityStream = new ActivityStream();
  const workspace = createMemoryWorkspace({ "src/main.ts": "let a = 1;\nlet b = 2;\n", "package.json": "{}\n" });
  const tools = [
    new BashTool(activityStream, { workspace }),
    new ReadTool(activityStream, { workspace }),
    new MyTool(activityStream), // Add your tool
  ];
  const toolManager = new ToolManager(tools, activityStream);

  test("bash returns output, error and return_code, and streams its output", async () => {
    const chunks: string[] = [];
    const unsubscribe = activityStream.subscribe(ActivityEventType.TOOL_OUTPUT_CHUNK, (event) => {
      chunks.push(event.data.chunk);
    });

    const result = await toolManager.executeTool("bash", {
      command: "echo hello && ls src",
      description: "Say hello",
      timeout: 30,
    });
    unsubscribe();

    expect(result).toMatchObject({ success: true, output: "hello\nmain.ts\n", error: "", return_code: 0 });
    expect(chunks.join("")).toContain("hello");
  });

  test("bash reports a command that fails with its output", async () => {
    expect(await toolManager.executeTool("bash", { command: "echo out; echo oops >&2; exit 3" })).toMatchObject({
      success: false,
      error: expect.stringContaining("oops"),
      output: "out\n",
      return_code: 3,
    });
  });

  test("bash fails with the changes that were not applied, because their files need approval", async () => {
    const stream = new ActivityStream();
    const manager = new ToolManager([new BashTool(stream), new ReadTool(stream)], stream);

    const result = await manager.executeTool("bash", { command: "echo {} > package.json; echo kept > a.txt" });

    expect(result).toMatchObject({ success: false, error_type: "permission_error", return_code: 0 });
    expect(result.error).toContain("Not applied: package.json, because it needs approval");
    expect(await manager.executeTool("read", { file_paths: ["a.txt"] })).toMatchObject({ files_read: 1 });
  });

  test("bash finds an empty folder that its last command made", async () => {
    const manager = new ToolManager([new BashTool(new ActivityStream())], { workspace: createMemoryWorkspace() });

    await manager.executeTool("bash", { command: "mkdir new" });

    expect(await manager.executeTool("bash", { command: "cd new" })).toMatchObject({ success: true });
  });

  test.each([0, -1])("bash refuses a timeout of %d seconds", async (timeout) => {
    const result = await toolManager.executeTool("bash", { command: "echo late", timeout });

    expect(result).toMatchObject({ success: false, error_type: "validation_error" });
  });

  test("read returns numbered lines of several files, and how many were read", async () => {
    const result = await toolManager.executeTool("read", {
      file_paths: ["src/main.ts", "package.json", "missing.ts"],
      limit: 50, // First 50 lines of each file
    });

    expect(result).toMatchObject({ success: true, files_read: 2 });
    expect(result.content).toMatch(/^=== src\/main\.ts ===\n {5}1\tlet a = 1;\n {5}2\tlet b = 2;\n\n=== package\.json/);
  });

  test("tools of one activity stream share their files where they are given none", async () => {
    const stream = new ActivityStream();
    const manager = new ToolManager([new BashTool(stream), new ReadTool(stream)], stream);

    const written = await manager.executeTool("bash", { command: "echo shared > a.txt" });

    expect(written).toMatchObject({ success: true });
    expect(await manager.executeTool("read", { file_paths: ["a.txt"] })).toMatchObject({ files_read: 1 });
  });

  test("getTool returns the tool that was registered, with its own preview", async () => {
    const tool = toolManager.getTool("my_tool");
    const result = await toolManager.executeTool("my_tool", { param1: "test" });

    expect(tool).toBe(tools[2]);
    expect(tool?.getResultPreview(result)).toEqual(["Result: success"]);
  });

  test("arguments that are null are refused like missing ones", async () => {
    const args: Record<string, unknown> = JSON.parse("null");

    expect(await toolManager.executeTool("my_tool", args)).toMatchObject({
      success: false,
      error_type: "validation_error",
    });
  });

  test("a tool validates its own parameters, and ToolValidator those of its definition", async () => {
    const tool = new MyTool(activityStream);

    const result = await tool.execute({});
    expect(result.success).toBe(false);
    expect(result.error).toContain("param1 is required");

    const validation = new ToolValidator().validateArguments(tool, tool.getFunctionDefinition(), {});
    expect(validation).toMatchObject({
      valid: false,
      error: "Missing required parameter 'param1' for my_tool.",
      suggestion: 'Example: my_tool(param1="value")',
    });
    expect(new ToolValidator().validateArguments(tool, tool.getFunctionDefinition(), { param1: "x" }).valid).toBe(true);
  });

  test("class tools run in a WorkerRuntime", async () => {
    const call = { calls: [{ name: "my_tool", args: { param1: "test" } }] };
    const runtime = new WorkerRuntime({
      worker: { name: "helper", instructions: "You help." },
      models: scriptedModels([call, "Done."]),
      tools: [new MyTool(activityStream)],
    });
    await runtime.initialize();

    expect(await runtime.run("Use it")).toMatchObject({ success: true, response: "Done.", toolCallCount: 1 });
    await runtime.dispose();
  });
});

describe("document 4: tools as objects", () => {
  const files = new Map([["a.txt", "hello"]]);
  const inputSchema = z
    .object({
      path: z.string().describe("Path relative to workspace root"),
      encoding: z.enum(["utf-8", "base64"]).optional(),
    })
    .describe("read_file input");
  const readFileTool: Tool = {
    name: "read_file",
    description: "Read the contents of a file in the workspace",
    inputSchema,
    outputSchema: z.object({
      content: z.string(),
      size: z.number(),
      modified: z.string(),
    }),
    requiresApproval: false,
    async execute(args): Promise<Result<unknown>> {
      const { path } = inputSchema.parse(args);
      const content = files.get(path);
      if (content === undefined)
        return { ok: false, error: { code: "FILE_NOT_FOUND", message: `There is no ${path}` } };
      return { ok: true, value: { content, size: content.length, modified: "2026-01-01T00:00:00Z" } };
    },
  };
  const writeFileTool: Tool = {
    ...readFileTool,
    name: "write_file",
    requiresApproval: (args) => {
      const { path } = args as { path: string };
      const exists = files.has(path);
      return exists; // Require approval only if overwriting
    },
  };

  test("register, get, list and become OpenAI functions", async () => {
    const registry = new ToolRegistry();
    registry.register(readFileTool);
    registry.register(writeFileTool);

    expect(registry.get("read_file")).toBe(readFileTool);
    expect(registry.list().map((tool) => tool.name)).toEqual(["read_file", "write_file"]);
    expect(registry.toOpenAIFunctions()[0]).toMatchObject({ parameters: { type: "object", required: ["path"] } });
    expect(await registry.get("read_file")?.execute({ path: "a.txt" })).toMatchObject({ ok: true });
  });

  test("follow requiresApproval and run with the approved arguments", async () => {
    const asked: ApprovalRequest[] = [];
    const approvals = new ApprovalController({
      approvalCallback: (request): ApprovalResponse => {
        asked.push(request);
        return { approved: true, modifiedArgs: { path: "b.txt" } };
      },
    });
    const manager = new ToolManager([readFileTool, writeFileTool], { approvals });

    await manager.call("read_file", { path: "a.txt" });
    await manager.call("write_file", { path: "new.txt" });
    expect(asked).toHaveLength(0);
    const { error } = await manager.call("write_file", { path: "a.txt" });

    expect(asked).toEqual([
      expect.objectContaining({
        stepId: expect.any(String),
        tool: "write_file",
        toolName: "write_file",
        args: { path: "a.txt" },
        reason: expect.stringContaining("write_file"),
      }),
    ]);
    expect(error).toMatchObject({ code: "FILE_NOT_FOUND", message: "There is no b.txt" });
  });

  test("results of the file tools have the members in the document", async () => {
    const sandbox = createMemoryWorkspace({ "src/a.ts": "a\n" });
    const asked: unknown[] = [];
    const approvals = new ApprovalController({
      approvalCallback: ({ args }) => {
        asked.push(args);
        return { approved: true };
      },
    });
    const manager = new ToolManager(new FilesystemToolset({ sandbox }).getTools(), { workspace: sandbox, approvals });
    const resultOf = async (tool: string, args: object) => {
      const result = toOkResult(await manager.call(tool, args));
      return result.ok ? result.value : result.error;
    };

    expect(await resultOf("read_file", { path: "src/a.ts" })).toMatchObject({
      content: "a\n",
      size: 2,
      modified: expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    });
    expect(await resultOf("list_directory", { path: "src" })).toMatchObject({
      entries: [{ name: "a.ts", type: "file", size: 2, modified: expect.any(String) }],
    });
    expect(await resultOf("write_file", { path: "b.ts", content: "b" })).toMatchObject({ path: "b.ts", size: 1 });
    expect(await resultOf("write_file", { path: "a.bin", content: "AP8B", encoding: "base64" })).toEqual({
      path: "a.bin",
      size: 3,
    });
    expect(await resultOf("move_file", { from: "b.ts", to: "c.ts" })).toEqual({ from: "b.ts", to: "c.ts" });
    expect(await resultOf("delete_file", { path: "src" })).toMatchObject({ code: "NOT_A_FILE" });
    expect(await resultOf("move_file", { from: "c.ts", to: "src/a.ts" })).toMatchObject({ code: "FILE_EXISTS" });
    expect(asked).toEqual([]);
    expect(await resultOf("delete_file", { path: "c.ts" })).toEqual({ deleted: ["c.ts"] });
    expect(await resultOf("read_file", { path: "../x" })).toMatchObject({ code: "INVALID_PATH" });
  });

  test("a ToolError can be a plain object", () => {
    const error: ToolError = { code: "TIMEOUT", message: "Operation exceeded time limit" };
    const results: ToolResult<string>[] = [
      { ok: true, value: "done" },
      { ok: false, error },
    ];

    expect(results.map((result): string => (result.ok ? result.value : result.error.code))).toEqual([
      "done",
      "TIMEOUT",
    ]);
    expect(new ToolError("x", { code: "TIMEOUT" })).toBeInstanceOf(Error);
  });
});

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

  protected async run(params: YourToolParams, _context?: ToolContext): Promise<ToolResult> {
    // Your tool logic here
    if (params.param1 === "missing") {
      const error = new Error("ENOENT");
      return {
        llmContent: `Error: File not found: ${params.param1}`,
        returnDisplay: `File not found: ${params.param1}`,
        error: {
          message: `File does not exist: ${params.param1}`,
          type: ToolErrorType.FILE_NOT_FOUND,
          details: error,
        },
      };
    }

    return {
      llmContent: "Summary for Claude",
      returnDisplay: "Display for user",
    };
  }

  override formatParams(params: Record<string, unknown>): string {
    return params.param1 as string;
  }

  override summarizeResult(result: ToolResult): string {
    if (result.error) {
      return `Error: ${result.error.message}`;
    }
    return "Completed successfully";
  }
}

describe("document 5: results for the model and for people", () => {
  const executor = new ToolExecutor([new YourTool()]);

  test("a tool answers with a text and a display, and an error means that it failed", async () => {
    expect(await executor.execute("your_tool", { param1: "x" })).toEqual({
      llmContent: "Summary for Claude",
      returnDisplay: "Display for user",
    });
    expect(await executor.execute("your_tool", { param1: "missing" })).toMatchObject({
      error: { message: "File does not exist: missing", type: "FILE_NOT_FOUND" },
    });
    expect(await executor.execute("your_tool", {})).toMatchObject({ error: { type: "INVALID_ARGUMENTS" } });
    expect(await executor.execute("nothing", {})).toMatchObject({ error: { type: "UNKNOWN_TOOL" } });
  });

  test("a display of another type is data that user interfaces show as a tree", () => {
    const display = { type: "custom", data: { rows: 2 } };

    expect(toToolResult({ llmContent: "2 rows", returnDisplay: display }).value).toEqual({
      kind: "json",
      data: display,
      display: { preferredView: "tree" },
    });
  });

  test("TaskWriteTool shows the tasks with their statistics", async () => {
    const tasks = [{ content: "Task 1", activeForm: "Doing task 1", status: "in_progress" as const }];
    const tool = new TaskWriteTool();

    expect(await tool.execute({ tasks })).toEqual({
      llmContent: "Updated task list with 1 items",
      returnDisplay: { type: "task-list", tasks, stats: calculateStats(tasks) },
    });
    expect(tool.formatParams({ tasks })).toBe("1 task");
    expect(await tool.execute({ tasks: "none" })).toMatchObject({ error: { type: "INVALID_ARGUMENTS" } });
  });

  test("displays and their statistics have the types in the document", () => {
    const diffStat: DiffStat = { additions: 5, deletions: 2, changes: 7 };
    const display: FileDiff = {
      fileDiff: "",
      fileName: "path/to/file.ts",
      originalContent: null,
      newContent: "",
      diffStat,
    };
    const tasks = [{ content: "Task 1", activeForm: "Doing task 1", status: "in_progress" as const }];

    expect(display.diffStat?.changes).toBe(7);
    expect(calculateStats(tasks)).toEqual({ total: 1, pending: 0, inProgress: 1, completed: 0, cancelled: 0 });
  });
});

describe("documents 1 and 2: toolsets, commands and result values", () => {
  test("toolsets are classes that give their tools", async () => {
    const sandbox = createMemoryWorkspace({ "a.txt": "a\n" });
    const filesystem = new FilesystemToolset({
      sandbox,
      zoneApprovalConfig: {
        scratch: { write: "preApproved", delete: "preApproved" },
        output: { write: "ask", delete: "blocked" },
      },
    });
    const shell = new ShellToolset({ sandbox, rules: [{ pattern: "cat", approval: "preApproved" }] });
    const workers = new WorkerCallToolset({ allowed: ["tester"] });
    const manager = new ToolManager([...filesystem.getTools(), ...shell.getTools(), ...workers.getTools()]);

    expect(manager.getTool("read_file")?.name).toBe("read_file");
    expect(manager.getTool("tester")?.name).toBe("tester");
    expect(await manager.executeTool("shell", { command: "cat a.txt" })).toMatchObject({ stdout: "a\n", exitCode: 0 });
    expect(await manager.executeTool("shell", { command: "rm a.txt" })).toMatchObject({ success: false });
  });

  test("a command is parsed and classified in strict mode", () => {
    const input = "/tool git_push --branch main";
    const availableTools = ["git_push"];
    if (!isCommand(input)) throw new Error("It is a command");

    const parsed = parseCommand(input);
    const classified = classifyCommand(parsed, availableTools);

    expect(parsed).toMatchObject({ name: "tool", args: ["git_push"], options: { branch: "main" } });
    expect(classified).toMatchObject({ type: "tool", toolName: "git_push" });
  });

  test("result values have the types in the document", () => {
    const display: DisplayHints = { preferredView: "tree", collapsed: true };
    const values: (
      | TextResultValue
      | DiffResultValue
      | FileContentResultValue
      | FileListResultValue
      | JsonResultValue
      | CustomResultValue
    )[] = [
      { kind: "text", content: "a" },
      { kind: "diff", path: "a.ts", original: "a", modified: "b", isNew: false, bytesWritten: 1 },
      { kind: "file_content", path: "a.ts", content: "a", size: 1 },
      { kind: "file_list", path: "/", files: ["a.ts"], count: 1 },
      { kind: "json", data: {} },
      { kind: "git.status", data: { branch: "main" }, summary: "0 staged", display },
    ];

    expect(values.every(({ kind }) => isValidKind(kind))).toBe(true);
    expect(values.filter(({ kind }) => isWellKnownKind(kind))).toHaveLength(5);
  });
});
