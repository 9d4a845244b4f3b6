import type { z } from "zod";
import type { ForeignTool } from "#compat/adapt-tool.ts";
import { type Config, readModelSettings } from "#config/config.ts";
import { messageOf, UserError } from "#domain/errors.ts";
import { isTextMediaType } from "#domain/events.ts";
import type { WorkerDefinition } from "#domain/worker.ts";
import type { Workspace } from "#domain/workspace.ts";
import { createModels } from "#models/create-models.ts";
import { ModelFailureError, type Models, modelMatches } from "#models/models.ts";
import type { AttachedFile } from "#runtime/start/attachments.ts";
import type { ToolEvents } from "#toolsets/tool-events.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import type { ApprovalCallback, ApprovalController, ApprovalMode } from "#ui/approval-controller.ts";
import type { InterruptSignal } from "#ui/interrupt-signal.ts";
import type { RuntimeEventCallback } from "#ui/runtime-events.ts";
import type { UIEventBus } from "#ui/ui-event-bus.ts";
import type { RunEnd } from "./run-reporter.ts";

/** A worker: a definition with defaults for what is left out, the text of a `.worker` file, or the path of one or of a program. */
export type WorkerSource = z.input<typeof WorkerDefinition> | string;

/** The workers that may be called, by name, or a function that finds one. */
export type WorkerSources =
  | Readonly<Record<string, WorkerSource>>
  | ((name: string) => WorkerSource | undefined | Promise<WorkerSource | undefined>);

export interface WorkerRuntimeOptions {
  worker: WorkerSource;
  /** `provider:model`. Default: the worker's own, then that of `models`. */
  model?: string;
  /** Your own `Models`, or keys and addresses of providers. Default: read from the environment. */
  models?: Models | ModelSettings;
  /** The worker's files. Default: an empty workspace in memory. Those of a checkout also allow the toolset `git`. */
  sandbox?: Workspace;
  /** Tools in addition to those of the worker's toolsets. A tool that does not say whether it needs approval needs it. */
  tools?: readonly ForeignTool[] | Readonly<Record<string, ForeignTool>>;
  /** The user interface: `createEventCLIAdapter`, or anything with a bus. */
  uiAdapter?: { readonly bus: UIEventBus };
  /** The bus of a user interface, as an alternative to `uiAdapter`. */
  bus?: UIEventBus;
  interruptSignal?: InterruptSignal;
  /** The worker's depth in a tree of workers. Default: 0, the root. Only a root can chat. */
  depth?: number;
  /** The maximum number of levels below the root. Default: the `limits.depth` of each worker. */
  maxDelegationDepth?: number;
  /** Default: `interactive` if there is a callback or a bus, otherwise `auto_deny`. */
  approvalMode?: ApprovalMode;
  /** Asks a person. Default: the bus. */
  approvalCallback?: ApprovalCallback;
  /** Decides instead of `approvalMode` and `approvalCallback`, and may be shared between runtimes. */
  approvalController?: ApprovalController;
  onEvent?: RuntimeEventCallback;
  /** Receives the start, output, end and failure of each tool call. */
  toolEvents?: ToolEvents;
  /** The maximum number of model calls in one run. Default: the worker's `limits.steps`. */
  maxIterations?: number;
  /** Toolsets that no worker gets here, even if its file names them. */
  omitToolsets?: readonly string[];
  /** Instructions about the environment, added to those of every worker. */
  briefing?: string;
  /** The environments in which commands run. Default: those of this process. */
  executors?: ToolServices["executors"];
  /** Hosts that `run_code` may reach if a person approves the call, as patterns such as `*.example.com`. Default: none. */
  networkHosts?: ToolServices["networkHosts"];
  /** Folders with programs that commands in the OS sandbox can use. */
  sandboxTools?: ToolServices["sandboxTools"];
  /** Web access beyond the public web: a search provider, hosts of a private network. */
  web?: ToolServices["web"];
  /** The workers that it and its callees may call, if their `workers` toolset allows it. Default: those of its program. */
  workers?: WorkerSources;
  /** The folder that holds the worker's `tools.ts`. Default: that of the worker's file. */
  workerDirectory?: string;
  /** The folder of the program: the modules of its workers may be anywhere in it. Default: the folder of each worker. */
  programDirectory?: string;
}

/** A file for the model. */
export interface RunAttachment {
  /** Its suffix decides whether the worker's attachment policy allows it. Default: `attachment`. */
  name?: string;
  /** For example `image/png`. */
  mimeType: string;
  /** Bytes, or a string: plain text for text types, base64 for all others. */
  data: Uint8Array | ArrayBuffer | string;
}

export type RunInput = string | { content: string; attachments?: readonly RunAttachment[] };

/** The result of a run. An interrupted run is a success whose response is `[Interrupted]`. */
export interface RunResult {
  success: boolean;
  /** The worker's answer; undefined if it failed. */
  response?: string;
  /** The reason for a failure, as a sentence. */
  error?: string;
  /** The number of tool calls, including refused and failed ones. */
  toolCallCount: number;
  /** Includes the tokens of called workers. */
  tokens: { input: number; output: number };
  /** In US dollars, for the model calls whose price is known. */
  cost?: number;
}

type Settings = Config["models"];

/** Keys and addresses of providers. Providers that are left out are not configured. */
export type ModelSettings = {
  /** `provider:model`. */
  default?: string;
} & { [Provider in Exclude<keyof Settings, "default">]?: Partial<Settings[Provider]> };

/** Returns the models of a program: its own, those of its settings, or those of the environment. */
export function chooseModels(given: Models | ModelSettings | undefined): Models {
  if (given && "call" in given) return withFailures(given);

  const { default: model, anthropic, openai, google, compatible } = given ?? readModelSettings(process.env);
  return createModels({
    default: model,
    anthropic: { apiKey: undefined, baseUrl: undefined, ...anthropic },
    openai: { apiKey: undefined, baseUrl: undefined, ...openai },
    google: { apiKey: undefined, ...google },
    compatible: { apiKey: undefined, baseUrl: undefined, ...compatible },
  });
}

/** Converts the errors of a program's own models, which may be of any kind, so that the run ends with their message. */
function withFailures(models: Models): Models {
  return {
    defaultModel: models.defaultModel,
    findModelProblem: (model) => models.findModelProblem(model),
    findToolProblem: (model, tool) => models.findToolProblem(model, tool),
    call: (request) =>
      models.call(request).catch((error) => {
        if (error instanceof ModelFailureError || request.signal.aborted) throw error;
        const message = messageOf(error);
        throw new ModelFailureError(message, { retryable: false, cause: error });
      }),
  };
}

export function toRunResult({ outcome, usage, cost }: RunEnd, toolCallCount: number): RunResult {
  const spent = {
    toolCallCount,
    tokens: { input: usage.inputTokens, output: usage.outputTokens },
    ...(cost > 0 && { cost }),
  };
  switch (outcome.kind) {
    case "answered":
      return { success: true, response: outcome.text, ...spent };
    case "interrupted":
    case "cancelled":
      return { success: true, response: "[Interrupted]", ...spent };
    case "limited":
    case "failed":
      return { success: false, error: outcome.reason, ...spent };
  }
}

export function checkWhole(option: Record<string, number | undefined>, least: number): void {
  for (const [name, value] of Object.entries(option)) {
    if (value === undefined || (Number.isInteger(value) && value >= least)) continue;
    throw new UserError(`${name} must be a whole number of at least ${least}, but is ${value}.`);
  }
}

export function checkUnchanged({ name }: WorkerDefinition, limits: Record<string, number | undefined>): void {
  for (const [option, value] of Object.entries(limits)) {
    if (value !== undefined) throw new UserError(`${name} is locked: ${option} cannot replace a limit of its file.`);
  }
}

export function checkCompatible(
  { name, compatible_models: patterns }: WorkerDefinition,
  model: string | undefined,
): void {
  if (model === undefined || modelMatches(patterns, model)) return;
  throw new UserError(
    `The model ${model} is not compatible with the worker ${name}, which works with ${patterns?.join(", ")}.`,
  );
}

export function toFile({ name = "attachment", mimeType, data }: RunAttachment): AttachedFile {
  return { name, mediaType: mimeType, bytes: bytesOf(data, mimeType) };
}

function bytesOf(data: RunAttachment["data"], mimeType: string): Buffer {
  if (typeof data === "string") return Buffer.from(data, isTextMediaType(mimeType) ? "utf8" : "base64");
  return data instanceof ArrayBuffer ? Buffer.from(data) : Buffer.from(data.buffer, data.byteOffset, data.byteLength);
}
