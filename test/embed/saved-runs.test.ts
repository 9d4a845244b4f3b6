import { expect, test, vi } from "vitest";
import { WorkerRuntime } from "#embed/worker-runtime.ts";
import { openSqliteStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import type { ApprovalCallback } from "#ui/approval-controller.ts";
import { aWorker } from "../support/embed-world.ts";
import { type Line, scriptedModels } from "../support/scripted-models.ts";

const calling = { ...aWorker, instructions: "You are a.", toolsets: { workers: { allowed: ["b"] } } };
const workers = { b: { name: "b", instructions: "You are b.", toolsets: { filesystem: {} } } };
const write: Line = { calls: [{ name: "write_file", args: { path: "a.txt", content: "new" } }] };

test("a child that waits for an approval is resumed by another runtime over the same store", async () => {
  const store = await openSqliteStore(":memory:");
  const asked = Promise.withResolvers<void>();
  const first = new WorkerRuntime(
    {
      worker: calling,
      workers,
      models: scriptedModels([{ calls: [{ name: "b", args: { task: "Write it" } }] }, write]),
      sandbox: createMemoryWorkspace({ "a.txt": "old" }),
      approvalCallback: () => {
        asked.resolve();
        return new Promise(() => {});
      },
    },
    { store },
  );
  await first.initialize();
  void first.run("Go");
  await asked.promise;

  const approvalCallback = vi.fn<ApprovalCallback>(() => ({ approved: true }));
  const sandbox = createMemoryWorkspace({ "a.txt": "old" });
  const models = scriptedModels(["Written.", "All done."]);
  const second = new WorkerRuntime({ worker: calling, workers, models, sandbox, approvalCallback }, { store });
  await second.initialize();
  const result = await second.resume();

  expect(result).toMatchObject({ success: true, response: "All done.", tokens: { input: 40, output: 80 } });
  expect(approvalCallback).toHaveBeenCalledExactlyOnceWith(
    expect.objectContaining({ toolName: "write_file", delegationPath: ["helper", "b"] }),
  );
  expect(await sandbox.read("a.txt")).toBe("new");
  expect(await second.resume()).toBeUndefined();
});

test("changes of called workers are stored with the root, in the order they were made", async () => {
  const store = await openSqliteStore(":memory:");
  const models = scriptedModels([
    { calls: [{ name: "b", args: { task: "Write it" } }] },
    write,
    "Written.",
    "All done.",
  ]);
  const runtime = new WorkerRuntime({ worker: calling, workers, models, approvalMode: "approve_all" }, { store });
  await runtime.initialize();

  await runtime.run("Go");

  const [root] = await store.runsOfThread({ owner: "local", repo: "local", thread: 1 });
  const changes = await store.changesOf(root?.id ?? "");
  expect(changes.flatMap((step) => step.changes.map(({ path }) => path))).toEqual(["a.txt"]);
});
