import { expect, test } from "vitest";
import { z } from "zod";
import * as compat from "#compat/index.ts";
import type { NamedTool } from "#index.ts";
import * as api from "#index.ts";

test("the public API is small", () => {
  expect(Object.keys(api).sort()).toEqual([
    "ApprovalConfig",
    "ApprovalController",
    "BlockedError",
    "DisplayHints",
    "ResultValue",
    "ToolError",
    "ToolErrorCode",
    "ToolEvents",
    "ToolResult",
    "UserError",
    "WorkerDefinition",
    "WorkerRuntime",
    "createCLIApprovalCallback",
    "createEventCLIAdapter",
    "createInterruptSignal",
    "createMemoryWorkspace",
    "createTraceFormatter",
    "createUIEventBus",
    "parseWorker",
  ]);
});

test("golem-forge/compat includes the whole public API", () => {
  expect(Object.keys(compat)).toEqual(expect.arrayContaining(Object.keys(api)));
});

test("both modules of the package can be imported by their names, as a tools.ts imports them", async () => {
  const [name, compatName] = ["golem-forge", "golem-forge/compat"];

  expect((await import(name)).parseWorker).toBe(api.parseWorker);
  expect((await import(compatName)).parseCommand("/help")).toMatchObject({ name: "help" });
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
  const manager = new compat.ToolManager([calculateFibonacci, gitPushTool]);
  const command = compat.parseCommand("/tool git_push --branch main");
  const args = await compat.argumentsFromOptions(gitPushTool.inputSchema, command?.options ?? {});

  expect((await manager.call("calculateFibonacci", { n: 10 })).llmContent).toBe("55");
  expect((await manager.call("git_push", args, { invokedBy: "person" })).llmContent).toBe("pushed main to origin");
  expect((await manager.call("git_push", { ...args, force: true }, { invokedBy: "person" })).error?.code).toBe(
    "DENIED",
  );
});
