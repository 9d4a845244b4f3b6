import { UserError } from "#domain/errors.ts";
import type { WorkerDefinition } from "#domain/worker.ts";
import { closestMatch } from "#text/closest-match.ts";
import { describeProblems } from "#text/invalid-file.ts";
import { toolsets as allToolsets } from "./registry.ts";
import type { Toolset } from "./toolset.ts";

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
  const hint = near ? `, did you mean ${near}?` : ".";
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
