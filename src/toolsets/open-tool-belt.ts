import type { z } from "zod";
import { UserError } from "#errors.ts";
import { nearest } from "#nearest.ts";
import type { NamedTool } from "#tool.ts";
import type { WorkerDefinition } from "#worker.ts";
import { createToolBelt } from "./create-tool-belt.ts";
import { toolsets as allToolsets } from "./registry.ts";
import type { ToolBelt } from "./tool-belt.ts";
import type { ToolEvents } from "./tool-events.ts";
import type { ToolServices, Toolset } from "./toolset.ts";

export interface OpenToolBeltOptions {
  /** Default: every toolset of the registry. */
  toolsets?: readonly Toolset[];
  /** Hears each call start, print, end and fail. */
  events?: ToolEvents;
  /** What the model reads of one result, in estimated tokens. Default: 30,000. */
  maxResultTokens?: number;
}

/**
 * Opens the toolsets a worker names. Rejects with a UserError for a toolset or a setting that is not known, with the
 * nearest that is, for a setting that cannot work, and for two tools of one name. What was opened is closed then.
 */
export async function openToolBelt(
  worker: WorkerDefinition,
  services: ToolServices,
  { toolsets = allToolsets, events, maxResultTokens }: OpenToolBeltOptions = {},
): Promise<ToolBelt> {
  const wanted = resolveToolsets(worker, toolsets);
  const release: (() => Promise<void>)[] = [];
  const close = async () => {
    const closed = await Promise.allSettled(release.splice(0).map((one) => one()));
    for (const outcome of closed) if (outcome.status === "rejected") throw outcome.reason;
  };

  try {
    const tools: NamedTool[] = [];
    for (const { toolset, config } of wanted) {
      const lent: ToolServices = Object.create(services, {
        onClose: { value: (one: () => Promise<void>) => release.push(one) },
      });
      tools.push(...(await toolset.create(config, lent)));
    }
    const { workspace } = services;
    return await createToolBelt({
      tools,
      workspace,
      history: () => services.history(),
      close,
      ...(events && { events }),
      ...(maxResultTokens !== undefined && { maxResultTokens }),
    });
  } catch (error) {
    // The reason why it did not open matters more than a failure to close.
    await close().catch(() => {});
    throw error;
  }
}

interface WantedToolset {
  toolset: Toolset;
  config: unknown;
}

function resolveToolsets(worker: WorkerDefinition, known: readonly Toolset[]): WantedToolset[] {
  const wanted = Object.entries(worker.toolsets).map(([name, given]) => {
    const toolset = known.find((one) => one.name === name || one.aliases?.includes(name));
    if (!toolset) throw new UserError(unknownToolset(worker.name, name, known));
    return { name, toolset, config: readConfig(worker.name, name, toolset, given ?? {}) };
  });

  for (const [index, { name, toolset }] of wanted.entries()) {
    const first = wanted.findIndex((other) => other.toolset === toolset);
    if (first === index) continue;
    throw new UserError(`The worker ${worker.name} names one toolset twice: ${wanted[first]?.name} and ${name}.`);
  }
  return wanted;
}

function unknownToolset(worker: string, name: string, known: readonly Toolset[]): string {
  const near = nearest(
    name,
    known.flatMap((toolset) => [toolset.name, ...(toolset.aliases ?? [])]),
  );
  const names = known.map((toolset) => toolset.name).join(", ") || "none";
  const hint = near ? `, did you mean ${near}?` : ".";
  return `The worker ${worker} names the toolset ${name}, which does not exist${hint} There are: ${names}.`;
}

function readConfig(worker: string, name: string, toolset: Toolset, given: unknown): unknown {
  const parsed = toolset.config.safeParse(given);
  if (parsed.success) return parsed.data;

  const problems = parsed.error.issues.map((issue) => describeProblem(issue, toolset.config));
  throw new UserError(`The toolset ${name} of the worker ${worker} cannot be set up so: ${problems.join(" ")}`);
}

function describeProblem(issue: z.core.$ZodIssue, config: z.ZodType): string {
  const place = issue.path.join(".");
  if (issue.code !== "unrecognized_keys") return `${place ? `${place}: ` : ""}${issue.message}.`;

  const shape = (config as { shape?: Record<string, unknown> }).shape;
  const known = issue.path.length === 0 && shape ? Object.keys(shape) : [];
  return issue.keys
    .map((key) => {
      const near = nearest(key, known);
      return `unknown field ${place ? `${place}.` : ""}${key}${near ? `, did you mean ${near}` : ""}.`;
    })
    .join(" ");
}
