import { randomBytes } from "node:crypto";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { RunEvent } from "#domain/events.ts";
import { emptyLedger, type LedgerEntry, verifyEntry } from "#domain/ledger.ts";
import { textPreview } from "#domain/preview.ts";
import { questionName } from "#runtime/read-log.ts";
import type { DeliveryQuery } from "#runtime/store/delivery-store.ts";
import {
  type HourlyUsage,
  type NextStep,
  OutdatedMergeError,
  RunLimitError,
  readable,
  requireRun,
  type Store,
  type StoredRun,
} from "#runtime/store/store.ts";
import {
  said,
  sampleApproval,
  sampleEffect,
  sampleRun,
  sampleSnapshot,
  sampleSpec,
  sampleStep,
  sampleUsage,
} from "./store-samples.ts";

const later = Number.MAX_SAFE_INTEGER;
const child = { parentId: "r1", rootId: "r1", depth: 1 };
const { origin } = sampleSpec("r1");

/** The store under test: a new, empty one for each test. */
let store: Store;
let earlierEntries = 0;

/** Defines the tests that every store must pass. `open` returns an empty store. */
export function storeConformance(name: string, open: () => Promise<Store>): void {
  describe(name, () => {
    beforeEach(async () => {
      store = await open();
      // Nothing is ever deleted from a ledger, so a shared database keeps the entries of earlier tests.
      earlierEntries = (await store.readLedger(0, 100_000)).length;
    });
    afterEach(() => store.close());

    describe("ingest", ingestTests);
    describe("a delivery", deliveryTests);
    describe("pending deliveries", pendingDeliveryTests);
    describe("runs", runTests);
    describe("costsOfWorker", costTests);
    describe("dailyCosts", dailyCostTests);
    describe("readBacklog", backlogTests);
    describe("a repository that changes its name, owner or installation", locationTests);
    describe("inbox and log", logTests);
    describe("advance", advanceTests);
    describe("effects", effectTests);
    describe("completeEffect", completeEffectTests);
    describe("completeStep", completeStepTests);
    describe("changes", changeTests);
    describe("decideApproval", decideTests);
    describe("timers", timerTests);
    describe("dueRuns", dueRunTests);
    describe("removeExpired", expiryTests);

    test("the store knows a time that has passed, which is that of the newest event if the database has no clock", async () => {
      const before = Date.now();
      await store.ingest({ run: sampleRun("r1"), events: [{ runId: "r1", event: said("hello") }] });

      expect(await store.latestTime()).toBeGreaterThanOrEqual(before - 1_000);
      vi.spyOn(Date, "now").mockReturnValue(before + 30 * 24 * 3_600_000);
      const latest = await store.latestTime();
      vi.restoreAllMocks();
      expect(latest).toBeLessThan(before + 3_600_000);
    });

    test("the store answers a ping until it is closed, and rejects every call afterwards", async () => {
      await store.ping();
      await startRun();

      await store.close();
      await store.close();
      await expect(store.ping()).rejects.toThrow("The store is closed.");
      await expect(receive("hello")).rejects.toThrow("The store is closed.");
      await expect(store.dueRuns(0)).rejects.toThrow("The store is closed.");
      await expect(store.effectProblem("r1")).rejects.toThrow("The store is closed.");
      await expect(store.bringForward(0)).rejects.toThrow("The store is closed.");
    });
  });
}

function receive(...texts: string[]): Promise<boolean> {
  return store.ingest({ events: texts.map((text) => ({ runId: "r1", event: said(text) })) });
}

/** Stores a run with one effect in its work queue, `k1`. */
function startRun(id = "r1"): Promise<boolean> {
  return store.ingest({ run: sampleRun(id, [sampleEffect(id, "k1")]), events: [] });
}

/** Stores a run with one pending approval, `a1`. */
async function startRunWithApproval(changes = {}): Promise<void> {
  await startRun();
  await store.completeEffect({ runId: "r1", key: "k1", approvals: [sampleApproval("r1", "a1", changes)] });
}

async function textsInInbox(runId: string): Promise<unknown[]> {
  return (await store.inbox(runId)).map(({ event }) => "text" in event && event.text);
}

function idsOf(runs: readonly StoredRun[]): string[] {
  return runs.map(({ id }) => id);
}

function originOf(run: StoredRun | undefined) {
  return run && readable(run).spec.origin;
}

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function ingestTests(): void {
  test("a run is created together with its effects and events", async () => {
    const taken = await store.ingest({
      deliveryId: "d1",
      run: sampleRun("r1", [sampleEffect("r1", "k1")]),
      events: [{ runId: "r1", event: said("fix it") }],
    });

    expect(taken).toBe(true);
    expect(await store.findRun("r1")).toMatchObject({
      spec: sampleSpec("r1"),
      status: "active",
      snapshot: { value: "idle" },
      version: 0,
      changeSets: 0,
    });
    expect(await textsInInbox("r1")).toEqual(["fix it"]);
    expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "k1" });
  });

  test("a call with an effect for an unknown run stores nothing", async () => {
    const delivery = { deliveryId: "d1", events: [], effects: [sampleEffect("unknown", "k1")] };

    await expect(store.ingest(delivery)).rejects.toThrow();
    expect(await store.hasDelivery("d1")).toBe(false);
  });

  test("an existing run is not changed, and its events are appended", async () => {
    await startRun();
    await store.advance(sampleStep("r1"));

    const again = sampleRun("r1", [sampleEffect("r1", "k2")], { model: "another:model" });
    await store.ingest({ run: again, events: [{ runId: "r1", event: said("more") }] });

    expect(await store.findRun("r1")).toMatchObject({ version: 1, spec: { model: "scripted:model" } });
    expect(await store.completeEffect({ runId: "r1", key: "k2" })).toBe(false);
    expect(await textsInInbox("r1")).toEqual(["more"]);
  });

  test("an event with a dedupe key is appended once, even after it was consumed", async () => {
    await startRun();
    const events = [{ runId: "r1", event: said("once"), dedupe: "e1" }];

    await store.ingest({ events: [...events, ...events] });
    const [event] = await store.inbox("r1");
    await store.advance(sampleStep("r1", { consumed: [event?.id ?? 0] }));
    await store.ingest({ events });

    expect(await textsInInbox("r1")).toEqual([]);
    expect(await store.log("r1")).toHaveLength(1);
  });

  test("events without a dedupe key are appended each time", async () => {
    await startRun();

    await receive("again", "again");
    await receive("again");

    expect(await textsInInbox("r1")).toEqual(["again", "again", "again"]);
  });

  test("a call with an event for an unknown run stores nothing", async () => {
    await startRun();
    const events = [
      { runId: "r1", event: said("hello") },
      { runId: "unknown", event: said("hello") },
    ];

    await expect(store.ingest({ deliveryId: "d1", events })).rejects.toThrow("Run unknown not found.");
    expect(await textsInInbox("r1")).toEqual([]);
    expect(await store.ingest({ deliveryId: "d1", events: [] })).toBe(true);
  });

  test("a call that fails does not affect the others of its turn", async () => {
    const outcomes = await Promise.allSettled([
      startRun(),
      store.ingest({ events: [{ runId: "unknown", event: said("hello") }] }),
      receive("hello"),
    ]);

    expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
    expect(await textsInInbox("r1")).toEqual(["hello"]);
  });
}

function deliveryTests(): void {
  test("a delivery is stored once", async () => {
    await startRun();
    const delivery = { deliveryId: "d1", events: [{ runId: "r1", event: said("hello") }] };

    expect(await store.ingest(delivery)).toBe(true);
    expect(await store.ingest(delivery)).toBe(false);
    expect(await textsInInbox("r1")).toEqual(["hello"]);
  });

  test("the effects that a delivery requests are stored once and make their run due", async () => {
    await store.ingest({ run: sampleRun("r1"), events: [] });
    const delivery = { deliveryId: "d1", events: [], effects: [sampleEffect("r1", "k1")] };
    expect(await store.dueRuns(later)).toEqual([]);

    expect(await store.ingest(delivery)).toBe(true);
    expect(await store.ingest(delivery)).toBe(false);

    expect(await store.dueRuns(later)).toEqual(["r1"]);
    expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "k1", attempts: 1 });
    await store.completeEffect({ runId: "r1", key: "k1" });
    expect(await store.claimEffect("r1", "work", 0)).toBeUndefined();
  });

  test("a delivery without events is known afterwards", async () => {
    expect(await store.hasDelivery("d1")).toBe(false);
    await store.ingest({ deliveryId: "d1", events: [] });
    expect(await store.hasDelivery("d1")).toBe(true);
  });

  test("a delivery that arrives twice in the same turn is stored once", async () => {
    await startRun();
    const delivery = { deliveryId: "d1", events: [{ runId: "r1", event: said("hello") }] };

    expect(await Promise.all([store.ingest(delivery), store.ingest(delivery)])).toEqual([true, false]);
    expect(await textsInInbox("r1")).toEqual(["hello"]);
  });
}

function runTests(): void {
  test("an unknown run is undefined", async () => {
    expect(await store.findRun("unknown")).toBeUndefined();
  });

  test("a read sees the writes requested before it in the same turn", async () => {
    const asked = [startRun(), receive("hello")];

    expect(await textsInInbox("r1")).toEqual(["hello"]);
    await Promise.all(asked);
  });

  test("the runs of a thread are its root runs, newest first, and names ignore case", async () => {
    const elsewhere = { ...sampleSpec("r3").origin, thread: 8 };
    await store.ingest({ run: sampleRun("r1"), events: [] });
    await store.ingest({ run: sampleRun("r2"), events: [] });
    await store.ingest({ run: sampleRun("r3", [], { origin: elsewhere }), events: [] });
    await store.ingest({ run: sampleRun("c1", [], { parentId: "r1", rootId: "r1", depth: 1 }), events: [] });

    const rows = await store.runsOfThread({ owner: "Ada", repo: "ENGINE", thread: 7 });
    expect(rows.map(({ id }) => id)).toEqual(["r2", "r1"]);
  });

  test("a run is also found in the thread of the pull request that it opened, in its repository alone", async () => {
    const origin = { ...sampleSpec("r1").origin, repositoryId: 11 };
    await store.ingest({ run: sampleRun("r1", [sampleEffect("r1", "k1")], { origin }), events: [] });
    await store.ingest({ run: sampleRun("r2", [], { origin }), events: [] });
    await store.completeEffect({ runId: "r1", key: "k1", pullRequest: 8 });

    const idsOf = async (thread: number, repositoryId = 11) =>
      (await store.runsOfThread({ ...origin, repositoryId, thread })).map(({ id }) => id);
    expect(await idsOf(8)).toEqual(["r1"]);
    expect(await idsOf(7)).toEqual(["r2", "r1"]);
    expect(await idsOf(8, 12)).toEqual([]);
  });

  test("the children of a run are in the order of their creation", async () => {
    for (const id of ["r1", "c2", "c1"]) {
      await store.ingest({ run: sampleRun(id, [], id === "r1" ? {} : child), events: [] });
    }
    await store.ingest({ run: sampleRun("g1", [], { ...child, parentId: "c1" }), events: [] });

    expect((await store.childrenOf("r1")).map(({ id }) => id)).toEqual(["c2", "c1"]);
    expect(await store.childrenOf("c2")).toEqual([]);
  });

  test("all root runs are listed page by page, newest first", async () => {
    const created = { r1: 1_000, r2: 3_000, r3: 2_000, r4: 2_000 };
    for (const [id, createdAt] of Object.entries(created)) {
      await store.ingest({ run: sampleRun(id, [], { createdAt }), events: [] });
    }
    await store.ingest({ run: sampleRun("c1", [], { ...child, createdAt: 4_000 }), events: [] });

    const ids = async (query: Parameters<Store["latestRuns"]>[0]) =>
      (await store.latestRuns(query)).map(({ id }) => id);
    expect(await ids({ limit: 10 })).toEqual(["r2", "r4", "r3", "r1"]);
    expect(await ids({ limit: 2 })).toEqual(["r2", "r4"]);
    expect(await ids({ limit: 2, before: { id: "r4", createdAt: 2_000 } })).toEqual(["r3", "r1"]);
  });

  test("root runs are counted by person, repository and time", async () => {
    const runs = [
      sampleRun("r1", [], { createdAt: 1_000 }),
      sampleRun("r2", [], { createdAt: 2_000 }),
      sampleRun("r3", [], { createdAt: 2_000, origin: { ...origin, requestedBy: "grace" } }),
      sampleRun("r4", [], { createdAt: 2_000, origin: { ...origin, repo: "loom" } }),
      sampleRun("c1", [], { createdAt: 2_000, parentId: "r2", rootId: "r2" }),
    ];
    for (const run of runs) await store.ingest({ run, events: [] });

    expect(await store.countRuns({ since: 0 })).toBe(4);
    expect(await store.countRuns({ since: 2_000 })).toBe(3);
    expect(await store.countRuns({ requestedBy: "Ada", since: 0 })).toBe(3);
    expect(await store.countRuns({ requestedBy: "ada", since: 1_001 })).toBe(2);
    expect(await store.countRuns({ owner: "ada", repo: "engine", since: 0 })).toBe(3);
    expect(await store.countRuns({ requestedBy: "ada", owner: "ada", repo: "loom", since: 0 })).toBe(1);
    expect(await store.countRuns({ owner: "unknown", since: 0 })).toBe(0);

    const limits = [
      { requestedBy: "ada", since: 0, max: 3 },
      { owner: "ada", repo: "engine", since: 0, max: 4 },
    ];
    const start = (id: string, requestedBy: string) =>
      store.ingest({
        deliveryId: id,
        run: sampleRun(id, [], { origin: { ...origin, requestedBy } }),
        limits,
        events: [],
      });
    await expect(start("r5", "ada")).rejects.toEqual(new RunLimitError({ requestedBy: "ada", since: 0, max: 3 }, 3));
    expect(await start("r6", "grace")).toBe(true);
    await expect(start("r7", "grace")).rejects.toThrow(RunLimitError);
    expect([await store.findRun("r5"), await store.hasDelivery("r5")]).toEqual([undefined, false]);
    expect(await store.ingest({ run: sampleRun("r1"), limits, events: [] })).toBe(true);
  });
}

function costTests(): void {
  test("the costs of a worker are those of its latest ended runs in the repository, newest first", async () => {
    const ended = (id: string, cost: number, createdAt: number) => {
      const { spec, ...run } = sampleRun(id);
      const origin = { ...spec.origin, repositoryId: 11 };
      return {
        ...run,
        spec: { ...spec, origin, createdAt },
        // As JSON.parse() quotes the first half of an emoji.
        snapshot: sampleSnapshot("ended", {
          cost,
          outcome: { kind: "answered" },
          schemaProblem: "\ud83d, \u0000, \\u0000",
        }),
      };
    };
    const runs = [ended("r1", 0.5, 1_000), ended("r2", 0, 2_000), ended("r3", 0.25, 3_000), ended("r4", 2, 500)];
    for (const run of runs) {
      await store.ingest({ run, events: [] });
      await store.advance({ ...sampleStep(run.spec.id), status: "done", snapshot: run.snapshot });
    }
    const worker = runs[0]?.spec.worker.name ?? "";

    expect(await store.costsOfWorker({ repositoryId: 11, worker, limit: 2 })).toEqual([0.25, 0.5]);
    expect(await store.costsOfWorker({ repositoryId: 12, worker, limit: 2 })).toEqual([]);
    expect(await store.costsOfWorker({ repositoryId: 11, worker: "another", limit: 2 })).toEqual([]);
  });
}

function dailyCostTests(): void {
  const usage = (hour: number, changes: Partial<HourlyUsage> = {}) => sampleUsage({ hour, ...changes });
  const hourOf = (time: string) => Date.parse(time) / (60 * 60_000);

  test("daily costs add up the model calls by day, repository and worker, with the repository's current name", async () => {
    for (const id of ["r1", "c1", "r2"]) await store.ingest({ run: sampleRun(id), events: [] });
    const other = { installationId: 2, owner: "Ada", repo: "Loom" };
    const steps: [string, HourlyUsage][] = [
      ["r1", usage(hourOf("2026-11-22T23:00:00Z"))],
      ["r1", usage(hourOf("2026-11-23T00:00:00Z"))],
      ["r1", usage(hourOf("2026-11-23T00:00:00Z"), { cost: 1 })],
      ["c1", usage(hourOf("2026-11-23T01:00:00Z"), { worker: "tester", cost: 0 })],
      ["r2", usage(hourOf("2026-11-23T23:00:00Z"), { rootId: "r2", cost: 2 })],
      ["r2", usage(hourOf("2026-11-23T05:00:00Z"), { rootId: "r2", origin: other, cost: 0.5 })],
      ["r2", usage(hourOf("2026-11-24T00:00:00Z"), { rootId: "r2", cost: 99 })],
    ];
    for (const [runId, usage] of steps) {
      const version = (await requireRun(store, runId)).version;
      await store.advance(sampleStep(runId, { version, usage }));
    }
    await store.saveLocation({ repositoryId: 11, installationId: 7, ownerId: 5, owner: "grace", repo: "mill", at: 1 });

    const costs = await store.dailyCosts({ from: "2026-11-22", to: "2026-11-23" });

    const moved = { repositoryId: 11, installationId: 7, owner: "grace", repo: "mill" };
    const tokens = (calls: number) => ({
      modelCalls: calls,
      inputTokens: 100 * calls,
      outputTokens: 10 * calls,
      cachedInputTokens: 50 * calls,
    });
    expect(costs).toEqual([
      { day: "2026-11-23", repository: moved, worker: "fixer", runs: 2, ...tokens(3), cost: 3.25 },
      { day: "2026-11-23", repository: other, worker: "fixer", runs: 1, ...tokens(1), cost: 0.5 },
      { day: "2026-11-23", repository: moved, worker: "tester", runs: 1, ...tokens(1), cost: 0 },
      { day: "2026-11-22", repository: moved, worker: "fixer", runs: 1, ...tokens(1), cost: 0.25 },
    ]);
    const since = Date.parse("2026-11-23T01:59:59Z");
    expect(await store.costSince({ since })).toBeCloseTo(101.5);
    expect(await store.costSince({ repositoryId: 11, since: since - 60 * 60_000 })).toBeCloseTo(102.25);
    expect(await store.costSince({ repositoryId: 12, since: 0 })).toBe(0);
  });

  test("daily costs include no call of a step that was not stored", async () => {
    await startRun();

    await store.advance(sampleStep("r1", { version: 7, usage: usage(0) }));

    expect(await store.dailyCosts({ from: "1970-01-01", to: "1970-01-01" })).toEqual([]);
  });
}

function backlogTests(): void {
  test("the backlog counts runs by state, effects by queue, deliveries and pending approvals", async () => {
    const before = Date.now();
    await store.ingest({ run: sampleRun("working"), events: [] });
    for (const [id, status, value] of [
      ["asking", "waiting", { handlingCalls: "awaitingApproval" }],
      ["idle", "waiting", "idle"],
      ["ended", "done", "ended"],
    ] as const) {
      await store.ingest({ run: sampleRun(id), events: [] });
      await store.advance({ ...sampleStep(id), status, snapshot: sampleSnapshot(value) });
    }
    const effects = [
      sampleEffect("working", "performing"),
      sampleEffect("working", "waiting"),
      sampleEffect("working", "later", { queue: "status", dueAt: 1e15 }),
    ];
    await store.ingest({ events: [], effects });
    await store.claimEffect("working", "work", Date.now());
    await store.saveDelivery({ key: "d1", queue: "thread 7", content: {} });
    await store.ingest({ events: [], effects: [sampleEffect("asking", "ask")] });
    await store.completeEffect({ runId: "asking", key: "ask", approvals: [sampleApproval("asking", "a1")] });

    const backlog = await store.readBacklog(Date.now());

    expect(backlog.runs.toSorted((a, b) => a.state.localeCompare(b.state))).toEqual([
      { state: "awaitingApproval", count: 1 },
      { state: "idle", count: 1 },
      { state: "working", count: 1 },
    ]);
    expect(backlog.effects.toSorted((a, b) => a.queue.localeCompare(b.queue))).toEqual([
      { queue: "status", waiting: 0, performing: 0, postponed: 1 },
      { queue: "work", waiting: 1, performing: 1, postponed: 0, oldestWaitingAt: expect.any(Number) },
    ]);
    expect(backlog.effects.find(({ queue }) => queue === "work")?.oldestWaitingAt).toBeGreaterThanOrEqual(before);
    expect(backlog.deliveries).toEqual({ waiting: 1, oldestAt: expect.any(Number) });
    expect(backlog.pendingApprovals).toBe(1);
  });

  test("the backlog of a new store is empty", async () => {
    expect(await store.readBacklog(Date.now())).toEqual({
      runs: [],
      effects: [],
      deliveries: { waiting: 0 },
      pendingApprovals: 0,
    });
  });
}

function logTests(): void {
  test("events keep their order across runs, and the log can be read from any event on", async () => {
    await startRun();
    await store.ingest({ run: sampleRun("r2"), events: [] });
    await receive("one");
    await store.ingest({ events: [{ runId: "r2", event: said("for another run") }] });
    await receive("two", "three");

    const log = await store.log("r1");
    expect(log.map(({ event }) => event)).toEqual([said("one"), said("two"), said("three")]);
    expect(log.map(({ id }) => id)).toEqual(log.map(({ id }) => id).sort((a, b) => a - b));
    expect(log.every(({ runId, at }) => runId === "r1" && at > 0)).toBe(true);
    expect(await store.log("r1", log[0]?.id)).toEqual(log.slice(1));
    expect(await store.log("r1", log[0]?.id, 1)).toEqual(log.slice(1, 2));
    expect(await store.log("unknown")).toEqual([]);
  });

  test("the commands of a run are those of its events that stop, resume or end it, consumed or not", async () => {
    await startRun();
    const stop: RunEvent = { type: "run.stop", by: "ada \u0000", reason: "Closed." };
    const cancel: RunEvent = { type: "run.cancel", by: "ada" };
    const lookalike: RunEvent = {
      ...{ type: "model.answered", text: "", calls: [], finishReason: "stop", lastSeenId: 0 },
      messages: [{ type: "run.cancel" }],
      usage: { inputTokens: 1, outputTokens: 1 },
    };
    await store.ingest({
      events: [stop, said('"type":"run.stop"'), lookalike, cancel].map((event) => ({ runId: "r1", event })),
    });
    const [{ id = 0 } = {}] = await store.inbox("r1");
    await store.advance(sampleStep("r1", { consumed: [id] }));

    const { events, unreadable } = await store.commandsOf("r1");

    expect(events.map(({ event }) => event)).toEqual([stop, cancel]);
    expect(unreadable).toBeUndefined();
    expect(await store.commandsOf("unknown")).toEqual({ events: [], unreadable: undefined });
  });

  test("events with any text are returned unchanged", async () => {
    await startRun();
    const odd = `"quotes" \u0000 \ud83d\ude00 \u2028 ${"long ".repeat(5_000)}`;

    await receive(odd);
    expect(await textsInInbox("r1")).toEqual([odd]);
  });
}

function advanceTests(): void {
  test("consumed events leave the inbox and stay in the log", async () => {
    await startRun();
    await receive("one", "two", "three");
    const [one, two, three] = await store.inbox("r1");
    const ids = [one, three].map((event) => event?.id ?? 0);

    expect(await store.advance(sampleStep("r1", { consumed: ids, seen: three?.id ?? 0 }))).toBe(true);
    expect(await store.inbox("r1")).toEqual([two]);
    expect(await store.log("r1")).toHaveLength(3);
    expect(await store.findRun("r1")).toMatchObject({ version: 1, snapshot: { value: "callingModel" } });
  });

  test("an advance from another version stores nothing", async () => {
    await startRun();
    await receive("one");
    const [one] = await store.inbox("r1");
    await store.advance(sampleStep("r1"));

    const stale = sampleStep("r1", {
      consumed: [one?.id ?? 0],
      snapshot: sampleSnapshot("idle"),
      effects: [sampleEffect("r1", "k2")],
      cancelEffects: { kinds: ["model.call"] },
      timers: { set: [{ timer: "retry", dueAt: 1 }] },
    });
    expect(await store.advance(stale)).toBe(false);
    expect(await textsInInbox("r1")).toEqual(["one"]);
    expect(await store.findRun("r1")).toMatchObject({ version: 1, snapshot: { value: "callingModel" } });
    expect(await store.fireTimers(later)).toEqual([]);
    expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "k1" });
    expect(await store.completeEffect({ runId: "r1", key: "k2" })).toBe(false);
  });

  test("the first of two advances from the same version is stored, in the same turn as well", async () => {
    await startRun();

    const states = ["reviewing", "idle"] as const;
    const steps = states.map((state) => store.advance(sampleStep("r1", { snapshot: sampleSnapshot(state) })));
    expect(await Promise.all(steps)).toEqual([true, false]);
    expect(await store.findRun("r1")).toMatchObject({ snapshot: { value: "reviewing" } });
  });

  test("an event is consumed only once", async () => {
    await startRun();
    await receive("one");
    const consumed = (await store.inbox("r1")).map(({ id }) => id);
    await store.advance(sampleStep("r1", { consumed }));

    expect(await store.advance(sampleStep("r1", { version: 1, consumed }))).toBe(false);
    expect(await store.findRun("r1")).toMatchObject({ version: 1 });
  });

  test("an advance of an unknown run is rejected", async () => {
    await expect(store.advance(sampleStep("unknown"))).rejects.toThrow("Run unknown not found.");
  });

  test("an effect whose key is known is not changed", async () => {
    await startRun();
    await store.advance(
      sampleStep("r1", { effects: [sampleEffect("r1", "k1", { request: { kind: "outcome.report" } })] }),
    );

    expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "k1", request: { kind: "model.call" } });
    await store.completeEffect({ runId: "r1", key: "k1" });
    expect(await store.claimEffect("r1", "work", 0)).toBeUndefined();
  });

  test("an effect that was requested again while it was performed is repeated", async () => {
    await startRun();
    expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "k1", attempts: 1 });
    await store.advance(sampleStep("r1", { effects: [sampleEffect("r1", "k1")] }));

    expect(await store.completeEffect({ runId: "r1", key: "k1" })).toBe(true);
    expect(await store.dueRuns(0)).toContain("r1");
    expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "k1", attempts: 1 });
    await store.completeEffect({ runId: "r1", key: "k1" });
    expect(await store.claimEffect("r1", "work", 0)).toBeUndefined();
  });

  test("effects of the cancelled kinds are removed, claimed or not, for this run only", async () => {
    await startRun();
    await store.ingest({ run: sampleRun("r2", [sampleEffect("r2", "other")]), events: [] });
    await store.claimEffect("r1", "work", 0);
    const effects = [
      sampleEffect("r1", "k2"),
      sampleEffect("r1", "k3", { request: { kind: "tool.execute", callId: "call-1" } }),
      sampleEffect("r1", "k4"),
    ];
    await store.advance(sampleStep("r1", { effects }));

    const wanted = sampleEffect("r1", "k5");
    const step = { version: 1, cancelEffects: { kinds: ["model.call", "unknown"] }, effects: [wanted] };
    await store.advance(sampleStep("r1", step));

    expect(await store.completeEffect({ runId: "r1", key: "k1", events: [{ runId: "r1", event: said("late") }] })).toBe(
      false,
    );
    expect(await textsInInbox("r1")).toEqual([]);
    expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "k3" });
    await store.completeEffect({ runId: "r1", key: "k3" });
    expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "k5" });
    expect(await store.claimEffect("r2", "work", 0)).toMatchObject({ key: "other" });
  });

  test("the run's pending approvals are withdrawn, and no decided ones", async () => {
    await startRun();
    await store.ingest({ run: sampleRun("r2", [sampleEffect("r2", "k2")]), events: [] });
    await store.completeEffect({
      runId: "r1",
      key: "k1",
      approvals: [sampleApproval("r1", "a1"), sampleApproval("r1", "a2")],
    });
    await store.completeEffect({ runId: "r2", key: "k2", approvals: [sampleApproval("r2", "b1")] });
    await store.decideApproval({ approvalId: "a2", decision: "approved", by: "ada", now: 2_000 });

    await store.advance(sampleStep("r1", { withdrawApprovals: true }));

    expect((await store.approvalsOf("r1")).map(({ status }) => status)).toEqual(["withdrawn", "approved"]);
    expect(await store.findApproval("b1")).toMatchObject({ status: "pending" });
    expect(await store.decideApproval({ approvalId: "a1", decision: "approved", by: "ada", now: 2_000 })).toMatchObject(
      {
        kind: "settled",
        approval: { status: "withdrawn" },
      },
    );
  });
}

function effectTests(): void {
  const queue = (...effects: Parameters<typeof sampleEffect>[]) =>
    store.ingest({
      run: sampleRun(
        "r1",
        effects.map((effect) => sampleEffect(...effect)),
      ),
      events: [],
    });

  test("effects are claimed one at a time in each queue, the oldest first", async () => {
    await queue(["r1", "w1"], ["r1", "t1", { queue: "thread" }], ["r1", "w2"], ["r1", "t2", { queue: "thread" }]);

    expect(await store.claimEffect("r1", "work", 0)).toEqual({
      key: "w1",
      runId: "r1",
      queue: "work",
      request: { kind: "model.call" },
      dueAt: 0,
      attempts: 1,
    });
    expect(await store.claimEffect("r1", "thread", 0)).toMatchObject({ key: "t1", queue: "thread" });
    await store.completeEffect({ runId: "r1", key: "w1" });
    expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "w2", attempts: 1 });
    expect(await store.claimEffect("r1", "thread", 0)).toMatchObject({ key: "t1" });
    expect(await store.claimEffect("unknown", "work", 0)).toBeUndefined();
  });

  test("an effect that was claimed and not completed is returned again with another attempt", async () => {
    await queue(["r1", "w1"], ["r1", "w2"]);
    await store.claimEffect("r1", "work", 0);

    expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "w1", attempts: 2 });
  });

  test("an effect that is not due yet blocks its own queue only", async () => {
    await queue(["r1", "w1", { dueAt: 500 }], ["r1", "w2"], ["r1", "t1", { queue: "thread" }]);

    expect(await store.claimEffect("r1", "work", 499)).toBeUndefined();
    expect(await store.claimEffect("r1", "thread", 499)).toMatchObject({ key: "t1" });
    expect(await store.claimEffect("r1", "work", 500)).toMatchObject({ key: "w1", dueAt: 500 });
  });

  test("a postponed effect stays first in its queue and keeps its attempts", async () => {
    await queue(["r1", "w1"], ["r1", "w2"]);
    await store.claimEffect("r1", "work", 0);
    await store.postponeEffect({ runId: "r1", key: "w1" }, 900.5);
    await store.postponeEffect({ runId: "r1", key: "nothing" }, 900);

    expect(await store.claimEffect("r1", "work", 900)).toBeUndefined();
    expect(await store.claimEffect("r1", "work", 901)).toMatchObject({ key: "w1", attempts: 2, dueAt: 900.5 });
  });

  test("an attempt that was postponed before it did anything does not count", async () => {
    await queue(["r1", "w1"]);
    await store.claimEffect("r1", "work", 0);
    await store.postponeEffect({ runId: "r1", key: "w1" }, 900, { isUncounted: true });

    expect(await store.claimEffect("r1", "work", 900)).toMatchObject({ key: "w1", attempts: 1 });
  });

  test("a queue has the problem of its postponed effect until that effect is claimed again", async () => {
    await queue(["r1", "w1"], ["r1", "w2"]);
    const problem = { kind: "postponed" as const, reason: "GitHub did not answer." };
    expect(await store.effectProblem("r1")).toBeUndefined();

    await store.claimEffect("r1", "work", 0);
    await store.postponeEffect({ runId: "r1", key: "w1" }, 900, { problem });
    expect(await store.effectProblem("r1")).toEqual(problem);
    expect(await store.effectProblem("r2")).toBeUndefined();

    await store.claimEffect("r1", "work", 900);
    expect(await store.effectProblem("r1")).toBeUndefined();
  });

  test("an effect keeps the problem that was set while it was due until it is claimed", async () => {
    await queue(["r1", "w1"], ["r1", "w2"]);
    const problem = { kind: "postponed" as const, reason: "Two runs are ahead." };

    await store.setEffectProblem("r1", problem, 0);
    expect(await store.effectProblem("r1")).toEqual(problem);
    expect(await store.effectProblem("r2")).toBeUndefined();
    expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "w1", attempts: 1 });
    expect(await store.effectProblem("r1")).toBeUndefined();
    await store.postponeEffect({ runId: "r1", key: "w1" }, 900);
    await store.setEffectProblem("r1", problem, 899);
    expect(await store.effectProblem("r1")).toBeUndefined();
  });
}

function completeStepTests(): void {
  const next = (advance: NextStep["advance"]): NextStep => ({
    rootId: "r1",
    queue: "work",
    now: 0,
    advance,
  });

  test("a step stores its result, advances the run over its inbox and claims the next effect", async () => {
    await startRun();
    await store.claimEffect("r1", "work", 0);

    const inboxes: number[] = [];
    const result = await store.completeStep(
      { runId: "r1", key: "k1", events: [{ runId: "r1", event: said("done") }] },
      next((run, inbox) => {
        inboxes.push(inbox.length);
        const consumed = inbox.map(({ id }) => id);
        const effects = [sampleEffect("r1", "k2")];
        return sampleStep("r1", { version: readable(run).version, consumed, seen: consumed.at(-1) ?? 0, effects });
      }),
    );

    expect(result).toMatchObject({ advanced: true, claimed: { key: "k2", attempts: 1 } });
    expect(inboxes.at(-1)).toBe((await store.log("r1")).length);
    expect(await store.inbox("r1")).toEqual([]);
    expect(await store.findRun("r1")).toMatchObject({ version: 1 });
    expect(await store.completeEffect({ runId: "r1", key: "k1" })).toBe(false);
  });

  test("the status and the state of a run follow its steps, whether they change or not", async () => {
    await startRun();
    const steps = [
      { status: "active", snapshot: sampleSnapshot("callingModel") },
      { status: "waiting", snapshot: sampleSnapshot("idle") },
      { status: "waiting", snapshot: sampleSnapshot("interrupted") },
      { status: "active", snapshot: sampleSnapshot("callingModel") },
    ] as const;
    const seen: unknown[] = [];

    for (const [index, step] of steps.entries()) {
      await store.completeStep(
        { runId: "r1", key: `k${index + 1}`, events: [{ runId: "r1", event: said("done") }] },
        next((run, inbox) => {
          const consumed = inbox.map(({ id }) => id);
          const effects = [sampleEffect("r1", `k${index + 2}`)];
          return sampleStep("r1", { version: readable(run).version, consumed, effects, ...step });
        }),
      );
      const run = await store.findRun("r1");
      seen.push([run?.status, (await store.readBacklog(0)).runs]);
    }

    expect(seen).toEqual([
      ["active", [{ state: "working", count: 1 }]],
      ["waiting", [{ state: "idle", count: 1 }]],
      ["waiting", [{ state: "interrupted", count: 1 }]],
      ["active", [{ state: "working", count: 1 }]],
    ]);
  });

  test("a step claims the next effect when there is nothing to advance", async () => {
    await startRun();
    await store.ingest({ events: [], effects: [sampleEffect("r1", "k2")] });
    await store.claimEffect("r1", "work", 0);

    const result = await store.completeStep(
      { runId: "r1", key: "k1" },
      next(() => undefined),
    );

    expect(result).toMatchObject({ advanced: false, claimed: { key: "k2" } });
  });

  test("a step that is cancelled or fails does not affect simultaneous steps of other runs", async () => {
    const runIds = Array.from({ length: 12 }, (_, index) => `m${index}`);
    const [cancelled, failing, ...others] = runIds;
    await Promise.all(
      runIds.map((id) => store.ingest({ run: sampleRun(id, [sampleEffect(id, `${id}/0`)]), events: [] })),
    );
    await Promise.all(runIds.map((id) => store.claimEffect(id, "work", 0)));
    await store.completeEffect({ runId: cancelled ?? "", key: `${cancelled}/0` });

    const results = await Promise.allSettled(
      runIds.map((runId) =>
        store.completeStep(
          { runId, key: `${runId}/0`, events: [{ runId, event: said(runId) }], posts: [{ name: runId, commentId: 1 }] },
          {
            ...next((run, inbox) => {
              if (runId === failing) throw new Error("It fails.");
              const consumed = inbox.map(({ id }) => id);
              const effects = [sampleEffect(runId, `${runId}/1`), sampleEffect(runId, `${runId}/2`)];
              return sampleStep(runId, { version: readable(run).version, consumed, effects, usage: sampleUsage() });
            }),
            rootId: runId,
          },
        ),
      ),
    );

    expect(results.slice(0, 2)).toMatchObject([
      { status: "fulfilled", value: undefined },
      { status: "rejected", reason: { message: "It fails." } },
    ]);
    expect(results.slice(2)).toMatchObject(
      others.map((id) => ({ value: { advanced: true, claimed: { key: `${id}/1`, runId: id } } })),
    );
    for (const id of others) {
      expect(await store.inbox(id)).toEqual([]);
      expect((await store.log(id)).map(({ event }) => event)).toEqual([said(id)]);
      expect(await store.findPost(id)).toMatchObject({ commentId: 1 });
    }
    expect(await store.log(cancelled ?? "")).toEqual([]);
  });

  test("a cancelled effect stores nothing", async () => {
    await startRun();
    const advance = vi.fn();

    const completion = { runId: "r1", key: "gone", events: [{ runId: "r1", event: said("late") }] };
    const before = await store.log("r1");

    expect(await store.completeStep(completion, next(advance))).toBeUndefined();
    expect(advance).not.toHaveBeenCalled();
    expect(await store.log("r1")).toEqual(before);
    expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "k1", attempts: 1 });
  });
}

function completeEffectTests(): void {
  test("an effect of another run is neither completed nor postponed", async () => {
    await startRun();
    await store.ingest({ run: sampleRun("r2", []), events: [] });
    await store.claimEffect("r1", "work", 0);

    expect(await store.completeEffect({ runId: "r2", key: "k1", pullRequest: 8 })).toBe(false);
    await store.postponeEffect({ runId: "r2", key: "k1" }, Number.MAX_SAFE_INTEGER);

    expect(await store.dueRuns(0)).toContain("r1");
    expect(await store.runsOfThread({ ...sampleSpec("r2").origin, thread: 8 })).toEqual([]);
  });

  test("every part of an effect's result is stored", async () => {
    await startRun();
    await store.ingest({ run: sampleRun("p1", [], {}), events: [] });
    await store.claimEffect("r1", "work", 0);

    const finished = await store.completeEffect({
      runId: "r1",
      key: "k1",
      events: [
        { runId: "r1", event: said("done"), dedupe: "k1 result" },
        { runId: "c1", event: said("task") },
      ],
      changes: { step: "call-1", changes: [{ path: "a.txt", content: bytes("a"), mode: "100644" }] },
      approvals: [sampleApproval("r1", "a1")],
      posts: [{ name: "status", commentId: 42 }],
      effects: [sampleEffect("r1", "k2")],
      run: sampleRun("c1", [sampleEffect("c1", "c1-k1")], { parentId: "r1", rootId: "r1", depth: 1 }),
      parentChanges: {
        runId: "p1",
        changes: { step: "call-9", changes: [{ path: "b.txt", content: undefined, mode: "100644" }] },
      },
    });

    expect(finished).toBe(true);
    expect(await textsInInbox("r1")).toEqual(["done"]);
    expect(await textsInInbox("c1")).toEqual(["task"]);
    expect(await store.changesOf("r1")).toHaveLength(1);
    expect(await store.changesOf("p1")).toMatchObject([{ step: "call-9" }]);
    expect(await store.findApproval("a1")).toEqual(sampleApproval("r1", "a1"));
    expect(await store.findPost("status")).toMatchObject({ commentId: 42 });
    expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "k2" });
    expect(await store.claimEffect("c1", "work", 0)).toMatchObject({ key: "c1-k1" });
    expect((await store.childrenOf("r1")).map(({ id }) => id)).toEqual(["c1"]);
  });

  test("the result of an effect is stored once", async () => {
    await startRun();
    const finished = { runId: "r1", key: "k1", events: [{ runId: "r1", event: said("done") }] };

    expect(await Promise.all([store.completeEffect(finished), store.completeEffect(finished)])).toEqual([true, false]);
    expect(await textsInInbox("r1")).toEqual(["done"]);
  });

  test("nothing is stored when one part of the result cannot be stored", async () => {
    await startRunWithApproval();
    await store.ingest({ run: sampleRun("r2", [sampleEffect("r2", "k2")]), events: [] });

    const taken = {
      runId: "r2",
      key: "k2",
      events: [{ runId: "r2", event: said("done") }],
      posts: [{ name: "p", commentId: 1 }],
    };
    await expect(store.completeEffect({ ...taken, approvals: [sampleApproval("r2", "a1")] })).rejects.toThrow();
    expect(await textsInInbox("r2")).toEqual([]);
    expect(await store.findPost("p")).toBeUndefined();
    expect(await store.completeEffect(taken)).toBe(true);
  });

  test("changes that were merged with fewer than their run has are not stored", async () => {
    await startRun();
    const children = ["c1", "c2"].map((id) => sampleRun(id, [sampleEffect(id, `${id}/report`)], { rootId: "r1" }));
    for (const run of children) await store.ingest({ run, events: [] });
    const report = (id: string, mergedWith: number) => {
      const changes = { step: id, changes: [{ path: "a.txt", content: bytes(id), mode: "100644" as const }] };
      const events = [{ runId: "r1", event: said(id) }];
      return store.completeEffect({
        runId: id,
        key: `${id}/report`,
        events,
        parentChanges: { runId: "r1", changes, mergedWith },
      });
    };

    const reports = await Promise.allSettled([report("c1", 0), report("c2", 0)]);

    expect(reports).toEqual([
      { status: "fulfilled", value: true },
      { status: "rejected", reason: expect.any(OutdatedMergeError) },
    ]);
    expect(await textsInInbox("r1")).toEqual(["c1"]);
    expect(await report("c2", 1)).toBe(true);
    await store.ingest({ events: [], effects: [sampleEffect("r1", "own")] });
    const own = (mergedWith: number) =>
      store.completeStep(
        { runId: "r1", key: "own", changes: { step: "own", changes: [] }, mergedWith },
        { rootId: "r1", queue: "work", now: 1_000, advance: () => undefined },
      );
    await expect(own(1)).rejects.toThrow(OutdatedMergeError);
    expect(await own(2)).toBeDefined();
    expect(await store.changesOf("r1")).toMatchObject([{ step: "c1" }, { step: "c2" }, { step: "own" }]);
  });

  test("an existing child run is not changed", async () => {
    await startRun();
    await store.ingest({ run: sampleRun("c1"), events: [] });
    await store.advance(sampleStep("c1"));

    await store.completeEffect({ runId: "r1", key: "k1", run: sampleRun("c1", [sampleEffect("c1", "again")]) });
    expect(await store.findRun("c1")).toMatchObject({ version: 1 });
    expect(await store.completeEffect({ runId: "r1", key: "again" })).toBe(false);
  });

  test("a post replaces one of the same name", async () => {
    const effects = ["k1", "k2", "k3"].map((key) => sampleEffect("r1", key));
    await store.ingest({ run: sampleRun("r1", effects), events: [] });

    await store.completeEffect({ runId: "r1", key: "k1", posts: [{ name: "status", commentId: 1 }] });
    const shown = { comments: [{ id: 2 ** 40, digest: "d", updatedAt: 1.5 }], revision: 1 };
    const post = { commentId: 2 ** 40, shown };
    await store.completeEffect({
      runId: "r1",
      key: "k2",
      posts: ["status", "also"].map((name) => ({ name, ...post })),
    });
    expect(await store.findPost("status")).toEqual({ ...post, updatedAt: expect.any(Number) });
    expect(await store.findPost("also")).toMatchObject(post);

    await store.completeEffect({ runId: "r1", key: "k3", posts: [{ name: "status", commentId: 3 }] });
    expect(await store.findPost("status")).toEqual({ commentId: 3, updatedAt: expect.any(Number) });
  });

  test("the question of a call with a very long id is stored, since some model servers put data into it", async () => {
    await store.ingest({ run: sampleRun("r1", [sampleEffect("r1", "k1")]), events: [] });
    const name = questionName("r1", 1, `call_1__thought__${randomBytes(6_000).toString("base64")}`);

    await store.completeEffect({ runId: "r1", key: "k1", posts: [{ name, commentId: 1 }] });

    expect(await store.findPost(name)).toMatchObject({ commentId: 1 });
  });
}

function changeTests(): void {
  test("changes are returned in order, byte for byte", async () => {
    const keys = ["k1", "k2", "k3"];
    await store.ingest({
      run: sampleRun(
        "r1",
        keys.map((key) => sampleEffect("r1", key)),
      ),
      events: [],
    });
    const sets = [
      {
        step: "call-1",
        changes: [
          { path: "z.bin", content: new Uint8Array([0, 255, 10]), mode: "100755" as const },
          { path: "empty.txt", content: new Uint8Array(0), mode: "100644" as const },
          { path: "same.bin", content: new Uint8Array([0, 255, 10]), mode: "scratch" as const },
        ],
      },
      { step: "call-2", changes: [{ path: "z.bin", content: undefined, mode: "100644" as const }] },
      { step: "call-2", changes: [] },
    ];

    for (const [index, changes] of sets.entries())
      await store.completeEffect({ runId: "r1", key: keys[index] ?? "", changes });

    expect(await store.changesOf("r1")).toEqual(sets);
    expect(await store.changesOf("r1", 1)).toEqual(sets.slice(0, 1));
    expect(await store.changesOf("r1", 0)).toEqual([]);
    expect(await store.findRun("r1")).toMatchObject({ changeSets: 3 });
  });

  test("a large content is returned byte for byte", async () => {
    const content = randomBytes(1_000_001);
    await store.ingest({ run: sampleRun("r1", [sampleEffect("r1", "k1")]), events: [] });
    const changes = ["a.bin", "b.bin"].map((path) => ({ path, content, mode: "100644" as const }));

    await store.completeEffect({ runId: "r1", key: "k1", changes: { step: "call-1", changes } });

    const [stored] = await store.changesOf("r1");
    expect(stored?.changes.map((change) => change.content && content.equals(change.content))).toEqual([true, true]);
  });
}

/** Returns the verified entries of the ledger. */
async function ledger(): Promise<LedgerEntry[]> {
  const entries: LedgerEntry[] = [];
  let head = emptyLedger;
  for (const stored of await store.readLedger(0, 100_000)) {
    const entry = verifyEntry(head, stored);
    if (typeof entry === "string") throw new Error(entry);
    entries.push(entry);
    head = stored;
  }
  return entries.slice(earlierEntries);
}

function decideTests(): void {
  const approve = { approvalId: "a1", decision: "approved" as const, by: "ada", now: 2_000 };

  test("a decision is stored with its author, time and reason, and its event is appended to the run", async () => {
    await startRunWithApproval({ preview: textPreview("hello") });

    const result = await store.decideApproval({ ...approve, note: "go on", remember: "session" });
    const approval = {
      ...sampleApproval("r1", "a1", { preview: textPreview("hello") }),
      status: "approved",
      answers: [{ by: "ada", at: 2_000, note: "go on" }],
      decidedBy: "ada",
      decidedAt: 2_000,
      note: "go on",
      remember: "session",
    };
    expect(result).toEqual({ kind: "decided", approval });
    expect(await store.findApproval("a1")).toEqual(approval);
    expect((await store.inbox("r1")).map(({ event }) => event)).toEqual([
      { type: "approval.granted", approvalId: "a1", callId: "call-a1", by: "ada" },
    ]);
  });

  test("the reason of a denial is appended", async () => {
    await startRunWithApproval();

    await store.decideApproval({ ...approve, decision: "denied", note: "not on a Friday" });
    expect((await store.inbox("r1")).map(({ event }) => event)).toEqual([
      { type: "approval.denied", approvalId: "a1", callId: "call-a1", by: "ada", reason: "not on a Friday" },
    ]);
  });

  test("changed arguments are stored with their own digest, and appended", async () => {
    await startRunWithApproval();

    await store.decideApproval({ ...approve, changed: { args: { path: "docs.md" }, digest: "e".repeat(64) } });
    expect(await store.findApproval("a1")).toMatchObject({
      args: { path: "README.md" },
      changedArgs: { path: "docs.md" },
      digest: "e".repeat(64),
    });
    expect((await store.inbox("r1"))[0]?.event).toMatchObject({ args: { path: "docs.md" } });
  });

  test("only the first decision is accepted, in the same turn as well", async () => {
    await startRunWithApproval();

    const [first, second] = await Promise.all([
      store.decideApproval(approve),
      store.decideApproval({ ...approve, decision: "denied", by: "grace" }),
    ]);
    expect(first).toMatchObject({ kind: "decided", approval: { status: "approved", decidedBy: "ada" } });
    expect(second).toMatchObject({ kind: "settled", approval: { status: "approved", decidedBy: "ada" } });
    expect(await store.inbox("r1")).toHaveLength(1);
  });

  test("a late decision is refused, and the approval expires by its timer, since this process's clock may be ahead", async () => {
    await startRunWithApproval({ expiresAt: 2_000 });

    expect(await store.decideApproval(approve)).toMatchObject({ kind: "settled", approval: { status: "expired" } });
    expect(await store.inbox("r1")).toEqual([]);
    expect(await store.decideApproval({ ...approve, now: 1_999 })).toMatchObject({ kind: "decided" });
  });

  test("a decision about an unknown approval returns that there is none", async () => {
    expect(await store.decideApproval({ ...approve, deliveryId: "d1" })).toEqual({ kind: "unknown" });
  });

  test("a repeated delivery returns the first result, even if the run has changed since", async () => {
    await startRun();
    await store.completeEffect({
      runId: "r1",
      key: "k1",
      approvals: [sampleApproval("r1", "a1")],
      effects: [sampleEffect("r1", "k2")],
    });

    const first = await store.decideApproval({ ...approve, deliveryId: "d1", completes: "d2" });
    expect(await store.hasDelivery("d2")).toBe(true);
    await store.decideApproval({ ...approve, completes: "d3" });
    expect(await store.hasDelivery("d3")).toBe(false);
    await store.beginExecution({ approvalId: "a1", callId: "call-a1", runId: "r1", effectKey: "k2", now: 2_000 });
    const again = await store.decideApproval({ ...approve, now: 9_000, deliveryId: "d1" });

    expect(first.kind).toBe("decided");
    expect(again).toEqual(first);
    expect(await store.inbox("r1")).toHaveLength(1);
  });

  test("one delivery may decide several approvals, and may be stored as well", async () => {
    await startRun();
    await store.completeEffect({
      runId: "r1",
      key: "k1",
      approvals: [sampleApproval("r1", "a1"), sampleApproval("r1", "a2")],
    });
    await store.ingest({ deliveryId: "d1", events: [] });

    const results = ["a1", "a2"].map((approvalId) =>
      store.decideApproval({ ...approve, approvalId, deliveryId: "d1" }),
    );
    expect((await Promise.all(results)).map(({ kind }) => kind)).toEqual(["decided", "decided"]);
  });

  test("answers are recorded until the last one decides", async () => {
    await startRunWithApproval();
    const quorums = [{ who: "Anyone with write access", required: 2, by: ["ada"] }];

    const first = await store.decideApproval({ ...approve, byId: 5, isPartial: true, revision: 0, quorums });
    const second = await store.decideApproval({ ...approve, by: "mia", byId: 6, revision: 1 });

    expect(first).toMatchObject({ kind: "recorded", approval: { status: "pending", revision: 1, quorums } });
    expect(second).toMatchObject({
      kind: "decided",
      approval: {
        status: "approved",
        answers: [
          { by: "ada", byId: 5 },
          { by: "mia", byId: 6 },
        ],
      },
    });
    expect(await store.inbox("r1")).toHaveLength(1);
  });

  test("an answer that was computed from an older state changes nothing, and is not the result of its delivery", async () => {
    await startRunWithApproval();
    await store.decideApproval({ ...approve, isPartial: true, revision: 0 });

    const late = { ...approve, by: "mia", revision: 0, deliveryId: "d1" };
    expect(await store.decideApproval(late)).toMatchObject({ kind: "changed", approval: { revision: 1 } });
    expect(await store.decideApproval({ ...late, revision: 1 })).toMatchObject({ kind: "decided" });
  });

  test("an answer adds its effects", async () => {
    await startRunWithApproval();

    await store.decideApproval({ ...approve, isPartial: true, effects: [sampleEffect("r1", "show")] });

    expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "show" });
  });

  describe("revocation", () => {
    const revoke = { approvalId: "a1", by: "mia", byId: 6, now: 3_000 };
    const execution = { approvalId: "a1", callId: "call-a1", runId: "r1", effectKey: "k9", now: 3_000 };

    test("an approval can be revoked until its call begins, and not after", async () => {
      await startRunWithApproval();
      await store.decideApproval(approve);

      expect(await store.revokeApproval({ ...revoke, note: "wait" })).toMatchObject({
        kind: "revoked",
        approval: { status: "revoked", revoked: { by: "mia", byId: 6, at: 3_000, note: "wait" } },
      });
      expect(await store.beginExecution(execution)).toBeUndefined();
    });

    test("nothing can be revoked once the call has begun, which may begin again after a crash", async () => {
      await startRunWithApproval();
      await store.decideApproval(approve);
      expect(await store.beginExecution(execution)).toMatchObject({ status: "used" });

      expect(await store.revokeApproval(revoke)).toMatchObject({ kind: "settled", approval: { status: "used" } });
      expect(await store.beginExecution(execution)).toMatchObject({ status: "used" });
      expect(await store.beginExecution({ ...execution, effectKey: "k10" })).toBeUndefined();
    });

    test("one person's answer to a pending request can be revoked", async () => {
      await startRunWithApproval();
      await store.decideApproval({ ...approve, by: "Mia", byId: 6, isPartial: true });
      await store.decideApproval({ ...approve, by: "mia", byId: 7, isPartial: true });

      expect(await store.revokeApproval(revoke)).toMatchObject({
        kind: "revoked",
        approval: { status: "pending", revision: 3, answers: [{ byId: 7 }] },
      });
      expect(await store.revokeApproval(revoke)).toMatchObject({ kind: "settled", approval: { status: "pending" } });
    });

    test("an approval for the session can be revoked after its call", async () => {
      await startRunWithApproval();
      await store.decideApproval({ ...approve, remember: "session" });
      await store.beginExecution(execution);
      const other = { ...execution, callId: "call-2", effectKey: "k10", now: 3_500 };
      expect(await store.beginExecution(other)).toMatchObject({ begun: ["k9", "k10"] });

      await store.revokeApproval(revoke);

      expect(await store.beginExecution({ ...other, effectKey: "k11" })).toBeUndefined();
      expect(await store.findApproval("a1")).toMatchObject({ status: "used", remember: "none" });
    });

    test("a repeated delivery revokes once", async () => {
      await startRunWithApproval();
      await store.decideApproval(approve);

      const first = await store.revokeApproval({ ...revoke, deliveryId: "d1" });
      expect(await store.revokeApproval({ ...revoke, deliveryId: "d1" })).toEqual(first);
    });
  });

  describe("simultaneous actions", () => {
    const ids = [...Array(12).keys()];

    test("of many approvals and denials, one decides", async () => {
      await startRunWithApproval();

      const results = await Promise.all(
        ids.map((index) =>
          store.decideApproval({ ...approve, by: `p${index}`, decision: index % 2 === 0 ? "approved" : "denied" }),
        ),
      );

      expect(results.filter(({ kind }) => kind === "decided")).toHaveLength(1);
      expect(await store.inbox("r1")).toHaveLength(1);
      expect((await ledger()).map(({ kind }) => kind).filter((kind) => kind !== "requested")).toHaveLength(1);
    });

    test("two people whose approvals each complete the other's approve once", async () => {
      await startRunWithApproval();
      const partial = { ...approve, isPartial: true, revision: 0 };

      const results = await Promise.all([
        store.decideApproval(partial),
        store.decideApproval({ ...partial, by: "mia" }),
      ]);

      expect(results.map(({ kind }) => kind).sort()).toEqual(["changed", "recorded"]);
    });

    test("either a revocation or the beginning of the call succeeds", async () => {
      await startRunWithApproval();
      await store.decideApproval(approve);

      const [revoked, begun] = await Promise.all([
        store.revokeApproval({ approvalId: "a1", by: "mia", now: 3_000 }),
        store.beginExecution({ approvalId: "a1", callId: "call-a1", runId: "r1", effectKey: "k9", now: 3_000 }),
      ]);

      expect(revoked.kind === "revoked").toBe(begun === undefined);
    });
  });

  test("every entry of the ledger is chained to the one before", async () => {
    await startRun();
    await store.completeEffect({
      runId: "r1",
      key: "k1",
      approvals: ["a1", "a2", "a3", "a4"].map((id) =>
        sampleApproval("r1", id, id === "a3" ? { expiresAt: 4_000 } : {}),
      ),
      effects: [sampleEffect("r1", "k2"), sampleEffect("r1", "k3")],
    });
    await store.decideApproval({ ...approve, byId: 5, via: "page" });
    await store.completeEffect({
      runId: "r1",
      key: "k2",
      execution: { approvalId: "a1", outcome: "executed", commit: "c0ffee" },
    });
    await store.decideApproval({ ...approve, approvalId: "a2", by: "mia" });
    await store.revokeApproval({ approvalId: "a2", by: "ada", now: 3_000 });
    await store.completeEffect({
      runId: "r1",
      key: "k3",
      execution: { approvalId: "a2", outcome: "refused", reason: "revoked" },
    });
    await store.fireTimers(4_500);
    await store.advance(sampleStep("r1", { withdrawApprovals: true }));

    const entries = await ledger();
    expect(entries.map(({ kind, approvalId }) => `${kind} ${approvalId}`)).toEqual([
      ...["a1", "a2", "a3", "a4"].map((id) => `requested ${id}`),
      "approved a1",
      "executed a1",
      "approved a2",
      "revoked a2",
      "refused a2",
      "expired a3",
      "withdrawn a4",
    ]);
    expect(entries[4]).toMatchObject({ by: "ada", byId: 5, via: "page", digest: sampleApproval("r1", "a1").digest });
    expect(entries[5]).toMatchObject({ commit: "c0ffee" });
    const [after, numbers] = [earlierEntries + 2, [3, 4, 5].map((number) => ({ number: earlierEntries + number }))];
    expect(await store.readLedger(after, 3)).toMatchObject(numbers);
  });

  test("the time at which a request was shown first is kept", async () => {
    await startRunWithApproval();
    await store.ingest({ events: [], effects: [sampleEffect("r1", "k2"), sampleEffect("r1", "k3")] });

    await store.completeEffect({ runId: "r1", key: "k2", shownApproval: "a1" });
    const { shownAt } = (await store.findApproval("a1")) ?? {};
    await store.completeEffect({ runId: "r1", key: "k3", shownApproval: "a1" });

    expect(shownAt).toBeGreaterThan(0);
    expect(await store.findApproval("a1")).toMatchObject({ shownAt });
  });

  test("the approvals of a tree are listed, the oldest first", async () => {
    await startRun();
    await store.ingest({ run: sampleRun("c1", [sampleEffect("c1", "c1-k1")], child), events: [] });
    await store.completeEffect({
      runId: "c1",
      key: "c1-k1",
      approvals: [sampleApproval("c1", "z1", { rootId: "r1" })],
    });
    await store.completeEffect({ runId: "r1", key: "k1", approvals: [sampleApproval("r1", "a1")] });

    expect((await store.approvalsOf("r1")).map(({ id }) => id)).toEqual(["z1", "a1"]);
    expect(await store.approvalsOf("c1")).toEqual([]);
  });
}

function timerTests(): void {
  test("timers fire once, in the order in which they became due", async () => {
    await startRun();
    await store.ingest({ run: sampleRun("r2"), events: [] });
    const set = [
      { timer: "deadline" as const, dueAt: 300 },
      { timer: "retry" as const, dueAt: 200 },
    ];
    await store.advance(sampleStep("r1", { timers: { set } }));
    await store.advance(sampleStep("r2", { timers: { set: [{ timer: "deadline", dueAt: 301 }] } }));

    expect(await store.fireTimers(199)).toEqual([]);
    expect(await store.fireTimers(300)).toEqual(["r1"]);
    expect((await store.inbox("r1")).map(({ event }) => event)).toEqual([
      { type: "timer.due", timer: "retry" },
      { type: "timer.due", timer: "deadline" },
    ]);
    expect(await store.fireTimers(300)).toEqual([]);
    expect(await store.fireTimers(later)).toEqual(["r2"]);
  });

  test("timers can be changed and cleared", async () => {
    await startRun();
    const set = [
      { timer: "retry" as const, dueAt: 100 },
      { timer: "deadline" as const, dueAt: 100 },
    ];
    await store.advance(sampleStep("r1", { timers: { set } }));
    await store.advance(
      sampleStep("r1", { version: 1, timers: { set: [{ timer: "retry", dueAt: 900 }], clear: ["deadline"] } }),
    );

    expect(await store.fireTimers(899)).toEqual([]);
    expect(await store.fireTimers(900)).toEqual(["r1"]);
    expect(await store.inbox("r1")).toHaveLength(1);
  });

  test("an approval that nobody decided expires, and its run is due", async () => {
    await startRunWithApproval({ expiresAt: 3_000 });

    expect(await store.fireTimers(2_999)).toEqual([]);
    expect(await store.fireTimers(later, 2_999)).toEqual([]);
    expect(await store.fireTimers(3_000)).toEqual(["r1"]);
    expect(await store.fireTimers(3_000)).toEqual([]);
    expect(await store.findApproval("a1")).toMatchObject({ status: "expired" });
    expect((await store.inbox("r1")).map(({ event }) => event)).toEqual([
      { type: "approval.expired", approvalId: "a1", callId: "call-a1" },
    ]);
  });

  test("the next due time is that of the first timer, approval or postponed effect", async () => {
    await startRun();
    expect(await store.nextDueAt()).toBeUndefined();

    const effects = [sampleEffect("r1", "k2"), sampleEffect("r1", "k3", { dueAt: 50 })];
    await store.completeEffect({
      runId: "r1",
      key: "k1",
      approvals: [sampleApproval("r1", "a1", { expiresAt: 700 })],
      effects,
    });
    expect(await store.nextDueAt()).toBe(700);

    await store.advance(sampleStep("r1", { timers: { set: [{ timer: "deadline", dueAt: 600 }] } }));
    expect(await store.nextDueAt()).toBe(600);

    await store.claimEffect("r1", "work", 0);
    expect(await store.nextDueAt()).toBe(600);
    await store.postponeEffect({ runId: "r1", key: "k2" }, 500);
    expect(await store.nextDueAt()).toBe(500);

    await store.completeEffect({ runId: "r1", key: "k2" });
    expect(await store.nextDueAt()).toBe(50);
    expect([await store.nextDueAt(50), await store.nextDueAt(600), await store.nextDueAt(700)]).toEqual([
      600,
      700,
      undefined,
    ]);
    await store.claimEffect("r1", "work", 50);
    expect(await store.nextDueAt()).toBe(600);
    await store.fireTimers(600);
    expect(await store.nextDueAt()).toBe(700);
    await store.decideApproval({ approvalId: "a1", decision: "approved", by: "ada", now: 650 });
    expect(await store.nextDueAt()).toBeUndefined();
  });
}

function dueRunTests(): void {
  const advance = async (runId: string, changes: Partial<Parameters<typeof sampleStep>[1]> = {}) => {
    const inbox = await store.inbox(runId);
    const row = await store.findRun(runId);
    return store.advance(
      sampleStep(runId, {
        version: row ? readable(row).version : 0,
        seen: inbox.at(-1)?.id ?? 0,
        status: "waiting",
        ...changes,
      }),
    );
  };

  test("a run with a due effect is due until the effect is completed, claimed or not", async () => {
    await startRun();
    expect(await store.dueRuns(0)).toEqual(["r1"]);

    await store.claimEffect("r1", "work", 0);
    expect(await store.dueRuns(0)).toEqual(["r1"]);
    await store.postponeEffect({ runId: "r1", key: "k1" }, 100);
    expect(await store.dueRuns(99)).toEqual([]);
    expect(await store.dueRuns(100)).toEqual(["r1"]);
    await store.completeEffect({ runId: "r1", key: "k1" });
    expect(await store.dueRuns(later)).toEqual([]);
  });

  test("a run is not postponed while its effect is new, not due or being performed", async () => {
    await startRun();
    expect(await store.postponedRuns(later)).toEqual([]);

    await store.claimEffect("r1", "work", 0);
    await store.postponeEffect({ runId: "r1", key: "k1" }, 100);
    expect(await store.postponedRuns(99)).toEqual([]);
    expect(await store.postponedRuns(100)).toEqual(["r1"]);
    await store.claimEffect("r1", "work", 100);
    expect(await store.postponedRuns(100)).toEqual([]);
  });

  test("a run that a clock which was ahead has postponed is due once its effect and timer are brought forward", async () => {
    await startRun();
    const [hourAgo, minuteLater] = [Date.now() - 3_600_000, Date.now() + 60_000];
    await store.advance(sampleStep("r1", { timers: { set: [{ timer: "retry", dueAt: minuteLater }] } }));
    await store.claimEffect("r1", "work", minuteLater);
    await store.postponeEffect({ runId: "r1", key: "k1" }, minuteLater);

    await store.bringForward(Date.now());
    expect([await store.dueRuns(Date.now()), await store.fireTimers(Date.now())]).toEqual([[], []]);

    // Seen from here, the run was changed an hour in the future.
    await store.bringForward(hourAgo);
    expect([await store.dueRuns(hourAgo), await store.fireTimers(hourAgo)]).toEqual([["r1"], ["r1"]]);
  });

  test("a status that was posted by a clock which was ahead is due again, although its run has not changed since", async () => {
    const hourAgo = Date.now() - 3_600_000;
    const status = (key: string) => sampleEffect("r1", key, { queue: "status", request: { kind: "status.show" } });
    await store.ingest({ run: sampleRun("r1", [status("s1")]), events: [] });
    await store.claimEffect("r1", "status", hourAgo);
    const posts = [{ name: "status/r1", commentId: 7 }];
    await store.completeEffect({ runId: "r1", key: "s1", posts, effects: [status("s2")] });
    await store.claimEffect("r1", "status", Date.now());
    await store.postponeEffect({ runId: "r1", key: "s2" }, Date.now() + 60_000, { isUncounted: true });

    await store.bringForward(Date.now());
    expect(await store.dueRuns(Date.now())).toEqual([]);

    await store.bringForward(hourAgo);
    expect(await store.dueRuns(hourAgo)).toEqual(["r1"]);
  });

  test("effects that a process claimed by a clock which was ahead, and did not complete, are due again", async () => {
    const [hourAgo, soon] = [Date.now() - 3_600_000, Date.now() + 100];
    const status = (key: string) => sampleEffect("r1", key, { queue: "status", request: { kind: "status.show" } });
    const effects = [sampleEffect("r1", "k1", { dueAt: soon }), status("s1")];
    await store.ingest({ run: sampleRun("r1", effects), events: [] });
    await store.claimEffect("r1", "status", hourAgo);
    const posts = [{ name: "status/r1", commentId: 7 }];
    await store.completeEffect({ runId: "r1", key: "s1", posts, effects: [{ ...status("s2"), dueAt: soon }] });
    expect(await store.claimEffect("r1", "status", soon)).toBeDefined();
    await store.bringForward(hourAgo);
    expect(await store.claimEffect("r1", "status", hourAgo)).toBeDefined();

    await receive("hello");
    expect(await store.claimEffect("r1", "work", soon)).toBeDefined();
    await store.bringForward(hourAgo);
    expect(await store.claimEffect("r1", "work", hourAgo)).toBeDefined();
  });

  test("an effect that waits behind another does not make its run due", async () => {
    const effects = [sampleEffect("r1", "k1", { dueAt: 100 }), sampleEffect("r1", "k2")];
    await store.ingest({ run: sampleRun("r1", effects), events: [] });

    expect(await store.dueRuns(99)).toEqual([]);
  });

  test("a run with a new event is due until an advance has seen the event, consumed or not", async () => {
    await store.ingest({ run: sampleRun("r1"), events: [] });
    expect(await store.dueRuns(0)).toEqual([]);

    await receive("parked");
    expect(await store.dueRuns(0)).toEqual(["r1"]);
    await advance("r1");
    expect(await store.dueRuns(0)).toEqual([]);
    expect(await textsInInbox("r1")).toEqual(["parked"]);

    await receive("new");
    expect(await store.dueRuns(0)).toEqual(["r1"]);
  });

  test("a run whose event arrived while earlier events were applied is due", async () => {
    await store.ingest({ run: sampleRun("r1"), events: [] });
    await receive("one");
    const [one] = await store.inbox("r1");
    await receive("meanwhile");

    await store.advance(sampleStep("r1", { consumed: [one?.id ?? 0], seen: one?.id ?? 0, status: "waiting" }));
    expect(await store.dueRuns(0)).toEqual(["r1"]);
  });

  test("a run that has ended is due for its last effects and for events that arrive afterwards", async () => {
    await store.ingest({ run: sampleRun("r1"), events: [] });
    await advance("r1", { status: "done", effects: [sampleEffect("r1", "outcome", { queue: "thread" })] });
    expect(await store.dueRuns(0)).toEqual(["r1"]);
    await store.completeEffect({ runId: "r1", key: "outcome" });
    expect(await store.dueRuns(0)).toEqual([]);

    await receive("late");
    expect(await store.dueRuns(0)).toEqual(["r1"]);
    await advance("r1", { status: "done" });
    expect(await store.dueRuns(0)).toEqual([]);
  });
}

function expiryTests(): void {
  const change = (path: string, text: string) => ({
    path,
    content: new TextEncoder().encode(text),
    mode: "100644" as const,
  });
  const expired = { runsEndedBefore: later, deliveriesBefore: 0 };

  /** Stores a run with a log, a pending approval and changes, two of which have the same contents in every run. */
  async function fillRun(id: string, changes: Parameters<typeof sampleRun>[2] = {}): Promise<void> {
    await store.ingest({
      run: sampleRun(id, [sampleEffect(id, id)], changes),
      events: [{ runId: id, event: said(id) }],
    });
    await store.completeEffect({
      runId: id,
      key: id,
      changes: { step: "s", changes: [change("a", "shared"), change("b", `only ${id}`)] },
      approvals: [sampleApproval(id, `a-${id}`, { rootId: changes.rootId ?? id })],
    });
  }
  const end = (id: string, version = 0) =>
    store.advance(sampleStep(id, { version, status: "done", withdrawApprovals: true }));

  test("the logs, files and approvals of a tree that has ended are removed one run at a time, and the ledger is kept", async () => {
    await fillRun("r1");
    await fillRun("c1", child);
    await fillRun("other");
    expect(await store.removeExpired(expired)).toBe(false);
    await end("r1");
    expect(await store.removeExpired(expired)).toBe(false);
    await end("c1");
    const ledger = await store.readLedger(0, 100_000);

    expect(await store.removeExpired({ ...expired, runsEndedBefore: 1_000 })).toBe(false);
    expect(await store.removeExpired({ ...expired, runsEndedBefore: undefined })).toBe(false);
    expect([await store.removeExpired(expired), await store.removeExpired(expired)]).toEqual([true, true]);
    expect(await store.removeExpired(expired)).toBe(false);

    expect(await store.dueRuns(0)).toEqual(["other"]);
    for (const id of ["r1", "c1"]) {
      expect(await store.log(id)).toEqual([]);
      expect(await store.inbox(id)).toEqual([]);
      expect(await store.changesOf(id)).toEqual([]);
      expect(await store.findApproval(`a-${id}`)).toBeUndefined();
      expect(await store.findRun(id)).toMatchObject({ status: "done", logRemovedAt: expect.any(Number) });
    }
    expect(await store.readLedger(0, 100_000)).toEqual(ledger);
    expect(await store.log("other")).toHaveLength(1);
    const [kept] = await store.changesOf("other");
    expect(kept?.changes.map(({ content }) => new TextDecoder().decode(content))).toEqual(["shared", "only other"]);
    expect(await store.findRun("other")).not.toHaveProperty("logRemovedAt");
  });

  test("a run is removed only after its last effects", async () => {
    await fillRun("r1");
    await store.advance(
      sampleStep("r1", { status: "done", effects: [sampleEffect("r1", "outcome", { queue: "thread" })] }),
    );
    expect(await store.removeExpired(expired)).toBe(false);

    await store.completeEffect({ runId: "r1", key: "outcome" });

    expect(await store.removeExpired(expired)).toBe(true);
  });

  test("deliveries are removed, after which a repeated one is new", async () => {
    await store.ingest({ deliveryId: "d1", events: [] });
    expect(await store.removeExpired({ runsEndedBefore: undefined, deliveriesBefore: 0 })).toBe(false);
    expect(await store.hasDelivery("d1")).toBe(true);

    expect(await store.removeExpired({ runsEndedBefore: undefined, deliveriesBefore: later })).toBe(true);

    expect(await store.ingest({ deliveryId: "d1", events: [] })).toBe(true);
  });
}

function pendingDeliveryTests(): void {
  const delivery = (key: string, queue = "q1") => ({ key, queue, content: { key } });
  const leaseMs = 60_000;
  const claim = async (lease = leaseMs) => (await store.claimDeliveries({ leaseMs: lease, limit: 1 }))[0];

  test("a pending delivery is stored once, even when it comes again after it was processed", async () => {
    expect(await store.saveDelivery(delivery("d1"))).toBe(true);
    expect(await store.saveDelivery(delivery("d1"))).toBe(false);
    await claim();
    await store.completeDelivery("d1");
    expect(await store.saveDelivery(delivery("d1"))).toBe(false);
    expect(await claim()).toBeUndefined();
  });

  test("each pending delivery is claimed by one process, with its content and the number of claims", async () => {
    await store.saveDelivery(delivery("d1"));

    const claims = await Promise.all([claim(), claim()]);

    expect(claims.filter((claimed) => claimed !== undefined)).toEqual([
      { ...delivery("d1"), receivedAt: expect.any(Number), attempts: 1, failures: 0 },
    ]);
  });

  test("the reported failures of a delivery are counted", async () => {
    await store.saveDelivery(delivery("d1"));
    await claim();
    await store.postponeDelivery({ key: "d1", attempts: 1 }, 0, { hasFailed: true });
    await claim();
    await store.postponeDelivery({ key: "d1", attempts: 2 }, 0);

    expect(await claim()).toMatchObject({ attempts: 3, failures: 1 });
  });

  test("deliveries that a clock which was ahead has postponed become due, except for those that wait for a time", async () => {
    await store.saveDelivery(delivery("d1"));
    await store.saveDelivery({ ...delivery("d2", "q2"), content: { notBefore: 1 } });
    for (const key of ["d1", "d2"]) await store.postponeDelivery({ key, attempts: 0 }, 24 * 3_600_000);
    await store.saveDelivery(delivery("d3", "q3"));
    await store.postponeDelivery({ key: "d3", attempts: 0 }, 3_600_000);

    await store.bringForward(Date.now());

    expect([await claim(), await claim()]).toMatchObject([{ key: "d1" }, undefined]);
  });

  test("deliveries are claimed in order within a queue, and other queues do not wait", async () => {
    for (const [key, queue] of Object.entries({ d1: "q1", d2: "q1", d3: "q2" })) {
      await store.saveDelivery(delivery(key, queue));
    }

    expect([(await claim())?.key, (await claim())?.key, await claim()]).toEqual(["d1", "d3", undefined]);
    await store.completeDelivery("d1");
    expect((await claim())?.key).toBe("d2");
  });

  test("several deliveries are claimed at a time, apart from those of excepted installations and repositories", async () => {
    const queues = { d1: "1 10#3", d2: "1 10#3", d3: "1 11#3", d4: "2 20#3", d5: "2", d6: "3 30#3 checks" };
    for (const [key, queue] of Object.entries(queues)) await store.saveDelivery(delivery(key, queue));
    const keysOf = async (except: DeliveryQuery["except"] & {}, limit = 10) =>
      (await store.claimDeliveries({ leaseMs, limit, except })).map(({ key }) => key);

    expect(await keysOf({ installations: ["2"], repositories: ["1 10"] })).toEqual(["d3", "d6"]);
    expect(await keysOf({ installations: [], repositories: ["2 20"] }, 1)).toEqual(["d1"]);
    expect(await keysOf({ installations: ["1"], repositories: [] })).toEqual(["d4", "d5"]);
    expect(await keysOf({ installations: [], repositories: [] })).toEqual([]);
  });

  test("a claim is held until it expires or the delivery is claimed again, and then postpones nothing", async () => {
    await store.saveDelivery(delivery("d1"));
    const [first, second] = [await claim(), { key: "d1", attempts: 2 }];
    expect(first && (await store.holdsDelivery(first))).toBe(true);
    expect(await store.holdsDelivery(second)).toBe(false);

    await store.postponeDelivery({ key: "d1", attempts: 1 }, 0);
    expect(first && (await store.holdsDelivery(first))).toBe(false);
    await claim();
    expect(first && (await store.holdsDelivery(first))).toBe(false);
    expect(await store.holdsDelivery(second)).toBe(true);

    await store.postponeDelivery({ key: "d1", attempts: 1 }, 0, { hasFailed: true });
    expect(await claim()).toBeUndefined();
    await store.postponeDelivery(second, 0);
    expect(await claim()).toMatchObject({ attempts: 3, failures: 0 });
    await store.completeDelivery("d1");
    expect(await store.holdsDelivery({ key: "d1", attempts: 3 })).toBe(false);
  });

  test("deliveries are claimed again when they were not completed in time, and when a postponed one is due", async () => {
    await store.saveDelivery(delivery("d1"));

    expect(await store.nextDeliveryInMs()).toBeLessThanOrEqual(0);
    await claim(0);
    expect(await claim(leaseMs)).toMatchObject({ key: "d1", attempts: 2 });
    const nextInMs = await store.nextDeliveryInMs();
    expect(nextInMs).toBeGreaterThan(0);
    expect(nextInMs).toBeLessThanOrEqual(leaseMs);
    expect(await claim()).toBeUndefined();
    await store.postponeDelivery({ key: "d1", attempts: 2 }, 0);
    expect(await claim()).toMatchObject({ key: "d1", attempts: 3 });
    await store.completeDelivery("d1");
    expect(await store.nextDeliveryInMs()).toBeUndefined();
  });
}

function locationTests(): void {
  const numbered = (id: string, changes = {}) =>
    sampleRun(id, [], { origin: { ...origin, repositoryId: 11 }, ...changes });
  const there = { repositoryId: 11, installationId: 1, ownerId: 5, owner: "ada", repo: "engine", at: 2_000 };
  const thread = { repositoryId: 11, owner: "ada", repo: "engine", thread: 7 };

  test("a repository keeps its runs, whose origins, and those of their children, have its current location", async () => {
    await store.saveLocation(there);
    await store.ingest({ run: numbered("r1"), events: [] });
    await store.ingest({ run: numbered("c1", { parentId: "r1", rootId: "r1", depth: 1 }), events: [] });

    await store.saveLocation({
      ...there,
      installationId: 2,
      ownerId: 6,
      owner: "grace",
      repo: "loom",
      at: 3_000,
    });

    const now = { repositoryId: 11, installationId: 2, owner: "grace", repo: "loom", thread: 7 };
    expect(await store.runsOfThread(now)).toMatchObject([{ spec: { id: "r1", origin: now } }]);
    expect(originOf((await store.childrenOf("r1"))[0])).toEqual({ ...origin, ...now });
    expect(await store.findLocation(11)).toEqual({
      repositoryId: 11,
      installationId: 2,
      ownerId: 6,
      owner: "grace",
      repo: "loom",
      since: 3_000,
    });
    expect(await store.findLocation(12)).toBeUndefined();
  });

  test("a repository does not lose its runs to one that takes its name", async () => {
    await store.saveLocation(there);
    await store.ingest({ run: numbered("r1"), events: [] });
    await store.saveLocation({ ...there, repo: "loom", at: 3_000 });

    await store.saveLocation({ ...there, repositoryId: 12, createdAt: 3_500, at: 4_000 });

    expect(await store.runsOfThread({ ...thread, repositoryId: 12 })).toEqual([]);
    expect(await store.runsOfThread({ owner: "ada", repo: "engine", thread: 7 })).toEqual([]);
    expect(idsOf(await store.runsOfThread(thread))).toEqual(["r1"]);
  });

  test("a repository gets the runs that were stored under its name without an id", async () => {
    for (const [id, more] of [
      ["r1", {}],
      ["c1", child],
    ] as const) {
      await store.ingest({ run: sampleRun(id, [], more), events: [] });
    }
    expect(await store.runsOfThread(thread)).toEqual([]);

    await store.saveLocation({ ...there, owner: "Ada", createdAt: 500 });
    // Another run, stored by a replica of the previous version.
    await store.ingest({ run: sampleRun("r2", [], { createdAt: 2_500 }), events: [] });
    await store.saveLocation({ ...there, owner: "Ada", createdAt: 500, at: 3_000 });

    expect(idsOf(await store.runsOfThread(thread))).toEqual(["r2", "r1"]);
    expect(originOf((await store.childrenOf("r1"))[0])).toEqual({ ...origin, repositoryId: 11, owner: "Ada" });
  });

  test("a repository whose first report is its renaming gets the runs stored under its previous name", async () => {
    await store.ingest({ run: sampleRun("r1"), events: [] });
    await store.ingest({ run: sampleRun("r2", [], { origin: { ...origin, repo: "loom" } }), events: [] });

    const previousName = { owner: "ada", repo: "engine" };
    await store.saveLocation({ ...there, repo: "loom", previousName, createdAt: 500 });

    expect(idsOf(await store.runsOfThread(thread))).toEqual(["r1"]);
    // The runs stored earlier under the new name belong to another repository.
    expect(idsOf(await store.runsOfThread({ owner: "ada", repo: "loom", thread: 7 }))).toEqual(["r2"]);
  });

  test("a repository does not get runs that are older than itself", async () => {
    await store.ingest({ run: sampleRun("r1"), events: [] });

    await store.saveLocation({ ...there, createdAt: 1_001 });

    expect(await store.runsOfThread(thread)).toEqual([]);
    expect(idsOf(await store.runsOfThread({ owner: "ada", repo: "engine", thread: 7 }))).toEqual(["r1"]);
  });

  test("a repository keeps its location when an older report arrives late", async () => {
    await store.saveLocation(there);
    await store.ingest({ run: numbered("r1"), events: [] });
    await store.saveLocation({ ...there, repo: "loom", at: 3_000 });

    await store.saveLocation({ ...there, at: 2_999 });

    expect(originOf(await store.findRun("r1"))?.repo).toBe("loom");
  });

  test("a repository's runs are counted under all its names", async () => {
    await store.saveLocation(there);
    await store.ingest({ run: numbered("r1"), events: [] });
    await store.saveLocation({ ...there, repo: "loom", at: 3_000 });
    await store.ingest({ run: numbered("r2"), events: [] });

    expect(await store.countRuns({ repositoryId: 11, since: 0 })).toBe(2);
    expect(await store.countRuns({ repositoryId: 12, since: 0 })).toBe(0);
  });

  test("a repository's live runs are listed for its current installation", async () => {
    await store.saveLocation(there);
    await store.saveLocation({ ...there, repositoryId: 12, repo: "loom" });
    await store.ingest({ run: numbered("r1"), events: [] });
    await store.ingest({ run: numbered("c1", { parentId: "r1", rootId: "r1" }), events: [] });
    await store.ingest({ run: numbered("r2", { origin: { ...origin, repositoryId: 12 } }), events: [] });
    await store.ingest({ run: numbered("r3"), events: [] });
    await store.ingest({ run: sampleRun("r4", [], { origin: { ...origin, repo: "mill" } }), events: [] });
    await store.advance(sampleStep("r3", { status: "done" }));

    const ids = async (where: Parameters<Store["liveRuns"]>[0]) => idsOf(await store.liveRuns(where)).sort();
    expect(await ids({ installationId: 1 })).toEqual(["r1", "r2", "r4"]);
    expect(await ids({ installationId: 1, repositoryIds: [11, 13] })).toEqual(["r1"]);

    await store.saveLocation({ ...there, installationId: 2, at: 3_000 });
    expect(await ids({ installationId: 1, repositoryIds: [11, 12] })).toEqual(["r2"]);
    expect(await ids({ installationId: 2 })).toEqual(["r1"]);
  });
}
