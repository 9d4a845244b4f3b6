import { randomUUID } from "node:crypto";
import { z } from "zod";
import type { ApprovalDecisionType } from "#domain/approval.ts";
import { BlockedError, ToolError } from "#domain/errors.ts";
import type { GitHub } from "#domain/github.ts";
import type { Task } from "#domain/result.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import { WorkerDefinition } from "#domain/worker.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { Executors } from "#executors/create-executors.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import type { GitSandbox } from "#sandbox/sandbox.ts";
import { estimateTokens } from "#text/estimate-tokens.ts";
import { pluralize } from "#text/pluralize.ts";
import { createFilesystemTools, type FilesystemToolsOptions } from "#toolsets/filesystem/filesystem-toolset.ts";
import { decodeText, numberLines, splitLines } from "#toolsets/filesystem/text-file.ts";
import { shellToolset } from "#toolsets/shell/shell-toolset.ts";
import { taskList, taskStats } from "#toolsets/tasks/tasks-toolset.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { createWorkerTools } from "#toolsets/workers/workers-toolset.ts";
import { WorkspaceTool } from "./base-tool.ts";
import { type DisplayResult, DisplayTool } from "./display-tool.ts";
import type { ToolResponse } from "./foreign-results.ts";
import { toToolResult } from "./to-tool-result.ts";

const bashParameters = {
  type: "object" as const,
  properties: {
    command: { type: "string" as const, description: "The shell command to run" },
    description: { type: "string" as const, description: "A description in 5 to 10 words" },
    timeout: { type: "number" as const, exclusiveMinimum: 0, description: "Timeout in seconds; default 5, at most 60" },
    working_dir: { type: "string" as const, description: "The working directory; default: the root" },
  },
  required: ["command"],
};

const Terminal = z.object({
  content: z.string(),
  stdout: z.string().optional(),
  stderr: z.string().optional(),
  exitCode: z.number().nullish(),
  durationMs: z.number().optional(),
  notApplied: z.array(z.string()).optional(),
});

/** Runs shell commands in memory, over the files of a workspace. Dangerous commands are blocked. */
export class BashTool extends WorkspaceTool {
  readonly name = "bash";
  readonly description = "Execute a shell command with streaming output";
  protected readonly parameters = bashParameters;
  readonly #id = randomUUID();

  protected async executeImpl(args: Record<string, unknown>, context?: ToolContext): Promise<ToolResponse> {
    this.captureParams(args);
    const callId = context?.toolCallId ?? randomUUID();
    let hasStreamed = false;
    const output = (chunk: string) => {
      hasStreamed = true;
      this.emitOutputChunk(callId, chunk);
    };
    const sandbox = this.workspaceOf(context);
    const callContext = { ...(context ?? outsideOfRuns(callId)), sandbox, output };
    // The calls of a run share a shell: each of them has a workspace of its own.
    const services = programServices(sandbox, { id: `${this.#id} ${callContext.run.id}` });
    const settings = shellToolset.config.parse({ default: { approval: "preApproved" } });
    const [shell] = shellToolset.create(settings, services) as NamedTool[];
    if (typeof args.command !== "string" || args.command === "") {
      return this.formatErrorResponse("command is required", "validation_error", 'Example: bash(command="ls -la")');
    }

    try {
      const { needsApproval } = shell ?? {};
      const mustAsk = typeof needsApproval === "function" && (await needsApproval(args, callContext));
      if (mustAsk) return this.formatErrorResponse("This command is dangerous and was blocked", "security_error");
    } catch (error) {
      if (!(error instanceof BlockedError)) throw error;
      return this.formatErrorResponse(`This command was blocked: ${error.reason}`, "security_error");
    }
    const response = this.#toResponse(toToolResult(await shell?.execute?.(args, callContext)));
    if (!hasStreamed && response.output) output(String(response.output));
    return response;
  }

  #toResponse({ value, error }: ReturnType<typeof toToolResult>): ToolResponse {
    const { content, stdout = content, stderr = "", exitCode, durationMs, notApplied } = Terminal.parse(value);
    const fields = {
      output: stdout,
      stderr,
      return_code: exitCode ?? -1,
      ...(durationMs !== undefined && { duration: durationMs }),
    };
    if (!error && exitCode === 0 && notApplied) {
      return { ...this.formatErrorResponse(notApplied.join("\n"), "permission_error"), ...fields };
    }
    if (!error && exitCode === 0) return this.formatSuccessResponse(fields);
    const message = error?.message ?? (stderr.trim() || `The command exited with code ${exitCode}`);
    return { ...this.formatErrorResponse(message, error?.type ?? "user_error"), ...fields };
  }
}

function outsideOfRuns(toolCallId: string): Omit<ToolContext, "sandbox" | "output"> {
  return {
    toolCallId,
    idempotencyKey: toolCallId,
    messages: [],
    abortSignal: new AbortController().signal,
    run: { id: "program", worker: "program", depth: 0, step: 1 },
  };
}

const maxTokens = 25_000;

const readParameters = {
  type: "object" as const,
  properties: {
    file_paths: {
      type: "array" as const,
      items: { type: "string" as const },
      description: "The paths of the files to read",
    },
    limit: { type: "integer" as const, description: "The most lines per file; 0 for all" },
    offset: { type: "integer" as const, description: "The first line, from 1" },
  },
  required: ["file_paths"],
};

/** Reads one or more text files with line numbers. */
export class ReadTool extends WorkspaceTool {
  readonly name = "read";
  readonly description = "Read one or more files with line numbers";
  protected readonly parameters = readParameters;

  protected async executeImpl(
    args: { file_paths?: string[]; limit?: number; offset?: number },
    context?: ToolContext,
  ): Promise<ToolResponse> {
    this.captureParams(args);
    const { file_paths: paths = [], limit = 0, offset = 1 } = args;
    if (paths.length === 0) {
      return this.formatErrorResponse(
        "file_paths is required",
        "validation_error",
        'Example: read(file_paths=["src/main.ts"])',
      );
    }

    const workspace = this.workspaceOf(context);
    const files: string[] = [];
    const problems: string[] = [];
    for (const path of paths) {
      try {
        files.push(`=== ${path} ===\n${await readLines(workspace, path, { limit, offset })}`);
      } catch (error) {
        if (!(error instanceof ToolError)) throw error;
        problems.push(error.message);
      }
    }
    if (files.length === 0) return this.formatErrorResponse(problems.join(" "), "user_error", "Check the file paths");
    const content = [...files, ...problems].join("\n\n");
    const tokens = estimateTokens(content);
    if (tokens > maxTokens) {
      const message = `The files have about ${tokens} tokens, and the limit is ${maxTokens}`;
      return this.formatErrorResponse(message, "user_error", "Use limit and offset to read a part");
    }
    return this.formatSuccessResponse({ content, files_read: files.length });
  }
}

async function readLines(
  workspace: Workspace,
  path: string,
  { limit, offset }: { limit: number; offset: number },
): Promise<string> {
  const text = decodeText(await workspace.readBytes(path))?.text;
  if (text === undefined) throw new ToolError(`${path} is a binary file.`, { code: "BINARY_FILE" });
  const start = Math.max(1, offset);
  const lines = splitLines(text).slice(start - 1, limit > 0 ? start - 1 + limit : undefined);
  return numberLines(lines, start);
}

/** Keeps a list of tasks, which people see with its progress. */
export class TaskWriteTool extends DisplayTool<{ tasks: Task[] }> {
  readonly name = "write_tasks";
  readonly displayName = "Tasks";
  readonly description = "Write the complete list of tasks, which replaces the previous one";
  override readonly needsApproval = false;

  getInputSchema(): object {
    return z.toJSONSchema(taskList, { io: "input" });
  }

  protected async run({ tasks }: { tasks: Task[] }): Promise<DisplayResult> {
    const stats = taskStats(tasks);
    return {
      llmContent: `Updated task list with ${stats.total} items`,
      returnDisplay: { type: "task-list", tasks, stats },
    };
  }

  override formatParams({ tasks }: Record<string, unknown>): string {
    const count = Array.isArray(tasks) ? tasks.length : 0;
    return pluralize(count, "task");
  }
}

/** The settings of the toolset `shell`, and the files that commands see. */
export interface ShellToolsetOptions {
  rules?: readonly { pattern: string; approval?: ApprovalDecisionType }[];
  /** For commands that no rule covers. */
  default?: { approval?: ApprovalDecisionType };
  /** Seconds. */
  timeout?: number;
  max_timeout?: number;
  /** Default: an empty workspace in memory. */
  sandbox?: Workspace;
  executors?: Executors;
}

class ToolList {
  readonly #tools: NamedTool[];

  constructor(tools: NamedTool[]) {
    this.#tools = tools;
  }

  getTools(): NamedTool[] {
    return this.#tools;
  }
}

/** The shell tool over one workspace as a class. */
export class ShellToolset extends ToolList {
  constructor({ sandbox = createMemoryWorkspace(), executors, ...settings }: ShellToolsetOptions = {}) {
    const services = programServices(sandbox, { executors });
    super(shellToolset.create(shellToolset.config.parse(settings), services) as NamedTool[]);
  }
}

/** The file tools over one workspace as a class. */
export class FilesystemToolset extends ToolList {
  constructor(options: FilesystemToolsOptions) {
    super(createFilesystemTools(options));
  }
}

export interface WorkerCallToolsetOptions {
  /** The names of the workers that may be called. */
  allowed: readonly string[];
  /** Descriptions of these workers for the model. Default: none. */
  workers?: readonly { name: string; description?: string }[];
}

/** One tool for each worker that may be called, as a class. A WorkerRuntime with these workers answers the calls. */
export class WorkerCallToolset extends ToolList {
  constructor({ allowed, workers = allowed.map((name) => ({ name })) }: WorkerCallToolsetOptions) {
    super(createWorkerTools(allowed, workers));
  }
}

/** The services that built-in toolsets need, for a program without a run: files and commands, but no repository. */
function programServices(
  workspace: Workspace,
  { id = randomUUID(), executors }: { id?: string; executors?: Executors | undefined } = {},
): ToolServices {
  const base = "base" in workspace ? (workspace.base as GitSandbox["base"]) : { commit: id, branch: "memory" };
  return {
    spec: {
      id,
      rootId: id,
      depth: 0,
      workerPath: "program",
      worker: WorkerDefinition.parse({ name: "program", instructions: "None" }),
      workerSource: "deployment",
      model: "none:none",
      origin: {
        installationId: 0,
        owner: "local",
        repo: "local",
        thread: 0,
        isPullRequest: false,
        requestedBy: "local",
      },
      createdAt: Date.now(),
    },
    workspace,
    sandbox: onlyWith<GitSandbox>(
      { ...workspace, base, log: async () => ({ commits: [], isComplete: true }) },
      "repository",
    ),
    github: onlyWith<GitHub>({}, "GitHub"),
    branch: base.branch,
    history: () => [],
    workers: async () => [],
    sanitize: (text) => text,
    ...(executors && { executors }),
  };
}

/** Creates an object with only some members. Using any other one throws a ToolError that names what is missing. */
export function onlyWith<T extends object>(
  given: Partial<T>,
  missing: string,
  suggestion = "Use tools that work on files alone.",
): T {
  return new Proxy(given as T, {
    get(target, name, receiver) {
      if (name in target || typeof name === "symbol" || name === "then") return Reflect.get(target, name, receiver);
      throw new ToolError(`No ${missing} is available.`, { code: "UNAVAILABLE", suggestion });
    },
  });
}
