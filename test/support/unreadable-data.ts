import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { UnreadableDataError } from "#domain/stored-data.ts";
import type { Store } from "#runtime/store/store.ts";
import { said, sampleApproval, sampleEffect, sampleRun, sampleSpec, sampleStep } from "./store-samples.ts";

interface OpenedStore {
  store: Store;
  /** Executes a statement on the tables of the store. */
  execute(sql: string): Promise<void>;
  /** The table with the column `spec`, and the name of its run id column. */
  specs: { table: string; id: string };
}

let opened: OpenedStore;

/** Defines tests for data that this release cannot read. `open` returns an empty store. */
export function unreadableDataConformance(name: string, open: () => Promise<OpenedStore>): void {
  describe(`${name}, with data of a newer release`, () => {
    beforeEach(async () => {
      opened = await open();
      await opened.store.ingest({ run: sampleRun("r1", [sampleEffect("r1", "k1")]), events: [] });
    });
    afterEach(() => opened.store.close());

    describe("in a run", runTests);
    describe("elsewhere", otherTests);
  });
}

function runTests(): void {
  const setSpec = (spec: string) => {
    const { table, id } = opened.specs;
    return opened.execute(`update ${table} set spec = '${spec}' where ${id} = 'r1'`);
  };

  test("a run whose state cannot be read is returned as unreadable, with its spec", async () => {
    const { store, execute } = opened;
    await execute(`update runs set snapshot = '{"version":99}' where id = 'r1'`);

    const run = await store.findRun("r1");

    expect(run).toMatchObject({ id: "r1", rootId: "r1", status: "active", displaySpec: sampleSpec("r1") });
    expect(run?.unreadable).toBeInstanceOf(UnreadableDataError);
    expect(run?.unreadable?.message).toContain("was stored by a newer release of Golem Forge (format 99");
  });

  test("the parts of a spec that can be shown are returned", async () => {
    const { worker: _, ...spec } = sampleSpec("r1");
    await setSpec(JSON.stringify({ ...spec, version: 99, worker: { name: "fixer", personality: "grumpy" } }));

    const run = await opened.store.findRun("r1");

    expect(run).toMatchObject({ displaySpec: { origin: spec.origin, worker: { name: "fixer", instructions: "" } } });
    expect(run?.unreadable?.message).toContain("The definition of run r1 was stored by a newer release");
  });

  test("a run of which nothing can be shown is returned", async () => {
    await setSpec("[]");

    expect(await opened.store.findRun("r1")).toMatchObject({ id: "r1", displaySpec: undefined });
  });

  test("an unreadable run is listed with the others", async () => {
    const { store, execute } = opened;
    await store.ingest({ run: sampleRun("r2"), events: [] });
    await store.ingest({ run: sampleRun("c1", [], { parentId: "r1", rootId: "r1" }), events: [] });
    await execute(`update runs set snapshot = '{"version":99}' where id <> 'r2'`);

    const runs = [
      ...(await store.runsOfThread({ owner: "ada", repo: "engine", thread: 7 })),
      ...(await store.childrenOf("r1")),
      ...(await store.liveRuns({ installationId: 1 })),
    ];

    const found = runs.map(({ id, unreadable }) => `${id} ${unreadable ? "unreadable" : "readable"}`);
    expect(found.sort()).toEqual(["c1 unreadable", "r1 unreadable", "r1 unreadable", "r2 readable", "r2 readable"]);
  });
}

function otherTests(): void {
  test("of a run's commands, those after one that cannot be read are returned", async () => {
    const { store, execute } = opened;
    const resume = { runId: "r1", event: { type: "run.resume" as const, by: "ada" } };
    await store.ingest({ events: [{ runId: "r1", event: { type: "run.stop", by: "ada" } }, resume] });
    const [, { id = 0 } = {}] = await store.inbox("r1");
    await execute(`update events set event = '{"version":99,"type":"run.rest"}' where id = ${id}`);
    await store.ingest({ events: [resume] });

    const { events, unreadable } = await store.commandsOf("r1");

    expect(events.map(({ event }) => event)).toEqual([resume.event]);
    expect(unreadable).toBeInstanceOf(UnreadableDataError);
  });

  test("a log and an inbox with an unreadable event are rejected", async () => {
    const { store, execute } = opened;
    await store.ingest({ events: [{ runId: "r1", event: said("hello") }] });
    await execute(`update events set event = '{"version":99,"type":"message.received"}'`);

    await expect(store.log("r1")).rejects.toThrow(/^Event \d+ was stored by a newer release/);
    await expect(store.inbox("r1")).rejects.toThrow(UnreadableDataError);
  });

  test.each([
    ["of a newer format", `update effects set input = '{"version":99}'`, "was stored by a newer release"],
    ["of an unknown kind", "update effects set kind = 'model.dream'", "cannot be read"],
    ["with unknown fields", `update effects set input = '{"version":1,"mood":"good"}'`, "cannot be read"],
  ])("an effect %s is not claimed, and the reason is stored", async (_, sql, reason) => {
    const { store, execute } = opened;
    await store.advance(sampleStep("r1", { effects: [sampleEffect("r1", "t1", { queue: "thread" })] }));
    await execute(`${sql} where key = 'k1'`);

    await expect(store.claimEffect("r1", "work", 0)).rejects.toThrow(reason);
    expect(await store.effectProblem("r1")).toEqual({ kind: "unreadable", reason: expect.stringContaining(reason) });
    expect(await store.claimEffect("r1", "thread", 0)).toMatchObject({ key: "t1" });

    await execute(`update effects set kind = 'model.call', input = '{"version":1}' where key = 'k1'`);
    expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "k1", attempts: 1 });
  });

  test("other approvals expire in time, and an unreadable one later", async () => {
    const { store, execute } = opened;
    const approvals = [sampleApproval("r1", "a1"), sampleApproval("r1", "a2")];
    await store.completeEffect({ runId: "r1", key: "k1", approvals });
    await execute(`update approvals set approval = '{"version":99}' where id = 'a1'`);

    expect(await store.fireTimers(5_000)).toEqual(["r1"]);

    expect((await store.inbox("r1")).map(({ event }) => event)).toEqual([
      { type: "approval.expired", approvalId: "a2", callId: "call-a2" },
    ]);
    expect(await store.nextDueAt()).toBe(5_000 + 10 * 60_000);
    await expect(store.findApproval("a1")).rejects.toThrow("Approval a1 was stored by a newer release");
  });

  test("a timer of an unknown kind stays where it is", async () => {
    const { store, execute } = opened;
    await store.completeEffect({ runId: "r1", key: "k1" });
    await store.advance(
      sampleStep("r1", {
        timers: {
          set: [
            { timer: "retry", dueAt: 100 },
            { timer: "deadline", dueAt: 200 },
          ],
        },
      }),
    );
    await execute("update timers set timer = 'nap' where timer = 'retry'");

    expect(await store.nextDueAt()).toBe(200);
    await store.fireTimers(300);

    expect((await store.inbox("r1")).map(({ event }) => event)).toEqual([{ type: "timer.due", timer: "deadline" }]);
    expect(await store.nextDueAt()).toBeUndefined();
  });

  test("changes with an unknown mode are rejected", async () => {
    const { store, execute } = opened;
    const changes = [{ path: "a", content: new Uint8Array(1), mode: "100644" as const }];
    await store.completeEffect({ runId: "r1", key: "k1", changes: { step: "c", changes } });
    await execute("update changes set mode = '040000'");

    await expect(store.changesOf("r1")).rejects.toThrow("The stored mode of a cannot be read");
  });
}
