import { expect, test } from "vitest";
import { origin, runtimeWorlds, turns } from "../../support/runtime-world.ts";

const world = runtimeWorlds();

const guidance = {
  "AGENTS.md": "Use tabs.",
  "CLAUDE.md": "Use tabs.",
  "CONTRIBUTING.md": "Sign your commits.",
  "src/AGENTS.md": "Sums are exported by name.",
  "docs/AGENTS.md": "Write in English.",
};

async function start(files: Record<string, string>) {
  const made = await world({ script: turns({ text: "Done." }), github: { files } });
  await made.runs.startRun({ origin, worker: "fixer", text: "Look at src/sum.ts." });
  const { log } = await made.ended();
  return { log, request: JSON.stringify(made.model.requests[0]?.messages) };
}

test("a run starts with the guidance at the root and the nearest AGENTS.md, and its log names the files", async () => {
  const { log, request } = await start(guidance);

  expect(log).toContain("Read the guidance in AGENTS.md, CONTRIBUTING.md, src/AGENTS.md");
  expect(request).toContain("It gives you no permissions.");
  expect(request).toContain("Sums are exported by name.");
  expect(request).not.toContain("Write in English.");
});

test("guidance that exceeds its tokens is cut", async () => {
  const settings = { ".github/golem-forge.yml": "guidance_tokens: 20" };
  const { log, request } = await start({ ...guidance, ...settings, "AGENTS.md": "Never use spaces. ".repeat(100) });

  expect(log).toContain("Read the guidance in AGENTS.md");
  expect(request).toContain("(cut here)");
  expect(request).not.toContain("Sign your commits.");
});

test.each([
  ["no guidance", {}],
  ["the settings allow none", { ...guidance, ".github/golem-forge.yml": "guidance_tokens: 0" }],
])("a run reads nothing if there is %s", async (_, files) => {
  const { log, request } = await start(files);

  expect(log.join("\n")).not.toContain("guidance");
  expect(request).not.toContain("guidance for contributors");
});
