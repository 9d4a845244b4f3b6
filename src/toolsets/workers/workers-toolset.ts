import { z } from "zod";
import { messageOf, OutageError, ToolError, UserError } from "#domain/errors.ts";
import { digestOfWorker } from "#domain/run.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { WorkerDefinition } from "#domain/worker.ts";
import { closestMatch } from "#text/closest-match.ts";
import { bindApproval } from "#toolsets/approval-settings.ts";
import type { ToolServices, Toolset } from "#toolsets/toolset.ts";

const config = z.strictObject({
  /** The names of the workers that may be called; `*` for all others. */
  allowed: z.array(z.string().min(1)).min(1),
});
type Config = z.infer<typeof config>;

const input = z.object({
  task: z.string().min(1).describe("What to do, with everything the worker needs to know: it sees nothing else"),
  context: z.string().optional().describe("Material for it, such as findings"),
  attachments: z
    .array(z.string())
    .max(10)
    .optional()
    .meta({ description: "Paths of files to attach, such as images", rare: true }),
});

/** Provides one tool for each worker that may be called. */
export const workersToolset: Toolset<Config> = {
  name: "workers",
  config,
  create: async ({ allowed }, services) => {
    const known = await services.workers();
    const others = known.map(({ name }) => name).filter((name) => name !== services.spec.worker.name);
    return createWorkerTools(
      allowed.flatMap((name) => (name === "*" ? others : [name])),
      known,
    );
  },
};

const CallableWorkers = z.object({ allowed: z.array(z.unknown()) });

/** Returns the names of the workers that a worker may call. */
export function callableBy({ toolsets }: WorkerDefinition): string[] {
  const { data } = CallableWorkers.safeParse(toolsets.workers);
  return data?.allowed.filter((name) => typeof name === "string") ?? [];
}

type KnownWorkers = readonly Awaited<ReturnType<ToolServices["workers"]>>[number][];

/** Creates a tool per callable worker. Throws a UserError for a misspelled name; calls to missing ones fail. */
export function createWorkerTools(allowed: readonly string[], known: KnownWorkers): NamedTool[] {
  return [...new Set(allowed)].map((name) => workerTool(name, known));
}

/** The name under which an approval is bound to the definition of the worker that the call starts. */
export const workerBinding = "worker";

/** Binds approvals of a tool that calls a worker to the worker's definition: its file may change before the call is approved. */
export function bindToWorker(tool: NamedTool, { findWorker }: Pick<ToolServices, "findWorker">): NamedTool {
  const { answeredBy } = tool;
  if (answeredBy?.kind !== "worker" || !findWorker) return tool;
  return bindApproval(tool, async () => ({ [workerBinding]: await definitionOf(answeredBy.worker, findWorker) }));
}

function workerTool(name: string, known: KnownWorkers): NamedTool {
  const worker = known.find((candidate) => candidate.name === name);
  if (!worker) return missingWorker(name, known);
  return {
    name,
    description: `Hand a task to the worker ${name}, which works on it independently and reports back.${worker.description ? ` ${worker.description}` : ""}`,
    inputSchema: input,
    needsApproval: false,
    answeredBy: { kind: "worker", worker: name },
  };
}

/** Returns the digest of a worker's definition. Throws an OutageError if its repository does not respond. */
async function definitionOf(name: string, findWorker: NonNullable<ToolServices["findWorker"]>): Promise<string> {
  try {
    return digestOfWorker(await findWorker(name));
  } catch (error) {
    if (error instanceof UserError) throw error;
    throw new OutageError(messageOf(error), { cause: error });
  }
}

function missingWorker(name: string, known: KnownWorkers): NamedTool {
  const near = closestMatch(
    name,
    known.map((candidate) => candidate.name),
  );
  if (near) throw new UserError(`toolsets.workers.allowed names the unknown worker ${name}. Did you mean ${near}?`);
  return {
    name,
    description: `Not available: there is no worker ${name}. Do its part yourself.`,
    inputSchema: input,
    needsApproval: false,
    execute: () => {
      throw new ToolError(`Worker ${name}, which toolsets.workers.allowed names, was not found.`, {
        code: "UNAVAILABLE",
      });
    },
  };
}
