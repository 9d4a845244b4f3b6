import { realpathSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import type { Program } from "#embed/program.ts";
import { isInside } from "#sandbox/checkout/is-inside.ts";
import { resolveToolsets } from "#toolsets/open-toolbox.ts";
import { callableBy } from "#toolsets/workers/workers-toolset.ts";
import type { LocalWorker, LocalWorkers } from "./local-workers.ts";

interface TrustOptions {
  workers: LocalWorkers;
  program?: Program | undefined;
  /** Toolsets that are not opened, or are trusted. */
  omitToolsets?: readonly string[];
}

/**
 * Finds the code that a worker of the checkout and its callees run, and what they fetch without asking. A person who only
 * cloned the repository has not read that code. Returns one line for each, with the isolation it runs in. Modules of a
 * program that a person names are trusted like a script that the person starts: they can access only the sandbox.
 */
export async function findCodeToTrust(
  root: string,
  first: LocalWorker,
  { workers, program, omitToolsets = program ? ["custom"] : [] }: TrustOptions,
): Promise<string[]> {
  const reached = new Map<string, LocalWorker>();
  const open = [first];
  for (let one = open.pop(); one; one = open.pop()) {
    if (reached.has(one.path)) continue;
    reached.set(one.path, one);
    const named = callableBy(one.worker);
    const names = named.includes("*") ? (await workers.list()).map(({ name }) => name) : named;
    for (const name of names) {
      // A worker that cannot be read is reported when it is called.
      const next = await workers.find(name).catch(() => undefined);
      if (next) open.push(next);
    }
  }
  const own = [...reached.values()].filter(({ isOwn }) => isOwn);
  const lines = own.flatMap((one) => codeOf(root, one, omitToolsets));
  return [...new Set([...lines, ...(program ? reachOf(program, root, own) : [])])];
}

/** Returns what the configuration of a program gives its workers access to. */
function reachOf({ folder, config }: Program, root: string, workers: readonly LocalWorker[]): string[] {
  const isOutside = !isInside(root, realpathSync(folder));
  const fetches = config.approval.mode === "approve_all" && workers.some(({ worker }) => "web" in worker.toolsets);
  return [
    ...(isOutside ? [`the files in ${root}, outside of its folder`] : []),
    ...(fetches ? ["pages of any host, fetched without asking"] : []),
  ];
}

type Server =
  | { command: string; args: string[]; env: Record<string, string> }
  | { url: string; headers: Record<string, string> };

/** Returns one line for each piece of code that a worker file loads and each thing it fetches without asking. */
export function codeOf(root: string, { worker, path }: LocalWorker, omitToolsets: readonly string[] = []): string[] {
  const searches = worker.server_side_tools.length > 0 ? ["the provider's web search, without asking"] : [];
  const brought = resolveToolsets(worker).flatMap(({ toolset, config }) => {
    if (omitToolsets.includes(toolset.name)) return [];
    switch (toolset.name) {
      case "custom": {
        const module = join(dirname(path), (config as { module: string }).module);
        return [`${relative(root, module)}, in a process without files, network and environment`];
      }
      case "external":
        return (config as { package: string }[]).map(
          (one) => `the npm package ${one.package}, with access to everything you can access`,
        );
      case "mcp":
        return Object.entries((config as { servers: Record<string, Server> }).servers).map(describeServer);
      case "web":
        return pagesUnasked(config as { allow: string[]; others: string });
      default:
        return [];
    }
  });
  return [...brought, ...searches];
}

/** Names everything a server is started or called with: a variable such as NODE_OPTIONS can load code, and a header can send a secret. */
function describeServer([name, server]: [string, Server]): string {
  if ("command" in server) {
    const command = [...assignments(server.env), ...[server.command, ...server.args].map(asWord)].join(" ");
    return `the MCP server ${name}: ${command}, a program with access to everything you can access`;
  }
  const headers = assignments(server.headers);
  const sent = headers.length > 0 ? `, with the headers ${headers.join(" ")}` : "";
  return `the MCP server ${name} at ${asWord(server.url)}, over the network${sent}`;
}

function assignments(values: Record<string, string>): string[] {
  return Object.entries(values).map(([key, value]) => `${asWord(key)}=${asWord(value)}`);
}

/** Quotes a text that could be taken for several words, or for another line. */
function asWord(text: string): string {
  return /^[\w@%+:,./${}?&=-]+$/.test(text) ? text : JSON.stringify(text);
}

function pagesUnasked({ allow, others }: { allow: string[]; others: string }): string[] {
  if (others === "preApproved") return ["pages of any host, fetched without asking"];
  return allow.length > 0 ? [`pages of ${allow.join(", ")}, fetched without asking`] : [];
}
