import { expect, test } from "vitest";
import { openWorkerCatalog } from "#runtime/start/worker-catalog.ts";
import { temporaryFolder } from "../../support/custom-tools-world.ts";
import { origin, runtimeWorlds, turns } from "../../support/runtime-world.ts";

const world = runtimeWorlds();

test("an invalid worker file of the deployment does not keep the others from running, and is named", async () => {
  const directory = await temporaryFolder({
    "good.worker": "---\nname: good\n---\nRead.",
    "one.worker": "---\nname: one\ntoolsetz: {}\n---\nRead.",
    "two.worker": "---\nname: two\nlimits: { steps: 0 }\n---\nRead.",
  });
  const nothing = { listNames: async () => [], readFile: async () => undefined };

  const catalog = await openWorkerCatalog(directory);

  expect((await catalog.deploymentWorkers()).invalidFiles.map(({ path }) => path)).toEqual([
    "one.worker",
    "two.worker",
  ]);
  expect(await catalog.find("good", nothing)).toMatchObject({ source: "deployment" });
  await expect(catalog.find("one", nothing)).rejects.toThrow("Unknown field toolsetz. Did you mean toolsets?");
  expect((await catalog.list(nothing)).map(({ name }) => name)).toEqual(["good", "one", "two"]);
});

test("a locked worker keeps its model when a person asks for another", async () => {
  const worker = "---\nname: reader\nmode: chat\nmodel: compatible:scripted\nlocked: true\n---\nRead.";
  const made = await world({
    script: turns({ text: "Hello." }),
    github: { files: { ".github/workers/reader.worker": worker } },
  });
  await made.runs.startRun({ origin, worker: "reader", text: "please" });

  const changing = made.runs.changeModel(origin, { by: "ada", model: "compatible:other" });

  await expect(changing).rejects.toThrow(
    "reader is locked to its model compatible:scripted, so it cannot run with compatible:other.",
  );
});

test("an answer on GitHub is checked against the schema beside the worker file, and asked for once more", async () => {
  const worker = "---\nname: triager\noutput_schema_ref: schemas/triage.json\n---\nTriage.";
  const schema = '{ "type": "object", "properties": { "label": { "enum": ["bug", "docs"] } }, "required": ["label"] }';
  const files = { ".github/workers/triager.worker": worker, ".github/workers/schemas/triage.json": schema };
  const made = await world({
    script: turns({ text: "It is a bug." }, { text: '{"label":"bgu"}' }),
    github: { files },
  });

  await made.runs.startRun({ origin, worker: "triager", text: "please" });
  const { outcome } = await made.ended();

  expect(made.model.requests).toHaveLength(2);
  expect(JSON.stringify(made.model.requests[1]?.messages.at(-1))).toContain("It is not valid JSON");
  expect(outcome).toMatchObject({
    kind: "failed",
    reason: expect.stringContaining('label: Expected one of "bug", "docs", got "bgu".'),
  });
});

test("a program in .github/workers runs unchanged: its main worker, those below it, and its configuration", async () => {
  const call = (name: string, args: object) => ({ calls: [{ name, args }] });
  const files = {
    ".github/workers/main.worker":
      "---\nname: greeter\ntoolsets:\n  filesystem: {}\n  workers: { allowed_workers: [poet] }\n---\nYou greet.",
    ".github/workers/workers/poet.worker": "---\nname: poet\n---\nYou are a poet.",
    ".github/workers/golem-forge.config.yaml":
      "model: compatible:scripted\nsandbox: { root: ./src, readonly: true }\ndelegation: { max_depth: 1 }\nworker_paths: [./workers]\n",
  };
  const script = ({ messages }: { messages: readonly { content?: unknown }[] }) =>
    String(messages[0]?.content).startsWith("You are a poet")
      ? { text: "Roses are red." }
      : turns(
          call("write_file", { path: "src/new.ts", content: "" }),
          call("read_file", { path: "package.json" }),
          call("poet", { input: "Roses", instructions: "Rhyme." }),
          { text: "Hello." },
        )({ messages } as never);
  const made = await world({ script, github: { files } });

  const { worker } = await made.runs.startRun({ origin, worker: "greeter", text: "please" });
  const { outcome } = await made.ended();

  expect(worker).toMatchObject({ sandbox: { restrict: "/src", readonly: true }, limits: { depth: 1 } });
  expect(outcome).toEqual({ kind: "answered", text: "Hello." });
  const sent = JSON.stringify(made.model.requests.map(({ messages }) => messages));
  expect(sent).toContain("it is read-only for this worker");
  expect(sent).toContain("it is outside the part of the tree that this worker can see");
  expect(sent).toContain("Roses\\n\\nRhyme.");
  expect(sent).toContain("Roses are red.");
});

test("a worker of a repository is found by the name in its file, but does not replace one of the deployment with it", async () => {
  const named = (name: string) => `---\nname: ${name}\n---\nYou are ${name}.`;
  const files = {
    ".github/workers/analyzer.worker": named("pdf_analyzer"),
    ".github/workers/other.worker": named("fixer"),
  };
  const made = await world({ script: turns({ text: "Done." }), github: { files } });

  const started = async (worker: string) => (await made.runs.startRun({ origin, worker, text: "please" })).worker;
  const byName = await started("pdf_analyzer");
  await made.ended();

  expect(byName.instructions).toBe("You are pdf_analyzer.");
  expect((await started("fixer")).instructions).not.toBe("You are fixer.");
});
