import { type JSONSchema7, jsonSchema } from "ai";
import { ToolErrorCode } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import { compileSchema } from "#domain/tool-schema.ts";
import { resultOfError } from "#toolsets/failed-result.ts";
import { validateArguments } from "#toolsets/prepare-call.ts";
import { toJsonValue } from "#toolsets/to-json-value.ts";
import type { RequiresApproval } from "./adapt-tool.ts";
import { type ToolResultDisplay, toReturnDisplay } from "./return-display.ts";
import { toToolResult } from "./to-tool-result.ts";

/** The `error.type` of a DisplayResult, by name: the `ToolErrorType` of that specification, whose name is taken here. */
export const DisplayErrorType = { ...ToolErrorCode.enum, EXECUTION_FAILED: "EXECUTION_ERROR" } as const;
export type DisplayErrorType = (typeof DisplayErrorType)[keyof typeof DisplayErrorType];

/** What a DisplayTool returns: a text for the model, a display for people. It failed if there is an error. */
export interface DisplayResult {
  llmContent: string;
  returnDisplay: ToolResultDisplay;
  error?: { message: string; type: DisplayErrorType; details?: unknown };
}

/**
 * A tool as a class that answers with a text and a display; exported as `Tool`. `ToolManager` and `ToolRegistry` take
 * an instance as it is, everything else takes its `toNamedTool()`.
 */
// biome-ignore lint/suspicious/noExplicitAny: a list holds tools of every parameter type
export abstract class DisplayTool<Params = any> {
  abstract readonly name: string;
  /** For people, such as "Your Tool". */
  abstract readonly displayName: string;
  abstract readonly description: string;
  /** Whether a person must approve a model's call first. A subclass that says nothing is asked about. */
  declare readonly needsApproval?: NamedTool<Params>["needsApproval"];
  /** The same by another name. */
  declare readonly requiresApproval?: RequiresApproval<Params>["requiresApproval"];

  /** JSON Schema of the parameters. */
  abstract getInputSchema(): object;

  /** Does the work with checked parameters. `context` is there in a worker's run. */
  protected abstract run(params: Params, context?: ToolContext): Promise<DisplayResult>;

  /** Checks the parameters and runs. Never rejects: what is thrown becomes a result with an error. */
  async execute(params: unknown, context?: ToolContext): Promise<DisplayResult> {
    try {
      const checked = await validateArguments(this.name, await compileSchema(this.#schema()), { args: params });
      return checked.valid ? await this.run(checked.value as Params, context) : toDisplayResult(checked.result);
    } catch (error) {
      return toDisplayResult(resultOfError(error));
    }
  }

  /** The parameters as a person reads them behind the tool's name. */
  formatParams(params: Record<string, unknown>): string {
    return Object.values(params)
      .map((value) => (typeof value === "string" ? value : JSON.stringify(toJsonValue(value))))
      .join(", ");
  }

  /** The result in a line. */
  summarizeResult(result: DisplayResult): string {
    if (result.error) return `Error: ${result.error.message}`;
    return result.llmContent.split("\n", 1)[0] ?? "";
  }

  /** The same tool for a worker's run. */
  toNamedTool(): NamedTool {
    const { needsApproval = this.requiresApproval } = this;
    return {
      name: this.name,
      description: this.description,
      inputSchema: this.#schema(),
      manualExecution: { mode: "llm", label: this.displayName },
      approvalReason: (params) => `The worker wants to use ${this.displayName}(${this.formatParams(params)}).`,
      ...(needsApproval !== undefined && { needsApproval }),
      execute: async (params, context) => {
        const returned = await this.run(params, context);
        const result = toToolResult(returned);
        return { ...result, value: { ...result.value, summary: this.summarizeResult(returned) } };
      },
    };
  }

  #schema() {
    return jsonSchema<Params>(this.getInputSchema() as JSONSchema7);
  }
}

function toDisplayResult(result: ToolResult): DisplayResult {
  const { llmContent, error } = result;
  const { message, code, details } = error ?? {};
  return {
    llmContent,
    returnDisplay: toReturnDisplay(result),
    ...(message !== undefined && code && { error: { message, type: code, ...(details && { details }) } }),
  };
}
