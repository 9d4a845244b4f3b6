import { createHash } from "node:crypto";
import { type JSONSchema7, jsonSchema } from "ai";
import { z } from "zod";
import { ApprovalConfig } from "#domain/approval.ts";
import { ToolError } from "#domain/errors.ts";
import { isTooComplex } from "#domain/json-schema.ts";
import type { NamedTool } from "#domain/tool.ts";
import { serverSchema } from "#domain/tool-schema.ts";
import { matchesPattern } from "#text/path-pattern.ts";
import { showHidden } from "#text/visible-text.ts";
import { applyApprovalSettings, checkApprovalNames } from "#toolsets/approval-settings.ts";
import type { Toolset } from "#toolsets/toolset.ts";
import type { ToolDefinition } from "./connect-server.ts";
import { changedTool, fingerprint, McpServer, mcpResult, type Pins, pinsOf } from "./mcp-server.ts";
import { checkForRepository, ServerSettings, withVariables } from "./server-settings.ts";

const serverName = z.string().regex(/^[A-Za-z][\w-]{0,30}$/, "A server's name is letters, digits, - and _");

const config = z.strictObject({
  servers: z
    .record(serverName, ServerSettings)
    // A tool `b_c` of the server `a` would have the name, and so the approval, of the tool `c` of the server `a_b`.
    .refine(
      (servers) => {
        const names = Object.keys(servers);
        return !names.some((name) => names.some((other) => other.startsWith(`${name}_`)));
      },
      { error: "has a server whose name followed by _ begins the name of another one. Rename one of them" },
    ),
  /** The tools to offer, as `server_tool`, with `*` for any text. */
  tools: z.array(z.string().min(1)).min(1).default(["*"]),
  approval: ApprovalConfig.optional(),
  /** The fingerprint a tool must have, by its name: `sha256:…`. Default: the one it had when it was first seen. */
  fingerprints: z.record(z.string(), z.string().regex(/^sha256:[0-9a-f]{64}$/)).default({}),
  /** The time limit of a call in seconds. */
  timeout: z.number().positive().max(600).default(60),
});
type Config = z.infer<typeof config>;

/** Provides the tools of MCP servers: programs started for the run, or servers over HTTP. */
export const mcpToolset: Toolset<Config> = {
  name: "mcp",
  config,
  async create({ servers, ...settings }, { workerDirectory, spec: { origin }, onClose }) {
    const isDeployments = workerDirectory !== undefined;
    const opened = Object.entries(servers).map(([name, given]): OpenServer => {
      if (!isDeployments) checkForRepository(name, given, `${origin.owner}/${origin.repo}`);
      const filled = isDeployments ? withVariables(name, given, process.env) : given;
      return { name, pins: pinsOf(name, filled), server: new McpServer(name, filled, !isDeployments) };
    });
    for (const { server } of opened) onClose?.(() => server.close());

    const listed = await Promise.all(opened.map(listTools));
    const names = new ToolNames();
    const tools = listed.flatMap((list, index) => toolsOf(opened[index] as OpenServer, list, { settings, names }));
    // While a server is down, its tools are unknown.
    if (listed.every((list) => "definitions" in list)) {
      checkApprovalNames(
        settings.approval,
        tools.map(({ name }) => name),
        "the MCP servers",
      );
    }
    return tools;
  },
};

const maxDefinitionCharacters = 100_000;

interface OpenServer {
  name: string;
  pins: Pins;
  server: McpServer;
}
type Settings = Omit<Config, "servers">;
type ListedTools = { definitions: readonly ToolDefinition[] } | { error: unknown };

async function listTools({ pins, server }: OpenServer): Promise<ListedTools> {
  try {
    pins.listed = await server.definitions();
  } catch (error) {
    // A run continues without a server that is down. Calls to the tools it had report the reason.
    if (!pins.listed) return { error };
  }
  return { definitions: pins.listed };
}

function toolsOf(
  opened: OpenServer,
  listed: ListedTools,
  { settings, names }: { settings: Settings; names: ToolNames },
): NamedTool[] {
  if ("error" in listed) return [missingServer(opened.name, listed.error)];
  const definitions = [...new Map(listed.definitions.map((definition) => [definition.name, definition])).values()];
  // Tools whose names need no change are named first. On a collision, a tool with a changed name gets the hash.
  const needsChange = ({ name }: ToolDefinition) => /[^\w-]/.test(name);
  const ordered = definitions.toSorted((a, b) => Number(needsChange(a)) - Number(needsChange(b)));
  const toolNames = new Map(ordered.map((definition) => [definition, names.nameFor(opened.name, definition.name)]));
  return definitions.flatMap((definition) => {
    const toolName = toolNames.get(definition) ?? "";
    const isWanted = settings.tools.some((pattern) => matchesPattern(pattern, toolName));
    return isWanted ? [offer(opened, { toolName, definition, settings })] : [];
  });
}

/** Assigns unique names in the form `server_tool`, limited to the characters and length that models accept. */
class ToolNames {
  readonly #taken = new Set<string>();

  nameFor(server: string, tool: string): string {
    const plain = `${server}_${tool}`.replace(/[^\w-]/g, "_");
    const isFree = plain.length <= 64 && !this.#taken.has(plain);
    const hash = createHash("sha256").update(`${server}\n${tool}`).digest("hex").slice(0, 8);
    const name = isFree ? plain : `${plain.slice(0, 55)}_${hash}`;
    this.#taken.add(name);
    return name;
  }
}

function offer(
  { name, pins, server }: OpenServer,
  { toolName, definition, settings }: { toolName: string; definition: ToolDefinition; settings: Settings },
): NamedTool {
  const { fingerprints, timeout, approval } = settings;
  if (isTooComplex(definition) || JSON.stringify(definition).length > maxDefinitionCharacters) {
    const description = `Not available: the definition of this tool by the MCP server ${name} is too large.`;
    return refusedTool({ name: toolName, description }, new ToolError(description, { code: "BLOCKED" }));
  }
  const wanted = Object.hasOwn(fingerprints, toolName) ? fingerprints[toolName] : undefined;
  const current = fingerprint(definition);
  // A tool that matches the fingerprint in the worker's settings replaces the one that was seen first.
  const isNew = pins.get(definition.name) === undefined;
  if ((isNew || wanted === current) && !pins.set(definition)) {
    const description = `Not available: the MCP server ${name} has listed too many tools with different names.`;
    return refusedTool({ name: toolName, description }, new ToolError(description, { code: "BLOCKED" }));
  }
  const expected = wanted ?? fingerprint(pins.get(definition.name) ?? definition);
  if (expected !== current) {
    // The new description never reaches the model.
    const why = `Not available: the MCP server ${name} changed this tool since it was first seen.`;
    return refusedTool({ name: toolName, description: why }, changedTool(name, definition.name, current));
  }
  const description = definition.description ?? definition.title ?? `${definition.name} of ${name}.`;
  const tool: NamedTool = {
    name: toolName,
    description: visibleDescription(description),
    inputSchema: serverSchema({ properties: {}, ...visibleSchema(definition.inputSchema), type: "object" }),
    afterCrash: "report",
    // What was seen first is known until this process ends, and an approval may be used after that.
    preview: () => ({ sections: [], bindings: { definition: current } }),
    async execute(args, { abortSignal, output }) {
      const options = { expected, timeoutMs: timeout * 1_000, signal: abortSignal, output };
      return mcpResult(await server.call(definition.name, args, options), { server: name, tool: toolName });
    },
  };
  return applyApprovalSettings(tool, approval);
}

/** Makes characters visible that a person who reads the description would not see. */
function visibleDescription(text: string): string {
  return showHidden(text).slice(0, 4_000);
}

function visibleSchema(schema: object): JSONSchema7 {
  return JSON.parse(JSON.stringify(schema), (key, value) =>
    /^(title|description)$/.test(key) && typeof value === "string" ? visibleDescription(value) : value,
  );
}

/** Creates a tool that refuses calls. */
function refusedTool(tool: Pick<NamedTool, "name" | "description">, error: ToolError): NamedTool {
  const refuse = () => {
    throw error;
  };
  return {
    ...tool,
    inputSchema: jsonSchema({ type: "object", properties: {} }),
    needsApproval: refuse,
    execute: refuse,
  };
}

function missingServer(server: string, error: unknown): NamedTool {
  return {
    name: `${server}_unavailable`,
    description: `The MCP server ${server} cannot be reached, so its tools are missing in this run. Call this for the reason.`,
    inputSchema: jsonSchema({ type: "object", properties: {} }),
    needsApproval: false,
    execute: () => {
      throw error;
    },
  };
}
