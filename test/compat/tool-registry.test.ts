import { describe, expect, test } from "vitest";
import { z } from "zod";
import {
  BlockedError,
  getLLMTools,
  getManualTools,
  isLLMTool,
  isManualTool,
  isNamedTool,
  type NamedTool,
  ToolRegistry,
  wrapWithDefaultApproval,
} from "#compat/index.ts";
import { aTool } from "../support/toolbox-world.ts";

const tools = [
  aTool({ name: "plain" }),
  aTool({ name: "llm", manualExecution: { mode: "llm" } }),
  aTool({ name: "manual", manualExecution: { mode: "manual" } }),
  aTool({ name: "both", manualExecution: { mode: "both" } }),
];

describe("who may call a tool", () => {
  test("the model gets plain, llm and both; a person gets manual and both", () => {
    expect(getLLMTools(tools).map(({ name }) => name)).toEqual(["plain", "llm", "both"]);
    expect(getManualTools(tools).map(({ name }) => name)).toEqual(["manual", "both"]);
    expect(tools.map(isManualTool)).toEqual([false, false, true, true]);
    expect(tools.map(isLLMTool)).toEqual([true, true, false, true]);
  });

  test("a record of tools stays a record", () => {
    const [plain, , manual, both] = tools as [NamedTool, NamedTool, NamedTool, NamedTool];
    expect(getLLMTools({ plain, manual, both })).toEqual({ plain, both });
    expect(getManualTools({ plain, manual, both })).toEqual({ manual, both });
  });

  test("a tool with an unknown mode cannot be called", () => {
    const odd = aTool({ manualExecution: { mode: "Manual" as never } });
    expect([isLLMTool(odd), isManualTool(odd)]).toEqual([false, false]);
  });
});

describe("ToolRegistry", () => {
  test("ToolRegistry registers, gets, lists, has and unregisters", () => {
    const registry = new ToolRegistry();
    const [first, second] = [aTool({ aliases: ["read"] }), aTool({ name: "grep" })];
    registry.register(first);
    registry.register(second);

    expect(registry.get("read_file")).toBe(first);
    expect(registry.get("read")).toBe(first);
    expect(registry.get("nothing")).toBeUndefined();
    expect(registry.list()).toEqual([first, second]);
    expect(registry.has("grep")).toBe(true);
    expect(registry.unregister("grep")).toBe(true);
    expect(registry.has("grep")).toBe(false);
    expect(registry.unregister("grep")).toBe(false);
  });

  test("a taken name is refused, unless it may be replaced", () => {
    const registry = new ToolRegistry([aTool()]);
    const other = aTool({ description: "Another" });

    expect(() => registry.register(other)).toThrow("Tool 'read_file' is already registered");
    registry.register(other, { allowReplace: true });
    expect(registry.list()).toEqual([other]);
  });

  test("an object that is not a tool is refused", () => {
    expect(() => new ToolRegistry().register({ name: "x" } as never)).toThrow("A tool needs a name");
  });

  test("ToolRegistry gives OpenAI-compatible models JSON Schema, without manual tools", () => {
    const inputSchema = z.object({
      path: z.string().describe("Path relative to workspace root"),
      encoding: z.enum(["utf-8", "base64"]).optional(),
    });
    const registry = new ToolRegistry([
      aTool({ inputSchema }),
      aTool({ name: "push", manualExecution: { mode: "manual" } }),
    ]);

    expect(registry.toOpenAIFunctions()).toEqual([
      {
        name: "read_file",
        description: "Reads a file",
        parameters: {
          type: "object",
          properties: {
            path: { type: "string", description: "Path relative to workspace root" },
            encoding: { type: "string", enum: ["utf-8", "base64"] },
          },
          required: ["path"],
        },
      },
    ]);
  });
});

test.each<[string, unknown, boolean]>([
  ["a tool", aTool(), true],
  ["nothing", null, false],
  ["a function", () => {}, false],
  ["an object without execute", { name: "x", inputSchema: z.object({}) }, false],
  ["an object without schema", { name: "x", execute: () => {} }, false],
  ["an object without name", { name: "", inputSchema: z.object({}), execute: () => {} }, false],
])("%s is a tool: %j %j", (_, value, expected) => {
  expect(isNamedTool(value)).toBe(expected);
});

/** A tool that does not say whether it needs approval. */
const silent = (change: Partial<NamedTool> = {}) => aTool({ needsApproval: undefined, ...change });

describe("wrapWithDefaultApproval", () => {
  test.each([true, false, () => true])("a tool's own needsApproval takes precedence: %s", (needsApproval) => {
    const tool = aTool({ needsApproval });
    expect(wrapWithDefaultApproval(tool, { default: "blocked", tools: { read_file: "blocked" } })).toBe(tool);
  });

  test.each<[string, Parameters<typeof wrapWithDefaultApproval>[1], boolean]>([
    ["no configuration", undefined, true],
    ["an empty configuration", {}, true],
    ["a default", { default: "preApproved" }, false],
    ["an entry of the tool", { default: "preApproved", tools: { read_file: "ask" } }, true],
    ["an entry of the tool", { default: "blocked", tools: { read_file: "preApproved" } }, false],
    ["an entry of another tool", { tools: { write_file: "preApproved" } }, true],
  ])("otherwise the configuration decides: %s", (_, config, expected) => {
    expect(wrapWithDefaultApproval(silent(), config).needsApproval).toBe(expected);
  });

  test("a tool with the name of an object's member needs approval", () => {
    expect(wrapWithDefaultApproval(silent({ name: "constructor" }), { tools: {} }).needsApproval).toBe(true);
  });

  test("a blocked tool fails when asked and when executed", () => {
    const wrapped = wrapWithDefaultApproval(silent(), { tools: { read_file: "blocked" } });
    const ask = wrapped.needsApproval as () => boolean;

    expect(ask).toThrow(BlockedError);
    expect(() => (wrapped.execute as () => void)()).toThrow("Tool 'read_file' blocked: Blocked by policy");
  });
});
