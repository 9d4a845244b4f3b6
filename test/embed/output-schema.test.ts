import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { WorkerRuntime } from "#embed/worker-runtime.ts";
import { openSqliteStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import { aWorker, embedded, recordedBus } from "../support/embed-world.ts";
import { resultsIn, scriptedModels } from "../support/scripted-models.ts";

const schema = { type: "object", properties: { sum: { type: "number" } }, required: ["sum"] };
const adder = { ...aWorker, output_schema: schema };

test("an answer that does not match the output schema is asked for once more, with what is wrong", async () => {
  const { bus, of } = recordedBus();
  const { runtime, models } = await embedded(["The sum is 3.", '```json\n{ "sum": 3 }\n```'], { worker: adder, bus });

  expect(await runtime.run("Add 1 and 2")).toMatchObject({ success: true, response: '{ "sum": 3 }' });
  expect(models.requests[0]?.instructions).toContain(JSON.stringify(schema));
  expect(models.requests[1]?.messages.at(-1)).toMatchObject({
    role: "user",
    content: expect.stringMatching(/^Your answer does not match the output schema\. It is not valid JSON/),
  });
  expect(of("status")).toContainEqual(expect.objectContaining({ type: "warning" }));
});

test("a second answer that does not match fails the run", async () => {
  const { runtime, models } = await embedded(["{}", '{"sum":"3"}', '{"sum":3}'], { worker: adder });

  expect(await runtime.run("Add 1 and 2")).toMatchObject({
    success: false,
    error: "The worker's answer does not match its output schema: sum: Expected number, got string.",
  });
  expect(models.requests).toHaveLength(2);
});

test("a called worker's answer is checked before its caller reads it", async () => {
  const { runtime, models } = await embedded(
    [{ calls: [{ name: "adder", args: { task: "Add" } }] }, "three", '{"sum":3}', "It is 3."],
    {
      worker: { name: "boss", instructions: "Delegate.", toolsets: { workers: { allowed: ["adder"] } } },
      workers: { adder: { ...adder, name: "adder" } },
    },
  );

  expect(await runtime.run("Add 1 and 2")).toMatchObject({ success: true, response: "It is 3." });
  expect(resultsIn(models.requests.at(-1))[0]).toContain('{\\"sum\\":3}');
});

test("the schema is read from a file beside the worker, and a missing one is named at once", async () => {
  const folder = mkdtempSync(join(tmpdir(), "golem-schema-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  writeFileSync(join(folder, "sum.json"), JSON.stringify(schema));
  const file = join(folder, "adder.worker");
  writeFileSync(file, "---\nname: adder\noutput_schema_ref: ./sum.json\n---\nAdd.");
  const { runtime } = await embedded(["{}", "{}"], { worker: file });

  expect(await runtime.run("Add")).toMatchObject({ success: false, error: expect.stringContaining("sum is missing.") });
  expect(() => new WorkerRuntime({ worker: { ...aWorker, output_schema_ref: "no.json" } })).toThrow(
    "helper: there is no file no.json, which output_schema_ref names.",
  );
});

test("a run that another process resumes remembers that it has asked again", async () => {
  const store = await openSqliteStore(":memory:");
  const asked = Promise.withResolvers<void>();
  const models = scriptedModels((_, turn) => {
    if (turn === 0) return "The sum is 3.";
    asked.resolve();
    return new Promise(() => {});
  });
  const first = new WorkerRuntime({ worker: adder, models }, { store });
  await first.initialize();
  void first.run("Add 1 and 2");
  await asked.promise;

  const second = new WorkerRuntime({ worker: adder, models: scriptedModels(["Three.", '{"sum":3}']) }, { store });
  await second.initialize();

  expect(await second.resume()).toMatchObject({
    success: false,
    error: expect.stringContaining("does not match its output schema"),
  });
});
