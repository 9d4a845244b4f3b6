import { describe, expect, test } from "vitest";
import { getLLMTools, getManualTools } from "#domain/tool.ts";
import { WorkerRuntime } from "#embed/worker-runtime.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import { createInterruptSignal } from "#ui/interrupt-signal.ts";
import { aTool, aWorker, deploy, embedded, recordedBus } from "../support/embed-world.ts";
import { type Line, resultsIn, scriptedModels } from "../support/scripted-models.ts";

describe("run", () => {
  test("a run returns the answer and what it used", async () => {
    const { runtime, models } = await embedded(["Hello."]);

    expect(await runtime.run("Say hello")).toEqual({
      success: true,
      response: "Hello.",
      toolCallCount: 0,
      tokens: { input: 10, output: 20 },
    });
    expect(models.requests[0]?.instructions).toContain("You help.");
    expect(models.requests[0]?.messages).toEqual([{ role: "user", content: "Say hello" }]);
  });

  test("a run calls tools and continues with their results", async () => {
    const { runtime, models } = await embedded([deploy(), "Done."], { tools: [aTool()] });

    expect(await runtime.run("Deploy")).toMatchObject({ success: true, response: "Done.", toolCallCount: 1 });
    expect(resultsIn(models.requests[1])).toEqual([expect.stringContaining("deployed to here")]);
  });

  test("a message reaches the running worker before its next step", async () => {
    const { bus, of } = recordedBus();
    const { runtime, models } = await embedded(
      async (_, turn) => {
        if (turn > 0) return "Done.";
        bus.emit("userMessage", { content: "to the moon" });
        expect(await runtime.send("and back")).toBe(true);
        return deploy();
      },
      { tools: [aTool()], bus },
    );

    expect(await runtime.run("Deploy")).toMatchObject({ response: "Done." });
    const sent = JSON.stringify(models.requests[1]?.messages);
    expect(sent).toContain("@user says: to the moon");
    expect(sent).toContain("@user says: and back");
    expect(of("status")).toContainEqual({
      type: "info",
      message: "The worker reads your message before its next step.",
    });
    expect(await runtime.send("anybody?")).toBe(false);
  });

  test("a run has the toolsets that its worker names, over files in memory", async () => {
    const sandbox = createMemoryWorkspace({ "a.txt": "hello" });
    const script: Line[] = [
      { calls: [{ name: "read_file", args: { path: "a.txt" } }] },
      { calls: [{ name: "write_file", args: { path: "b.txt", content: "new" } }] },
      "Done.",
    ];
    const { runtime, models } = await embedded(script, {
      worker: { ...aWorker, toolsets: { filesystem: {} } },
      sandbox,
    });

    expect(await runtime.run("Copy")).toMatchObject({ success: true, toolCallCount: 2 });
    expect(resultsIn(models.requests[1])[0]).toContain("hello");
    expect(await sandbox.read("b.txt")).toBe("new");
  });

  test("a run is refused without input, unless the worker allows it", async () => {
    const { runtime, models } = await embedded(["Never."]);
    const lax = await embedded(["Fine."], { worker: { ...aWorker, allow_empty_input: true } });

    expect(await runtime.run("  \n")).toMatchObject({
      success: false,
      error: expect.stringContaining('No input provided for worker "helper"'),
    });
    expect(models.requests).toEqual([]);
    expect(await lax.runtime.run("")).toMatchObject({ success: true, response: "Fine." });
  });

  test("a run stops at its limit of model calls, and names the limit", async () => {
    const { runtime, models } = await embedded((_, turn) => deploy(`place ${turn}`), {
      tools: [aTool()],
      maxIterations: 3,
    });

    expect(await runtime.run("Go")).toMatchObject({
      success: false,
      error: expect.stringMatching(/limit.*3/),
      toolCallCount: 3,
    });
    expect(models.requests).toHaveLength(3);
  });

  test("a run continues after an unknown tool and after a failed one", async () => {
    const script: Line[] = [{ calls: [{ name: "deplyo", args: {} }] }, deploy(), "Sorry."];
    const tools = [
      aTool({
        execute: () => {
          throw new Error("no disk");
        },
      }),
    ];
    const { runtime, models } = await embedded(script, { tools });

    expect(await runtime.run("Go")).toMatchObject({ success: true, response: "Sorry.", toolCallCount: 2 });
    expect(resultsIn(models.requests[1])[0]).toMatch(/error.*Unknown tool: deplyo.*Did you mean deploy/);
    expect(resultsIn(models.requests[2])[1]).toContain("no disk");
  });

  test("a run fails with the error of a model that cannot be called", async () => {
    const { runtime } = await embedded(() => {
      throw new Error("Network error");
    });

    expect(await runtime.run("Go")).toMatchObject({ success: false, error: "Network error" });
  });

  test("a run needs initialize() first, and only one can be active", async () => {
    const models = scriptedModels(["One.", "Two."]);
    const runtime = new WorkerRuntime({ worker: aWorker, models });

    await expect(runtime.run("x")).rejects.toThrow(/before initialize/);
    await runtime.initialize();
    const first = runtime.run("x");
    await expect(runtime.run("y")).rejects.toThrow(/already running/);
    await first;
    expect(await runtime.run("z")).toMatchObject({ response: "Two." });
  });
});

describe("chat", () => {
  test("a chat of a root remembers earlier runs until it is cleared", async () => {
    const { runtime, models } = await embedded(["One.", "Two.", "Three."], { worker: { ...aWorker, mode: "chat" } });

    await runtime.run("first");
    await runtime.run("second");
    runtime.clearHistory();
    await runtime.run("third");

    expect(models.requests.map(({ messages }) => messages.length)).toEqual([1, 3, 1]);
    expect(models.requests[1]?.messages).toMatchObject([
      { role: "user", content: "first" },
      { role: "assistant", content: [{ text: "One." }] },
      { role: "user", content: "second" },
    ]);
  });

  test("a chat counts limits for each run", async () => {
    const { runtime } = await embedded(["One.", "Two.", "Three."], {
      worker: { ...aWorker, mode: "chat" },
      maxIterations: 1,
    });

    for (const word of ["a", "b", "c"]) expect(await runtime.run(word)).toMatchObject({ success: true });
  });

  test.each([
    [{ mode: "single" as const }, {}],
    [{ mode: "chat" as const }, { depth: 1 }],
  ])("%j with %j does not remember earlier runs", async (change, options) => {
    const { runtime, models } = await embedded(["One.", "Two."], { worker: { ...aWorker, ...change }, ...options });

    await runtime.run("first");
    await runtime.run("second");

    expect(models.requests[1]?.messages).toEqual([{ role: "user", content: "second" }]);
  });
});

describe("interrupt", () => {
  test("an interrupt before a run prevents it until the signal is reset", async () => {
    const interruptSignal = createInterruptSignal();
    const { runtime, models } = await embedded(["Back."], { interruptSignal });
    interruptSignal.interrupt();

    expect(await runtime.run("Go")).toMatchObject({ success: true, response: "[Interrupted]", toolCallCount: 0 });
    expect(models.requests).toEqual([]);
    interruptSignal.reset();
    expect(await runtime.run("Go")).toMatchObject({ response: "Back." });
  });

  test("an interrupt aborts the model call", async () => {
    const interruptSignal = createInterruptSignal();
    const { runtime, models } = await embedded(
      ({ signal }) =>
        new Promise((_, reject) => {
          signal.addEventListener("abort", () => reject(signal.reason));
          interruptSignal.interrupt();
        }),
      { interruptSignal },
    );

    expect(await runtime.run("Go")).toMatchObject({ success: true, response: "[Interrupted]" });
    expect(models.requests[0]?.signal.aborted).toBe(true);
  });

  test("an interrupt ends a run whose model ignores the signal", async () => {
    const interruptSignal = createInterruptSignal();
    const { runtime } = await embedded(
      () => {
        interruptSignal.interrupt();
        return new Promise(() => {});
      },
      { interruptSignal },
    );

    expect(await runtime.run("Go")).toMatchObject({ response: "[Interrupted]" });
  });

  test.each(["single", "chat"] as const)(
    "aborts the tool, and the model learns of it in the next run (%s)",
    async (mode) => {
      const interruptSignal = createInterruptSignal();
      let aborted = false;
      const slow = aTool({
        execute: (_, { abortSignal }) =>
          new Promise((_, reject) => {
            abortSignal.addEventListener("abort", () => {
              aborted = true;
              reject(abortSignal.reason);
            });
            interruptSignal.interrupt();
          }),
      });
      const { runtime, models } = await embedded(
        [
          {
            calls: [
              { name: "deploy", args: { to: "a" } },
              { name: "deploy", args: { to: "b" } },
            ],
          },
          "I had begun.",
          "Hello.",
        ],
        { interruptSignal, tools: [slow], worker: { ...aWorker, mode } },
      );

      expect(await runtime.run("Go")).toMatchObject({ success: true, response: "[Interrupted]", toolCallCount: 2 });
      expect(aborted).toBe(true);
      interruptSignal.reset();
      expect(await runtime.run("What happened?")).toMatchObject({ response: "I had begun." });
      expect(resultsIn(models.requests[1])).toEqual([
        expect.stringContaining('"type":"interrupted"'),
        expect.stringContaining('"type":"interrupted"'),
      ]);
      await runtime.run("Hi");
      expect(models.requests[2]?.messages).toHaveLength(mode === "chat" ? 6 : 1);
    },
  );

  test("dispose() ends a run before it resolves", async () => {
    const { runtime } = await embedded(() => new Promise(() => {}));
    const run = runtime.run("Go");

    await runtime.dispose();

    expect(await run).toMatchObject({ response: "[Interrupted]" });
    await expect(runtime.run("again")).rejects.toThrow(/before initialize/);
  });
});

describe("the options of a runtime", () => {
  test("depth and root are those of the options", () => {
    const root = new WorkerRuntime({ worker: aWorker, depth: 0 });
    const below = new WorkerRuntime({ worker: aWorker, depth: 2 });

    expect([root.getDepth(), root.isRoot(), below.getDepth(), below.isRoot()]).toEqual([0, true, 2, false]);
    expect(() => new WorkerRuntime({ worker: aWorker, depth: -1 })).toThrow(
      /depth must be a whole number of at least 0/,
    );
  });

  test("tools are offered to those who may call them", async () => {
    const tools = [aTool(), aTool({ name: "push", manualExecution: { mode: "manual" } })];
    const { runtime, models } = await embedded(["Hi."], { tools });

    expect(Object.keys(getLLMTools(runtime.getTools()))).toEqual(["deploy"]);
    expect(Object.keys(getManualTools(runtime.getTools()))).toEqual(["push"]);
    await runtime.run("Hi");
    expect(models.requests[0]?.tools.map(({ name }) => name)).toEqual(["deploy"]);
  });

  test("a worker can be a definition, the text of a file or a path", async () => {
    const text = "---\nname: storyteller\n---\nYou tell.";
    const { runtime, models } = await embedded(["Hi."], { worker: text });

    await runtime.run("Hi");

    expect(models.requests[0]?.instructions).toContain("You tell.");
    expect(() => new WorkerRuntime({ worker: "workers/fixer.worker" })).not.toThrow();
    expect(() => new WorkerRuntime({ worker: "nowhere.worker" })).toThrow(/nowhere\.worker cannot be read/);
    expect(() => new WorkerRuntime({ worker: { ...aWorker, instuctions: "" } as never })).toThrow(/instructions/);
  });

  test.each([
    ["anthropic:claude-haiku-4-5", ["anthropic:*"], true],
    ["openai:gpt-5", ["anthropic:*"], false],
    ["anthropic:claude-haiku-4-5", ["anthropic:claude-haiku-*"], true],
  ])("the model %s is accepted with compatible_models %j: %j", (model, compatible_models, isTaken) => {
    const make = () => new WorkerRuntime({ worker: { ...aWorker, compatible_models }, model, models: {} });

    if (isTaken) expect(make().getModelId()).toBe(model);
    else expect(make).toThrow(/not compatible with the worker helper, which works with anthropic:\*/);
  });

  test("initialize() without a model or its key says what to set", async () => {
    const none = new WorkerRuntime({ worker: aWorker, models: {} });
    const keyless = new WorkerRuntime({ worker: aWorker, model: "anthropic:claude-haiku-4-5", models: {} });

    await expect(none.initialize()).rejects.toThrow(/GOLEM_FORGE_MODEL/);
    await expect(keyless.initialize()).rejects.toThrow(/ANTHROPIC_API_KEY/);
  });

  test.each(["github", "pull_request", "git"])(
    "the toolset %s is refused, since a program has no repository",
    async (name) => {
      const opening = embedded([], { worker: { ...aWorker, toolsets: { [name]: {} } } });

      await expect(opening).rejects.toThrow(new RegExp(`toolset ${name}, which needs`));
    },
  );

  test("a worker's own policy narrows the sandbox", async () => {
    const sandbox = createMemoryWorkspace({ "docs/a.md": "a", "src/secret.ts": "b" });
    const script: Line[] = [{ calls: [{ name: "read_file", args: { path: "src/secret.ts" } }] }, "No."];
    const restricted = { ...aWorker, toolsets: { filesystem: {} }, sandbox: { restrict: "/docs" } };
    const { runtime, models } = await embedded(script, { worker: restricted, sandbox });

    await runtime.run("Read it");

    expect(resultsIn(models.requests[1])[0]).toContain("outside the part of the tree");
  });
});

describe("attachments", () => {
  const png = { name: "a.png", mimeType: "image/png", data: new Uint8Array([1, 2, 3]) };
  const note = { name: "note.TXT", mimeType: "text/plain", data: "remember" };

  test("attachments reach the model as files and text", async () => {
    const { runtime, models } = await embedded(["Seen."]);

    await runtime.run({ content: "Look", attachments: [png, note] });

    expect(models.requests[0]?.messages).toEqual([
      {
        role: "user",
        content: [
          { type: "text", text: "Look" },
          { type: "file", data: "AQID", mediaType: "image/png", filename: "a.png" },
          { type: "text", text: "The attached file note.TXT:\nremember" },
        ],
      },
    ]);
  });

  test("attachments are sufficient as input", async () => {
    const { runtime } = await embedded(["Seen."]);

    expect(await runtime.run("", [png])).toMatchObject({ success: true });
  });

  test.each([
    [{ max_attachments: 1 }, /at most 1 attachment .*2 were given/],
    [{ max_total_bytes: 5 }, /at most 5 bytes.*these have 11/],
    [{ allowed_suffixes: [".png"] }, /ending in \.png are allowed.*not note\.TXT/],
    [{ denied_suffixes: ["txt"] }, /ending in \.txt are not allowed.*note\.TXT/],
  ])(
    "attachments that violate the policy %j are refused, with the policy and what was given",
    async (attachment_policy, message) => {
      const { runtime, models } = await embedded(["Never."], { worker: { ...aWorker, attachment_policy } });

      const { success, error } = await runtime.run("Look", [png, note]);

      expect(success).toBe(false);
      expect(error).toMatch(/^Attachment policy violation: /);
      expect(error).toMatch(message);
      expect(models.requests).toEqual([]);
    },
  );

  test("within the policy are accepted, whatever the case of the suffix", async () => {
    const attachment_policy = { max_attachments: 2, allowed_suffixes: [".png", ".txt"] };
    const { runtime } = await embedded(["Seen."], { worker: { ...aWorker, attachment_policy } });

    expect(await runtime.run("Look", [png, note])).toMatchObject({ success: true });
  });
});

test("a locked worker runs with the model and the limits of its file, not with those of the program", async () => {
  const worker = { ...aWorker, model: "scripted:own", locked: true };

  await expect(embedded(["Hello."], { worker, model: "scripted:other" })).rejects.toThrow(
    "helper is locked to its model scripted:own, so it cannot run with scripted:other.",
  );
  await expect(embedded(["Hello."], { worker, maxIterations: 100 })).rejects.toThrow(
    "helper is locked: maxIterations cannot replace a limit of its file.",
  );
  const { runtime, models } = await embedded(["Hello."], { worker });
  expect(await runtime.run("Hi")).toMatchObject({ response: "Hello." });
  expect(models.requests[0]?.model).toBe("scripted:own");
});

test("a program on disk runs by its folder, with the workers and modules it has there", async () => {
  const { runtime, models } = await embedded(
    [{ calls: [{ name: "editor", args: { input: "A draft" } }] }, '{"accepted":true,"changes":[]}', "Accepted."],
    { worker: "examples/orchestrator" },
  );

  expect(await runtime.run("A text about golems")).toMatchObject({ success: true, response: "Accepted." });
  expect(models.requests[1]?.instructions).toContain('"accepted":{"type":"boolean"}');
  await runtime.dispose();
});
