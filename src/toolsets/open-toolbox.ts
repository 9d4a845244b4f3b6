import { UserError } from "#domain/errors.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { WorkerDefinition } from "#domain/worker.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import { closestMatch, didYouMean } from "#text/closest-match.ts";
import { describeProblems } from "#text/read-yaml.ts";
import { bindToWorker, callableBy } from "#toolsets/workers/workers-toolset.ts";
import { toolsets as allToolsets } from "./registry.ts";
import type { ToolEvents } from "./tool-events.ts";
import { createToolbox, type Toolbox } from "./toolbox.ts";
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
    const sources = new Map<string, string>();
    for (const resolved of wanted) {
      for (const tool of await resolved.toolset.create(resolved.config, withOnClose(services, release))) {
        const [first, second] = [sources.get(tool.name), sourceOf(tool, resolved)];
        if (first !== undefined) throw new UserError(describeSameName(tool.name, [first, second]));
        sources.set(tool.name, second);
        tools.push(tool);
      }
    }
    const { workspace, redact } = services;
    return await createToolbox({
      tools: [...tools, ...given].map((tool) => bindToWorker(tool, services)),
      workspace,
      history: services.history,
      redact,
      close,
      offeredTools: worker.offered_tools,
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

/** Names the toolset of a tool, or its MCP server, whose name begins the names of its tools. */
function sourceOf({ name }: NamedTool, { toolset, config }: ResolvedToolset): string {
  if (toolset.name !== "mcp") return `the toolset ${toolset.name}`;
  const { servers } = config as { servers: Record<string, unknown> };
  return `the MCP server ${Object.keys(servers).find((server) => name.startsWith(`${server}_`))}`;
}

function describeSameName(name: string, sources: readonly string[]): string {
  const server = sources.find((source) => source.startsWith("the MCP server "));
  const advice = server
    ? `Give ${server} another name in the worker's file: its tools are named after it.`
    : "Remove one of them.";
  return `Two tools are named ${name}: one of ${sources.join(", and one of ")}. ${advice}`;
}

/** Adds `onClose` to the services, which collects the functions that release resources. */
function withOnClose(services: ToolServices, release: (() => Promise<void>)[]): ToolServices {
  const onClose = (one: () => Promise<void>) => release.push(one);
  return Object.create(Object.getPrototypeOf(services), {
    ...Object.getOwnPropertyDescriptors(services),
    onClose: { value: onClose, enumerable: true },
  });
}

/** A toolset that a worker uses, with its parsed settings. */
export interface ResolvedToolset {
  toolset: Toolset;
  config: unknown;
}

/**
 * Returns the toolsets of a worker with their settings. Throws a UserError for an unknown toolset or setting, with a
 * suggestion, and for a toolset named twice. Opens nothing, so that an invalid worker is rejected before it starts.
 */
export function resolveToolsets(worker: WorkerDefinition, known: readonly Toolset[] = allToolsets): ResolvedToolset[] {
  const wanted = Object.entries(worker.toolsets).map(([name, given]) => {
    const toolset = known.find((one) => one.name === name || one.aliases?.includes(name));
    if (!toolset) throw new UserError(unknownToolset(worker.name, name, known));
    return { name, toolset, config: readConfig(worker.name, name, toolset, given ?? {}) };
  });

  for (const [index, { name, toolset }] of wanted.entries()) {
    const first = wanted.findIndex((other) => other.toolset === toolset);
    if (first === index) continue;
    throw new UserError(`The worker ${worker.name} names the same toolset twice: ${wanted[first]?.name} and ${name}.`);
  }
  return wanted;
}

function unknownToolset(worker: string, name: string, known: readonly Toolset[]): string {
  const near = closestMatch(
    name,
    known.flatMap((toolset) => [toolset.name, ...(toolset.aliases ?? [])]),
  );
  const names = known.map((toolset) => toolset.name).join(", ") || "none";
  const hint = near ? `. Did you mean ${near}?` : ".";
  return `The worker ${worker} names the toolset ${name}, which does not exist${hint} Available toolsets: ${names}.`;
}

function readConfig(worker: string, name: string, toolset: Toolset, given: unknown): unknown {
  const parsed = toolset.config.safeParse(given);
  if (parsed.success) return parsed.data;

  const shape = (toolset.config as { shape?: Record<string, unknown> }).shape ?? {};
  const fieldsAt = (path: readonly PropertyKey[]) => (path.length === 0 ? Object.keys(shape) : []);
  const problems = describeProblems(parsed.error.issues, fieldsAt, given);
  throw new UserError(`The toolset ${name} of the worker ${worker} has invalid settings: ${problems}`);
}

/** The toolsets whose tools are known only once a module is loaded or a server is connected. */
const dynamicToolsets = ["custom", "external", "mcp"];

/** Returns the `offered_tools` that no toolset provides. Tools of modules and servers are not checked. */
export async function findOfferedToolProblems(worker: WorkerDefinition): Promise<{ index: number; message: string }[]> {
  const { offered_tools: offered = [] } = worker;
  const known = offered.length === 0 ? undefined : await listToolNames(worker);
  if (!known) return [];
  return offered.flatMap((name, index) => {
    if (known.includes(name)) return [];
    return [{ index, message: `None of the worker's toolsets has a tool ${name}.${didYouMean(name, known)}` }];
  });
}

/** Lists the tools of a worker; undefined if this requires its modules or servers, or if its toolsets are invalid. */
async function listToolNames(worker: WorkerDefinition): Promise<string[] | undefined> {
  const workspace = createMemoryWorkspace();
  // Opening these toolsets only describes their tools; nothing is called.
  const services = {
    spec: { worker, origin: { thread: 1 } },
    workspace,
    sandbox: Object.assign(workspace, { push: undefined }),
    branch: "",
    history: () => [],
    workers: async () => callableBy(worker).map((name) => ({ name })),
    sanitize: (text: string) => text,
    onClose: () => {},
  } as unknown as ToolServices;
  try {
    const resolved = resolveToolsets(worker);
    if (resolved.some(({ toolset }) => dynamicToolsets.includes(toolset.name))) return undefined;
    const tools = await Promise.all(resolved.map(({ toolset, config }) => toolset.create(config, services)));
    return tools.flat().map(({ name }) => name);
  } catch (error) {
    if (error instanceof UserError) return undefined;
    throw error;
  }
}
