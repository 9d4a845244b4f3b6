import { describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { ApprovalController } from "#approval-controller.ts";
import type { WorkerRuntimeOptions, WorkerSource } from "#embed/options.ts";
import { WorkerRuntime } from "#embed/worker-runtime.ts";
import { createInterruptSignal } from "#interrupt-signal.ts";
import type { RuntimeEvent } from "#runtime-events.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import { getLLMTools, getManualTools, type NamedTool } from "#tool.ts";
import { createUIEventBus } from "#ui-event-bus.ts";
import type { AllEvents, EventName } from "#ui-events.ts";
import { type Line, resultsIn, scriptedModels } from "../support/scripted-models.ts";

const worker = { name: "helper", instructions: "You help." };

function aTool(change: Partial<NamedTool> = {}): NamedTool {
  return {
    name: "deploy",
    description: "Deploys",
    inputSchema: z.object({ to: z.string() }),
    execute: ({ to }) => `deployed to ${to}`,
    ...change,
  };
}

async function open(script: Parameters<typeof scriptedModels>[0], options: Partial<WorkerRuntimeOptions> = {}) {
  const models = scriptedModels(script);
  const runtime = new WorkerRuntime({ worker, models, ...options });
  await runtime.initialize();
  return { runtime, models };
}

const deploy = (to = "here"): Line => ({ calls: [{ name: "deploy", args: { to } }] });

function recordedBus() {
  const bus = createUIEventBus();
  const heard: { [Name in EventName]?: AllEvents[Name][] } = {};
  const names = [
    "message",
    "streaming",
    "status",
    "toolStarted",
    "toolResult",
    "workerUpdate",
    "approvalRequired",
  ] as const;
  const more = [
    "manualToolsAvailable",
    "diffSummary",
    "diffContent",
    "inputPrompt",
    "sessionEnd",
    "contextUsage",
  ] as const;
  for (const name of [...names, ...more]) {
    bus.on(name, (data) => {
      heard[name] = [...((heard[name] ?? []) as never[]), data as never];
    });
  }
  return { bus, heard };
}

describe("a run", () => {
  test("answers, and says what it took", async () => {
    const { runtime, models } = await open(["Hello."]);

    expect(await runtime.run("Say hello")).toEqual({
      success: true,
      response: "Hello.",
      toolCallCount: 0,
      tokens: { input: 10, output: 20 },
    });
    expect(models.requests[0]?.instructions).toContain("You help.");
    expect(models.requests[0]?.messages).toEqual([{ role: "user", content: "Say hello" }]);
  });

  test("calls tools and goes on with their results", async () => {
    const { runtime, models } = await open([deploy(), "Done."], { tools: [aTool()] });

    expect(await runtime.run("Deploy")).toMatchObject({ success: true, response: "Done.", toolCallCount: 1 });
    expect(resultsIn(models.requests[1] as never)).toEqual([expect.stringContaining("deployed to here")]);
  });

  test("has the toolsets its worker names, over files in memory", async () => {
    const sandbox = createMemoryWorkspace({ "a.txt": "hello" });
    const script: Line[] = [
      { calls: [{ name: "read_file", args: { path: "a.txt" } }] },
      { calls: [{ name: "write_file", args: { path: "b.txt", content: "new" } }] },
      "Done.",
    ];
    const { runtime, models } = await open(script, { worker: { ...worker, toolsets: { filesystem: {} } }, sandbox });

    expect(await runtime.run("Copy")).toMatchObject({ success: true, toolCallCount: 2 });
    expect(resultsIn(models.requests[1] as never)[0]).toContain("hello");
    expect(String(await sandbox.read("b.txt"))).toBe("new");
  });

  test("is refused without input, unless the worker takes that", async () => {
    const { runtime, models } = await open(["Never."]);
    const lax = await open(["Fine."], { worker: { ...worker, allow_empty_input: true } });

    expect(await runtime.run("  \n")).toMatchObject({
      success: false,
      error: expect.stringContaining('No input provided for worker "helper"'),
    });
    expect(models.requests).toEqual([]);
    expect(await lax.runtime.run("")).toMatchObject({ success: true, response: "Fine." });
  });

  test("stops at its limit of calls of the model, and names it", async () => {
    const { runtime, models } = await open((_, turn) => deploy(`place ${turn}`), {
      tools: [aTool()],
      maxIterations: 3,
    });

    expect(await runtime.run("Go")).toMatchObject({
      success: false,
      error: expect.stringMatching(/limit.*3/),
      toolCallCount: 3,
    });
    expect(models.requests).toHaveLength(3);
  });

  test("goes on after a tool that is not there, and after one that fails", async () => {
    const script: Line[] = [{ calls: [{ name: "deplyo", args: {} }] }, deploy(), "Sorry."];
    const tools = [
      aTool({
        execute: () => {
          throw new Error("no disk");
        },
      }),
    ];
    const { runtime, models } = await open(script, { tools });

    expect(await runtime.run("Go")).toMatchObject({ success: true, response: "Sorry.", toolCallCount: 2 });
    expect(resultsIn(models.requests[1] as never)[0]).toMatch(/error.*Unknown tool: deplyo.*Did you mean deploy/);
    expect(resultsIn(models.requests[2] as never)[1]).toContain("no disk");
  });

  test("fails with what the model says when it cannot be called", async () => {
    const { runtime } = await open(() => {
      throw new Error("Network error");
    });

    expect(await runtime.run("Go")).toMatchObject({ success: false, error: "Network error" });
  });

  test("needs initialize() first, and is one at a time", async () => {
    const models = scriptedModels(["One.", "Two."]);
    const runtime = new WorkerRuntime({ worker, models });

    await expect(runtime.run("x")).rejects.toThrow(/before initialize/);
    await runtime.initialize();
    const first = runtime.run("x");
    await expect(runtime.run("y")).rejects.toThrow(/running already/);
    await first;
    expect(await runtime.run("z")).toMatchObject({ response: "Two." });
  });
});
