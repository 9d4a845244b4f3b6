import { type JSONSchema7, jsonSchema } from "ai";
import type { Approval } from "#domain/approval.ts";
import { abandonOnAbort } from "#domain/async-work.ts";
import { messageOf, UserError } from "#domain/errors.ts";
import type { ModelCall } from "#domain/events.ts";
import type { ToolResult } from "#domain/result.ts";
import { describeSchemaIssue } from "#domain/schema-issue.ts";
import { getLLMTools, getManualTools, type NamedTool, type ToolContext } from "#domain/tool.ts";
import { compileSchema, type ToolSchema } from "#domain/tool-schema.ts";
import type { Workspace } from "#domain/workspace.ts";
import { createRedactor } from "#text/redact.ts";
import {
  type CallContext,
  openToolContext,
  type PreparedCall,
  prepareCall,
  RepeatedCalls,
  type ReviewState,
  reviewCall,
  type ToolSchemas,
} from "./review-call.ts";
import type { ToolEvents } from "./tool-events.ts";
import {
  failedResult,
  interruptedResult,
  normalizeResult,
  resultOfError,
  truncateResult,
  withUnifiedDiff,
} from "./tool-result.ts";
import type { FinishedCall } from "./toolset.ts";

/** The tools of one run and the rules for calling them. */
export type Toolbox = Awaited<ReturnType<typeof createToolbox>>;

export interface ToolboxOptions {
  tools: readonly NamedTool[];
  workspace: Workspace;
  /** Every finished call, oldest first. */
  history: () => readonly FinishedCall[];
  /** Receives the events of each call: start, output, end and failure. */
  events?: ToolEvents;
  /** The maximum size of one result for the model, in estimated tokens. Default: 30,000. */
  maxResultTokens?: number;
  /** Tools that always need approval, regardless of their settings. */
  alwaysAsk?: readonly string[];
  /** The names of the tools that the model is offered. Default: all. The model may still call the others. */
  offeredTools?: readonly string[] | undefined;
  /** Removes what must not be posted in a request. Default: what looks like a well-known token. */
  redact?: ((text: string) => string) | undefined;
  /** Releases the resources held by the tools. */
  close?: () => Promise<void>;
}

/** Creates a toolbox. Rejects with a UserError if two tools share a name or a schema is invalid. */
export async function createToolbox({
  tools,
  workspace,
  history,
  events,
  maxResultTokens = 30_000,
  alwaysAsk = [],
  offeredTools,
  redact = createRedactor([]),
  close = async () => {},
}: ToolboxOptions) {
  const find = indexTools(tools);
  const schemas = new Map(await Promise.all(tools.map(async (tool) => [tool, await compileSchemas(tool)] as const)));
  const isOffered = ({ name }: NamedTool) => !offeredTools || offeredTools.includes(name);
  const offered = getLLMTools(tools.filter(isOffered)).map((tool) => ({
    ...tool,
    // Only the JSON Schema is offered: this module validates arguments itself, after repairing them where possible.
    inputSchema: jsonSchema(withoutNoise(schemas.get(tool)?.input.json) as JSONSchema7),
  }));
  const state: ToolboxState = {
    callable: { model: getLLMTools(tools), person: getManualTools(tools) },
    ...{ offered, find, schemas, workspace, events, maxResultTokens, alwaysAsk, redact },
    repeated: new RepeatedCalls(history, find),
    prepared: new Map(),
  };

  return {
    tools,
    /** The tools that the model is offered, in a stable order and with JSON Schemas. */
    offered,
    /** Finds a tool by name or alias. */
    find,
    /**
     * Validates a call and decides whether it may run. `remembered` contains the approvals given for the session. Never
     * throws: an invalid call is refused with a result that tells the model how to correct it.
     */
    review: (call: ModelCall, context: CallContext, remembered: readonly Approval[]) =>
      reviewCall(state, call, context, remembered),
    /** Runs an allowed call, which is not validated again if it was reviewed here. Failures are results, not errors. */
    execute: (call: ModelCall, context: CallContext) => executeCall(state, call, context),
    /** True for a call that is reported, and not repeated, after a crash has interrupted it. */
    runsOnce: (call: ModelCall, context: CallContext) => runsOnce(state, call, context),
    close,
  };
}

/** Limits that models do not exceed, but that are still enforced for a call. */
const sizeLimits = ["minLength", "maxLength", "minItems", "maxItems", "$schema"];

/** Removes parts of a schema that cost tokens and do not inform the model. Calls are checked with the whole. */
function withoutNoise(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withoutNoise);
  if (schema === null || typeof schema !== "object") return schema;
  const entries = Object.entries(schema).flatMap(([key, value]): [string, unknown][] => {
    if (key === "properties") return [[key, withoutRare(value)]];
    const isSafeInteger = (key === "minimum" || key === "maximum") && Math.abs(value) === Number.MAX_SAFE_INTEGER;
    const isNatural = key === "minimum" && (value === 0 || value === 1);
    return sizeLimits.includes(key) || isSafeInteger || isNatural ? [] : [[key, withoutNoise(value)]];
  });
  return Object.fromEntries(entries);
}

/** Removes properties marked `rare`, which are accepted, but rarely needed or aliases of other tool systems. */
function withoutRare(properties: Record<string, { rare?: boolean }>): Record<string, unknown> {
  const own = Object.entries(properties).filter(([, { rare }]) => !rare);
  return Object.fromEntries(own.map(([name, property]) => [name, withoutNoise(property)]));
}

/** Finds a tool by name, then by alias, then by either while ignoring case and hyphens. Names take precedence over aliases. */
function indexTools(tools: readonly NamedTool[]): (name: string) => NamedTool | undefined {
  const byName = new Map<string, NamedTool>();
  for (const tool of tools) {
    if (byName.has(tool.name)) throw new UserError(`Two tools are named ${tool.name}. Remove one of them.`);
    byName.set(tool.name, tool);
  }
  const byAlias = new Map<string, NamedTool>();
  for (const tool of tools) {
    for (const alias of tool.aliases ?? []) {
      const other = byAlias.get(alias);
      if (other) throw new UserError(`${other.name} and ${tool.name} share the alias ${alias}. Remove one of them.`);
      byAlias.set(alias, tool);
    }
  }
  const normalize = (name: string) => name.toLowerCase().replaceAll("-", "_");
  const byNormalizedName = new Map([...byAlias, ...byName].map(([name, tool]) => [normalize(name), tool]));

  return (name) => byName.get(name) ?? byAlias.get(name) ?? byNormalizedName.get(normalize(name));
}

async function compileSchemas(tool: NamedTool): Promise<ToolSchemas> {
  try {
    return {
      input: await compileSchema(tool.inputSchema),
      output: tool.outputSchema && (await compileSchema(tool.outputSchema)),
    };
  } catch (error) {
    const reason = messageOf(error);
    throw new UserError(`The schema of the tool ${tool.name} is invalid: ${reason}`, { cause: error });
  }
}

/** The tools of a run, the rules for their calls, and the receivers of call events. */
interface ToolboxState extends ReviewState {
  events: ToolEvents | undefined;
  maxResultTokens: number;
}

async function runsOnce(state: ToolboxState, call: ModelCall, context: CallContext): Promise<boolean> {
  const { afterCrash } = state.find(call.tool) ?? {};
  if (typeof afterCrash !== "function") return afterCrash === "report";
  const prepared = await prepareCall(state, call, context);
  // A call that is refused has no effect.
  return !("refused" in prepared) && afterCrash(prepared.value) === "report";
}

/** Runs a call that was allowed. Never throws: failures, timeouts and interruptions are results. */
async function executeCall(state: ToolboxState, call: ModelCall, context: CallContext): Promise<ToolResult> {
  const startedAt = performance.now();
  const result = await prepareAndRun(state, call, context).catch(resultOfError);
  return { ...result, durationMs: Math.round(performance.now() - startedAt) };
}

async function prepareAndRun(state: ToolboxState, call: ModelCall, context: CallContext): Promise<ToolResult> {
  const preparing = await abandonOnAbort(() => prepareCall(state, call, context), context.abortSignal);
  if (preparing.abandoned) return stoppedResult(call.tool, context.abortSignal, { started: false });
  const prepared = preparing.value;
  if ("refused" in prepared) return prepared.refused;
  state.prepared.delete(call.callId);

  const isPersons = prepared.invokedBy === "person";
  const warning = isPersons ? undefined : state.repeated.warningFor(prepared, context.run.step);
  const result = truncateResult(await runWithEvents(state, prepared, context), state.maxResultTokens);
  return warning && !result.error ? { ...result, llmContent: `${warning}\n\n${result.llmContent}` } : result;
}

async function runWithEvents(
  state: ToolboxState,
  prepared: PreparedCall,
  callContext: CallContext,
): Promise<ToolResult> {
  const { events } = state;
  const { callId } = prepared.call;
  const toolName = prepared.tool.name;
  const now = () => ({ id: callId, timestamp: Date.now() });
  events?.emit({ ...now(), type: "tool_call_start", data: { toolName, arguments: prepared.args } });

  const { context, close } = openToolContext(state.workspace, { callId }, callContext);
  let hasEnded = false;
  const output = (chunk: string) => {
    if (hasEnded) return;
    events?.emit({ ...now(), type: "tool_output_chunk", data: { toolName, chunk } });
    callContext.output(chunk);
  };
  const result = await runTool(prepared, { ...context, output });
  close();
  hasEnded = true;

  const { error } = result;
  if (error) events?.emit({ ...now(), type: "error", data: { toolName, error: error.message, result } });
  else events?.emit({ ...now(), type: "tool_call_end", data: { toolName, success: true, result } });
  return result;
}

async function runTool({ tool, value, outputSchema }: PreparedCall, context: ToolContext): Promise<ToolResult> {
  const { execute } = tool;
  if (!execute) return failedResult(`${tool.name} has no execute function.`, { code: "UNAVAILABLE" });

  const signal = context.abortSignal;
  try {
    const outcome = await abandonOnAbort(() => execute.call(tool, value, context), signal);
    if (outcome.abandoned) return stoppedResult(tool.name, signal, { started: true });

    return withUnifiedDiff(await checkOutput(tool, outputSchema, outcome.value));
  } catch (error) {
    return signal.aborted ? stoppedResult(tool.name, signal, { started: true }) : resultOfError(error);
  }
}

/** Checks a result against the tool's output schema, in any of the places where a result may contain the value. */
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

/** Returns a timeout if the deadline aborted the call. Any other abort is an interruption by a person. */
function stoppedResult(tool: string, signal: AbortSignal, progress: { started: boolean }): ToolResult {
  const isDeadline = signal.reason instanceof Error && signal.reason.name === "TimeoutError";
  if (!isDeadline) return interruptedResult(tool, progress);
  return failedResult(`${tool} exceeded its time limit and was stopped.`, {
    code: "TIMEOUT",
    suggestion: "Divide the work into smaller calls.",
  });
}
