import { expect, test } from "vitest";
import { z } from "zod";
import type { NamedTool } from "#index.ts";
import * as api from "#index.ts";

test.each([
  "getLLMTools",
  "getManualTools",
  "isManualTool",
  "isNamedTool",
  "parseCommand",
  "classifyCommand",
  "isCommand",
  "CommandParseError",
  "deriveFieldsFromSchema",
  "argumentsFromOptions",
  "createInterruptSignal",
  "isValidKind",
  "isWellKnownKind",
  "createUIEventBus",
  "createRuntimeUI",
  "ApprovalController",
  "ApprovalMemory",
  "BlockedError",
  "wrapWithDefaultApproval",
  "ToolRegistry",
  "ToolManager",
  "ToolEvents",
  "ActivityStream",
  "parseWorker",
  "WorkerRuntime",
  "createEventCLIAdapter",
  "createCLIApprovalCallback",
  "createTraceFormatter",
] as const)("the public API gives %s", (name) => {
  // biome-ignore lint/performance/noDynamicNamespaceImportAccess: the names are what is tested
  expect(api[name]).toBeTypeOf("function");
});

test("the package answers to its own name, as a tools.ts imports it", async () => {
  const name = "golem-forge";
  expect((await import(name)).parseCommand("/help")).toMatchObject({ name: "help" });
});

test("the tools of the specification are tools as written there", async () => {
  const calculateFibonacci: NamedTool = {
    name: "calculateFibonacci",
    description: "Calculate the nth Fibonacci number",
    inputSchema: z.object({ n: z.number().int().min(0).describe("Position in sequence") }),
    needsApproval: false,
    execute: async ({ n }) => {
      if (n <= 1) return n;
      let [a, b] = [0, 1];
      for (let i = 2; i <= n; i++) [a, b] = [b, a + b];
      return b;
    },
  };
  const gitPushTool: NamedTool = {
    name: "git_push",
    description: "Push commits to remote repository",
    inputSchema: z.object({
      remote: z.enum(["origin", "upstream"]).default("origin"),
      branch: z.string().describe("Target branch"),
      force: z.boolean().default(false).describe("Force push"),
    }),
    execute: async ({ remote, branch, force }) => `${force ? "forced" : "pushed"} ${branch} to ${remote}`,
    needsApproval: ({ force }) => force,
    manualExecution: { mode: "manual", label: "Push to Remote", category: "Git" },
  };
  const manager = new api.ToolManager([calculateFibonacci, gitPushTool]);
  const command = api.parseCommand("/tool git_push --branch main");
  const args = await api.argumentsFromOptions(gitPushTool.inputSchema, command?.options ?? {});

  expect((await manager.call("calculateFibonacci", { n: 10 })).llmContent).toBe("55");
  expect((await manager.call("git_push", args, { invokedBy: "person" })).llmContent).toBe("pushed main to origin");
  expect((await manager.call("git_push", { ...args, force: true }, { invokedBy: "person" })).error?.code).toBe(
    "DENIED",
  );
});
