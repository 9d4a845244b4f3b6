import { z } from "zod";
import { type ToolErrorType, UserError } from "#domain/errors.ts";
import type { JsonSchema } from "#domain/json-schema.ts";
import { describeSchemaIssue, type SchemaIssue } from "#domain/schema-issue.ts";
import { getLLMTools, type NamedTool } from "#domain/tool.ts";
import { jsonSchemaOf } from "#domain/tool-schema.ts";
import { exampleArguments, formatExample, repairArguments } from "#toolsets/call-arguments.ts";
import { adaptTool, type ClassTool, type ForeignTool, isClassTool, isNamedTool, type PlainTool } from "./adapt-tool.ts";

/** A function in the format of OpenAI-compatible models. */
export interface OpenAIFunction {
  name: string;
  description: string;
  parameters: JsonSchema;
}

/** A function definition in a request to a model. */
export interface FunctionDefinition {
  type: "function";
  function: OpenAIFunction;
}

/** Tools by name, in the order in which they were registered. */
export class ToolRegistry<T extends ForeignTool = PlainTool> {
  readonly #tools = new Map<string, { given: T | NamedTool | ClassTool; tool: NamedTool }>();

  constructor(tools: Iterable<T> = []) {
    for (const tool of tools) this.register(tool);
  }

  /** Throws a UserError for an object that is not a tool, and for a name that is taken unless it may be replaced. */
  register(given: T | NamedTool | ClassTool, { allowReplace = false }: { allowReplace?: boolean } = {}): void {
    // A tool whose calls are answered by a person or a worker has no `execute`.
    const isAnswered = !isClassTool(given) && given.answeredBy !== undefined;
    if (!isClassTool(given) && !isAnswered && !isNamedTool(given)) {
      throw new UserError("A tool needs a name, an inputSchema and an execute function.");
    }
    const tool = adaptTool(given);
    if (this.#tools.has(tool.name) && !allowReplace) {
      throw new UserError(
        `Tool '${tool.name}' is already registered: unregister it first, or pass { allowReplace: true }.`,
      );
    }
    this.#tools.set(tool.name, { given, tool });
  }

  /** Returns the tool registered under this name or alias. A name takes precedence over an alias. */
  get(name: string): T | undefined {
    const found = this.#tools.get(name) ?? [...this.#tools.values()].find(({ tool }) => tool.aliases?.includes(name));
    return found?.given as T | undefined;
  }

  has(name: string): boolean {
    return this.get(name) !== undefined;
  }

  /** Returns the tools in the form in which they were registered. */
  list(): T[] {
    return [...this.#tools.values()].map(({ given }) => given as T);
  }

  namedTools(): NamedTool[] {
    return [...this.#tools.values()].map(({ tool }) => tool);
  }

  /** Returns false if there was no tool of this name. */
  unregister(name: string): boolean {
    return this.#tools.delete(name);
  }

  /** Returns the names, descriptions and JSON Schemas of the tools that a model may call, without manual tools. */
  toOpenAIFunctions(): OpenAIFunction[] {
    return getLLMTools(this.namedTools()).map(({ name, description, inputSchema }) => {
      const parameters = jsonSchemaOf(inputSchema);
      if (!parameters)
        throw new UserError(`The input schema of '${name}' is asynchronous and has not been resolved yet.`);
      return { name, description, parameters };
    });
  }
}

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
