import { describe, expect, test } from "vitest";
import { z } from "zod";
import { approvalDigest } from "#domain/approval.ts";
import { OutageError, UserError } from "#domain/errors.ts";
import { digestOfWorker } from "#domain/run.ts";
import { AttachmentPolicy, Limits, parseWorker, type WorkerDefinition } from "#domain/worker.ts";
import type { Models } from "#models/models.ts";
import { initialRun } from "#runtime/apply-events.ts";
import { childSpec, spawnChild, stopChildren, taskOf } from "#runtime/effects/children.ts";
import { PostponedError } from "#runtime/effects/effect-handler.ts";
import type { RunRow } from "#runtime/store/store.ts";
import { type EffectWorldOptions, effectWorld } from "../../support/effect-world.ts";
import { sampleRun, sampleSnapshot, sampleSpec, sampleStep } from "../../support/store-samples.ts";
import { aTool } from "../../support/toolbox-world.ts";

const worker = parseWorker("---\nname: helper\n---\nHelp.", "helper.worker");

/** A run with these limits, used tokens and open worker calls. */
function parentOf(limits: object, { calls, tokens = 0 }: { calls: number; tokens?: number }): RunRow {
  const { spec } = sampleRun("parent");
  const own = { ...spec, worker: { ...spec.worker, limits: Limits.parse(limits) } };
  const { snapshot } = initialRun(own);
  const open = Array.from({ length: calls }, (_, n) => ({
    callId: `call-${n}`,
    tool: "helper",
    answeredBy: "worker" as const,
    status: "running" as const,
  }));
  const context = { ...snapshot.context, tokens, openCalls: open };
  return {
    id: spec.id,
    rootId: spec.rootId,
    spec: own,
    status: "waiting",
    snapshot: { ...snapshot, context },
    version: 1,
    changeSets: 0,
    updatedAt: 0,
  };
}

function childOf(parent: RunRow, nth: number, siblings: RunRow[] = []): RunRow {
  const spec = childSpec(parent, {
    ...{ id: `child-${nth}`, callId: `call-${nth}`, worker, source: "deployment", model: "a:b", now: 0 },
    siblings,
    root: parent.spec,
  });
  return { ...parent, spec };
}

describe("the budget of a child", () => {
  test("the budget of a child is an equal share of what its parent has left, for each open call", () => {
    const parent = parentOf({ tokens: 100_000, cost: 1 }, { calls: 4, tokens: 20_000 });

    const children: RunRow[] = [];
    for (const nth of [0, 1, 2, 3]) children.push(childOf(parent, nth, [...children]));

    expect(children.map(({ spec }) => spec.worker.limits.tokens)).toEqual([20_000, 20_000, 20_000, 20_000]);
    expect(children.map(({ spec }) => spec.worker.limits.cost)).toEqual([0.25, 0.25, 0.25, 0.25]);
  });

  test("the budget of a child is its own limit where that is less, and the others share the rest", () => {
    const parent = parentOf({ tokens: 100_000, cost: 1 }, { calls: 2 });
    const frugal = childOf(parent, 0);
    frugal.spec = {
      ...frugal.spec,
      worker: { ...frugal.spec.worker, limits: Limits.parse({ tokens: 1_000, cost: 0.1 }) },
    };

    expect(childOf(parent, 1, [frugal]).spec.worker.limits.tokens).toBe(99_000);
  });

  test("the budget of a child is everything that is left when earlier children have ended", () => {
    const parent = parentOf({ tokens: 100_000 }, { calls: 1, tokens: 60_000 });
    const ended = { ...parent, spec: { ...parent.spec, parentCallId: "an earlier call" } };

    expect(childOf(parent, 0, [ended]).spec.worker.limits.tokens).toBe(40_000);
  });

  test("a child whose budget would be too small is refused, so that a tree cannot have a thousand children", () => {
    expect(() => childOf(parentOf({ tokens: 100_000 }, { calls: 101 }), 0)).toThrow(
      "remaining budget of this run is too small",
    );
    expect(() => childOf(parentOf({ tokens: 100_000 }, { calls: 1, tokens: 100_000 }), 0)).toThrow(
      "remaining budget of this run is too small",
    );
    expect(() => childOf(parentOf({ cost: 0.5 }, { calls: 101 }), 0)).toThrow(
      "remaining budget of this run is too small",
    );
  });

  test("the budget of a child is never more than its own limits or those of its parent, and lasts at least a minute", () => {
    const parent = parentOf({ minutes: 10, depth: 2 }, { calls: 1 });
    const generous = { ...worker, limits: Limits.parse({ minutes: 60, depth: 5, steps: 7, children: 3 }) };
    const limitsAfter = (minutes: number, of: WorkerDefinition) =>
      childSpec(
        { ...parent, snapshot: { ...parent.snapshot, workedMs: minutes * 60_000 } },
        {
          ...{ id: "child", callId: "call-0", source: "deployment", model: "a:b", now: 0, siblings: [] },
          ...{ root: parent.spec, worker: of },
        },
      ).worker.limits;

    expect(limitsAfter(4, generous)).toMatchObject({ minutes: 6, depth: 2, steps: 7, children: 3 });
    expect(limitsAfter(9.5, generous).minutes).toBe(1);
    expect(limitsAfter(0, { ...worker, limits: Limits.parse({ minutes: 2, depth: 1 }) })).toMatchObject({
      ...{ minutes: 2, depth: 1 },
    });
  });
});

describe("a call of a worker", () => {
  const inputSchema = z.object({ task: z.string(), attachments: z.unknown().optional() });
  const helper = aTool({ name: "ask_helper", inputSchema, answeredBy: { kind: "worker", worker: "helper" } });
  const args = { task: "Sum up." };
  const spawn = { kind: "child.spawn" as const, callId: "call-1" };

  /** A run, whose model called a tool, `ask_helper` by default. */
  async function callWorld({ tool = helper, callArgs = args as unknown, ...options }: CallOptions = {}) {
    const tools = [tool, aTool()];
    const made = await effectWorld({ tools, ...options });
    const models = {
      ...{ defaultModel: "scripted:default", findModelProblem: () => undefined },
      findToolProblem: () => undefined,
    } as unknown as Models;
    const catalog = {
      find: async (name: string) => {
        if (name !== "helper") throw new UserError(`Worker ${name} not found.`);
        return { worker: options.helper ?? worker, source: "repository" as const };
      },
      list: async () => [],
    };
    const handler = spawnChild({ ...made.services, catalog, models, policy: undefined });
    if (!tool.needsApproval) await made.append(answerOf(tool.name, callArgs));
    const perform = (request: object = {}) => made.perform(handler, made.effect({ ...spawn, ...request }));
    return { ...made, handler, spawnOnce: perform };
  }

  interface CallOptions extends EffectWorldOptions {
    tool?: ReturnType<typeof aTool>;
    callArgs?: unknown;
    helper?: WorkerDefinition;
  }

  const answerOf = (tool: string, callArgs: unknown) => ({
    type: "model.answered" as const,
    ...{ text: "", messages: [], finishReason: "tool-calls" as const, lastSeenId: 0 },
    calls: [{ callId: "call-1", tool, args: callArgs }],
    usage: { inputTokens: 1, outputTokens: 1 },
  });

  /** The event that tells the model why the worker was not started. */
  const refusal = (reason: unknown) => ({
    events: [
      {
        runId: "r1",
        event: {
          ...{ type: "child.finished", callId: "call-1", childId: "", outcome: { kind: "failed", reason } },
          usage: { inputTokens: 0, outputTokens: 0 },
        },
      },
    ],
  });

  test("a call of a worker starts a run one level below, with the task as its first message", async () => {
    const { spawnOnce } = await callWorld({ spec: { workerPath: "planner -> fixer", depth: 1 } });

    const { run, events, execution } = await spawnOnce();

    expect(run?.spec).toMatchObject({
      ...{ rootId: "r1", parentId: "r1", parentCallId: "call-1", depth: 2, createdAt: 10_000, parentChanges: 0 },
      ...{ workerPath: "planner -> fixer -> helper", workerSource: "repository", model: "scripted:model" },
      worker: { name: "helper", mode: "single" },
    });
    expect(run?.effects.map(({ request, runId }) => [request.kind, runId])).toEqual([
      ["sandbox.open", run?.spec.id],
      ["status.show", "r1"],
    ]);
    expect(events).toEqual([
      {
        runId: run?.spec.id,
        event: { type: "message.received", kind: "prompt", text: "Sum up.", by: "fixer" },
        dedupe: `${run?.spec.id}/task`,
      },
    ]);
    expect(execution).toBeUndefined();
  });

  test("a call of a worker that is performed again after a crash starts the same run, which is not one more of its siblings", async () => {
    const spec = { worker: { ...sampleSpec("r1").worker, limits: Limits.parse({ children: 1 }) } };
    const { spawnOnce, store } = await callWorld({ spec });
    const first = await spawnOnce();
    if (first.run) await store.ingest({ run: first.run, events: [] });

    const again = await spawnOnce();

    expect(again.run?.spec.id).toBe(first.run?.spec.id);
  });

  test("a call of a worker uses the model that a person chose for the run", async () => {
    const { spawnOnce, append } = await callWorld();
    await append({ type: "model.changed", model: "scripted:chosen", by: "ada" });

    expect((await spawnOnce()).run?.spec.model).toBe("scripted:chosen");
  });

  test.each<[string, Partial<RunRow["spec"]>, string]>([
    ["that called the run", { workerPath: "Helper -> fixer" }, "Circular delegation"],
    ["below the deepest level", { depth: Limits.parse({}).depth }, "Maximum delegation depth"],
  ])("a call of a worker %s is refused, and the model reads why", async (_, spec, reason) => {
    const { spawnOnce } = await callWorld({ spec });

    expect(await spawnOnce()).toEqual(refusal(expect.stringContaining(reason)));
  });

  test("a call of a worker is allowed at the deepest level", async () => {
    const { spawnOnce } = await callWorld({ spec: { depth: Limits.parse({}).depth - 1 } });

    expect(await spawnOnce()).toHaveProperty("run");
  });

  test("a call of a worker is refused once the run has started as many workers as its limit", async () => {
    const spec = { worker: { ...sampleSpec("r1").worker, limits: Limits.parse({ children: 2 }) } };
    const { spawnOnce, store } = await callWorld({ spec });
    const child = (id: string) => sampleRun(id, [], { rootId: "r1", parentId: "r1" });
    await store.ingest({ run: child("r1-a"), events: [] });
    expect(await spawnOnce()).toHaveProperty("run");
    await store.ingest({ run: child("r1-b"), events: [] });

    expect(await spawnOnce()).toEqual(refusal("fixer has already started 2 workers, which is its limit."));
  });

  test("a call of a tool or an unknown worker is refused", async () => {
    const tool = await callWorld({ tool: aTool({ name: "list_files" }) });
    const unknown = await callWorld({
      tool: aTool({ name: "ask_nobody", answeredBy: { kind: "worker", worker: "nobody" } }),
    });

    expect(await tool.spawnOnce()).toEqual(refusal("list_files does not call a worker."));
    expect(await unknown.spawnOnce()).toEqual(refusal("Worker nobody not found."));
  });

  describe("calls that need approval", () => {
    const asking = { ...helper, needsApproval: true };

    test("an approved call of a worker runs with the arguments that the person changed, and is in the ledger", async () => {
      const made = await callWorld({ tool: asking });
      const { id: approvalId } = await made.approvedCall("ask_helper", args);
      const approval = await made.store.findApproval(approvalId);
      const changedArgs = { ...args, task: "Sum up the first half." };
      const digest =
        approval && approvalDigest({ ...approval, preview: approval.preview, args: changedArgs, argsChanged: true });
      made.store.findApproval = async () => approval && { ...approval, changedArgs, digest: digest ?? "" };

      const { events, execution } = await made.spawnOnce({ approvalId });

      expect(events).toMatchObject([{ event: { text: "Sum up the first half." } }]);
      expect(execution).toEqual({ approvalId, outcome: "executed" });
    });

    test("a call of a worker whose approval no longer holds is refused, which is in the ledger, too", async () => {
      const made = await callWorld({ tool: asking });
      const { id: approvalId } = await made.approvedCall("ask_helper", args);
      await made.store.revokeApproval({ approvalId, by: "ada", now: 0 });

      const reason = "This was not run: @ada revoked its approval.";
      expect(await made.spawnOnce({ approvalId })).toEqual({
        ...refusal(reason),
        execution: { approvalId, outcome: "refused", reason },
      });
    });

    test("an approved call of a worker is refused if the worker is another one at the moment when it starts", async () => {
      const bound = { sections: [], bindings: { worker: digestOfWorker({ worker, source: "repository" }) } };
      const tool = { ...asking, preview: () => bound };
      const same = await callWorld({ tool });
      const other = await callWorld({ tool, helper: { ...worker, instructions: "Help, and publish it." } });
      const { id } = await same.approvedCall("ask_helper", args);
      const { id: approvalId } = await other.approvedCall("ask_helper", args);

      expect(await same.spawnOnce({ approvalId: id })).toMatchObject({ execution: { outcome: "executed" } });
      expect(await other.spawnOnce({ approvalId })).toMatchObject({
        execution: {
          outcome: "refused",
          reason: expect.stringContaining("its effect has changed since it was approved"),
        },
      });
    });

    test("an approved call of a worker is postponed during an outage, and then starts it", async () => {
      let isOut = false;
      const preview = () => (isOut ? Promise.reject(new OutageError("GitHub did not answer.")) : "It helps.");
      const made = await callWorld({ tool: { ...asking, preview } });
      const { id: approvalId } = await made.approvedCall("ask_helper", args);
      isOut = true;

      await expect(made.spawnOnce({ approvalId })).rejects.toThrow(PostponedError);
      isOut = false;
      expect(await made.spawnOnce({ approvalId })).toMatchObject({ execution: { outcome: "executed" } });
    });

    test("an approved call of a worker that is refused for another reason does not say that the approval was", async () => {
      const made = await callWorld({ tool: { ...asking, answeredBy: { kind: "worker", worker: "nobody" } } });
      const { id: approvalId } = await made.approvedCall("ask_helper", args);

      expect(await made.spawnOnce({ approvalId })).toEqual(refusal("Worker nobody not found."));
    });
  });

  describe("attached files", () => {
    const files = { "a.txt": "hello", "b.bin": "\0\x01" };
    const attaching = (attachments: unknown) => ({ callArgs: { ...args, attachments }, files });

    test("a call of a worker hands attached files over with the task", async () => {
      const { spawnOnce } = await callWorld(attaching("a.txt"));

      expect((await spawnOnce()).events).toMatchObject([
        { event: { attachments: [{ name: "a.txt", mediaType: "text/plain", data: "hello" }] } },
      ]);
    });

    test.each<[string, unknown, Partial<WorkerDefinition>, string]>([
      ["of an unknown kind", ["b.bin"], {}, "b.bin is not an image, a PDF or a text file"],
      [
        "that the called worker does not accept",
        ["a.txt"],
        { attachment_policy: AttachmentPolicy.parse({ max_total_bytes: 4 }) },
        "at most 4 bytes in total",
      ],
    ])("a call of a worker with an attached file %s is refused", async (_, attachments, policy, reason) => {
      const { spawnOnce } = await callWorld({ ...attaching(attachments), helper: { ...worker, ...policy } });

      expect(await spawnOnce()).toEqual(refusal(expect.stringContaining(reason)));
    });
  });

  test("a call of a worker that keeps failing is answered, so that its run continues", async () => {
    const { handler, effect, run } = await callWorld();

    expect(await handler.onFailure(effect(spawn), run, new Error("Boom."))).toEqual(
      refusal("The worker could not be started."),
    );
  });

  test("a call of a worker that fails for a reason nobody can act on is tried again", async () => {
    const { spawnOnce, store } = await callWorld();
    store.childrenOf = () => Promise.reject(new Error("The disk is full."));

    await expect(spawnOnce()).rejects.toThrow("The disk is full.");
  });
});

test.each([
  [{ task: "A", context: "B" }, "A\n\nB"],
  [{ input: "A", instructions: "B" }, "A\n\nB"],
  [{ prompt: "A" }, "A"],
  [{ message: "A", context: "" }, "A"],
  ["A", ""],
])("the task of %j", (callArgs, text) => {
  expect(taskOf(callArgs)).toBe(text);
});

test("a stop cancels the children that have not ended, each once", async () => {
  const { store, services, perform, effect, run } = await effectWorld();
  for (const id of ["r1-a", "r1-b"]) {
    await store.ingest({ run: sampleRun(id, [], { rootId: "r1", parentId: "r1" }), events: [] });
  }
  await store.advance(sampleStep("r1-a", { snapshot: sampleSnapshot("ended"), status: "done" }));
  const stop = effect({ kind: "children.stop" as const });

  expect(await perform(stopChildren(services), stop)).toEqual({
    events: [{ runId: "r1-b", event: { type: "run.cancel", by: "fixer" }, dedupe: "r1-b/cancel" }],
  });
  expect(await stopChildren(services).onFailure(stop, run, new Error("Boom."))).toEqual({});
});
