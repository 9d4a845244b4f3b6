import { rename, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { customToolset, loadCustomTools } from "#toolsets/custom/custom-toolset.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import { customTools, sharedCustomTools, temporaryFolder, toolboxWorld } from "../support/custom-tools-world.ts";

/** Copied from the design document. */
const fibonacci = `// tools.ts
import { z } from 'zod';

/** Calculate the nth Fibonacci number */
export function calculateFibonacci({ n }: { n: number }): number {
  if (n <= 1) return n;
  let a = 0, b = 1;
  for (let i = 2; i <= n; i++) [a, b] = [b, a + b];
  return b;
}

// Schema must be exported with matching name + "Schema" suffix
// Uses z.object() directly - same pattern as built-in tools
export const calculateFibonacciSchema = z.object({
  n: z.number().int().min(0).describe('Position in sequence'),
});
`;
const fibonacciObject = `// tools.ts
import { z } from 'zod';
import type { NamedTool } from 'golem-forge';

export const calculateFibonacci: NamedTool = {
  name: 'calculateFibonacci',
  description: 'Calculate the nth Fibonacci number',
  inputSchema: z.object({
    n: z.number().int().min(0).describe('Position in sequence'),
  }),
  // Tool can define its own needsApproval
  needsApproval: false,
  execute: async ({ n }) => {
    if (n <= 1) return n;
    let a = 0, b = 1;
    for (let i = 2; i <= n; i++) [a, b] = [b, a + b];
    return b;
  },
};
`;

/** The tools of all tests that need no module of their own. */
const various = `
import { tool } from "ai";
import { BlockedError, ToolError } from "golem-forge";
import { ActivityStream, BaseTool } from "golem-forge/compat";
import { ToolError as ForeignError } from "@golem-forge/core";
import { z } from "zod";

const nothingNeeded = z.object({});
const base = { description: "x", inputSchema: nothingNeeded, needsApproval: false };

export const foreign = { ...base, execute: () => { throw new ForeignError("no way", { code: "TIMEOUT" }); } };

export const publish = Object.assign(tool({
  description: "Publishes",
  inputSchema: z.object({ level: z.enum(["patch", "major"]), at: z.coerce.date().optional() }),
  needsApproval: async ({ level }) => level === "major",
  execute: async ({ level, at }, { toolCallId, run }) => ({ level, year: at?.getFullYear(), toolCallId, worker: run.worker }),
}), {
  preview: ({ level }) => "- " + level,
  approvalReason: ({ level }) => "A " + level + " release cannot be taken back.",
  manualExecution: { mode: "both", label: "Publish", category: "Release" },
});

export const report = { ...base, execute: () => ({ kind: "file_list", path: ".", files: ["a.ts"], count: 1 }) };
export const count = { ...base, inputSchema: z.object({ ok: z.boolean() }), outputSchema: z.object({ count: z.number() }),
  execute: ({ ok }) => (ok ? { count: 1 } : { count: "one" }) };

export const nothing = { ...base, execute: () => {} };
export const aFunction = { ...base, execute: async () => () => 1 };
export const aSymbol = { ...base, execute: () => Symbol("x") };
export const quiet = { ...base, needsApproval: true, preview: () => undefined, execute: () => 1 };

const number = { type: "object", properties: { n: { type: "integer", minimum: 0 } }, required: ["n"] };
export const double = { description: "Doubles", inputSchema: number, needsApproval: false, execute: ({ n }) => 2 * n };
/** Halves. */
export const half = ({ n }) => n / 2;
export const halfSchema = number;

const older = { description: "x", inputSchema: z.object({ path: z.string() }), execute: () => 1 };
export const always = { ...older, requiresApproval: true };
export const never = { ...older, requiresApproval: false };
export const sometimes = { ...older, requiresApproval: ({ path }) => path === "a" };

export const ok = { ...base, execute: () => ({ ok: true, value: { n: 1 } }) };
export const notOk = { ...base, execute: () => ({ ok: false, error: { code: "FILE_NOT_FOUND", message: "No a.txt." } }) };
export const failed = { ...base, execute: () => ({ success: false, error: "Nothing found", error_type: "user_error" }) };
export const shown = { ...base, execute: () => ({ llmContent: "for the model", returnDisplay: "for people" }) };

class Greeter extends BaseTool {
  name = "greet_object"; description = "Greets"; requiresConfirmation = false;
  getFunctionDefinition() {
    const parameters = { type: "object", properties: { who: { type: "string" } }, required: ["who"] };
    return { type: "function", function: { name: this.name, description: this.description, parameters } };
  }
  async executeImpl({ who }) { return this.formatSuccessResponse({ result: "Hello " + who }); }
}
export const greeter = new Greeter(new ActivityStream());
export class GreeterClass extends Greeter { name = "greet_class"; }

export const tourSchema = nothingNeeded;
export async function tour(_, { sandbox }) {
  await sandbox.writeBinary("/raw.bin", new Uint8Array([0, 255]));
  const raw = [...(await sandbox.readBinary("/raw.bin"))];
  const { isDirectory, modifiedAt, size } = await sandbox.stat("/raw.bin");
  await sandbox.delete("/raw.bin");
  return { raw, isDirectory, isDate: modifiedAt instanceof Date, size, left: await sandbox.exists("raw.bin") };
}

export const fails = { ...base,
  execute: () => { throw new ToolError("No such ticket.", { code: "FILE_NOT_FOUND", suggestion: "Look again." }); } };
export const blocked = { ...base, execute: () => "never",
  needsApproval: () => { throw new BlockedError("blocked", "not on Fridays"); } };

export const reading = { ...base, readOnly: true, execute: () => 1 };
export const repeated = { ...base, afterCrash: "repeat", execute: () => 1 };

export const plain = () => 1;
export const plainSchema = nothingNeeded;
export const asked = () => 1;
export const askedSchema = nothingNeeded;
export const barred = { ...base, execute: () => 1 };
`;
const shared = sharedCustomTools(various, {
  tools: [...various.matchAll(/^export (?:const|class|async function) (\w+?)(?<!Schema)\b/gm)].map(
    ([, name = ""]) => name,
  ),
  approval: { default: "preApproved", tools: { asked: "ask", barred: "blocked" } },
});

test("a module may import the package under the names that other programs have for it", async () => {
  const { run } = shared();

  expect((await run("foreign", {})).error).toMatchObject({ code: "TIMEOUT", message: "no way" });
});

test("a call that a crash interrupts is repeated only if the tool says that it may be, or only reads", () => {
  const { toolbox } = shared();
  const afterCrash = (name: string) => toolbox.tools.find((tool) => tool.name === name)?.afterCrash;

  expect(["plain", "reading", "repeated"].map(afterCrash)).toEqual(["report", "repeat", "repeat"]);
});

describe("a function with a schema", () => {
  test("a function with a schema is a tool that needs approval, described by its comment and validated by its schema", async () => {
    const { toolbox, run, review } = await customTools(fibonacci, { tools: ["calculateFibonacci"] });

    expect(toolbox.offered).toMatchObject([
      { name: "calculateFibonacci", description: "Calculate the nth Fibonacci number" },
    ]);
    expect(await review("calculateFibonacci", { n: 10 })).toMatchObject({ kind: "ask", args: { n: 10 } });
    expect(await run("calculateFibonacci", { n: 10 })).toMatchObject({
      llmContent: "55",
      value: { kind: "json", data: 55 },
    });
    expect(await review("calculateFibonacci", { n: -1 })).toMatchObject({
      kind: "refuse",
      result: { error: { code: "INVALID_ARGUMENTS", message: expect.stringContaining("calculateFibonacci") } },
    });
  });

  test("a function is described by its schema if that has a description, otherwise by its comment or its name", async () => {
    const source = `import { z } from "zod";
      /** Not this one. */
      export const other = 1;
      /**
       * Greets
       *   somebody.
       * @param name whom
       */
      export const greet = ({ name }: { name: string }) => "Hello " + name;
      export const greetSchema = z.object({ name: z.string() });
      export const plain = () => "plain";
      export const plainSchema = z.object({});
      export const shown = () => "shown";
      export const shownSchema = z.object({}).describe("Shows it.");`;

    const { toolbox } = await customTools(source, { tools: ["greet", "plain", "shown"] });

    expect(toolbox.tools.map(({ description }) => description)).toEqual([
      "Greets somebody.",
      "Custom tool: plain",
      "Shows it.",
    ]);
  });
});

describe("a tool object", () => {
  test("a tool object runs as in the design document, and its own needsApproval takes precedence", async () => {
    const { run, review } = await customTools(fibonacciObject, {
      tools: ["calculateFibonacci"],
      approval: { default: "ask", tools: { calculateFibonacci: "ask" } },
    });

    expect(await review("calculateFibonacci", { n: 5 })).toMatchObject({ kind: "allow" });
    expect((await run("calculateFibonacci", { n: 5 })).llmContent).toBe("5");
  });

  test("a tool object may be a tool of the AI SDK with an approval rule, a preview and a mode", async () => {
    const { toolbox, run, review } = shared();

    expect(toolbox.find("publish")).toMatchObject({ manualExecution: { mode: "both", label: "Publish" } });
    expect(await review("publish", { level: "patch" })).toMatchObject({ kind: "allow" });
    expect(await review("publish", { level: "major" })).toMatchObject({
      kind: "ask",
      reason: "A major release cannot be taken back.",
      preview: { sections: [{ text: "- major" }] },
    });
    expect((await run("publish", { level: "patch", at: "2026-05-01" })).value).toMatchObject({
      kind: "json",
      data: { level: "patch", year: 2026, toolCallId: expect.stringMatching(/^call-\d+$/), worker: "fixer" },
    });
  });

  test("a tool object may return a result value, and output that does not match its schema is an error", async () => {
    const { run } = shared();

    expect((await run("report")).value).toMatchObject({ kind: "file_list" });
    expect(await run("count", { ok: true })).toMatchObject({ value: { data: { count: 1 } } });
    expect(await run("count", { ok: false })).toMatchObject({
      error: {
        code: "INVALID_OUTPUT",
        message: expect.stringContaining("The output of count does not match its schema"),
      },
    });
  });
});

describe("a tool of another shape", () => {
  test("a tool may return nothing, a function or a symbol", async () => {
    const { run } = shared();

    for (const tool of ["nothing", "aFunction", "aSymbol"]) {
      const result = await run(tool);
      expect(result.error).toBeUndefined();
      expect(result.llmContent).toBe("Done.");
    }
  });

  test("a tool may have a preview that returns nothing", async () => {
    const { review } = shared();

    expect(await review("quiet")).toMatchObject({ kind: "ask", preview: { sections: [] } });
  });

  test("a tool may have a plain JSON Schema", async () => {
    const { run, toolbox } = shared();

    expect(toolbox.find("double")?.description).toBe("Doubles");
    expect(toolbox.find("half")?.description).toBe("Halves.");
    expect((await run("double", { n: 4 })).llmContent).toBe("8");
    expect((await run("half", { n: 4 })).llmContent).toBe("2");
    expect(await run("double", { n: -1 })).toMatchObject({ error: { code: "INVALID_ARGUMENTS" } });
  });

  test("a tool is refused by name if its schema is not one", async () => {
    const source = `export const odd = () => 1; export const oddSchema = { fields: ["n"] };`;

    await expect(customTools(source, { tools: ["odd"] })).rejects.toThrow(
      /^The input schema of 'odd' in \.\/tools\.ts must be a schema such as z\.object\(\{ … \}\) or a JSON Schema, and is invalid: /,
    );
  });

  test("a tool may use requiresApproval instead of needsApproval", async () => {
    const { review } = shared();
    const kindOf = async (tool: string, path: string) => (await review(tool, { path })).kind;

    expect([await kindOf("always", "a"), await kindOf("never", "a")]).toEqual(["ask", "allow"]);
    expect([await kindOf("sometimes", "a"), await kindOf("sometimes", "b")]).toEqual(["ask", "allow"]);
  });

  test("a tool may answer with ok, success or llmContent and returnDisplay", async () => {
    const { run } = shared();

    expect((await run("ok")).value).toMatchObject({ kind: "json", data: { n: 1 } });
    expect((await run("notOk")).error).toMatchObject({ code: "FILE_NOT_FOUND", message: "No a.txt." });
    expect((await run("failed")).error).toMatchObject({ type: "user_error", message: "Nothing found" });
    expect(await run("shown")).toMatchObject({ llmContent: "for the model", value: { content: "for people" } });
  });

  test.each([
    ["an object of a class", "greet_object"],
    ["a class", "greet_class"],
  ])("a tool may be %s of golem-forge/compat", async (_, tool) => {
    const { run } = shared();

    expect((await run(tool, { who: "Ada" })).value).toMatchObject({ data: { result: "Hello Ada" } });
  });
});

describe("the second argument of a tool", () => {
  test("the second argument of a tool has the names that tools of other programs use for the sandbox", async () => {
    const { run } = shared();

    expect((await run("tour", {})).value).toMatchObject({
      data: { raw: [0, 255], isDirectory: false, isDate: true, size: 2, left: false },
    });
  });

  test("the second argument of a tool has the sandbox with the rules of the run", async () => {
    const source = `import { z } from "zod";
      export const tourSchema = z.object({});
      export async function tour(_, { sandbox, run, toolCallId, idempotencyKey, output }) {
        output("on the way");
        await sandbox.write("new/é.txt", "été");
        await sandbox.write("new/raw.bin", new Uint8Array([0, 255, 128]));
        await sandbox.move("b.txt", "c.txt");
        await sandbox.remove("a.txt");
        const entries = await sandbox.list("", { recursive: true });
        return {
          read: await sandbox.read("new/é.txt"),
          raw: [...(await sandbox.readBytes("new/raw.bin"))],
          paths: await sandbox.paths(), changes: await sandbox.changes(),
          there: [await sandbox.exists("c.txt"), await sandbox.exists("b.txt")],
          isDate: (await sandbox.stat("c.txt")).modified instanceof Date && entries.every(({ modified }) => modified instanceof Date),
          before: (await sandbox.readBase("a.txt")).length, none: (await sandbox.readBase("c.txt")) === undefined,
          zone: (await sandbox.ruleFor("docs/a.md")).zone, resolved: sandbox.resolve("/docs//a.md"),
          missing: await sandbox.read("nope").catch(({ code }) => code),
          outside: await sandbox.read("../x").catch(({ code }) => code),
          facts: [run.id, run.step, toolCallId, idempotencyKey],
        };
      }`;
    const { run, printed, sandbox } = await customTools(
      source,
      { tools: ["tour"] },
      { files: { "a.txt": "aaa", "b.txt": "b" }, rules: { docs: { write: "ask" } } },
    );

    const { value } = await run("tour");

    expect(value).toMatchObject({
      data: {
        read: "été",
        raw: [0, 255, 128],
        paths: ["c.txt", "new/raw.bin", "new/é.txt"],
        there: [true, false],
        isDate: true,
        before: 3,
        none: true,
        zone: "docs",
        resolved: "docs/a.md",
        missing: "FILE_NOT_FOUND",
        outside: "INVALID_PATH",
        facts: ["run-1", 1, "call-1", "run-1/call-1"],
      },
    });
    expect(printed).toEqual(["on the way"]);
    expect(sandbox.text("c.txt")).toBe("b");
  });

  test("errors of the public API are passed to a tool and from it", async () => {
    const { run, review } = shared();

    expect(await run("fails")).toMatchObject({
      error: { code: "FILE_NOT_FOUND", message: "No such ticket.", suggestion: "Look again." },
    });
    expect(await review("blocked")).toMatchObject({
      kind: "refuse",
      result: { error: { code: "BLOCKED", message: "blocked is blocked by policy: not on Fridays" } },
    });
  });
});

describe("approval of custom tools", () => {
  test("approval of a custom tool is that of its own rule, otherwise that of its name, otherwise the default", async () => {
    const { review } = shared();
    const source = `${fibonacci}
      export const own = { description: "x", inputSchema: z.object({}), needsApproval: false, execute: () => 1 };
      export const other = () => 1;
      export const otherSchema = z.object({});`;
    const blocking = await customTools(source, {
      tools: ["calculateFibonacci", "own", "other"],
      approval: { default: "blocked", tools: { calculateFibonacci: "preApproved" } },
    });
    const kindOf = async (tool: string, args = {}) => (await blocking.review(tool, args)).kind;

    expect((await review("plain")).kind).toBe("allow");
    expect((await review("asked")).kind).toBe("ask");
    expect(await kindOf("calculateFibonacci", { n: 1 })).toBe("allow");
    expect(await kindOf("own")).toBe("allow");
    expect(await kindOf("other")).toBe("refuse");
  });

  test("a tool blocked by name stays blocked with any needsApproval of its own, also at execution", async () => {
    const { review, run } = shared();

    expect((await review("barred")).kind).toBe("refuse");
    expect(await run("barred")).toMatchObject({ error: { code: "BLOCKED" } });
  });
});

describe("a module that does not provide what the worker names", () => {
  const source = `${fibonacci}
    export const bare = () => 1;
    export const version = 3;
    export const half = { description: "no execute", inputSchema: z.object({}) };
    export const texted = () => 1;
    export const textedSchema = "n";`;

  test("a module is refused with the problem of each name that it does not provide, and the exports that exist", async () => {
    const tools = ["calculateFibonaci", "toString", "bare", "version", "half", "texted"];

    const refused = await customTools(source, { tools }).catch((error: Error) => error.message);

    const all = "It exports: bare, calculateFibonacci, calculateFibonacciSchema, half, texted, textedSchema, version.";
    expect(refused).toBe(
      [
        `Tool 'calculateFibonaci' not found in ./tools.ts. Did you mean 'calculateFibonacci'? ${all}`,
        `Tool 'toString' not found in ./tools.ts. ${all}`,
        `Schema 'bareSchema' required for function 'bare' in ./tools.ts: export const bareSchema = z.object({ … }). ${all}`,
        "Export 'version' in ./tools.ts must be a function or tool object, it is a number.",
        "Export 'half' in ./tools.ts must be a function or tool object, it is an object with description, inputSchema, and needs inputSchema and execute.",
        "The input schema of 'texted' in ./tools.ts must be a schema such as z.object({ … }) or a JSON Schema, it is a string.",
      ].join(" "),
    );
  });

  test("a module is refused if it fails to load or does not exist", async () => {
    await expect(customTools("export const a: = 1;", { tools: ["a"] })).rejects.toThrow(
      /^\.\/tools\.ts cannot be loaded: /,
    );
    await expect(customTools(`export const a = 1; throw new Error("no luck");`, { tools: ["a"] })).rejects.toThrow(
      /cannot be loaded: no luck/,
    );
    const folder = await temporaryFolder({ "tools.ts": fibonacci });
    const open = (module: string) =>
      toolboxWorld(customToolset, { module, tools: ["a"] }, { services: { workerDirectory: folder } });
    await expect(open("./tool.ts")).rejects.toThrow(
      "module: ./tool.ts does not exist in the folder of the worker. Did you mean ./tools.ts? Modules there: tools.ts.",
    );
    await expect(open("./tools.py")).rejects.toThrow("module: ./tools.py is not a module.");
  });

  test("a module is refused outside of the worker's folder, also through a link", async () => {
    const outside = await temporaryFolder({ "tools.ts": fibonacci });
    const folder = await temporaryFolder({});
    await symlink(join(outside, "tools.ts"), join(folder, "linked.ts"));

    for (const module of ["../tools.ts", join(outside, "tools.ts"), "./linked.ts"]) {
      const opened = toolboxWorld(customToolset, { module, tools: ["a"] }, { services: { workerDirectory: folder } });
      await expect(opened).rejects.toThrow(/is outside the folder of the worker/);
    }
  });

  test("a module is refused if approval names an unknown tool, or a setting is invalid", async () => {
    const approval = { tools: { calculateFibonaci: "blocked" } };

    await expect(customTools(fibonacci, { tools: ["calculateFibonacci"], approval })).rejects.toThrow(
      "approval.tools names calculateFibonaci, which is not among the tools of ./tools.ts. Did you mean calculateFibonacci?",
    );
    await expect(customTools(fibonacci, { tools: [] })).rejects.toThrow("Name the exports that become tools");
  });
});

describe("a module that changes", () => {
  const version = (text: string) => `import { z } from "zod"; import { word } from "./word.ts";
    export const say = { description: "Says ${text}", inputSchema: z.object({}), needsApproval: false, execute: () => "${text} " + word };`;

  test("a module that changes is loaded again when the tools are opened again, with its imports", async () => {
    const folder = await temporaryFolder({ "tools.ts": version("one"), "word.ts": `export const word = "old";` });
    const open = () =>
      toolboxWorld(customToolset, { module: "./tools.ts", tools: ["say"] }, { services: { workerDirectory: folder } });
    const said = async () => {
      const { toolbox, run } = await open();
      return [toolbox.tools[0]?.description, (await run("say")).llmContent];
    };

    const first = await said();
    await writeFile(join(folder, "word.ts"), `export const word = "new";`);
    const second = await said();
    await writeFile(join(folder, "tools.ts"), version("two"));

    expect([first, second, await said()]).toEqual([
      ["Says one", "one old"],
      ["Says one", "one new"],
      ["Says two", "two new"],
    ]);
  });

  test("a tools.ts in a project whose package.json says commonjs is loaded with its imports", async () => {
    const folder = await temporaryFolder({
      "package.json": `{ "type": "commonjs" }`,
      "tools.ts": version("one"),
      "word.ts": `export const word = "word";`,
    });
    const config = { module: "./tools.ts", tools: ["say"] };

    const { run } = await toolboxWorld(customToolset, config, { services: { workerDirectory: folder } });

    expect((await run("say")).llmContent).toBe("one word");
  });

  test("a module is refused if it changed between opening and the first call", async () => {
    const files = { "tools.ts": version("one"), "word.ts": `export const word = "old";` };
    const folder = await temporaryFolder(files);
    const open = () =>
      toolboxWorld(customToolset, { module: "./tools.ts", tools: ["say"] }, { services: { workerDirectory: folder } });
    await open();
    const { run } = await open();
    await writeFile(join(folder, "next.ts"), version("two"));
    await rename(join(folder, "next.ts"), join(folder, "tools.ts"));

    expect(await run("say")).toMatchObject({ error: { code: "STALE" } });
  });

  test("what was approved does not run once another file of the module has changed, while the run is active or after it was resumed", async () => {
    const asking = version("one").replace("needsApproval: false", "needsApproval: true");
    const folder = await temporaryFolder({ "tools.ts": asking, "word.ts": `export const word = "old";` });
    const open = () =>
      toolboxWorld(customToolset, { module: "./tools.ts", tools: ["say"] }, { services: { workerDirectory: folder } });
    const shown = async ({ review }: Awaited<ReturnType<typeof open>>) => {
      const asked = await review("say");
      return asked.kind === "ask" && asked.preview?.bindings;
    };
    const [first, same] = [await shown(await open()), await shown(await open())];
    const active = await open();
    await writeFile(join(folder, "word.ts"), `export const word = "new";`);
    const resumed = await open();

    expect(first).toEqual({ module: expect.stringMatching(/^[0-9a-f]{64}$/) });
    expect(same).toEqual(first);
    expect(await active.run("say")).toMatchObject({ error: { code: "STALE" } });
    expect(await shown(resumed)).not.toEqual(first);
    expect((await resumed.run("say")).llmContent).toBe("one new");
  });
});

describe("tools of a repository's own worker", () => {
  const github = (files: Record<string, string>) =>
    ({ readFile: async (path: string) => files[path] }) as unknown as ToolServices["github"];
  const config = { module: "./tools.ts", tools: ["calculateFibonacci"] };

  test("tools of a repository's own worker are off unless the deployment allows the repository", async () => {
    const services = { github: github({ ".github/workers/tools.ts": fibonacci }) };

    await expect(toolboxWorld(customToolset, config, { services })).rejects.toThrow(
      "The worker fixer comes from octo/sums and uses ./tools.ts, but custom tools of repositories are off. " +
        "The operator of this deployment can allow them with GOLEM_FORGE_CUSTOM_TOOLS_FROM=octo/sums.",
    );
  });

  test("tools of a repository's own worker run from the default branch where they are allowed", async () => {
    const asked: string[] = [];
    const services: Partial<ToolServices> = {
      github: github({ ".github/workers/tools.ts": fibonacci }),
      customToolsFrom: (owner, repo) => asked.push(`${owner}/${repo}`) > 0,
    };
    const { run } = await toolboxWorld(customToolset, config, { services });

    expect((await run("calculateFibonacci", { n: 10 })).llmContent).toBe("55");
    expect(asked).toEqual(["octo/sums"]);
  });

  test.each([["../../src/tools.ts"], ["/etc/tools.ts"], ["../../workers.ts"]])(
    "tools of a repository's own worker never come from %s",
    async (module) => {
      const services = { github: github({}), customToolsFrom: () => true };

      await expect(toolboxWorld(customToolset, { ...config, module }, { services })).rejects.toThrow(
        /is outside \.github\/workers/,
      );
    },
  );

  test("tools of a repository's own worker are refused if the default branch has no such file", async () => {
    const services = { github: github({}), customToolsFrom: () => true };

    await expect(toolboxWorld(customToolset, config, { services })).rejects.toThrow(
      "module: .github/workers/tools.ts is not on the default branch of octo/sums.",
    );
  });
});

describe("loadCustomTools", () => {
  let close: (() => Promise<void>) | undefined;
  afterEach(() => close?.());

  test("loadCustomTools loads the tools of a module for a program", async () => {
    const folder = await temporaryFolder({ "tools.ts": fibonacci });

    const tools = await loadCustomTools(join(folder, "tools.ts"), {
      tools: ["calculateFibonacci"],
      approval: { tools: { calculateFibonacci: "preApproved" } },
    });

    close = tools.close;
    expect([...tools]).toMatchObject([{ name: "calculateFibonacci", needsApproval: false }]);
  });
});
