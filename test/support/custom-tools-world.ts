import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, onTestFinished } from "vitest";
import type { ModelCall } from "#domain/events.ts";
import type { RunSpec } from "#domain/run.ts";
import { WorkerDefinition } from "#domain/worker.ts";
import { customToolset } from "#toolsets/custom/custom-toolset.ts";
import { openToolbox } from "#toolsets/open-toolbox.ts";
import type { CallContext } from "#toolsets/review-call.ts";
import type { ToolServices, Toolset } from "#toolsets/toolset.ts";
import { memoryWorkspace } from "./memory-workspace.ts";
import { runSpec } from "./toolset-world.ts";

export interface ToolboxWorldOptions {
  files?: Record<string, string>;
  rules?: Parameters<typeof memoryWorkspace>[1] extends infer O
    ? NonNullable<O>["rules" & keyof NonNullable<O>]
    : never;
  services?: Partial<ToolServices>;
  spec?: Partial<RunSpec>;
  /** Takes what closes the world. Default: it is closed after the test. */
  onEnd?: OnEnd;
}

type OnEnd = (close: () => Promise<void>) => void;

/** Creates a folder that is deleted after the test. */
export async function temporaryFolder(
  files: Record<string, string> = {},
  onEnd: OnEnd = onTestFinished,
): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "golem-forge-test-"));
  onEnd(() => rm(folder, { recursive: true, force: true }));
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, name)), { recursive: true });
    await writeFile(join(folder, name), content);
  }
  return folder;
}

/** Opens the toolbox of a worker with one toolset over a small repository. It is closed after the test. */
export async function toolboxWorld(toolset: Toolset, config: unknown, options: ToolboxWorldOptions = {}) {
  const sandbox = memoryWorkspace(options.files ?? { "README.md": "# Sums\n" }, { rules: options.rules ?? {} });
  const worker = WorkerDefinition.parse({ name: "fixer", toolsets: { [toolset.name]: config }, instructions: "Fix." });
  const services: ToolServices = {
    spec: { ...runSpec, worker, ...options.spec },
    workspace: sandbox,
    sandbox,
    github: {} as ToolServices["github"],
    branch: "golem/7-run-1",
    history: () => [],
    workers: async () => [],
    sanitize: (text) => text,
    ...options.services,
  };
  const toolbox = await openToolbox(worker, services, { toolsets: [toolset] });
  (options.onEnd ?? onTestFinished)(() => toolbox.close());

  let calls = 0;
  const printed: string[] = [];
  const call = (tool: string, args: unknown): ModelCall => ({ callId: `call-${++calls}`, tool, args });
  const context = (given: Partial<CallContext> = {}): CallContext => ({
    abortSignal: new AbortController().signal,
    messages: [],
    run: { id: "run-1", worker: "fixer", depth: 0, step: calls },
    idempotencyKey: `run-1/call-${calls}`,
    output: (chunk) => printed.push(chunk),
    ...given,
  });

  return {
    toolbox,
    sandbox,
    printed,
    run: (tool: string, args: unknown = {}, given?: Partial<CallContext>) =>
      toolbox.execute(call(tool, args), context(given)),
    review: (tool: string, args: unknown = {}, given?: Partial<CallContext>) =>
      toolbox.review(call(tool, args), context(given), []),
  };
}

interface CustomTools {
  tools: string[];
  approval?: unknown;
  timeout?: number;
}

/** Opens a toolbox with the tools of a deployment's `tools.ts`. */
export async function customTools(source: string, config: CustomTools, options: ToolboxWorldOptions = {}) {
  const folder = await temporaryFolder({ "tools.ts": source }, options.onEnd);
  const world = await toolboxWorld(
    customToolset,
    { module: "./tools.ts", ...config },
    { ...options, services: { workerDirectory: folder, ...options.services } },
  );
  return { ...world, folder };
}

/** Opens one toolbox for all tests of a file or a group: each has a process of its own, which takes long to start. */
export function sharedCustomTools(source: string, config: CustomTools): () => Awaited<ReturnType<typeof customTools>> {
  const closing: (() => Promise<void>)[] = [];
  let world: Awaited<ReturnType<typeof customTools>>;
  beforeAll(async () => {
    world = await customTools(source, config, { onEnd: (close) => closing.unshift(close) });
  });
  afterAll(async () => {
    for (const close of closing) await close();
  });
  return () => world;
}
