import { UserError } from "#domain/errors.ts";
import type { WorkerDefinition } from "#domain/worker.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import { closestMatch } from "#text/closest-match.ts";
import { resolveToolsets } from "./open-toolbox.ts";
import type { ToolServices } from "./toolset.ts";
import { callableBy } from "./workers/workers-toolset.ts";

/** The toolsets whose tools are known only once a module is loaded or a server is connected. */
const dynamicToolsets = ["custom", "external", "mcp"];

/**
 * Finds entries of a worker's `offered_tools` that none of its toolsets provides. Tools of modules and servers are not
 * checked.
 */
export async function findOfferedToolProblems(worker: WorkerDefinition): Promise<{ index: number; message: string }[]> {
  const { offered_tools: offered = [] } = worker;
  const known = offered.length === 0 ? undefined : await listToolNames(worker);
  if (!known) return [];
  return offered.flatMap((name, index) => {
    if (known.includes(name)) return [];
    const near = closestMatch(name, known);
    return [
      { index, message: `None of the worker's toolsets has a tool ${name}.${near ? ` Did you mean ${near}?` : ""}` },
    ];
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
