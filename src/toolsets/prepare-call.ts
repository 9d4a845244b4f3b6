import { isDeepStrictEqual } from "node:util";
import { describeSchemaIssue } from "#domain/describe-schema-issue.ts";
import type { ModelCall } from "#domain/events.ts";
import { type JsonSchema, parametersOf } from "#domain/json-schema.ts";
import type { ToolResult } from "#domain/result.ts";
import { getManualTools, isLLMTool, isManualTool, type NamedTool } from "#domain/tool.ts";
import { parseArguments, type SchemaIssue, type ToolSchema } from "#domain/tool-schema.ts";
import { closestMatch } from "#text/closest-match.ts";
import { exampleCall } from "./example-call.ts";
import { failedResult } from "./failed-result.ts";
import { repairArguments } from "./repair-arguments.ts";
import { schemasOf, type ToolExecutionContext } from "./tool-execution-context.ts";
import type { CallContext, PreparedCall } from "./toolbox.ts";

/**
 * Finds the tool of a call and validates the arguments, once for a call that is first reviewed and then executed.
 * `refused` tells the model how to correct the call.
 */
export async function prepareCall(
  execution: ToolExecutionContext,
  call: ModelCall,
  { invokedBy = "model" }: Pick<CallContext, "invokedBy">,
): Promise<PreparedCall | { refused: ToolResult }> {
  const known = execution.prepared.get(call.callId);
  if (known && isSameCall(known, call) && known.invokedBy === invokedBy) return known;

  const tool = execution.find(call.tool);
  if (!tool) {
    return {
      refused: unknownTool(call.tool, invokedBy === "model" ? execution.offered : getManualTools(execution.tools)),
    };
  }
  if (invokedBy === "model" && !isLLMTool(tool)) return { refused: manualTool(tool) };
  if (invokedBy === "person" && !isManualTool(tool)) return { refused: modelTool(tool) };

  const validated = await validateArguments(tool.name, schemasOf(execution, tool).input, call);
  if (!validated.valid) return { refused: validated.result };

  const prepared = { call, invokedBy, tool, value: validated.value, args: validated.args };
  execution.prepared.set(call.callId, prepared);
  return prepared;
}

/** Providers may repeat the id of a call, so its tool and arguments are compared as well. */
function isSameCall({ call: known, args }: PreparedCall, call: ModelCall): boolean {
  if (known.tool !== call.tool) return false;
  if (isDeepStrictEqual(call.args, args)) return true;
  return isDeepStrictEqual(call.args, known.args) && call.parseError === known.parseError;
}

/** `value` is what the tool receives, `args` what is shown, stored and validated again. */
export type ValidatedArguments = { valid: true; value: unknown; args: unknown } | { valid: false; result: ToolResult };

/**
 * Validates the arguments of a call, after repairing what the model most likely meant. The result of an invalid call
 * names the tool, the parameter and the value, and shows a valid call.
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
  // A schema that accepts any text would accept broken JSON, too.
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

/** The given parameters that the schema does not name. A null says nothing and may be dropped. */
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
  const list = names.length > 0 ? `Available tools: ${names.join(", ")}.` : "There are no tools.";
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
