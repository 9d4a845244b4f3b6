import { isDeepStrictEqual } from "node:util";
import type { ModelCall } from "#domain/events.ts";
import { choicesOf, type JsonSchema, type Parameter, parametersOf, typesOf } from "#domain/json-schema.ts";
import type { ToolResult } from "#domain/result.ts";
import { getManualTools, isLLMTool, isManualTool, type NamedTool, type ToolContext } from "#domain/tool.ts";
import { describeSchemaIssue, parseArguments, type SchemaIssue, type ToolSchema } from "#domain/tool-schema.ts";
import { closestMatch } from "#text/closest-match.ts";
import { repairArguments } from "./repair-arguments.ts";
import { failedResult } from "./tool-result.ts";

/** The context in which the runtime reviews and runs a call. */
export type CallContext = Pick<
  ToolContext,
  "abortSignal" | "messages" | "run" | "idempotencyKey" | "output" | "approved"
> & {
  /** Default: the model, which cannot call manual tools. */
  invokedBy?: "model" | "person";
};

/** A call to a tool that its caller may use, with arguments that the tool accepts. */
export interface PreparedCall {
  call: ModelCall;
  invokedBy: "model" | "person";
  tool: NamedTool;
  /** The arguments as the tool receives them, such as with text parsed into a date. */
  value: unknown;
  /** The arguments as they are shown, stored and compared. */
  args: unknown;
  outputSchema: ToolSchema | undefined;
}

/** The available tools, and the calls that are validated but not yet executed. */
export interface PrepareState {
  tools: readonly NamedTool[];
  /** The tools the model is offered. */
  offered: readonly NamedTool[];
  find(name: string): NamedTool | undefined;
  schemas: ReadonlyMap<NamedTool, ToolSchemas>;
  /** Prepared calls by call ID. */
  prepared: Map<string, PreparedCall>;
}

export interface ToolSchemas {
  input: ToolSchema;
  output: ToolSchema | undefined;
}

/**
 * Finds the tool of a call and validates the arguments. A call that is reviewed and then executed is validated once.
 * `refused` tells the model how to correct the call.
 */
export async function prepareCall(
  state: PrepareState,
  call: ModelCall,
  { invokedBy = "model" }: Pick<CallContext, "invokedBy">,
): Promise<PreparedCall | { refused: ToolResult }> {
  const known = state.prepared.get(call.callId);
  if (known && isSameCall(known, call) && known.invokedBy === invokedBy) return known;

  const tool = state.find(call.tool);
  if (!tool) {
    return {
      refused: unknownTool(call.tool, invokedBy === "model" ? state.offered : getManualTools(state.tools)),
    };
  }
  if (invokedBy === "model" && !isLLMTool(tool)) return { refused: manualTool(tool) };
  if (invokedBy === "person" && !isManualTool(tool)) return { refused: modelTool(tool) };

  const schemas = state.schemas.get(tool);
  if (!schemas) throw new Error(`The schemas of ${tool.name} were never compiled.`);
  const validated = await validateArguments(tool.name, schemas.input, call);
  if (!validated.valid) return { refused: validated.result };

  const { value, args } = validated;
  const prepared = { call, invokedBy, tool, value, args, outputSchema: schemas.output };
  state.prepared.set(call.callId, prepared);
  return prepared;
}

/** Providers may reuse a call's ID, so its tool and arguments are compared as well. */
function isSameCall({ call: known, args }: PreparedCall, call: ModelCall): boolean {
  if (known.tool !== call.tool) return false;
  if (isDeepStrictEqual(call.args, args)) return true;
  return isDeepStrictEqual(call.args, known.args) && call.parseError === known.parseError;
}

/** `value` is passed to the tool; `args` are shown, stored and validated again. */
export type ValidatedArguments = { valid: true; value: unknown; args: unknown } | { valid: false; result: ToolResult };

/**
 * Validates the arguments of a call, after repairing obvious mistakes. The result of an invalid call names the tool,
 * the parameter and the value, and shows a valid call.
 */
export async function validateArguments(
  tool: string,
  schema: ToolSchema,
  { args = {}, parseError }: Pick<ModelCall, "args" | "parseError">,
): Promise<ValidatedArguments> {
  const asGiven = parseError === undefined ? await parseArguments(schema, args) : undefined;
  if (asGiven?.valid && unknownParameters(args, schema.json).length === 0) return asGiven;

  const repairedArgs = repairArguments(args, schema.json);
  const repaired = await parseArguments(schema, repairedArgs);
  // A schema that accepts any text would also accept broken JSON.
  const isText = typeof args === "string" && typeof repairedArgs === "string";
  const accepted = repaired.valid && !isText ? repaired : asGiven?.valid ? asGiven : undefined;
  if (accepted) {
    const ignored = unknownParameters(accepted === repaired ? repairedArgs : args, schema.json).filter(
      (name) => !isObject(accepted.value) || !Object.hasOwn(accepted.value, name),
    );
    return ignored.length === 0 ? accepted : { valid: false, result: await ignoredResult(tool, schema, ignored) };
  }
  if (asGiven && !asGiven.valid)
    return { valid: false, result: await invalidResult(tool, schema, { args, issues: asGiven.issues }) };

  const message = `The arguments for ${tool} could not be read. ${parseError}`;
  return { valid: false, result: await invalidArguments(tool, schema, { message }) };
}

/** Returns the given parameters that the schema does not define. Null values are ignored, since they have no meaning. */
function unknownParameters(given: unknown, json: JsonSchema): string[] {
  if (!isObject(given)) return [];
  const known = json.properties ? Object.keys(json.properties) : parametersOf(json).map(({ name }) => name);
  if (!json.properties && known.length === 0) return [];
  return Object.keys(given).filter((name) => !known.includes(name) && given[name] !== null);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function ignoredResult(tool: string, schema: ToolSchema, ignored: string[]): Promise<ToolResult> {
  const names = ignored.map((name) => `'${name}'`).join(", ");
  return invalidArguments(tool, schema, { message: `Unknown parameter ${names} for ${tool}.`, unknown: ignored });
}

function invalidResult(
  tool: string,
  schema: ToolSchema,
  { args, issues }: { args: unknown; issues: SchemaIssue[] },
): Promise<ToolResult> {
  const unknown = unknownParameters(args, schema.json);
  const problems = issues.slice(0, 5).map((issue) => `${describeSchemaIssue(tool, issue, args)}.`);
  if (issues.length > 5) problems.push(`And ${issues.length - 5} more.`);
  return invalidArguments(tool, schema, { message: problems.join("\n"), unknown, issues });
}

async function invalidArguments(
  tool: string,
  schema: ToolSchema,
  { message, unknown = [], issues = [] }: { message: string; unknown?: string[]; issues?: SchemaIssue[] },
): Promise<ToolResult> {
  const known = parametersOf(schema.json).map(({ name }) => name);
  const hints = unknown.map((name) => {
    const near = closestMatch(name, known);
    return near ? `Did you mean '${near}' instead of '${name}'?` : "";
  });
  if (unknown.length > 0 && hints.includes(""))
    hints.push(`The parameters of ${tool} are: ${known.join(", ") || "none"}.`);
  const example = await exampleCall(tool, schema);
  const details = issues.slice(0, 5).map((issue) => ({ path: issue.path.map(String), message: issue.message }));

  return failedResult(message, {
    code: "INVALID_ARGUMENTS",
    suggestion: [...hints, example && `Example: ${example}`].filter(Boolean).join(" "),
    ...(details.length > 0 && { details: { issues: details } }),
  });
}

function unknownTool(name: string, reachable: readonly NamedTool[]): ToolResult {
  const near = closestMatch(
    name,
    reachable.flatMap((tool) => [tool.name, ...(tool.aliases ?? [])]),
  );
  const names = reachable.map((tool) => tool.name);
  const list = names.length > 0 ? `Available tools: ${names.join(", ")}.` : "No tools are available.";
  return failedResult(`Unknown tool: ${name}.`, {
    code: "UNKNOWN_TOOL",
    type: "validation_error",
    suggestion: near ? `Did you mean ${near}? ${list}` : list,
    details: { requested_tool: name, available_tools: names },
  });
}

function manualTool({ name }: NamedTool): ToolResult {
  return failedResult(`${name} is a manual tool: only people can call it. The call was refused and recorded.`, {
    code: "MANUAL_TOOL",
    suggestion: `Explain in your answer why ${name} should be called, so that a person can do it.`,
  });
}

function modelTool({ name }: NamedTool): ToolResult {
  return failedResult(`${name} can be called only by the worker.`, {
    code: "PERMISSION_DENIED",
    suggestion: "Ask the worker for it in a comment.",
  });
}

/**
 * Builds a valid call from the schema, such as `read_file(path="src/main.ts")`, with the required parameters and as few
 * optional ones as necessary. Resolves to undefined if the schema accepts none of these.
 */
export async function exampleCall(tool: string, { json, validate }: ToolSchema): Promise<string | undefined> {
  const optional = parametersOf(json).filter(({ required }) => !required);
  for (let count = 0; count <= optional.length; count += 1) {
    const args = exampleArguments(json, optional.slice(0, count));
    if ((await validate(args)).valid) return formatExample(tool, args);
  }
  return undefined;
}

/** Returns arguments with an example of every required parameter, and of the given optional ones. */
export function exampleArguments(json: JsonSchema, optional: readonly Parameter[] = []): Record<string, unknown> {
  return exampleObject(json, 0, new Set(optional.map(({ name }) => name)));
}

/** Formats a call: `read_file(path="src/main.ts")`. */
export function formatExample(tool: string, args: Record<string, unknown>): string {
  const given = Object.entries(args).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  return `${tool}(${given.join(", ")})`;
}

function exampleObject(json: JsonSchema, depth: number, optional = new Set<string>()): Record<string, unknown> {
  const chosen = parametersOf(json).filter(({ name, required }) => required || optional.has(name));
  return Object.fromEntries(chosen.map(({ name, schema }) => [name, exampleValue(name, schema, depth)]));
}

function exampleValue(name: string, schema: JsonSchema, depth: number): unknown {
  const { examples, minimum } = schema as { examples?: unknown[]; minimum?: number };
  if (Array.isArray(examples) && examples.length > 0) return examples[0];
  const choices = choicesOf(schema);
  if (choices) return choices[0] ?? null;

  switch (typesOf(schema)[0]) {
    case "number":
    case "integer":
      return Math.max(minimum ?? 1, 1);
    case "boolean":
      return false;
    case "array":
      return schema.items && depth < 3 ? [exampleValue(name, schema.items as JsonSchema, depth + 1)] : [];
    case "object":
      return depth < 3 ? exampleObject(schema, depth + 1) : {};
    case "null":
      return null;
    default:
      return exampleText(name);
  }
}

function exampleText(name: string): string {
  if (/path|file/i.test(name)) return "src/main.ts";
  if (/pattern|glob/i.test(name)) return "**/*.ts";
  if (/url/i.test(name)) return "https://example.com";
  if (/command/i.test(name)) return "ls -la";
  return "value";
}
