import { expect, test } from "vitest";
import { OutageError, UserError } from "#domain/errors.ts";
import { WorkerDefinition } from "#domain/worker.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { bindToWorker, workersToolset } from "#toolsets/workers/workers-toolset.ts";
import { toolContext, toolsetWorld } from "../../support/toolset-world.ts";

const services = {
  workers: async () => [{ name: "tester", description: "Writes tests." }, { name: "reviewer" }],
};

test("each allowed worker is a tool that the worker answers", async () => {
  const { tools, asks } = await toolsetWorld(workersToolset, { services, config: { allowed: ["tester", "tester"] } });

  expect(tools).toMatchObject([{ name: "tester", answeredBy: { kind: "worker", worker: "tester" } }]);
  expect(tools[0]?.description).toContain("Writes tests.");
  expect(await asks("tester", { task: "Test add()", context: "It subtracts." })).toBe(false);
});

test("an approval of a call is bound to the definition of the worker, which may change before the call runs", async () => {
  const preview = (instructions: string, source: "deployment" | "repository" = "repository") => {
    const worker = WorkerDefinition.parse({ name: "tester", instructions });
    return previewWith(async () => ({ worker, source }));
  };
  const first = await preview("Test it.");

  expect(first).toEqual({ sections: [], bindings: { worker: expect.stringMatching(/^[0-9a-f]{64}$/) } });
  expect(await preview("Test it.")).toEqual(first);
  expect(await preview("Test it, and publish it.")).not.toEqual(first);
  expect(await preview("Test it.", "deployment")).not.toEqual(first);
});

test("a definition that GitHub does not return is asked for again, and one that cannot be used refuses the call", async () => {
  const failing = (error: Error) => previewWith(async () => Promise.reject(error));

  await expect(failing(new Error("502"))).rejects.toThrow(OutageError);
  await expect(failing(new UserError("tester.worker is invalid."))).rejects.toThrow(UserError);
});

async function previewWith(findWorker: ToolServices["findWorker"]) {
  const { tool, sandbox } = await toolsetWorld(workersToolset, { services, config: { allowed: ["tester"] } });
  return bindToWorker(tool("tester"), { findWorker }).preview?.({ task: "Test add()" }, toolContext({ sandbox }));
}

test("an unknown worker is refused with the closest name", async () => {
  const opening = toolsetWorld(workersToolset, { services, config: { allowed: ["testr"] } });

  await expect(opening).rejects.toThrow(UserError);
  await expect(opening).rejects.toThrow("names the unknown worker testr. Did you mean tester?");
});
