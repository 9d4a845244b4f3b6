import { dirname, join, relative } from "node:path";
import type { WorkerDefinition } from "#domain/worker.ts";
import { resolveToolsets } from "#toolsets/resolve-toolsets.ts";
import type { LocalWorker, LocalWorkers } from "./local-workers.ts";

/**
 * What a worker and those it may call bring along that runs as code, or reaches the network without asking, where they
 * come with the checkout: whoever cloned it has not read it. One line each, with what holds it.
 */
export async function findCodeToTrust(root: string, first: LocalWorker, workers: LocalWorkers): Promise<string[]> {
  const reached = new Map<string, LocalWorker>();
  const open = [first];
  for (let one = open.pop(); one; one = open.pop()) {
    if (reached.has(one.path)) continue;
    reached.set(one.path, one);
    for (const name of callableBy(one.worker)) {
      // One that cannot be read is said when it is called.
      const next = await workers.find(name).catch(() => undefined);
      if (next) open.push(next);
    }
  }
  const lines = [...reached.values()].filter(({ isOwn }) => isOwn).flatMap((one) => broughtBy(root, one));
  return [...new Set(lines)];
}

function callableBy({ toolsets }: WorkerDefinition): string[] {
  const { allowed } = (toolsets.workers ?? {}) as { allowed?: unknown };
  return Array.isArray(allowed) ? allowed.filter((name) => typeof name === "string") : [];
}

type Server = { command: string; args: string[] } | { url: string };

function broughtBy(root: string, { worker, path }: LocalWorker): string[] {
  const searches = worker.server_side_tools.length > 0 ? ["the provider's own web search, which asks nobody"] : [];
  const brought = resolveToolsets(worker).flatMap(({ toolset, config }) => {
    switch (toolset.name) {
      case "custom": {
        const module = join(dirname(path), (config as { module: string }).module);
        return [`${relative(root, module)}, in a process without files, network and environment`];
      }
      case "external":
        return (config as { package: string }[]).map(
          (one) => `the npm package ${one.package}, with all that you can reach`,
        );
      case "mcp":
        return Object.entries((config as { servers: Record<string, Server> }).servers).map(([name, server]) =>
          "command" in server
            ? `the MCP server ${name}: ${[server.command, ...server.args].join(" ")}, a program with all that you can reach`
            : `the MCP server ${name} at ${server.url}, over the network`,
        );
      case "web":
        return pagesUnasked(config as { allow: string[]; others: string });
      default:
        return [];
    }
  });
  return [...brought, ...searches];
}

function pagesUnasked({ allow, others }: { allow: string[]; others: string }): string[] {
  if (others === "preApproved") return ["pages of any host, fetched without asking"];
  return allow.length > 0 ? [`pages of ${allow.join(", ")}, fetched without asking`] : [];
}
