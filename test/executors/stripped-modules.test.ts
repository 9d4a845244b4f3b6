import { Script } from "node:vm";
import { expect, test, vi } from "vitest";
import { strippedModules } from "#executors/spawn-guarded.ts";

const sources = new URL("../../src/", import.meta.url);
const shell = new URL("executors/memory/shell-child.ts", sources);

test("a child process gets every module that it imports, without types and without a warning", () => {
  const warned = vi.spyOn(process, "emitWarning");

  const modules = [...strippedModules(new URL("executors/serve-parent.ts", sources)), ...strippedModules(shell)];

  const names = modules.map(([url]) => url.slice(sources.href.length));
  expect(names).toContain("executors/memory/shell-child.ts");
  expect(names).toContain("executors/confine.ts");
  expect(names).toContain("executors/memory/git-command.ts");
  // Only its types are used.
  expect(names).not.toContain("executors/executor.ts");
  for (const [url, source] of modules) {
    const script = source.replace(/^import .*?;$|^export (?:default )?/gms, "").replaceAll("import.meta.url", '""');
    expect(() => new Script(script, { filename: url })).not.toThrow();
  }
  expect(warned).not.toHaveBeenCalled();
});

test("modules of other packages are loaded by Node", () => {
  expect(strippedModules(new URL("../node_modules/just-bash/dist/bundle/index.js", sources))).toEqual([]);
  expect(strippedModules(new URL("executors/not-there.ts", sources))).toEqual([]);
});
