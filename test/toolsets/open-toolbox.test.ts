import { asSchema, jsonSchema } from "ai";
import { describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { UserError } from "#domain/errors.ts";
import { textPreview } from "#domain/preview.ts";
import type { NamedTool } from "#domain/tool.ts";
import { WorkerDefinition } from "#domain/worker.ts";
import { openToolbox } from "#toolsets/open-toolbox.ts";
import type { ToolServices, Toolset } from "#toolsets/toolset.ts";
import { memoryWorkspace } from "../support/memory-workspace.ts";
import { aCall, aContext, aTool } from "../support/toolbox-world.ts";
import { runSpec } from "../support/toolset-world.ts";

function aToolset(name: string, tools: NamedTool[], change: Partial<Toolset> = {}): Toolset {
  return { name, config: z.strictObject({}), create: () => tools, ...change };
}

function open(names: Record<string, Record<string, unknown> | null>, toolsets: Toolset[], more: object = {}) {
  const worker = WorkerDefinition.parse({ name: "fixer", instructions: "Fix it.", toolsets: names });
  const sandbox = memoryWorkspace();
  const own = { spec: runSpec, workspace: sandbox, sandbox, history: () => [], ...more };
  const services = own as unknown as ToolServices;
  return openToolbox(worker, services, { toolsets });
}

const files = aToolset("filesystem", [aTool({ aliases: ["read"] }), aTool({ name: "write_file" })], {
  aliases: ["files"],
});
const git = aToolset("git", [
  aTool({ name: "git_status" }),
  aTool({ name: "git_push", manualExecution: { mode: "manual" } }),
]);

describe("opening a toolbox", () => {
  test("a toolbox has the toolsets that a worker names, in the worker's order, by name or alias", async () => {
    const toolbox = await open({ git: null, files: {} }, [files, git]);

    expect(toolbox.tools.map(({ name }) => name)).toEqual(["git_status", "git_push", "read_file", "write_file"]);
    expect(toolbox.offered.map(({ name }) => name)).toEqual(["git_status", "read_file", "write_file"]);
    expect(toolbox.find("read")?.name).toBe("read_file");
    expect(toolbox.find("nothing")).toBeUndefined();
  });

  test("only the tools that a worker lists are offered, and people can use the others", async () => {
    const worker = { name: "fixer", instructions: "Fix it.", toolsets: { files: {} }, offered_tools: ["read_file"] };
    const sandbox = memoryWorkspace();
    const services = { spec: runSpec, workspace: sandbox, sandbox, history: () => [] } as unknown as ToolServices;

    const toolbox = await openToolbox(WorkerDefinition.parse(worker), services, { toolsets: [files] });

    expect(toolbox.offered.map(({ name }) => name)).toEqual(["read_file"]);
    expect(toolbox.find("write_file")?.name).toBe("write_file");
  });

  test("an approval of any tool that calls a worker is bound to the worker's definition, besides what its preview shows", async () => {
    const tester = WorkerDefinition.parse({ name: "tester", instructions: "Test it." });
    const answeredBy = { kind: "worker" as const, worker: "tester" };
    const release = aTool({ name: "release", needsApproval: true, answeredBy, preview: () => "It releases." });
    const services = { findWorker: async () => ({ worker: tester, source: "repository" }) };
    const toolbox = await open({ tools: null }, [aToolset("tools", [release])], services);

    const review = await toolbox.review(aCall("release", { path: "a" }), aContext(), []);

    const preview = { ...textPreview("It releases."), bindings: { worker: expect.stringMatching(/^[0-9a-f]{64}$/) } };
    expect(review).toMatchObject({ kind: "ask", answeredBy: "worker", preview });
  });

  test("the secrets of the deployment are not posted in a request", async () => {
    const services = { redact: (text: string) => text.replace("quiet words", "[secret removed]") };
    const tool = aTool({ name: "release", needsApproval: true });
    const toolbox = await open({ tools: null }, [aToolset("tools", [tool])], services);

    const review = await toolbox.review(aCall("release", { path: "quiet words" }), aContext(), []);

    expect(review).toMatchObject({ kind: "refuse", result: { error: { code: "INVALID_ARGUMENTS" } } });
  });

  test("a worker without toolsets has no tools", async () => {
    expect((await open({}, [files])).tools).toEqual([]);
  });

  test.each<[string, Record<string, Record<string, unknown> | null>, string]>([
    [
      "an unknown toolset",
      { filesytem: {} },
      "names the toolset filesytem, which does not exist. Did you mean filesystem? Available toolsets: filesystem, git.",
    ],
    [
      "a toolset that is like no other",
      { kubernetes: {} },
      "names the toolset kubernetes, which does not exist. Available toolsets: filesystem, git.",
    ],
    ["one toolset twice", { filesystem: {}, files: {} }, "names the same toolset twice: filesystem and files"],
    [
      "an unknown setting",
      { git: { remte: 1 } },
      "The toolset git of the worker fixer has invalid settings: Unknown field remte.",
    ],
  ])("a toolbox with %s is refused", async (_, names, message) => {
    await expect(open(names, [files, git])).rejects.toThrow(UserError);
    await expect(open(names, [files, git])).rejects.toThrow(message);
  });

  test("a misspelled setting names the closest known one, and an invalid value is explained", async () => {
    const config = z.strictObject({ remote: z.string().optional(), depth: z.number().optional() });
    const set = aToolset("git", [], { config });
    await expect(open({ git: { remte: "x" } }, [set])).rejects.toThrow("Unknown field remte. Did you mean remote?");
    await expect(open({ git: { depth: "x" } }, [set])).rejects.toThrow(/depth: .*Expected number/);
  });

  test("a toolset receives its settings and the runtime's services", async () => {
    const create = vi.fn(() => []);
    const config = z.strictObject({ depth: z.number().default(3) });
    await open({ git: {} }, [aToolset("git", [], { config, create })]);
    expect(create).toHaveBeenCalledWith({ depth: 3 }, expect.objectContaining({ onClose: expect.any(Function) }));
    expect((create.mock.calls as unknown as [unknown, ToolServices][])[0]?.[1].spec).toBe(runSpec);
  });

  test("two tools with the same name or alias are refused; a name takes precedence over an alias", async () => {
    await expect(open({ a: {}, b: {} }, [aToolset("a", [aTool()]), aToolset("b", [aTool()])])).rejects.toThrow(
      "Two tools are named read_file: one of the toolset a, and one of the toolset b. Remove one of them.",
    );
    const ofServer = aToolset("mcp", [aTool({ name: "git_push" })], { config: z.object({ servers: z.any() }) });
    await expect(open({ git: {}, mcp: { servers: { docs: {}, git: {} } } }, [git, ofServer])).rejects.toThrow(
      "Two tools are named git_push: one of the toolset git, and one of the MCP server git. Give the MCP server git another name in the worker's file: its tools are named after it.",
    );
    const twice = [aTool({ name: "x", aliases: ["read"] }), aTool({ name: "y", aliases: ["read"] })];
    await expect(open({ a: {} }, [aToolset("a", twice)])).rejects.toThrow("x and y share the alias read");

    const toolbox = await open({ a: {} }, [
      aToolset("a", [aTool({ name: "x", aliases: ["y"] }), aTool({ name: "y" })]),
    ]);
    expect(toolbox.find("y")?.name).toBe("y");
  });

  test("opened toolsets are closed once, also if another one fails to open", async () => {
    const release = vi.fn(async () => {});
    const holding = aToolset("holding", [], {
      create: (_, services) => {
        services.onClose?.(release);
        return [];
      },
    });
    const broken = aToolset("broken", [], { create: () => Promise.reject(new UserError("The server is down.")) });

    const toolbox = await open({ holding: {} }, [holding]);
    expect(release).not.toHaveBeenCalled();
    await toolbox.close();
    await toolbox.close();
    expect(release).toHaveBeenCalledOnce();

    await expect(open({ holding: {}, broken: {} }, [holding, broken])).rejects.toThrow("The server is down.");
    expect(release).toHaveBeenCalledTimes(2);
  });
});

test("a tool without an approval setting needs approval", async () => {
  const toolbox = await open({ a: {} }, [
    aToolset("a", [aTool({ needsApproval: undefined }), aTool({ name: "free" })]),
  ]);

  expect((await toolbox.review(aCall("read_file", { path: "a" }), aContext(), [])).kind).toBe("ask");
  expect((await toolbox.review(aCall("free", { path: "a" }), aContext(), [])).kind).toBe("allow");
});

describe("schemas", () => {
  test("schemas are converted to JSON Schema once and offered unchanged at every step", async () => {
    let conversions = 0;
    const inputSchema = () => {
      conversions++;
      return jsonSchema({ type: "object", properties: { a: { type: "string" } }, required: ["a"] });
    };
    const toolbox = await open({ a: {} }, [aToolset("a", [aTool({ inputSchema })])]);
    const schema = () => asSchema(toolbox.offered[0]?.inputSchema).jsonSchema;

    const before = schema();
    await toolbox.review(aCall("read_file", { a: "x" }), aContext(), []);
    await toolbox.execute(aCall("read_file", { a: "x" }), aContext());

    expect(conversions).toBe(1);
    expect(schema()).toBe(before);
    expect(before).toEqual({ type: "object", properties: { a: { type: "string" } }, required: ["a"] });
  });

  test("dates and transforms do not prevent a tool from being offered", async () => {
    const inputSchema = z.object({ at: z.date().optional(), n: z.string().transform(Number) });
    const toolbox = await open({ a: {} }, [aToolset("a", [aTool({ inputSchema })])]);
    expect(asSchema(toolbox.offered[0]?.inputSchema).jsonSchema).toMatchObject({
      properties: { at: {}, n: { type: "string" } },
    });
  });

  test("an invalid schema is refused with the name of the tool", async () => {
    const inputSchema = () => {
      throw new Error("no such type");
    };
    await expect(open({ a: {} }, [aToolset("a", [aTool({ inputSchema })])])).rejects.toThrow(
      "The schema of the tool read_file is invalid: no such type",
    );
  });
});
