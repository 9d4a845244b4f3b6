import type { NamedTool } from "#domain/tool.ts";
import type { WorkerDefinition } from "#domain/worker.ts";
import { createToolbox } from "./create-toolbox.ts";
import { toolsets as allToolsets } from "./registry.ts";
import { resolveToolsets } from "./resolve-toolsets.ts";
import type { ToolEvents } from "./tool-events.ts";
import type { Toolbox } from "./toolbox.ts";
import type { ToolServices, Toolset } from "./toolset.ts";

export interface OpenToolboxOptions {
  /** Default: every toolset of the registry. */
  toolsets?: readonly Toolset[];
  /** Tools in addition to those of the toolsets. */
  tools?: readonly NamedTool[];
  /** Receives an event when a call starts, prints output, ends or fails. */
  events?: ToolEvents;
  /** Maximum size of one result for the model, in estimated tokens. Default: 30,000. */
  maxResultTokens?: number;
  /** Tools that need approval regardless of their settings. */
  alwaysAsk?: readonly string[];
}

/**
 * Opens the toolsets of a worker. Rejects with a UserError for an unknown toolset or setting, with a suggestion, for an
 * invalid setting, and for two tools with the same name; tools opened until then are closed.
 */
export async function openToolbox(
  worker: WorkerDefinition,
  services: ToolServices,
  { toolsets = allToolsets, tools: given = [], events, maxResultTokens, alwaysAsk }: OpenToolboxOptions = {},
): Promise<Toolbox> {
  const wanted = resolveToolsets(worker, toolsets);
  const release: (() => Promise<void>)[] = [];
  const close = async () => {
    const closed = await Promise.allSettled(release.splice(0).map((one) => one()));
    for (const outcome of closed) if (outcome.status === "rejected") throw outcome.reason;
  };

  try {
    const tools: NamedTool[] = [];
    for (const { toolset, config } of wanted) {
      tools.push(...(await toolset.create(config, withOnClose(services, release))));
    }
    const { workspace } = services;
    return await createToolbox({
      tools: [...tools, ...given],
      workspace,
      history: () => services.history(),
      close,
      ...(events && { events }),
      ...(maxResultTokens !== undefined && { maxResultTokens }),
      ...(alwaysAsk && { alwaysAsk }),
    });
  } catch (error) {
    // The original error matters more than a failure to close.
    await close().catch(() => {});
    throw error;
  }
}

/** Adds `onClose` to the services, which collects the functions that release resources. */
function withOnClose(services: ToolServices, release: (() => Promise<void>)[]): ToolServices {
  const onClose = (one: () => Promise<void>) => release.push(one);
  return Object.create(Object.getPrototypeOf(services), {
    ...Object.getOwnPropertyDescriptors(services),
    onClose: { value: onClose, enumerable: true },
  });
}
