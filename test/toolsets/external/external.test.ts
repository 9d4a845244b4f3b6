import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { textPreview } from "#domain/preview.ts";
import { externalToolset } from "#toolsets/external/external-toolset.ts";
import { temporaryFolder, toolboxWorld } from "../../support/custom-tools-world.ts";

const schema = `{ "~standard": { version: 1, vendor: "test", validate: (value) => ({ value }),
  jsonSchema: { input: () => ({ type: "object", properties: { q: { type: "string" } } }), output: () => ({}) } } }`;
const source = `const inputSchema = ${schema};
const tool = (more) => ({ description: "Looks", inputSchema, execute: ({ q }) => "found " + q, ...more });
export const record = { web_search: tool(), quick_look: tool({ needsApproval: false }) };
export const list = [tool({ name: "listed" })];
export const nameless = [tool()];
export const getter = { getTools: () => [tool({ name: "got" })] };
export class Kit { getTools() { return { classy: tool() }; } }
export const factory = async () => ({ made: tool() });
export const single = tool();
export const pair = { plain: tool(), shown: tool({ preview: ({ q }) => "It looks for " + q + "." }) };
export const version = 3;
export const empty = {};
export const mixed = { fine: tool(), broken: { description: "no" } };
export const failing = () => { throw new Error("no key given"); };
`;

async function workersWithPackage(version = "1.2.0"): Promise<string> {
  const folder = await temporaryFolder();
  const home = join(folder, "node_modules", "@acme", "tools");
  await mkdir(home, { recursive: true });
  await writeFile(
    join(home, "package.json"),
    `{ "name": "@acme/tools", "version": "${version}", "type": "module", "main": "index.js" }`,
  );
  await writeFile(join(home, "index.js"), source);
  await writeFile(join(home, "broken.js"), "import 'nowhere-to-be-found'; export const a: 1;");
  return folder;
}

async function external(config: unknown, workerDirectory?: string) {
  const folder = workerDirectory ?? (await workersWithPackage());
  return toolboxWorld(externalToolset, config, { services: { workerDirectory: folder } });
}
const from = (name: string, more: object = {}) => ({ package: "@acme/tools", import: name, ...more });

describe("a toolset from an npm package", () => {
  test.each([
    ["record", ["web_search", "quick_look"]],
    ["list", ["listed"]],
    ["getter", ["got"]],
    ["Kit", ["classy"]],
    ["factory", ["made"]],
    ["single", ["single"]],
  ])("a toolset from an npm package is read from %s", async (name, tools) => {
    const { toolbox, run } = await external(from(name));

    expect(toolbox.offered.map((tool) => tool.name)).toEqual(tools);
    expect((await run(tools[0] ?? "", { q: "it" })).llmContent).toBe("found it");
    expect(toolbox.tools[0]?.afterCrash).toBe("report");
  });

  test("a toolset from an npm package needs approval by default; the tool's own rule takes precedence over the settings, except for blocked tools", async () => {
    const kinds = async (approval?: unknown) => {
      const { review } = await external(from("record", approval ? { approval } : {}));
      return [(await review("web_search", { q: "a" })).kind, (await review("quick_look", { q: "a" })).kind];
    };

    expect(await kinds()).toEqual(["ask", "allow"]);
    expect(await kinds({ tools: { web_search: "preApproved" } })).toEqual(["allow", "allow"]);
    expect(await kinds({ default: "preApproved", tools: { quick_look: "blocked" } })).toEqual(["allow", "refuse"]);
  });

  test("an approval of a tool of an npm package is bound to the package's version, besides what its preview shows", async () => {
    const previewed = async (version: string, name: string) => {
      const { review } = await external(from("pair"), await workersWithPackage(version));
      const { kind, preview } = { preview: undefined, ...(await review(name, { q: "a" })) };
      return { kind, preview };
    };
    const bindings = { package: "@acme/tools@1.2.0" };

    expect(await previewed("1.2.0", "plain")).toEqual({ kind: "ask", preview: { sections: [], bindings } });
    expect(await previewed("1.2.0", "shown")).toEqual({
      kind: "ask",
      preview: { ...textPreview("It looks for a."), bindings },
    });
    expect((await previewed("1.3.0", "plain")).preview).toMatchObject({ bindings: { package: "@acme/tools@1.3.0" } });
  });

  test("a toolset from an npm package can use several packages", async () => {
    const { toolbox } = await external([from("list"), from("factory")]);

    expect(toolbox.offered.map((tool) => tool.name)).toEqual(["listed", "made"]);
  });

  test.each([
    [
      from("recrd"),
      "import: @acme/tools has no export recrd. Did you mean record? It exports: Kit, empty, factory, failing,",
    ],
    [
      from("version"),
      "version of @acme/tools must be a list or record of tools, an object with getTools(), or a function that returns one of these; it is a number.",
    ],
    [from("empty"), "empty of @acme/tools has no tools: it is an empty object."],
    [
      from("mixed"),
      "broken of mixed of @acme/tools is not a tool with inputSchema and execute: it is an object with description.",
    ],
    [from("nameless"), "entry 1 of nameless of @acme/tools has no valid tool name"],
    [from("failing"), "failing of @acme/tools failed to return its tools: no key given"],
    [
      from("record", { approval: { tools: { websearch: "blocked" } } }),
      "approval.tools names websearch, which is not among the tools of @acme/tools. Did you mean web_search?",
    ],
    [
      { package: "@acme/tool", import: "a" },
      "package: @acme/tool is not installed. Run npm install @acme/tool where Golem Forge is installed.",
    ],
    [{ package: "@acme/tools/broken.js", import: "a" }, "package: @acme/tools/broken.js failed to load: "],
    [{ package: "child_process", import: "exec" }, "package: child_process is not the name of an npm package"],
    [{ package: "node:fs", import: "readFile" }, "is not the name of an npm package"],
    [{ package: "../secrets.js", import: "a" }, "is not the name of an npm package"],
    [{ package: "@acme/tools" }, "import is missing"],
  ])("%j is refused with an explanation", async (config, message) => {
    await expect(external(config)).rejects.toThrow(message);
  });

  test("a toolset from an npm package is refused to workers of a repository because packages are not sandboxed", async () => {
    await expect(toolboxWorld(externalToolset, from("record"))).rejects.toThrow(
      /comes from octo\/sums and uses npm packages\. Only the deployment's own workers may/,
    );
  });
});
