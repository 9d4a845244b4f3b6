import type { FlexibleSchema, ToolExecutionOptions } from "ai";
import type { Preview } from "./preview.ts";
import type { Workspace } from "./workspace.ts";

/** Who may invoke a tool: the model, a person with a command, or either. */
export type ExecutionMode = "llm" | "manual" | "both";

export interface ManualExecution {
  mode: ExecutionMode;
  /** Human-readable name. */
  label?: string;
  /** Grouping in a user interface. */
  category?: string;
}

/** What a tool gets besides its arguments: the AI SDK's execution options, and the run it works for. */
export interface ToolContext extends Omit<ToolExecutionOptions<unknown>, "abortSignal" | "context"> {
  /** Aborted when a person stops the run or a deadline passes. */
  abortSignal: AbortSignal;
  /** The repository as this worker may see it. */
  sandbox: Workspace;
  run: ToolRun;
  /** Streams a piece of output to whoever is watching; it is not part of the result. */
  output(chunk: string): void;
  /** Names this call for ever: the same after a crash and a restart, so an outside service can be asked "did I already?" */
  idempotencyKey: string;
  context?: unknown;
}

/** The run as a tool may know it. */
export interface ToolRun {
  id: string;
  /** The name of the worker. */
  worker: string;
  /** 0 for a root run. */
  depth: number;
  /** Which call of the model this is, counted from 1: the turn for redundancy and staleness rules. */
  step: number;
}

/**
 * A tool of the AI SDK with a name, and the two questions Golem Forge asks of each: who may invoke it, and must a
 * person agree first. `execute` may return any JSON value, a ResultValue (`{ kind, … }`) or a ToolResult
 * (`{ llmContent, value }`); what it throws becomes the error result of the call.
 */
// biome-ignore lint/suspicious/noExplicitAny: a registry holds tools of every input type, as the AI SDK's own Tool does
export interface NamedTool<Input = any, Output = any> {
  name: string;
  description: string;
  inputSchema: FlexibleSchema<Input>;
  outputSchema?: FlexibleSchema<Output>;
  execute?: (args: Input, context: ToolContext) => Promise<Output> | Output;
  /** True, or a function that says so for these arguments, when a person must agree before it runs. Throws BlockedError for what nobody may do. */
  needsApproval?: boolean | NeedsApproval<Input>;
  manualExecution?: ManualExecution;
  /** Other names the model or a person may call it by. */
  aliases?: readonly string[];
  /** What a call would do, for the person who approves it: sections, or plain text. The approval is bound to it. */
  preview?: (args: Input, context: ToolContext) => Promise<Preview | string | undefined> | Preview | string | undefined;
  /** Why a person is asked, as a sentence. Default: "<worker> wants to call <tool>." */
  approvalReason?: (args: Input) => string;
  /** Reads only: a repeated call in one turn is refused as redundant. */
  readOnly?: boolean;
  /**
   * What to do with a call that was under way when the process died. `repeat` (the default) is for tools that change
   * nothing but the sandbox, whose half-made changes are gone with the process, or that look before they act.
   * `report` tells the model that it is not known whether the call took effect.
   */
  afterCrash?: "repeat" | "report";
  /** Calls that the run itself answers instead of `execute`: a person's sentence, or another worker's work. */
  answeredBy?: { kind: "person" } | { kind: "worker"; worker: string };
}

export type NeedsApproval<Input> = (args: Input, context: ToolContext) => boolean | Promise<boolean>;

function modeOf(tool: NamedTool): ExecutionMode {
  return tool.manualExecution?.mode ?? "llm";
}

/** The tools a model is offered: mode `llm`, `both` or none given. Takes a list, or tools by name, and gives the same. */
export function getLLMTools<T extends NamedTool>(tools: readonly T[]): T[];
export function getLLMTools<T extends NamedTool>(tools: Readonly<Record<string, T>>): Record<string, T>;
export function getLLMTools<T extends NamedTool>(tools: readonly T[] | Readonly<Record<string, T>>) {
  return pick(tools, isLLMTool);
}

/** The tools a person may invoke: mode `manual` or `both`. Takes a list, or tools by name, and gives the same. */
export function getManualTools<T extends NamedTool>(tools: readonly T[]): T[];
export function getManualTools<T extends NamedTool>(tools: Readonly<Record<string, T>>): Record<string, T>;
export function getManualTools<T extends NamedTool>(tools: readonly T[] | Readonly<Record<string, T>>) {
  return pick(tools, isManualTool);
}

/** True for a tool that a model is offered. */
export function isLLMTool(tool: NamedTool): boolean {
  return ["llm", "both"].includes(modeOf(tool));
}

/** True for a tool that a person may invoke. */
export function isManualTool(tool: NamedTool): boolean {
  return ["manual", "both"].includes(modeOf(tool));
}

function pick<T extends NamedTool>(
  tools: readonly T[] | Readonly<Record<string, T>>,
  wanted: (tool: NamedTool) => boolean,
): T[] | Record<string, T> {
  if (Array.isArray(tools)) return tools.filter(wanted);
  return Object.fromEntries(Object.entries(tools).filter(([, tool]) => wanted(tool)));
}
