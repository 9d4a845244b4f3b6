import { expect, test } from "vitest";
import { UserError } from "#domain/errors.ts";
import { workersToolset } from "#toolsets/workers/workers-toolset.ts";
import { toolsetWorld } from "../../support/toolset-world.ts";

const services = {
  workers: async () => [{ name: "tester", description: "Writes tests." }, { name: "reviewer" }],
};

test("each allowed worker is a tool that the worker answers", async () => {
  const { tools, asks } = await toolsetWorld(workersToolset, { services, config: { allowed: ["tester", "tester"] } });

  expect(tools).toMatchObject([{ name: "tester", answeredBy: { kind: "worker", worker: "tester" } }]);
  expect(tools[0]?.description).toContain("Writes tests.");
  expect(await asks("tester", { task: "Test add()", context: "It subtracts." })).toBe(false);
});

test("an unknown worker is refused with the closest name", async () => {
  const opening = toolsetWorld(workersToolset, { services, config: { allowed: ["testr"] } });

  await expect(opening).rejects.toThrow(UserError);
  await expect(opening).rejects.toThrow("names the unknown worker testr. Did you mean tester?");
});
