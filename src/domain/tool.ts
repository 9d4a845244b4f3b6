import type { FlexibleSchema, ToolExecutionOptions } from "ai";
import type { Account } from "./github.ts";
import type { Preview } from "./preview.ts";
import type { Workspace } from "./workspace.ts";

/** The callers that a tool allows: the model, a person with a command, or both. */
export type ExecutionMode = "llm" | "manual" | "both";

export interface ManualExecution {
  mode: ExecutionMode;
  /** Human-readable name. */
  label?: string;
  /** Grouping in a user interface. */
  category?: string;
}

/** The second argument of a tool's `execute`: the AI SDK's execution options, and the run that the call belongs to. */
export interface ToolContext extends Omit<ToolExecutionOptions<unknown>, "abortSignal" | "context"> {
  /** Aborted when the run is stopped or reaches its time limit. */
  abortSignal: AbortSignal;
  /** The repository, restricted to the paths this worker may access. */
  sandbox: Workspace;
  run: ToolRun;
  /** Streams output to people who are watching. It does not become part of the result. */
  output(chunk: string): void;
  /** Identifies the call permanently, even after a crash and a restart. Pass it to external services to avoid duplicates. */
  idempotencyKey: string;
  context?: unknown;
  /** The approved preview; undefined for a call that needed no approval. */
  approved?: Preview;
  /** The approval under which the call runs, with everyone who gave it. */
  approval?: { id: string; digest: string; by: readonly Account[] };
}

/** The properties of the run that tools may read. */
export interface ToolRun {
  id: string;
  /** The worker's name. */
  worker: string;
  /** 0 for a root run. */
  depth: number;
  /** The number of the model call, counted from 1. The rules about redundant and stale calls use it. */
  step: number;
}

/**
 * An AI SDK tool with a name, and with rules for who may call it and whether a person has to approve. `execute` may return
 * any JSON value, a ResultValue (`{ kind, … }`) or a ToolResult (`{ llmContent, value }`). An error that it throws becomes
 * the error result of the call.
 */
// biome-ignore lint/suspicious/noExplicitAny: a registry holds tools of every input type, as the AI SDK's own Tool does
export interface NamedTool<Input = any, Output = any> {
  name: string;
  description: string;
  inputSchema: FlexibleSchema<Input>;
  outputSchema?: FlexibleSchema<Output>;
  execute?: (args: Input, context: ToolContext) => Promise<Output> | Output;
  /** True, or a function that returns true, if a person has to approve the call. Throws BlockedError for forbidden calls. */
  needsApproval?: boolean | NeedsApproval<Input>;
  manualExecution?: ManualExecution;
  /** Alternative names for calls. */
  aliases?: readonly string[];
  /** Describes for the approver what a call would do, in sections or plain text. The approval is bound to it. */
  preview?: (args: Input, context: ToolContext) => Promise<Preview | string | undefined> | Preview | string | undefined;
  /** True if the call posts its texts without what looks like a secret, as its preview shows them. */
  postsWithoutSecrets?: boolean;
  /** The reason for asking, as a sentence. Default: "<worker> wants to call <tool>." */
  approvalReason?: (args: Input) => string;
  /** True if the tool only reads. An identical second call in one turn is refused as redundant. */
  readOnly?: boolean;
  /**
   * The handling of a call that was interrupted by a crash. `repeat` (the default) suits tools that only change the sandbox,
   * where unfinished changes are discarded, and tools that check for an earlier effect. `report` tells the model that the
   * outcome is unknown. A function decides it for each call.
   */
  afterCrash?: AfterCrash | ((args: Input) => AfterCrash);
  /** Set for calls that are answered by a person's message or by a child run, instead of by `execute`. */
  answeredBy?: { kind: "person" } | { kind: "worker"; worker: string };
}

type AfterCrash = "repeat" | "report";

export type NeedsApproval<Input> = (args: Input, context: ToolContext) => boolean | Promise<boolean>;

/** A tool of any form that says who may call it. */
type CallableTool = Pick<NamedTool, "manualExecution">;

function modeOf(tool: CallableTool): ExecutionMode {
  return tool.manualExecution?.mode ?? "llm";
}

/** The tools for the model: mode `llm`, `both` or none. Returns a list for a list and a record for a record. */
export function getLLMTools<T extends CallableTool>(tools: readonly T[]): T[];
export function getLLMTools<T extends CallableTool>(tools: Readonly<Record<string, T>>): Record<string, T>;
export function getLLMTools<T extends CallableTool>(tools: readonly T[] | Readonly<Record<string, T>>) {
  return pick(tools, isLLMTool);
}

/** The tools for people: mode `manual` or `both`. Returns a list for a list and a record for a record. */
export function getManualTools<T extends CallableTool>(tools: readonly T[]): T[];
export function getManualTools<T extends CallableTool>(tools: Readonly<Record<string, T>>): Record<string, T>;
export function getManualTools<T extends CallableTool>(tools: readonly T[] | Readonly<Record<string, T>>) {
  return pick(tools, isManualTool);
}

/** True for tools that the model may call. */
export function isLLMTool(tool: CallableTool): boolean {
  return ["llm", "both"].includes(modeOf(tool));
}

/** True for tools that people may call. */
export function isManualTool(tool: CallableTool): boolean {
  return ["manual", "both"].includes(modeOf(tool));
}

function pick<T extends CallableTool>(
  tools: readonly T[] | Readonly<Record<string, T>>,
  wanted: (tool: CallableTool) => boolean,
): T[] | Record<string, T> {
  if (Array.isArray(tools)) return tools.filter(wanted);
  return Object.fromEntries(Object.entries(tools).filter(([, tool]) => wanted(tool)));
}
