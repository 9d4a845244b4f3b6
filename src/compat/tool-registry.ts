import { UserError } from "#domain/errors.ts";
import type { JsonSchema } from "#domain/json-schema.ts";
import { getLLMTools, type NamedTool } from "#domain/tool.ts";
import { jsonSchemaOf } from "#domain/tool-schema.ts";
import { adaptTool, type ClassTool, type ForeignTool, isClassTool, isNamedTool, type PlainTool } from "./adapt-tool.ts";

/** A function as OpenAI-compatible models are offered it. */
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

/** Tools by name, in the order in which they were registered. */
export class ToolRegistry<T extends ForeignTool = PlainTool> {
  readonly #tools = new Map<string, { given: T | NamedTool | ClassTool; tool: NamedTool }>();

  constructor(tools: Iterable<T> = []) {
    for (const tool of tools) this.register(tool);
  }

  /** Throws a UserError for an object that is not a tool, and for a name that is taken unless it may be replaced. */
  register(given: T | NamedTool | ClassTool, { allowReplace = false }: { allowReplace?: boolean } = {}): void {
    // A call that a person or a worker answers has nothing to execute.
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

  /** The tool that was registered under this name or alias; a name takes precedence over an alias. */
  get(name: string): T | undefined {
    const found = this.#tools.get(name) ?? [...this.#tools.values()].find(({ tool }) => tool.aliases?.includes(name));
    return found?.given as T | undefined;
  }

  has(name: string): boolean {
    return this.get(name) !== undefined;
  }

  /** The tools as they were registered. */
  list(): T[] {
    return [...this.#tools.values()].map(({ given }) => given as T);
  }

  /** The same tools in one form. */
  namedTools(): NamedTool[] {
    return [...this.#tools.values()].map(({ tool }) => tool);
  }

  /** Returns false if there was no tool of this name. */
  unregister(name: string): boolean {
    return this.#tools.delete(name);
  }

  /** Names, descriptions and JSON Schemas of the tools a model may call; manual tools are left out. */
  toOpenAIFunctions(): OpenAIFunction[] {
    return getLLMTools(this.namedTools()).map(({ name, description, inputSchema }) => {
      const parameters = jsonSchemaOf(inputSchema);
      if (!parameters)
        throw new UserError(`The input schema of '${name}' is asynchronous and has not been resolved yet.`);
      return { name, description, parameters };
    });
  }
}
