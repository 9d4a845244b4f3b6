import { describe, expect, test, vi } from "vitest";
import { WorkerRuntime } from "#embed/worker-runtime.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import { type ApprovalCallback, ApprovalController, type ApprovalDecision } from "#ui/approval-controller.ts";
import { createInterruptSignal } from "#ui/interrupt-signal.ts";
import { aTool, aWorker, deploy, embedded, recordedBus } from "../support/embed-world.ts";
import { type Line, resultsIn } from "../support/scripted-models.ts";

const asking = (change = {}) => aTool({ needsApproval: true, ...change });
const two: Line = {
  calls: [
    { name: "deploy", args: { to: "a" } },
    { name: "deploy", args: { to: "b" } },
  ],
};

describe("call that needs approval", () => {
  test("a call that needs approval runs when it is approved, and the callback receives its tool, arguments and preview", async () => {
    const approvalCallback = vi.fn<ApprovalCallback>(() => ({ approved: true }));
    const { runtime, models } = await embedded([deploy(), "Done."], {
      tools: [asking({ preview: () => "here: old -> new" })],
      approvalCallback,
    });

    expect(await runtime.run("Go")).toMatchObject({ success: true, response: "Done." });
    expect(resultsIn(models.requests[1])[0]).toContain("deployed to here");
    expect(approvalCallback).toHaveBeenCalledExactlyOnceWith(
      expect.objectContaining({
        toolName: "deploy",
        toolArgs: { to: "here" },
        description: "helper wants to call deploy.",
        delegationPath: ["helper"],
        preview: "here: old -> new",
      }),
    );
  });

  test("a call that needs approval does not run when it is denied, and the model receives the reason", async () => {
    const execute = vi.fn();
    const { runtime, models } = await embedded([deploy(), "Understood."], {
      tools: [asking({ execute })],
      approvalCallback: () => ({ approved: false, note: "not on a Friday" }),
    });

    expect(await runtime.run("Go")).toMatchObject({ success: true, response: "Understood." });
    expect(resultsIn(models.requests[1])[0]).toMatch(/error-text.*denied.*not on a Friday/);
    expect(execute).not.toHaveBeenCalled();
  });

  test.each([
    ["approve_all" as const, "deployed to here"],
    ["auto_deny" as const, "auto_deny"],
    [undefined, "auto_deny"],
  ])("a call that needs approval in mode %j: %s", async (approvalMode, said) => {
    const { runtime, models } = await embedded([deploy(), "Ok."], {
      tools: [asking()],
      ...(approvalMode && { approvalMode }),
    });

    await runtime.run("Go");

    expect(resultsIn(models.requests[1])[0]).toContain(said);
  });

  test("a call that needs approval cannot be asked for in mode interactive without a callback or a bus", () => {
    expect(() => new WorkerRuntime({ worker: aWorker, approvalMode: "interactive" })).toThrow(/approvalCallback/);
  });

  test("a call that needs approval runs with arguments that the person changed, and the model is told", async () => {
    const { runtime, models } = await embedded([deploy(), "Ok."], {
      tools: [asking()],
      approvalCallback: () => ({ approved: true, modifiedArgs: { to: "staging" } }),
    });

    await runtime.run("Go");

    expect(resultsIn(models.requests[1])[0]).toMatch(/changed the arguments.*staging.*deployed to staging/s);
  });

  test("a call that needs approval does not run with changed arguments that are invalid", async () => {
    const execute = vi.fn();
    const { runtime, models } = await embedded([deploy(), "Ok."], {
      tools: [asking({ execute })],
      approvalCallback: () => ({ approved: true, modifiedArgs: { to: 7 } as never }),
    });

    await runtime.run("Go");

    expect(resultsIn(models.requests[1])[0]).toMatch(/error-text.*not run/);
    expect(execute).not.toHaveBeenCalled();
  });

  test("a call that needs approval is asked for once when it is approved for the session", async () => {
    const approvalCallback = vi.fn<ApprovalCallback>(() => ({ approved: true, remember: "session" }));
    const { runtime } = await embedded([deploy(), deploy("there"), deploy(), "Done."], {
      tools: [asking()],
      approvalCallback,
    });

    expect(await runtime.run("Go")).toMatchObject({ toolCallCount: 3 });
    expect(approvalCallback).toHaveBeenCalledTimes(2);
  });

  test("a call that is not shown completely is asked for each time, and the callback is told so", async () => {
    const approvalCallback = vi.fn<ApprovalCallback>(() => ({ approved: true, remember: "session" }));
    const { runtime } = await embedded([deploy(), "Ok.", deploy(), "Ok."], {
      tools: [
        asking({ preview: () => ({ sections: [{ kind: "text", title: "It", text: "x" }], hidesArguments: true }) }),
      ],
      approvalCallback,
    });

    await runtime.run("Go");
    await runtime.run("Again");

    expect(approvalCallback).toHaveBeenCalledTimes(2);
    expect(approvalCallback.mock.calls[0]?.[0]).toMatchObject({ isShownWhole: false });
  });

  test("an approval for the session does not cover an equal call that would now do something else", async () => {
    const approvalCallback = vi.fn<ApprovalCallback>(() => ({ approved: true, remember: "session" }));
    const write = { name: "write_file", args: { path: "a.txt", content: "three\n" } };
    const sandbox = createMemoryWorkspace({ "a.txt": "one\n" });
    const { runtime } = await embedded([{ calls: [write] }, "Ok.", { calls: [write] }, "Ok."], {
      worker: { ...aWorker, toolsets: { filesystem: {} } },
      sandbox,
      approvalCallback,
    });

    await runtime.run("Go");
    await sandbox.write("a.txt", "two\n");
    await runtime.run("Again");

    expect(approvalCallback).toHaveBeenCalledTimes(2);
    expect(approvalCallback.mock.calls[1]?.[0].preview).toContain("-two");
  });

  test("a call that needs approval is denied with the error when the callback fails", async () => {
    const { runtime, models } = await embedded([deploy(), "Ok."], {
      tools: [asking()],
      approvalCallback: () => Promise.reject(new Error("the line is dead")),
    });

    await runtime.run("Go");

    expect(resultsIn(models.requests[1])[0]).toContain("the line is dead");
  });

  const circular: Record<string, unknown> = { to: "there" };
  circular.self = circular;
  test.each<[string, unknown, string]>([
    ["a note that is not a text", { approved: true, note: 5 }, "deployed to here"],
    ["another word for how long it counts", { approved: true, remember: "always" }, "deployed to here"],
    ["arguments that are not JSON", { approved: true, modifiedArgs: circular }, "The approval could not be requested"],
    ["nothing", undefined, "The approval could not be requested"],
    ["a word instead of true", { approved: "yes" }, "@user denied this call"],
  ])("the run continues when a callback returns %s", async (_, answer, expected) => {
    const approvalCallback = (() => answer) as ApprovalCallback;
    const { runtime, models } = await embedded([deploy(), "Done."], { tools: [asking()], approvalCallback });

    expect(await runtime.run("Go")).toMatchObject({ success: true, response: "Done." });
    expect(resultsIn(models.requests[1])[0]).toContain(expected);
  });

  test("a call that needs approval does not run when its effect has changed since it was shown", async () => {
    const sandbox = createMemoryWorkspace({ "a.txt": "one\n" });
    const write = (content: string) => ({ name: "write_file", args: { path: "a.txt", content } });
    const { runtime, models } = await embedded([{ calls: [write("two\n"), write("three\n")] }, "Ok."], {
      worker: { ...aWorker, toolsets: { filesystem: {} } },
      sandbox,
      approvalCallback: () => ({ approved: true }),
    });

    await runtime.run("Go");

    expect(resultsIn(models.requests[1])[1]).toContain("has changed since it was approved");
    expect(await sandbox.read("a.txt")).toBe("two\n");
  });

  test.each([
    ["its policy", { approval: { write: "preApproved" as const } }],
    ["a zone", { zones: [{ name: "docs", mode: "rw" as const, approval: { write: "preApproved" as const } }] }],
  ])(
    "a call that needs approval is not asked for where %s of the worker file approves it in advance",
    async (_, policy) => {
      const approvalCallback = vi.fn<ApprovalCallback>(() => ({ approved: true }));
      const sandbox = createMemoryWorkspace({ "docs/a.md": "old" });
      const write = { name: "write_file", args: { path: "docs/a.md", content: "new" } };
      const { runtime } = await embedded([{ calls: [write] }, "Ok."], {
        worker: { ...aWorker, toolsets: { filesystem: {} }, sandbox: policy },
        sandbox,
        approvalCallback,
      });

      await runtime.run("Go");

      expect(approvalCallback).not.toHaveBeenCalled();
      expect(await sandbox.read("docs/a.md")).toBe("new");
    },
  );

  test("a call that needs approval can wait at the same time as another one, and both are answered in any order", async () => {
    const answers: ((decision: ApprovalDecision) => void)[] = [];
    const asked = Promise.withResolvers<void>();
    const { runtime, models } = await embedded([two, "Done."], {
      tools: [asking()],
      approvalCallback: () =>
        new Promise((resolve) => {
          if (answers.push(resolve) === 2) asked.resolve();
        }),
    });

    const run = runtime.run("Go");
    await asked.promise;
    answers[1]?.({ approved: false, note: "not b" });
    answers[0]?.({ approved: true });

    expect(await run).toMatchObject({ success: true, response: "Done.", toolCallCount: 2 });
    expect(resultsIn(models.requests[1])).toEqual([
      expect.stringContaining("deployed to a"),
      expect.stringContaining("not b"),
    ]);
  });

  test("a call that needs approval ends with an interrupt while it waits", async () => {
    const interruptSignal = createInterruptSignal();
    const { runtime } = await embedded([deploy()], {
      tools: [asking()],
      interruptSignal,
      approvalCallback: () => {
        interruptSignal.interrupt();
        return new Promise(() => {});
      },
    });

    expect(await runtime.run("Go")).toMatchObject({ success: true, response: "[Interrupted]" });
  });

  test("a call that needs approval is decided by the approvalController of the program", async () => {
    const approvalController = new ApprovalController({ mode: "approve_all" });
    const { runtime, models } = await embedded([deploy(), "Ok."], { tools: [asking()], approvalController });

    await runtime.run("Go");

    expect(runtime.getApprovalController()).toBe(approvalController);
    expect(resultsIn(models.requests[1])[0]).toContain("deployed");
  });
});

describe("on the bus", () => {
  test("an approval is requested and answered", async () => {
    const { bus, of } = recordedBus();
    bus.on("approvalRequired", ({ requestId }) => {
      bus.emit("approvalResponse", { requestId, approved: false, reason: "no" });
    });
    const { runtime, models } = await embedded([deploy(), "Ok."], { tools: [asking()], bus });

    await runtime.run("Go");

    expect(of("approvalRequired")).toMatchObject([
      {
        type: "tool_call",
        description: "helper wants to call deploy.",
        details: { toolName: "deploy", toolArgs: { to: "here" } },
        workerPath: [{ id: "helper", depth: 0 }],
      },
    ]);
    expect(resultsIn(models.requests[1])[0]).toContain("for this reason: no");
    expect(of("toolResult")).toMatchObject([{ toolName: "deploy", status: "error", error: "deploy was denied: no" }]);
  });

  test('the answer "always" approves for the session', async () => {
    const { bus, of } = recordedBus();
    bus.on("approvalRequired", ({ requestId }) => {
      bus.emit("approvalResponse", { requestId, approved: "always" });
    });
    const { runtime } = await embedded([deploy(), deploy(), "Ok."], { tools: [asking()], uiAdapter: { bus } });

    await runtime.run("Go");

    expect(of("approvalRequired")).toHaveLength(1);
  });

  test("an approval for the session is listed by /revoke, and equal calls ask again once it is revoked", async () => {
    const { bus, of } = recordedBus();
    bus.on("approvalRequired", ({ requestId }) => bus.emit("approvalResponse", { requestId, approved: "always" }));
    const script = [deploy(), deploy(), "Ok.", deploy(), "Ok."];
    const { runtime } = await embedded(script, { tools: [asking()], uiAdapter: { bus } });
    const revoke = async (...args: string[]) => {
      const before = of("status").length;
      bus.emit("command", { name: "revoke", args });
      return vi.waitFor(() => of("status").slice(before).at(-1)?.message ?? expect.fail("no status"), {
        timeout: 60_000,
      });
    };
    await runtime.run("Go");

    const listed = await revoke();
    const id = listed.slice(0, 4);
    const revoked = await revoke(id);
    const again = await revoke(id);
    await runtime.run("Again");

    expect(listed).toMatch(/^[a-z0-9]{4}: deploy of helper, \{"to":"here"\}$/);
    expect(revoked).toBe(`${id} was revoked: identical calls of deploy ask again.`);
    expect(again).toContain(`Approval ${id} cannot be revoked`);
    expect(of("approvalRequired")).toHaveLength(2);
  });

  test("an approval may change the arguments", async () => {
    const { bus } = recordedBus();
    bus.on("approvalRequired", ({ requestId }) => {
      bus.emit("approvalResponse", { requestId, approved: true, modifiedArgs: { to: "there" } });
    });
    const { runtime, models } = await embedded([deploy(), "Ok."], { tools: [asking()], bus });

    await runtime.run("Go");

    expect(resultsIn(models.requests[1])[0]).toContain("deployed to there");
  });

  test("two approvals are both requested before either is answered", async () => {
    const { bus, of } = recordedBus();
    bus.on("approvalRequired", () => {
      if (of("approvalRequired").length < 2) return;
      for (const { requestId } of of("approvalRequired").toReversed())
        bus.emit("approvalResponse", { requestId, approved: true });
    });
    const { runtime, models } = await embedded([two, "Done."], { tools: [asking()], bus });

    expect(await runtime.run("Go")).toMatchObject({ response: "Done." });
    expect(resultsIn(models.requests[1])).toEqual([
      expect.stringContaining("deployed to a"),
      expect.stringContaining("deployed to b"),
    ]);
  });
});
