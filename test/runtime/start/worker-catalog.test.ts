import { expect, test } from "vitest";
import { origin, runtimeWorlds, turns } from "../../support/runtime-world.ts";

const world = runtimeWorlds();

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
