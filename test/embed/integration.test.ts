import { afterEach, expect, test } from "vitest";
import {
  createCLIApprovalCallback,
  createEventCLIAdapter,
  createInterruptSignal,
  createMemoryWorkspace,
  createTraceFormatter,
  createUIEventBus,
  WorkerRuntime,
} from "#compat/index.ts";
import { type ModelServer, startModelServer, turnOf } from "#playground/model/model-server.ts";
import { pseudoTerminal } from "../support/terminal-world.ts";

let model: ModelServer | undefined;
afterEach(() => model?.close());

test("the program of the documentation: adapter, signal, approval at the prompt and trace", async () => {
  model = await startModelServer({
    script: ({ messages }) =>
      turnOf(messages) === 0
        ? { calls: [{ name: "write_file", args: { path: "a.txt", content: "sorted\n" } }] }
        : { text: "The files are processed." },
  });
  const { input, output, sees, type, text } = pseudoTerminal();
  const sandbox = createMemoryWorkspace({ "a.txt": "unsorted\n" });
  const adapter = createEventCLIAdapter(createUIEventBus(), {
    input,
    output,
    enableRawMode: true,
    traceLevel: "normal",
  });
  await adapter.initialize();
  const signal = createInterruptSignal();

  const runtime = new WorkerRuntime({
    worker: { name: "helper", instructions: "You sort files.", toolsets: { filesystem: {} } },
    model: "compatible:scripted",
    models: { compatible: { baseUrl: model.url } },
    sandbox,
    uiAdapter: adapter,
    interruptSignal: signal,
    depth: 0,
    approvalMode: "interactive",
    approvalCallback: createCLIApprovalCallback({ input, output }),
    onEvent: createTraceFormatter({ output }),
  });
  await runtime.initialize();
  const running = runtime.run("Process the files");
  await sees("Approve?");
  type("y");
  const result = await running;
  await runtime.dispose();
  await adapter.shutdown();

  expect(result).toMatchObject({ success: true, response: "The files are processed.", toolCallCount: 1 });
  expect(await sandbox.read("a.txt")).toBe("sorted\n");
  for (const shown of [
    "Tool: write_file",
    "-unsorted",
    "+sorted",
    "● write_file(",
    "The files are processed.",
    "■ 2 iterations",
  ]) {
    expect(text()).toContain(shown);
  }
});
