import { describeSchemaIssue } from "#domain/describe-schema-issue.ts";
import type { ModelCall } from "#domain/events.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import type { ToolSchema } from "#domain/tool-schema.ts";
import { abandonOnAbort } from "./abandon-on-abort.ts";
import { failedResult, interruptedResult, resultOfError } from "./failed-result.ts";
import { normalizeResult } from "./normalize-result.ts";
import { prepareCall } from "./prepare-call.ts";
import { openToolContext, schemasOf, type ToolExecutionContext } from "./tool-execution-context.ts";
import type { CallContext, PreparedCall } from "./toolbox.ts";
import { truncateResult } from "./truncate-result.ts";

/** Runs a call that was allowed. Never throws: failures, timeouts and interruptions are results. */
export async function executeCall(
  execution: ToolExecutionContext,
  call: ModelCall,
  context: CallContext,
): Promise<ToolResult> {
  const startedAt = performance.now();
  const result = await prepareAndRun(execution, call, context).catch(resultOfError);
  return { ...result, durationMs: Math.round(performance.now() - startedAt) };
}

async function prepareAndRun(
  execution: ToolExecutionContext,
  call: ModelCall,
  context: CallContext,
): Promise<ToolResult> {
  const preparing = await abandonOnAbort(() => prepareCall(execution, call, context), context.abortSignal);
  if (preparing.abandoned) return stoppedResult(call.tool, context.abortSignal, { started: false });
  const prepared = preparing.value;
  if ("refused" in prepared) return prepared.refused;
  execution.prepared.delete(call.callId);

  const isPersons = prepared.invokedBy === "person";
  const warning = isPersons ? undefined : execution.repeated.warningFor(prepared, context.run.step);
  const result = truncateResult(await runWithEvents(execution, prepared, context), execution.maxResultTokens);
  return warning && !result.error ? { ...result, llmContent: `${warning}\n\n${result.llmContent}` } : result;
}

async function runWithEvents(
  execution: ToolExecutionContext,
  prepared: PreparedCall,
  callContext: CallContext,
): Promise<ToolResult> {
  const { events } = execution;
  const { callId } = prepared.call;
  const toolName = prepared.tool.name;
  const now = () => ({ id: callId, timestamp: Date.now() });
  events?.emit({ ...now(), type: "tool_call_start", data: { toolName, arguments: prepared.args } });

  const { context, close } = openToolContext(execution.workspace, { callId }, callContext);
  let hasEnded = false;
  const output = (chunk: string) => {
    if (hasEnded) return;
    events?.emit({ ...now(), type: "tool_output_chunk", data: { toolName, chunk } });
    callContext.output(chunk);
  };
  const result = await run(execution, prepared, { ...context, output });
  close();
  hasEnded = true;

  const { error } = result;
  if (error) events?.emit({ ...now(), type: "error", data: { toolName, error: error.message, result } });
  else events?.emit({ ...now(), type: "tool_call_end", data: { toolName, success: true, result } });
  return result;
}

async function run(
  execution: ToolExecutionContext,
  { tool, value }: PreparedCall,
  context: ToolContext,
): Promise<ToolResult> {
  const { execute } = tool;
  if (!execute) return failedResult(`${tool.name} has no execute function.`, { code: "UNAVAILABLE" });

  const signal = context.abortSignal;
  try {
    const outcome = await abandonOnAbort(() => execute.call(tool, value, context), signal);
    if (outcome.abandoned) return stoppedResult(tool.name, signal, { started: true });

    return await checkOutput(tool, schemasOf(execution, tool).output, outcome.value);
  } catch (error) {
    return signal.aborted ? stoppedResult(tool.name, signal, { started: true }) : resultOfError(error);
  }
}

/** Checks a result that the tool's output schema describes, in any of the places where a result may hold it. */
async function checkOutput(tool: NamedTool, schema: ToolSchema | undefined, returned: unknown): Promise<ToolResult> {
  const result = normalizeResult(returned);
  if (!schema || result.error) return result;

  const { value } = result;
  const content = "content" in value ? value.content : undefined;
  const output = "data" in value ? value.data : content;
  const checks = await Promise.all([output, value, result].map((candidate) => schema.validate(candidate)));
  const [check] = checks;
  if (!check || check.valid || checks.some(({ valid }) => valid)) return result;

  const issues = check.issues.slice(0, 5);
  const problems = issues.map((issue) => describeSchemaIssue(`the output of ${tool.name}`, issue, output));
  return failedResult(`The output of ${tool.name} does not match its schema. ${problems.join(". ")}.`, {
    code: "INVALID_OUTPUT",
    suggestion: "The tool may have done its work. Check before you call it again.",
    details: { output },
  });
}

/** A deadline is a timeout; any other abort is an interruption by a person. */
function stoppedResult(tool: string, signal: AbortSignal, progress: { started: boolean }): ToolResult {
  const { name } = (signal.reason ?? {}) as { name?: unknown };
  if (name !== "TimeoutError") return interruptedResult(tool, progress);
  return failedResult(`${tool} exceeded its time limit and was stopped.`, {
    code: "TIMEOUT",
    suggestion: "Divide the work into smaller calls.",
  });
}
