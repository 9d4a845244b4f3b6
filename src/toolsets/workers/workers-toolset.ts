import { z } from "zod";
import { UserError } from "#domain/errors.ts";
import type { NamedTool } from "#domain/tool.ts";
import { closestMatch } from "#text/closest-match.ts";
import type { ToolServices, Toolset } from "#toolsets/toolset.ts";

const config = z.strictObject({
  /** Names of the workers that may be called. */
  allowed: z.array(z.string().min(1)).min(1),
});
type Config = z.infer<typeof config>;

const input = z.object({
  task: z.string().min(1).describe("What to do, with everything the worker needs to know: it sees nothing else"),
  context: z.string().optional().describe("Material for the task, such as findings or the text of an error"),
});

/** One tool for each worker this one may hand work to. */
export const workersToolset: Toolset<Config> = {
  name: "workers",
  config,
  create: async ({ allowed }, services) => {
    const known = await services.workers();
    return [...new Set(allowed)].map((name) => workerTool(name, known));
  },
};

function workerTool(name: string, known: Awaited<ReturnType<ToolServices["workers"]>>): NamedTool {
  const worker = known.find((candidate) => candidate.name === name);
  if (!worker) {
    const names = known.map((candidate) => candidate.name);
    const near = closestMatch(name, names);
    const hint = near ? ` Did you mean ${near}?` : names.length > 0 ? ` There are: ${names.join(", ")}.` : "";
    throw new UserError(`toolsets.workers.allowed names ${name}, and there is no such worker.${hint}`);
  }
  return {
    name,
    description: `Hand a task to the worker ${name}, who works on it alone and reports back.${worker.description ? ` ${worker.description}` : ""}`,
    inputSchema: input,
    needsApproval: false,
    answeredBy: { kind: "worker", worker: name },
  };
}
