import { type JSONSchema7, jsonSchema } from "ai";
import { ToolErrorCode } from "#domain/errors.ts";
import type { ToolResult as DomainResult } from "#domain/result.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import { compileSchema } from "#domain/tool-schema.ts";
import { validateArguments } from "#toolsets/call-arguments.ts";
import { resultOfError, toJsonValue } from "#toolsets/tool-result.ts";
import type { ClassTool, ForeignResult, RequiresApproval } from "./adapt-tool.ts";
import { type ToolResultDisplay, toReturnDisplay } from "./foreign-results.ts";
import { toToolResult } from "./to-tool-result.ts";

/** The values of `error.type` in a DisplayResult. */
export const DisplayErrorType = { ...ToolErrorCode.enum, EXECUTION_FAILED: "EXECUTION_ERROR" } as const;
export type DisplayErrorType = (typeof DisplayErrorType)[keyof typeof DisplayErrorType];

/** A result with a text for the model and a display for people. An `error` means that the tool failed. */
export interface DisplayResult {
  llmContent: string;
  returnDisplay: ToolResultDisplay;
  error?: { message: string; type: DisplayErrorType; details?: unknown };
}

/** A tool as a class that answers with a text for the model and a display for people; exported as `Tool`. */
// biome-ignore lint/suspicious/noExplicitAny: a list holds tools of every parameter type
export abstract class DisplayTool<Params = any> implements ClassTool {
  abstract readonly name: string;
  /** The name shown to people, such as "Your Tool". */
  abstract readonly displayName: string;
  abstract readonly description: string;
  /** True if a model's call needs approval, or a function that decides. Default: true. */
  declare readonly needsApproval?: NamedTool<Params>["needsApproval"];
  /** Another name of `needsApproval`. */
  declare readonly requiresApproval?: RequiresApproval<Params>["requiresApproval"];

  /** Returns the JSON Schema of the parameters. */
  abstract getInputSchema(): object;

  /** Runs the tool with validated parameters. In a worker's run there is a context. */
  protected abstract run(params: Params, context?: ToolContext): Promise<ForeignResult>;

  /** Validates the parameters and runs the tool. Never rejects: a thrown error becomes a result. */
  async execute(params: unknown, context?: ToolContext): Promise<DisplayResult> {
    try {
      const validated = await validateArguments(this.name, await compileSchema(this.#schema()), { args: params });
      if (!validated.valid) return toDisplayResult(validated.result);
      const result = await this.run(validated.value as Params, context);
      return isDisplayResult(result) ? result : toDisplayResult(toToolResult(result));
    } catch (error) {
      return toDisplayResult(resultOfError(error));
    }
  }

  /** Formats the parameters, which people see after the tool's name. */
  formatParams(params: Record<string, unknown>): string {
    return Object.values(params)
      .map((value) => (typeof value === "string" ? value : JSON.stringify(toJsonValue(value))))
      .join(", ");
  }

  /** Summarizes the result in one line. */
  summarizeResult(result: ForeignResult): string {
    if (result.error) return `Error: ${result.error.message}`;
    return result.llmContent?.split("\n", 1)[0] ?? "";
  }

  /** Returns this tool for a worker's run. */
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

function isDisplayResult(result: ForeignResult): result is DisplayResult {
  return typeof result.llmContent === "string" && result.returnDisplay !== undefined;
}

/** Converts a tool's result to a text and a display. */
export function toDisplayResult(result: DomainResult): DisplayResult {
  const { llmContent, error } = result;
  const { message, code, details } = error ?? {};
  return {
    llmContent,
    returnDisplay: toReturnDisplay(result),
    ...(message !== undefined && code && { error: { message, type: code, ...(details && { details }) } }),
  };
}
