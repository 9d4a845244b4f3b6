import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const source = fileURLToPath(new URL("../src", import.meta.url));

/**
 * Returns the texts of our modules that are loaded with a module, not at a first use, and the packages and modules of Node
 * that they import, with an importer.
 */
function loadedWith(entry: string): { texts: Map<string, string>; packages: Map<string, string> } {
  const packages = new Map<string, string>();
  const texts = new Map<string, string>();
  const visit = (file: string) => {
    if (texts.has(file)) return;
    const text = readFileSync(file, "utf8");
    texts.set(file, text);
    const statements = text.matchAll(/^(?:import|export)\s(?!type\s)[^;]*?from "([^"]+)";/gms);
    for (const [statement, name = ""] of statements) {
      if (/^(?:import|export)\s\{(?:\s*type [^,}]+,?)+\s*\}/.test(statement)) continue;
      if (name.startsWith("#")) visit(resolve(source, name.slice(1)));
      else if (name.startsWith(".")) visit(resolve(dirname(file), name));
      else packages.set(name, file.slice(source.length + 1));
    }
  };
  visit(resolve(source, entry));
  return { texts, packages };
}

test("the AI SDK and what else only runs need is not loaded when the app starts", () => {
  const { texts, packages } = loadedWith("app.ts");

  expect([...packages.keys()]).toContain("zod");
  const lazy = [...packages].filter(([name]) =>
    /^(?:ai|@ai-sdk\/.*|@modelcontextprotocol\/.*|undici|just-bash|isomorphic-git|node:http2)$/.test(name),
  );
  expect(lazy).toEqual([]);
  // Creating the first formatter takes 20 ms.
  const formatters = [...texts].filter(([, text]) => /^(?:export )?const .*\bIntl\./m.test(text));
  expect(formatters.map(([file]) => file)).toEqual([]);
});

test("the packages that only MCP servers and web tools need are not loaded with the tools of a run", () => {
  const { packages } = loadedWith("toolsets/open-toolbox.ts");

  expect([...packages.keys()]).toContain("zod");
  expect([...packages].filter(([name]) => /^(?:@ai-sdk\/mcp|undici|linkedom|defuddle.*)$/.test(name))).toEqual([]);
});
