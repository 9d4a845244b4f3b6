import { describe, expect, test, vi } from "vitest";
import type { WorkerRuntimeOptions, WorkerSource } from "#embed/options.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import type { ApprovalCallback } from "#ui/approval-controller.ts";
import { createInterruptSignal } from "#ui/interrupt-signal.ts";
import { embedded, recordedBus } from "../support/embed-world.ts";
import { type Line, resultsIn, type scriptedModels } from "../support/scripted-models.ts";

const calling = (name: string, ...allowed: string[]): Exclude<WorkerSource, string> => ({
  name,
  instructions: `You are ${name}.`,
  toolsets: { workers: { allowed } },
});
const call = (name: string, task = "Do your part"): Line => ({ calls: [{ name, args: { task } }] });

/** One script for each worker, by name, with its own turns. */
function byWorker(scripts: Record<string, Line[]>): Parameters<typeof scriptedModels>[0] {
  const turns: Record<string, number> = {};
  return ({ instructions }) => {
    const name = /You are (\w+)\./.exec(instructions)?.[1] ?? "";
    const turn = turns[name] ?? 0;
    turns[name] = turn + 1;
    return scripts[name]?.[turn] ?? `${name} has nothing to say.`;
  };
}

const chain: Partial<WorkerRuntimeOptions> = {
  worker: calling("a", "b"),
  workers: { b: calling("b", "c"), c: calling("c", "a", "d"), d: { name: "d", instructions: "You are d." } },
};

describe("worker that calls another", () => {
  test("a worker that calls another gets its answer, and its tokens are counted", async () => {
    const { bus, of } = recordedBus();
    const { runtime, models } = await embedded(
      byWorker({ a: [call("b", "Sum up"), "All done."], b: ["The sum is 3."] }),
      { ...chain, bus },
    );

    expect(await runtime.run("Go")).toMatchObject({
      success: true,
      response: "All done.",
      toolCallCount: 1,
      tokens: { input: 30, output: 60 },
    });
    expect(models.requests[1]?.messages).toEqual([{ role: "user", content: "Sum up" }]);
    expect(resultsIn(models.requests[2])[0]).toContain("The sum is 3.");
    const root = of("workerUpdate")[0]?.workerId;
    expect(of("workerUpdate").map(({ task, depth, parentId }) => [task, depth, parentId])).toEqual([
      ["a", 0, undefined],
      ["b", 1, root],
      ["b", 1, root],
      ["a", 0, undefined],
    ]);
    expect(of("sessionEnd")).toHaveLength(1);
  });

  test("a worker that calls another cannot go deeper than the limit, and the error has the whole path", async () => {
    const { runtime, models } = await embedded(byWorker({ a: [call("b"), "Ok."], b: [call("c"), "Could not."] }), {
      ...chain,
      maxDelegationDepth: 1,
    });

    expect(await runtime.run("Go")).toMatchObject({ success: true, response: "Ok." });
    expect(resultsIn(models.requests[2])[0]).toMatch(/depth \(1\) exceeded.*a -> b -> c/);
  });

  test("a worker that calls another cannot call a worker above it, and the error has the whole path", async () => {
    const { runtime, models } = await embedded(
      byWorker({ a: [call("b"), "Ok."], b: [call("c"), "Ok."], c: [call("a"), "Could not."] }),
      chain,
    );

    expect(await runtime.run("Go")).toMatchObject({ success: true });
    expect(resultsIn(models.requests[3])[0]).toMatch(/Circular.*a -> b -> c -> a/);
  });

  test("a worker that calls another can reach three levels down", async () => {
    const { runtime, models } = await embedded(
      byWorker({ a: [call("b"), "A."], b: [call("c"), "B."], c: [call("d"), "C."], d: ["D."] }),
      { ...chain, maxDelegationDepth: 3 },
    );

    expect(await runtime.run("Go")).toMatchObject({ response: "A." });
    expect(resultsIn(models.requests.at(-1))[0]).toContain("B.");
  });

  test("a worker that calls another fails to initialize with an unknown worker, and suggests a similar one", async () => {
    const opening = embedded([], { worker: calling("a", "bb"), workers: { b: calling("b", "c") } });

    await expect(opening).rejects.toThrow(/names the unknown worker bb. Did you mean b\?/);
  });

  test("a worker that calls another can find the other with a function", async () => {
    const { runtime } = await embedded(byWorker({ a: [call("b"), "Ok."], b: ["Hi."] }), {
      worker: calling("a", "b"),
      workers: async (name) => (name === "b" ? "---\nname: b\n---\nYou are b." : undefined),
    });

    expect(await runtime.run("Go")).toMatchObject({ success: true, response: "Ok." });
  });

  test("a worker that calls another narrows the sandbox for it, and sees its changes", async () => {
    const sandbox = createMemoryWorkspace({ "docs/a.md": "a", "src/b.ts": "b" });
    const read = (path: string) => ({ name: "read_file", args: { path } });
    const write = { name: "write_file", args: { path: "docs/new.md", content: "by b" } };
    const { runtime, models } = await embedded(
      byWorker({
        a: [call("b"), { calls: [read("docs/new.md")] }, "Ok."],
        b: [{ calls: [read("src/b.ts"), read("docs/a.md"), write] }, "Written."],
      }),
      {
        worker: { ...calling("a", "b"), toolsets: { workers: { allowed: ["b"] }, filesystem: {} } },
        workers: {
          b: {
            name: "b",
            instructions: "You are b.",
            toolsets: { filesystem: {} },
            sandbox: { restrict: "/docs" },
          },
        },
        sandbox,
      },
    );

    await runtime.run("Go");

    const [secret, allowed] = resultsIn(models.requests[2]);
    expect(secret).toContain("outside the part of the tree");
    expect(allowed).toContain("docs/a.md");
    expect(resultsIn(models.requests.at(-1)).at(-1)).toContain("by b");
  });

  test("a worker that calls another never lets the called worker see more than its caller", async () => {
    const sandbox = createMemoryWorkspace({ "docs/a.md": "a", "src/b.ts": "b" });
    const { runtime, models } = await embedded(
      byWorker({
        a: [call("b"), "Ok."],
        b: [{ calls: [{ name: "read_file", args: { path: "src/b.ts" } }] }, "No."],
      }),
      {
        worker: { ...calling("a", "b"), sandbox: { restrict: "/docs" } },
        workers: {
          b: { name: "b", instructions: "You are b.", toolsets: { filesystem: {} }, sandbox: { restrict: "/src" } },
        },
        sandbox,
      },
    );

    await runtime.run("Go");

    expect(resultsIn(models.requests[2])[0]).toContain("outside the part of the tree");
  });

  test("a worker that calls another shares its approval controller with it, and is named by its path", async () => {
    const approvalCallback = vi.fn<ApprovalCallback>(() => ({ approved: true }));
    const { runtime } = await embedded(
      byWorker({
        a: [call("b"), "Ok."],
        b: [{ calls: [{ name: "write_file", args: { path: "x.txt", content: "new" } }] }, "Written."],
      }),
      {
        worker: calling("a", "b"),
        workers: { b: { name: "b", instructions: "You are b.", toolsets: { filesystem: {} } } },
        sandbox: createMemoryWorkspace({ "x.txt": "old" }),
        approvalCallback,
      },
    );

    await runtime.run("Go");

    expect(approvalCallback).toHaveBeenCalledExactlyOnceWith(
      expect.objectContaining({ toolName: "write_file", delegationPath: ["a", "b"] }),
    );
  });

  test("a called worker can use what its own file pre-approves, where its caller's policy does not cover the path", async () => {
    const approvalCallback = vi.fn<ApprovalCallback>(() => ({ approved: true }));
    const writing = (sandbox?: { restrict: string }) =>
      embedded(
        byWorker({
          a: [call("b"), "Ok."],
          b: [{ calls: [{ name: "write_file", args: { path: "docs/x.md", content: "new" } }] }, "Written."],
        }),
        {
          worker: { ...calling("a", "b"), ...(sandbox && { sandbox }) },
          workers: {
            b: {
              name: "b",
              instructions: "You are b.",
              toolsets: { filesystem: {} },
              sandbox: { approval: { write: "preApproved" } },
            },
          },
          sandbox: createMemoryWorkspace({ "docs/x.md": "old" }),
          approvalCallback,
        },
      );

    await (await writing()).runtime.run("Go");
    expect(approvalCallback).not.toHaveBeenCalled();
    await (await writing({ restrict: "/docs" })).runtime.run("Go");
    expect(approvalCallback).toHaveBeenCalledOnce();
  });

  test("a worker that calls another interrupts the other when it is interrupted", async () => {
    const interruptSignal = createInterruptSignal();
    const { runtime, models } = await embedded(
      ({ instructions }) => {
        if (instructions.includes("You are a.")) return call("b");
        interruptSignal.interrupt();
        return new Promise(() => {});
      },
      { ...chain, interruptSignal },
    );

    expect(await runtime.run("Go")).toMatchObject({ success: true, response: "[Interrupted]" });
    expect(models.requests).toHaveLength(2);
  });

  test("a worker continues when the one it calls is not compatible with the model", async () => {
    const { runtime, models } = await embedded(byWorker({ a: [call("b"), "Ok."] }), {
      worker: calling("a", "b"),
      workers: { b: { name: "b", instructions: "You are b.", compatible_models: ["anthropic:*"] } },
    });

    expect(await runtime.run("Go")).toMatchObject({ success: true, response: "Ok." });
    expect(resultsIn(models.requests[1])[0]).toContain("b works with anthropic:*");
  });
});
