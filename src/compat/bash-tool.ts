import { randomUUID } from "node:crypto";
import { z } from "zod";
import { BlockedError } from "#domain/errors.ts";
import type { ToolContext } from "#domain/tool.ts";
import { WorkspaceTool } from "./base-tool.ts";
import { toToolResult } from "./to-tool-result.ts";
import type { ToolResponse } from "./tool-response.ts";
import { ShellToolset } from "./toolset-classes.ts";

const parameters = {
  type: "object" as const,
  properties: {
    command: { type: "string" as const, description: "The shell command to run" },
    description: { type: "string" as const, description: "A description in 5 to 10 words" },
    timeout: { type: "number" as const, description: "Timeout in seconds; default 5, at most 60" },
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
});

/** Runs shell commands in memory, over the files of a workspace. Dangerous commands are blocked. */
export class BashTool extends WorkspaceTool {
  readonly name = "bash";
  readonly description = "Execute a shell command with streaming output";
  protected readonly parameters = parameters;

  protected async executeImpl(args: Record<string, unknown>, context?: ToolContext): Promise<ToolResponse> {
    this.captureParams(args);
    const callId = context?.toolCallId ?? randomUUID();
    let hasStreamed = false;
    const output = (chunk: string) => {
      hasStreamed = true;
      this.emitOutputChunk(callId, chunk);
    };
    const sandbox = this.workspaceOf(context);
    const [shell] = new ShellToolset({ sandbox, default: { approval: "preApproved" } }).getTools();
    const callContext = { ...(context ?? outsideOfRuns(callId)), sandbox, output };
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
    const { content, stdout = content, stderr = "", exitCode, durationMs } = Terminal.parse(value);
    const fields = {
      output: stdout,
      stderr,
      return_code: exitCode ?? -1,
      ...(durationMs !== undefined && { duration: durationMs }),
    };
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
