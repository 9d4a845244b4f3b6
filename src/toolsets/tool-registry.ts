import { UserError } from "#domain/errors.ts";
import type { JsonSchema } from "#domain/json-schema.ts";
import { getLLMTools, type NamedTool } from "#domain/tool.ts";
import { jsonSchemaOf } from "#domain/tool-schema.ts";
import { isNamedTool } from "./is-named-tool.ts";

/** A function as models of the OpenAI kind are told of it. */
export interface OpenAIFunction {
  name: string;
  description: string;
  parameters: JsonSchema;
}

/** A function definition as a request to a model carries it. */
export interface FunctionDefinition {
  type: "function";
  function: OpenAIFunction;
}

/** A tool written as a class, such as a BaseTool. */
export interface ClassTool {
  toNamedTool(): NamedTool;
}

/** Tools by name, in the order they came. */
export class ToolRegistry {
  readonly #tools = new Map<string, NamedTool>();

  constructor(tools: Iterable<NamedTool | ClassTool> = []) {
    for (const tool of tools) this.register(tool);
  }

  /** Throws a UserError for what is no tool, and for a name that is taken unless it may be replaced. */
  register(given: NamedTool | ClassTool, { allowReplace = false }: { allowReplace?: boolean } = {}): void {
    const tool = isClassTool(given) ? given.toNamedTool() : given;
    if (!isNamedTool(tool)) throw new UserError("A tool needs a name, an inputSchema and an execute function.");
    if (this.#tools.has(tool.name) && !allowReplace) {
      throw new UserError(
        `Tool '${tool.name}' is already registered: unregister it first, or allow it to be replaced.`,
      );
    }
    this.#tools.set(tool.name, tool);
  }

  /** The tool of this name or alias; a name wins over an alias. */
  get(name: string): NamedTool | undefined {
    return this.#tools.get(name) ?? this.list().find((tool) => tool.aliases?.includes(name));
  }

  has(name: string): boolean {
    return this.get(name) !== undefined;
  }

  list(): NamedTool[] {
    return [...this.#tools.values()];
  }

  /** False when there was none of this name. */
  unregister(name: string): boolean {
    return this.#tools.delete(name);
  }

  /** What a model is told: names, descriptions and JSON Schemas of the tools it may call, manual ones left out. */
  toOpenAIFunctions(): OpenAIFunction[] {
    return getLLMTools(this.list()).map(({ name, description, inputSchema }) => {
      const parameters = jsonSchemaOf(inputSchema);
      if (!parameters) throw new UserError(`The input schema of '${name}' is not ready: it has to be waited for.`);
      return { name, description, parameters };
    });
  }
}

function isClassTool(tool: NamedTool | ClassTool): tool is ClassTool {
  return typeof (tool as Partial<ClassTool> | null | undefined)?.toNamedTool === "function";
}
