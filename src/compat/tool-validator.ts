import { z } from "zod";
import { describeSchemaIssue } from "#domain/describe-schema-issue.ts";
import type { ToolErrorType } from "#domain/errors.ts";
import type { JsonSchema } from "#domain/json-schema.ts";
import type { SchemaIssue } from "#domain/tool-schema.ts";
import { exampleArguments, formatExample } from "#toolsets/prepare-call.ts";
import { repairArguments } from "#toolsets/repair-arguments.ts";
import type { FunctionDefinition } from "./tool-registry.ts";

/** The result of validating arguments: for invalid ones, the problem and a valid call. */
export interface ValidationResult {
  valid: boolean;
  error?: string;
  error_type?: ToolErrorType;
  suggestion?: string;
}

/** Validates arguments against a function definition. Arguments that a worker's run would repair are valid. */
export class ToolValidator {
  /** Throws if the definition's parameters are not a valid JSON Schema. */
  validateArguments(
    tool: { readonly name: string },
    functionDefinition: FunctionDefinition,
    args: Record<string, unknown>,
  ): ValidationResult {
    const { parameters } = functionDefinition.function;
    const schema = z.fromJSONSchema(parameters as Parameters<typeof z.fromJSONSchema>[0]);
    const { success, error } = schema.safeParse(args);
    if (success || schema.safeParse(repairArguments(args, parameters)).success) return { valid: true };

    const issues = (error?.issues ?? []) as SchemaIssue[];
    const problems = issues.slice(0, 5).map((issue) => `${describeSchemaIssue(tool.name, issue, args)}.`);
    const suggestion = suggestionFor(tool.name, schema, parameters);
    return {
      valid: false,
      error: problems.join("\n"),
      error_type: "validation_error",
      ...(suggestion && { suggestion }),
    };
  }
}

function suggestionFor(name: string, schema: z.ZodType, parameters: JsonSchema): string | undefined {
  const example = exampleArguments(parameters);
  return schema.safeParse(example).success ? `Example: ${formatExample(name, example)}` : undefined;
}
