import { describe, expect, test } from "vitest";
import { WorkerDefinition } from "#domain/worker.ts";
import { openToolbox } from "#toolsets/open-toolbox.ts";
import { toolsets } from "#toolsets/registry.ts";
import type { ToolServices, Toolset } from "#toolsets/toolset.ts";
import { memoryWorkspace } from "../support/memory-workspace.ts";
import { runSpec } from "../support/toolset-world.ts";

const withoutSettings = toolsets.filter((toolset) => toolset.config.safeParse({}).success);

function openAll(chosen: readonly Toolset[] = toolsets) {
  const named = Object.fromEntries(withoutSettings.map(({ name }) => [name, {}]));
  const worker = WorkerDefinition.parse({ name: "fixer", instructions: "Fix it.", toolsets: named });
  const sandbox = memoryWorkspace({ "a.txt": "hello" });
  const services: ToolServices = {
    spec: runSpec,
    workspace: sandbox,
    sandbox,
    github: {} as never,
    branch: "golem/7-run-1",
    history: () => [],
    workers: async () => [{ name: "tester", description: "Runs the tests" }],
    sanitize: (text) => text,
  };
  return openToolbox(worker, services, { toolsets: chosen });
}

describe("the built-in toolsets", () => {
  test("the built-in toolsets have unique names and aliases", () => {
    const names = toolsets.flatMap(({ name, aliases = [] }) => [name, ...aliases]);
    expect(new Set(names).size).toBe(names.length);
  });

  test("the built-in toolsets can all be used by one worker: tool names are unique and every schema can be offered", async () => {
    const toolbox = await openAll();

    expect(toolbox.tools.length).toBeGreaterThan(withoutSettings.length);
    expect(toolbox.offered.every(({ description }) => description.length > 10)).toBe(true);
    await toolbox.close();
  });

  test("declare for every tool whether it needs approval", async () => {
    const silent: string[] = [];
    const watched = toolsets.map((toolset) => ({
      ...toolset,
      create: async (config: unknown, services: ToolServices) => {
        const tools = await toolset.create(config, services);
        silent.push(...tools.filter(({ needsApproval }) => needsApproval === undefined).map(({ name }) => name));
        return tools;
      },
    }));

    const toolbox = await openAll(watched);
    await toolbox.close();

    expect(silent).toEqual([]);
  });
});
