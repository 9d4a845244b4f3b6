import { asSchema } from "ai";
import type { GitHub } from "#domain/github.ts";
import { ToolResult } from "#domain/result.ts";
import type { RunSpec } from "#domain/run.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import { WorkerDefinition } from "#domain/worker.ts";
import type { GitSandbox, PushRequest } from "#sandbox/sandbox.ts";
import type { FinishedCall, ToolServices, Toolset } from "#toolsets/toolset.ts";
import { previewText, toPreview } from "#ui/request-blocks.ts";
import { type MemoryWorkspaceOptions, memoryWorkspace } from "./memory-workspace.ts";
import type { TestGitHub } from "./test-github.ts";

export const runSpec: RunSpec = {
  id: "run-1",
  rootId: "run-1",
  depth: 0,
  workerPath: "fixer",
  worker: WorkerDefinition.parse({ name: "fixer", instructions: "Fix it." }),
  workerSource: "deployment",
  model: "scripted:model",
  origin: {
    installationId: 1,
    owner: "octo",
    repo: "sums",
    thread: 7,
    isPullRequest: false,
    requestedBy: "ada",
  },
  createdAt: Date.UTC(2026, 0, 2),
};

export interface WorldOptions extends MemoryWorkspaceOptions {
  files?: Record<string, string | Uint8Array>;
  sandbox?: GitSandbox;
  config?: unknown;
  services?: Partial<ToolServices>;
}

type Memory = ReturnType<typeof memoryWorkspace>;

/** Opens a toolset on a small repository. Calls are validated, run and recorded as in the runtime. */
export async function toolsetWorld(toolset: Toolset, options: WorldOptions = {}) {
  const sandbox = (options.sandbox ?? memoryWorkspace(options.files, options)) as Memory;
  const history: FinishedCall[] = [];
  const services: ToolServices = {
    spec: runSpec,
    workspace: sandbox,
    sandbox,
    github: unreachable,
    branch: "golem/7-run-1",
    history: () => history,
    workers: async () => [],
    sanitize: (text) => text,
    ...options.services,
  };
  const tools = await toolset.create(toolset.config.parse(options.config ?? {}), services);

  function tool(name: string): NamedTool {
    const found = tools.find((candidate) => candidate.name === name || candidate.aliases?.includes(name));
    if (!found) throw new Error(`${toolset.name} has no tool ${name}`);
    return found;
  }
  async function validated(name: string, args: unknown): Promise<unknown> {
    const parsed = await asSchema(tool(name).inputSchema).validate?.(args);
    if (!parsed?.success) throw parsed?.error ?? new Error(`${name} validates nothing`);
    return parsed.value;
  }

  return {
    sandbox,
    history,
    tools,
    tool,
    /** Runs a call. Rethrows its errors. */
    async call(name: string, args: unknown, context: Partial<ToolContext> = {}): Promise<ToolResult> {
      const step = history.length + 1;
      const value = await validated(name, args);
      const result = ToolResult.parse(await tool(name).execute?.(value, toolContext({ sandbox, step, ...context })));
      const callId = `call-${step}`;
      history.push({ callId, tool: name, args, result, step });
      sandbox.pendingChanges(`${step}/${callId}`);
      sandbox.markStored();
      return result;
    },
    async asks(name: string, args: unknown): Promise<boolean> {
      const { needsApproval = false } = tool(name);
      const value = await validated(name, args);
      return typeof needsApproval === "boolean" ? needsApproval : needsApproval(value, toolContext({ sandbox }));
    },
    async preview(name: string, args: unknown): Promise<string | undefined> {
      const given = await tool(name).preview?.(await validated(name, args), toolContext({ sandbox }));
      return previewText(toPreview(given));
    },
  };
}

export function toolContext({
  sandbox,
  step = 1,
  ...rest
}: Partial<ToolContext> & Pick<ToolContext, "sandbox"> & { step?: number }): ToolContext {
  return {
    sandbox,
    toolCallId: `call-${step}`,
    messages: [],
    abortSignal: new AbortController().signal,
    run: { id: "run-1", worker: "fixer", depth: 0, step },
    output: () => {},
    idempotencyKey: `run-1/call-${step}`,
    ...rest,
  };
}

const unreachable = new Proxy({} as GitHub, {
  get: (_, method) => {
    throw new Error(`this test does not expect ${String(method)} to be asked of GitHub`);
  },
});

/** Pushes to a real branch of the local GitHub, and records the requests. */
export function pushTo(hub: TestGitHub, pushes: PushRequest[]): NonNullable<MemoryWorkspaceOptions["push"]> {
  return async (request) => {
    pushes.push(request);
    const { branch, message, at } = request;
    const files = Object.fromEntries(request.changes.map(({ path }) => [path, `push ${pushes.length}\n`]));
    await hub.push({ branch, message, author: "golem-forge[bot]", at, files });
    return hub.repository().knownBranches.get(`refs/heads/${branch}`) ?? "";
  };
}
