import type { z } from "zod";
import type { ForeignTool } from "#compat/adapt-tool.ts";
import type { WorkerDefinition } from "#domain/worker.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { Models } from "#models/models.ts";
import type { ToolEvents } from "#toolsets/tool-events.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import type { ApprovalCallback, ApprovalController, ApprovalMode } from "#ui/approval-controller.ts";
import type { InterruptSignal } from "#ui/interrupt-signal.ts";
import type { RuntimeEventCallback } from "#ui/runtime-events.ts";
import type { UIEventBus } from "#ui/ui-event-bus.ts";
import type { ModelSettings } from "./choose-models.ts";

/** A worker as a program has it: a definition, with defaults for what it leaves out; the text of a `.worker` file; or its path. */
export type WorkerSource = z.input<typeof WorkerDefinition> | string;

/** The workers that may be called, by name; or a function that finds them. */
export type WorkerCatalogue =
  | Readonly<Record<string, WorkerSource>>
  | ((name: string) => WorkerSource | undefined | Promise<WorkerSource | undefined>);

export interface WorkerRuntimeOptions {
  worker: WorkerSource;
  /** `provider:model`. Default: the worker's own, then that of `models`. */
  model?: string;
  /** Where models are called: a `Models`, or keys and addresses of providers. Default: the variables of the environment. */
  models?: Models | ModelSettings;
  /** The files the worker sees. Default: an empty one in memory. With those of a checkout it may have the toolset `git`. */
  sandbox?: Workspace;
  /** Tools in addition to those of the worker's toolsets. A tool that does not say whether it needs approval needs it. */
  tools?: readonly ForeignTool[] | Readonly<Record<string, ForeignTool>>;
  /** What shows the worker to people: `createEventCLIAdapter`, or anything with a bus. */
  uiAdapter?: { readonly bus: UIEventBus };
  /** The same without an adapter. */
  bus?: UIEventBus;
  interruptSignal?: InterruptSignal;
  /** Where the worker stands in a tree of workers; 0 (the default) is the root. Others are single-shot. */
  depth?: number;
  /** How many levels of workers may stand below the root. Default: the `limits.depth` of each worker. */
  maxDelegationDepth?: number;
  /** Default: `interactive` where there is a callback or a bus to ask, otherwise `auto_deny`. */
  approvalMode?: ApprovalMode;
  /** Asks a person. Default: the bus. */
  approvalCallback?: ApprovalCallback;
  /** Decides instead of `approvalMode` and `approvalCallback`, and may be shared between runtimes. */
  approvalController?: ApprovalController;
  onEvent?: RuntimeEventCallback;
  /** Hears each tool call start, print, end and fail. */
  toolEvents?: ToolEvents;
  /** How often the model may be called in one run. Default: the `limits.steps` of the worker. */
  maxIterations?: number;
  /** Toolsets that every worker here goes without, as if its file did not name them. */
  omitToolsets?: readonly string[];
  /** What every worker is told of the place it works in, after its own instructions. */
  briefing?: string;
  /** Where commands run. Default: those of this process. */
  executors?: ToolServices["executors"];
  /** What workers may reach of the web beyond its public part. */
  web?: ToolServices["web"];
  /** The workers this one and those below it may call, as far as their `workers` toolset allows. */
  workers?: WorkerCatalogue;
  /** The folder that holds the worker's `tools.ts`. Default: that of the worker's file. */
  workerDirectory?: string;
}

/** A file for the model. */
export interface RunAttachment {
  /** Decides by its suffix whether the worker takes it. Default: `attachment`. */
  name?: string;
  /** As in `image/png`. */
  mimeType: string;
  /** Bytes; or a string, which is the text itself for text types and base64 for others. */
  data: Uint8Array | ArrayBuffer | string;
}

export type RunInput = string | { content: string; attachments?: readonly RunAttachment[] };

/** What a run came to. An interrupted one is a success whose response is `[Interrupted]`. */
export interface RunResult {
  success: boolean;
  /** The worker's answer; undefined when it failed. */
  response?: string;
  /** Why it failed, as a sentence. */
  error?: string;
  /** How many tools the worker called, refused and failed calls included. */
  toolCallCount: number;
  /** Those of called workers included. */
  tokens: { input: number; output: number };
  /** US dollars, of the calls whose price is known. */
  cost?: number;
}
