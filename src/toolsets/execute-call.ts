import { describeSchemaIssue } from "#domain/describe-schema-issue.ts";
import type { ModelCall } from "#domain/events.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import type { ToolSchema } from "#domain/tool-schema.ts";
import { abandonOnAbort } from "./abandon-on-abort.ts";
import { failedResult, interruptedResult, resultOfError } from "./failed-result.ts";
import { type FoundCall, findCall } from "./find-call.ts";
import { normalizeResult } from "./normalize-result.ts";
import { revocableWorkspace } from "./revocable-workspace.ts";
import { toJsonValue } from "./to-json-value.ts";
import { schemasOf, type ToolExecutionContext, toolContext } from "./tool-execution-context.ts";
import type { CallContext } from "./toolbox.ts";
import { truncateToTokens } from "./truncate-to-tokens.ts";
import { truncateValue } from "./truncate-value.ts";

/** Runs a call that was allowed. Never throws: failures, timeouts and interruptions are results. */
export async function executeCall(
  desk: ToolExecutionContext,
  call: ModelCall,
  context: CallContext,
): Promise<ToolResult> {
  const startedAt = performance.now();
  const result = await execute(desk, call, context);
  return { ...result, durationMs: Math.round(performance.now() - startedAt) };
}

async function execute(desk: ToolExecutionContext, call: ModelCall, context: CallContext): Promise<ToolResult> {
  try {
    const finding = await abandonOnAbort(() => findCall(desk, call, context), context.abortSignal);
    if (finding.abandoned) return stoppedResult(call.tool, context.abortSignal, { started: false });
    const found = finding.value;
    if ("refused" in found) return found.refused;

    const { tool, args } = found;
    const checked = { callId: call.callId, tool, args: [call.args, args] as const, step: context.run.step };
    const warning = context.invokedBy === "person" ? undefined : desk.repeated.warning(checked);
    const result = await runWithEvents(desk, call.callId, found, context);
    const llmContent = truncateToTokens(result.llmContent, desk.maxResultTokens);
    return {
      ...result,
      value: truncateValue(result.value),
      llmContent: warning && !result.error ? `${warning}\n\n${llmContent}` : llmContent,
    };
  } catch (error) {
    return resultOfError(error);
  }
}

async function runWithEvents(
  desk: ToolExecutionContext,
  callId: string,
  found: FoundCall,
  context: CallContext,
): Promise<ToolResult> {
  const toolName = found.tool.name;
  const now = () => ({ id: callId, timestamp: Date.now() });
  desk.events?.emit({ ...now(), type: "tool_call_start", data: { toolName, arguments: found.args } });

  let isOver = false;
  const output = (chunk: string) => {
    if (isOver) return;
    desk.events?.emit({ ...now(), type: "tool_output_chunk", data: { toolName, chunk } });
    context.output(chunk);
  };
  const lent = revocableWorkspace(desk.workspace);
  const result = await run(desk, found, { ...toolContext(lent.workspace, callId, context), output });
  lent.revoke();
  isOver = true;

  const { error } = result;
  if (error) desk.events?.emit({ ...now(), type: "error", data: { toolName, error: error.message, result } });
  else desk.events?.emit({ ...now(), type: "tool_call_end", data: { toolName, success: true, result } });
  return result;
}

async function run(desk: ToolExecutionContext, { tool, value }: FoundCall, context: ToolContext): Promise<ToolResult> {
  const { execute } = tool;
  if (!execute)
    return failedResult(`${tool.name} cannot be executed: it has nothing to execute.`, { code: "UNAVAILABLE" });

  const signal = context.abortSignal;
  try {
    const work = async () => lastOf(await execute.call(tool, value, context));
    const outcome = await abandonOnAbort(work, signal);
    if (outcome.abandoned) return stoppedResult(tool.name, signal, { started: true });

    return await checkOutput(tool, schemasOf(desk, tool).output, outcome.value);
  } catch (error) {
    return signal.aborted ? stoppedResult(tool.name, signal, { started: true }) : resultOfError(error);
  }
}

/** An execution that yields gives its last word as its result, as in the AI SDK. */
async function lastOf(returned: unknown): Promise<unknown> {
  if (typeof returned !== "object" || returned === null || !(Symbol.asyncIterator in returned)) return returned;

  let last: unknown;
  for await (const word of returned as AsyncIterable<unknown>) last = word;
  return last;
}

async function checkOutput(tool: NamedTool, schema: ToolSchema | undefined, returned: unknown): Promise<ToolResult> {
  const result = normalizeResult(returned);
  if (!schema || result.error) return result;

  // A result that serves both readers keeps what the schema speaks of in its value.
  const { value } = result;
  const places = [returned, value, "data" in value ? value.data : undefined];
  const checks = await Promise.all(places.map((place) => schema.validate(place)));
  if (checks.some((check) => check.valid)) return result;

  const isShaped = returned !== null && typeof returned === "object" && "llmContent" in returned;
  const place = isShaped ? 2 : 0;
  const check = checks[place];
  const issues = check && !check.valid ? check.issues.slice(0, 5) : [];
  const problems = issues.map((issue) => describeSchemaIssue(`the output of ${tool.name}`, issue, places[place]));
  return failedResult(`${tool.name} returned something else than it promises. ${problems.join(". ")}.`, {
    code: "INVALID_OUTPUT",
    suggestion: "The tool may have done its work all the same: look before you call it again.",
    details: { output: toJsonValue(returned) },
  });
}

/** A deadline is a timeout; everything else that aborts is a person. */
function stoppedResult(tool: string, signal: AbortSignal, progress: { started: boolean }): ToolResult {
  const { name } = (signal.reason ?? {}) as { name?: unknown };
  if (name !== "TimeoutError") return interruptedResult(tool, progress);
  return failedResult(`${tool} took longer than it may and was stopped.`, {
    code: "TIMEOUT",
    suggestion: "Try a smaller piece of the work.",
  });
}
