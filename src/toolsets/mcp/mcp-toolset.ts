import { createHash } from "node:crypto";
import { type JSONSchema7, jsonSchema } from "ai";
import { z } from "zod";
import { ApprovalConfig } from "#domain/approval.ts";
import type { NamedTool } from "#domain/tool.ts";
import { showHidden } from "#text/hidden-characters.ts";
import { matchesPattern } from "#text/matches-pattern.ts";
import { applyApprovalSettings, checkApprovalNames } from "#toolsets/approval-settings.ts";
import type { Toolset } from "#toolsets/toolset.ts";
import type { ToolDefinition } from "./connect-server.ts";
import { changed, openServer, type Server } from "./open-server.ts";
import { fingerprint, pinsOf } from "./pins.ts";
import { checkForRepository, ServerSettings, withVariables } from "./server-settings.ts";
import { toResult } from "./to-result.ts";

const serverName = z.string().regex(/^[A-Za-z][\w-]{0,30}$/, "A server's name is letters, digits, - and _");

const config = z.strictObject({
  servers: z.record(serverName, ServerSettings),
  /** The tools that are offered, as `name_tool`, with `*` for any text. */
  tools: z.array(z.string().min(1)).min(1).default(["*"]),
  approval: ApprovalConfig.optional(),
  /** What a tool must be, by its name: `sha256:…`. Without one, what it was when it was first seen. */
  fingerprints: z.record(z.string(), z.string().regex(/^sha256:[0-9a-f]{64}$/)).default({}),
  /** Seconds a call may take. */
  timeout: z.number().positive().max(600).default(60),
});
type Config = z.infer<typeof config>;

/** Tools of MCP servers: programs started for the run, or servers over HTTP. */
export const mcpToolset: Toolset<Config> = {
  name: "mcp",
  config,
  async create({ servers, ...settings }, { workerDirectory, spec: { origin }, onClose }) {
    const isDeployments = workerDirectory !== undefined;
    const opened = Object.entries(servers).map(([name, given]) => {
      if (!isDeployments) checkForRepository(name, given, `${origin.owner}/${origin.repo}`);
      const filled = isDeployments ? withVariables(name, given, process.env) : given;
      return { name, pins: pinsOf(name, filled), server: openServer(name, filled, !isDeployments) };
    });
    for (const { server } of opened) onClose?.(() => server.close());

    const tools = (await Promise.all(opened.map((one) => toolsOf(one, settings)))).flat();
    const isWhole = !tools.some((tool) => tool.name.endsWith(missingEnding));
    if (isWhole)
      checkApprovalNames(
        settings.approval,
        tools.map(({ name }) => name),
        "the MCP servers",
      );
    return tools;
  },
};

interface OpenedServer {
  name: string;
  pins: Map<string, ToolDefinition>;
  server: Server;
}
type Settings = Omit<Config, "servers">;

const missingEnding = "_unavailable";

async function toolsOf({ name, pins, server }: OpenedServer, settings: Settings): Promise<NamedTool[]> {
  let now: readonly ToolDefinition[];
  try {
    now = await server.definitions();
  } catch (error) {
    // A run goes on without a server that is down; what is known of it says so when it is called.
    if (pins.size === 0) return [missingServer(name, error)];
    now = [...pins.values()];
  }
  const tools = new Map<string, NamedTool>();
  for (const definition of now) {
    const toolName = nameOf(name, definition.name);
    if (tools.has(toolName) || !settings.tools.some((pattern) => matchesPattern(pattern, toolName))) continue;
    tools.set(toolName, offer({ name, pins, server }, toolName, definition, settings));
  }
  return [...tools.values()];
}

/** `name_tool`, in the characters and the length that models take. */
function nameOf(server: string, tool: string): string {
  const plain = `${server}_${tool}`.replace(/[^\w-]/g, "_");
  if (plain.length <= 64) return plain;
  return `${plain.slice(0, 55)}_${createHash("sha256").update(tool).digest("hex").slice(0, 8)}`;
}

function offer(
  { name, pins, server }: OpenedServer,
  toolName: string,
  definition: ToolDefinition,
  { approval, fingerprints, timeout }: Settings,
): NamedTool {
  const wanted = Object.hasOwn(fingerprints, toolName) ? fingerprints[toolName] : undefined;
  const current = fingerprint(definition);
  // What the worker names is taken, and pinned anew; otherwise what was seen first stays.
  if (!pins.has(definition.name) || wanted === current) pins.set(definition.name, definition);
  const pinned = pins.get(definition.name) ?? definition;
  const expected = wanted ?? fingerprint(pinned);
  if (expected !== current) return refusedTool(name, toolName, definition.name, current);

  const tool: NamedTool = {
    name: toolName,
    description: showHidden(definition.description ?? definition.title ?? `${definition.name} of ${name}.`).slice(
      0,
      4_000,
    ),
    inputSchema: jsonSchema({ properties: {}, ...definition.inputSchema, type: "object" } as JSONSchema7),
    afterCrash: "report",
    async execute(args, { abortSignal }) {
      const options = { expected, timeoutMs: timeout * 1_000, signal: abortSignal };
      return toResult(await server.call(definition.name, args, options), { server: name, tool: toolName });
    },
  };
  return applyApprovalSettings(tool, approval);
}

/** A tool that is not what it was: nothing of its new description reaches the model. */
function refusedTool(server: string, toolName: string, tool: string, current: string): NamedTool {
  const refuse = () => {
    throw changed(server, tool, current);
  };
  return {
    name: toolName,
    description: `Not available: the MCP server ${server} changed this tool since it was first seen.`,
    inputSchema: jsonSchema({ type: "object", properties: {} }),
    needsApproval: refuse,
    execute: refuse,
  };
}

function missingServer(server: string, error: unknown): NamedTool {
  return {
    name: `${server}${missingEnding}`,
    description: `The MCP server ${server} could not be reached, so its tools are missing in this run. Calling this says why.`,
    inputSchema: jsonSchema({ type: "object", properties: {} }),
    needsApproval: false,
    execute: () => {
      throw error;
    },
  };
}
