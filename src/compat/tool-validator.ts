import { type JSONSchema7, jsonSchema } from "ai";
import type { ToolErrorType } from "#domain/errors.ts";
import { compileSchema } from "#domain/tool-schema.ts";
import { validateArguments } from "#toolsets/prepare-call.ts";
import type { FunctionDefinition } from "./tool-registry.ts";

/** Whether arguments would do; if not, what is wrong with them and a call that would do. */
export interface ValidationResult {
  valid: boolean;
  error?: string;
  error_type?: ToolErrorType;
  suggestion?: string;
}

/** Checks arguments against a function definition by the rules of a worker's run: near misses that are repaired pass. */
export class ToolValidator {
  /** Resolves, for a schema may have to be waited for; rejects when it cannot be understood. */
  async validateArguments(
    tool: { readonly name: string },
    functionDefinition: FunctionDefinition,
    args: Record<string, unknown>,
  ): Promise<ValidationResult> {
    const schema = await compileSchema(jsonSchema(functionDefinition.function.parameters as JSONSchema7));
    const checked = await validateArguments(tool.name, schema, { args });
    if (checked.valid) return { valid: true };

    const { message, type, suggestion } = checked.result.error ?? { message: checked.result.llmContent };
    return { valid: false, error: message, error_type: type ?? "validation_error", ...(suggestion && { suggestion }) };
  }
}
