import { asSchema } from "ai";
import { describe, expect, test } from "vitest";
import type { NamedTool } from "#domain/tool.ts";
import { askToolset } from "#toolsets/ask/ask-toolset.ts";
import { filesystemToolset } from "#toolsets/filesystem/filesystem-toolset.ts";
import { githubToolset, gitToolset, pullRequestToolset, searchToolset } from "#toolsets/registry.ts";
import { tasksToolset } from "#toolsets/tasks/tasks-toolset.ts";
import { workersToolset } from "#toolsets/workers/workers-toolset.ts";
import { toolsetWorld } from "../support/toolset-world.ts";

const toolsets = [
  filesystemToolset,
  searchToolset,
  gitToolset,
  githubToolset,
  pullRequestToolset,
  tasksToolset,
  askToolset,
  workersToolset,
];

async function allTools(): Promise<NamedTool[]> {
  const tools: NamedTool[] = [];
  for (const toolset of toolsets) {
    const config = toolset === workersToolset ? { allowed: ["tester"] } : {};
    const opened = await toolsetWorld(toolset, { config, services: { workers: async () => [{ name: "tester" }] } });
    tools.push(...opened.tools);
  }
  return tools;
}

describe("every tool of the built-in toolsets", async () => {
  const tools = await allTools();

  test("every tool of the built-in toolsets has a unique name and unique aliases", () => {
    const names = tools.flatMap(({ name, aliases = [] }) => [name, ...aliases]);

    expect(new Set(names).size).toBe(names.length);
    expect(names.filter((name) => !/^[a-z][a-z_]*$/.test(name))).toEqual([]);
  });

  test.each(tools.map((tool) => [tool.name, tool] as const))(
    "%s has a description, takes an object and declares whether it needs approval",
    async (_, tool) => {
      const schema = await asSchema(tool.inputSchema).jsonSchema;

      expect(schema).toMatchObject({ type: "object", properties: expect.any(Object) });
      expect(tool.description.length).toBeGreaterThan(20);
      expect(tool.needsApproval).toBeDefined();
      expect(tool.execute !== undefined || tool.answeredBy !== undefined).toBe(true);
    },
  );

  test("the model is offered no tool to push, merge a pull request, approve or choose another thread", () => {
    const offered = tools.filter(({ manualExecution }) => manualExecution?.mode !== "manual").map(({ name }) => name);

    expect(offered.filter((name) => /push|approve|merge_pull|force/.test(name))).toEqual([]);
  });
});
