import { describeSchemaIssue } from "#domain/describe-schema-issue.ts";
import type { ModelCall } from "#domain/events.ts";
import type { JsonSchema } from "#domain/json-schema.ts";
import { parametersOf } from "#domain/json-schema.ts";
import type { ToolResult } from "#domain/result.ts";
import { parseArguments, type SchemaIssue, type ToolSchema } from "#domain/tool-schema.ts";
import { closestMatch } from "#text/closest-match.ts";
import { exampleCall } from "./example-call.ts";
import { failedResult } from "./failed-result.ts";
import { repairArguments, unknownParameters } from "./repair-arguments.ts";

/** `value` is what the tool gets, `args` what is shown, stored and checked again. */
export type CheckedArguments = { valid: true; value: unknown; args: unknown } | { valid: false; result: ToolResult };

/**
 * Checks the arguments of a call, and before giving up on them tries what the model probably meant. The result of a
 * call that cannot be saved names the tool, the parameter and what came, and shows a call that would do.
 */
export async function validateArguments(
  tool: string,
  schema: ToolSchema,
  { args = {}, parseError: unreadable }: Pick<ModelCall, "args" | "parseError">,
): Promise<CheckedArguments> {
  const asGiven = unreadable === undefined ? await parseArguments(schema, args) : undefined;
  if (asGiven?.valid && unknownParameters(args, schema.json).length === 0) return asGiven;

  const repaired = await parseArguments(schema, repairArguments(args, schema.json));
  if (repaired.valid && isRead(args, repaired.args)) return repaired;
  if (asGiven?.valid) return asGiven;

  const example = `Example: ${exampleCall(tool, schema.json)}`;
  if (!asGiven) {
    const message = `The arguments for ${tool} could not be read. ${unreadable}`;
    return { valid: false, result: failedResult(message, { code: "INVALID_ARGUMENTS", suggestion: example }) };
  }
  return { valid: false, result: invalidArguments(tool, schema.json, args, asGiven.issues, example) };
}

/** A schema that takes text as it is would take broken JSON too. */
function isRead(given: unknown, repaired: unknown): boolean {
  return typeof given !== "string" || typeof repaired !== "string";
}

function invalidArguments(
  tool: string,
  json: JsonSchema,
  args: unknown,
  issues: SchemaIssue[],
  example: string,
): ToolResult {
  const known = parametersOf(json).map(({ name }) => name);
  const unknown = unknownParameters(args, json);
  const slips = unknown.flatMap((name) => {
    const near = closestMatch(name, known);
    return near ? [`Did you mean '${near}' instead of '${name}'?`] : [];
  });
  const problems = issues.slice(0, 5).map((issue) => `${describeSchemaIssue(tool, issue, args)}.`);
  if (issues.length > 5) problems.push(`And ${issues.length - 5} more.`);

  return failedResult(problems.join("\n"), {
    code: "INVALID_ARGUMENTS",
    suggestion: [...slips, example].join(" "),
    details: { issues: issues.slice(0, 5).map(({ path, message }) => ({ path: path.map(String), message })) },
  });
}
