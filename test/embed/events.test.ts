import { describe, expect, test, vi } from "vitest";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import type { RuntimeEvent } from "#ui/runtime-events.ts";
import { aTool, aWorker, deploy, embedded, recordedBus } from "../support/embed-world.ts";
import { resultsIn } from "../support/scripted-models.ts";

describe("user interface on the bus", () => {
  test("a user interface on the bus shows the worker, its text as it arrives, its tools and its end", async () => {
    const { bus, names, of } = recordedBus();
    const { runtime } = await embedded([deploy(), "Done."], { tools: [aTool()], bus });

    await runtime.run("Go");

    expect(names().filter((name) => name !== "streaming")).toEqual([
      "manualToolsAvailable",
      "workerUpdate",
      "contextUsage",
      "toolStarted",
      "toolResult",
      "message",
      "contextUsage",
      "workerUpdate",
      "sessionEnd",
    ]);
    expect(of("streaming").map(({ delta, done }) => ({ delta, done }))).toContainEqual({ delta: "Done.", done: false });
    expect(of("streaming").at(-1)).toMatchObject({ done: true });
    expect(of("message")).toMatchObject([{ message: { role: "assistant", content: "Done." } }]);
    expect(of("toolStarted")).toMatchObject([{ toolName: "deploy", args: { to: "here" } }]);
    expect(of("toolResult")).toMatchObject([
      { toolName: "deploy", status: "success", value: { kind: "text", content: "deployed to here" } },
    ]);
    expect(of("workerUpdate").map(({ status }) => status)).toEqual(["running", "complete"]);
    expect(of("sessionEnd")).toEqual([{ reason: "completed" }]);
  });

  test("a user interface on the bus interrupts the run, and the next run works", async () => {
    const { bus, of } = recordedBus();
    let turn = 0;
    const { runtime } = await embedded(
      () => {
        if (turn++ > 0) return "Back.";
        bus.emit("interrupt", { reason: "enough" });
        return new Promise(() => {});
      },
      { bus },
    );

    expect(await runtime.run("Go")).toMatchObject({ success: true, response: "[Interrupted]" });
    expect(of("sessionEnd")).toMatchObject([{ reason: "interrupted" }]);
    expect(await runtime.run("Go")).toMatchObject({ response: "Back." });
  });

  test("a user interface on the bus shows why a run failed", async () => {
    const { bus, of } = recordedBus();
    const { runtime } = await embedded([], { bus });

    await runtime.run("Go");

    expect(of("status")).toEqual([{ type: "error", message: "The script is over." }]);
    expect(of("sessionEnd")).toEqual([{ reason: "error", message: "The script is over." }]);
  });

  test("a user interface on the bus runs manual tools for the person, and the worker learns of it", async () => {
    const { bus, of, next } = recordedBus();
    const push = aTool({ name: "push", manualExecution: { mode: "manual", label: "Push it", category: "Git" } });
    const { runtime, models } = await embedded(["Seen."], { tools: [push, aTool()], bus });

    const done = next("toolResult");
    bus.emit("manualToolInvoke", { toolName: "push", args: { to: "origin" } });
    expect(await done).toMatchObject({ toolName: "push", status: "success" });
    await runtime.run("What did I do?");

    expect(of("manualToolsAvailable")).toMatchObject([
      { tools: [{ name: "push", label: "Push it", category: "Git" }] },
    ]);
    expect(JSON.stringify(models.requests[0]?.messages)).toContain("ran push with");
  });

  test("a user interface on the bus shows why a manual tool cannot be run", async () => {
    const { bus, next } = recordedBus();
    await embedded([], { tools: [aTool()], bus });

    for (const [toolName, message] of [
      ["nothing", /Unknown tool/],
      ["deploy", /can be called only by the worker/],
    ] as const) {
      const said = next("status");
      bus.emit("manualToolInvoke", { toolName, args: { to: "x" } });
      expect((await said).message).toMatch(message);
    }
  });

  test("a user interface on the bus answers questions of the worker", async () => {
    const { bus, of } = recordedBus();
    bus.on("inputPrompt", ({ requestId }) => bus.emit("userInput", { requestId, content: "blue" }));
    const ask = { calls: [{ name: "ask_user", args: { question: "Which color?", options: ["blue", "red"] } }] };
    const asking = { ...aWorker, toolsets: { ask: {} } };
    const { runtime, models } = await embedded([ask, "Blue."], { worker: asking, bus });
    const silent = await embedded([ask, "Any."], { worker: asking });

    await runtime.run("Paint");
    await silent.runtime.run("Paint");

    expect(of("inputPrompt")).toMatchObject([{ prompt: "Which color?\n- blue\n- red\n> " }]);
    expect(resultsIn(models.requests[1])[0]).toContain("answered: blue");
    expect(resultsIn(silent.models.requests[1])[0]).toContain("so nobody can answer");
  });

  test("a user interface on the bus shows which files changed, and the change of one on request", async () => {
    const { bus, of, next } = recordedBus();
    const write = { calls: [{ name: "write_file", args: { path: "b.txt", content: "new\n" } }] };
    const { runtime } = await embedded([write, "Done."], {
      worker: { ...aWorker, toolsets: { filesystem: {} } },
      sandbox: createMemoryWorkspace({ "a.txt": "old\n" }),
      bus,
    });

    await runtime.run("Write");
    const shown = next("diffContent");
    bus.emit("getDiff", { requestId: "d1", path: "b.txt" });

    expect(of("diffSummary")).toMatchObject([
      { summaries: [{ path: "b.txt", operation: "create", additions: 1, deletions: 0 }] },
    ]);
    expect(await shown).toEqual({
      requestId: "d1",
      path: "b.txt",
      original: undefined,
      modified: "new\n",
      isNew: true,
    });
  });

  test("a user interface receives nothing after the runtime was disposed of", async () => {
    const { bus, names } = recordedBus();
    const { runtime } = await embedded([], { tools: [aTool({ manualExecution: { mode: "both" } })], bus });
    await runtime.dispose();
    const before = names().length;

    bus.emit("manualToolInvoke", { toolName: "deploy", args: { to: "x" } });
    bus.emit("getDiff", { requestId: "d", path: "x" });

    expect(names()).toHaveLength(before);
  });
});

describe("trace", () => {
  test("a trace reports each step in order, with iterations and totals", async () => {
    const events: RuntimeEvent[] = [];
    const { runtime } = await embedded([deploy(), "Done."], {
      tools: [aTool({ needsApproval: true })],
      approvalMode: "approve_all",
      onEvent: (event) => events.push(event),
    });

    await runtime.run("Go");

    expect(events.map(({ type }) => type)).toEqual([
      "execution_start",
      "message_send",
      "response_receive",
      "approval_request",
      "approval_decision",
      "tool_call_start",
      "tool_call_end",
      "message_send",
      "response_receive",
      "execution_end",
    ]);
    expect(events[0]).toMatchObject({ workerName: "helper", model: "scripted:model", timestamp: expect.any(Date) });
    expect(events.find(({ type }) => type === "tool_call_start")).toMatchObject({
      iteration: 1,
      toolIndex: 1,
      toolTotal: 1,
      toolName: "deploy",
      toolArgs: { to: "here" },
    });
    expect(events.at(-1)).toMatchObject({
      success: true,
      response: "Done.",
      totalIterations: 2,
      totalToolCalls: 1,
      totalTokens: { input: 20, output: 40 },
    });
  });

  test("a trace reports failures, and survives a listener that throws or rejects", async () => {
    const logged = vi.spyOn(console, "error").mockImplementation(() => {});
    const types: string[] = [];
    const { runtime } = await embedded([{ calls: [{ name: "nothing" }] }], {
      onEvent: ({ type }) => {
        types.push(type);
        if (type === "message_send") throw new Error("a bug in the listener");
        return type === "tool_call_error" ? Promise.reject(new Error("its server is down")) : undefined;
      },
    });

    expect(await runtime.run("Go")).toMatchObject({ success: false });
    expect(types).toEqual(expect.arrayContaining(["tool_call_error", "execution_error"]));
    for (const type of ["message_send", "tool_call_error"]) {
      expect(logged).toHaveBeenCalledWith(`onEvent failed for ${type}:`, expect.any(Error));
    }
  });
});
