import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { textPreview } from "#domain/preview.ts";
import type { RunRow, Store } from "#runtime/store/store.ts";
import { said, sampleApproval, sampleEffect, sampleRun, sampleSpec, sampleStep } from "./store-samples.ts";

const later = Number.MAX_SAFE_INTEGER;
const bytes = (text: string) => new TextEncoder().encode(text);

/** What every store has to hold. `open` gives an empty one. */
export function storeConformance(name: string, open: () => Promise<Store>): void {
  describe(name, () => {
    let store: Store;

    beforeEach(async () => {
      store = await open();
    });
    afterEach(() => store.close());

    const texts = async (runId: string) => (await store.inbox(runId)).map(({ event }) => "text" in event && event.text);
    const hear = (...words: string[]) =>
      store.ingest({ events: words.map((text) => ({ runId: "r1", event: said(text) })) });

    /** A run whose work queue holds one effect, `k1`. */
    const startRun = (id = "r1") => store.ingest({ run: sampleRun(id, [sampleEffect(id, "k1")]), events: [] });
    /** A run with one pending approval, `a1`. */
    const askApproval = async (changes = {}) => {
      await startRun();
      await store.completeEffect({ key: "k1", approvals: [sampleApproval("r1", "a1", changes)] });
    };

    describe("ingest", () => {
      test("makes a run with its effects and events in one", async () => {
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
        expect(await texts("r1")).toEqual(["fix it"]);
        expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "k1" });
      });

      test("takes a delivery in once", async () => {
        await startRun();
        const heard = { deliveryId: "d1", events: [{ runId: "r1", event: said("hello") }] };

        expect(await store.ingest(heard)).toBe(true);
        expect(await store.ingest(heard)).toBe(false);
        expect(await texts("r1")).toEqual(["hello"]);
      });

      test("stores effects for a run with the delivery that asked for them, once, and wakes the run", async () => {
        await store.ingest({ run: sampleRun("r1"), events: [] });
        const heard = { deliveryId: "d1", events: [], effects: [sampleEffect("r1", "k1")] };
        expect(await store.dueRuns(later)).toEqual([]);

        expect(await store.ingest(heard)).toBe(true);
        expect(await store.ingest(heard)).toBe(false);

        expect(await store.dueRuns(later)).toEqual(["r1"]);
        expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "k1", attempts: 1 });
        await store.completeEffect({ key: "k1" });
        expect(await store.claimEffect("r1", "work", 0)).toBeUndefined();
      });

      test("writes nothing when one of its effects is for a run that is not there", async () => {
        const heard = { deliveryId: "d1", events: [], effects: [sampleEffect("nobody", "k1")] };

        await expect(store.ingest(heard)).rejects.toThrow();
        expect(await store.hasDelivery("d1")).toBe(false);
      });

      test("knows the deliveries it has heard, also those that brought no events", async () => {
        expect(await store.hasDelivery("d1")).toBe(false);
        await store.ingest({ deliveryId: "d1", events: [] });
        expect(await store.hasDelivery("d1")).toBe(true);
      });

      test("takes a delivery in once when both arrive in the same turn", async () => {
        await startRun();
        const heard = { deliveryId: "d1", events: [{ runId: "r1", event: said("hello") }] };

        expect(await Promise.all([store.ingest(heard), store.ingest(heard)])).toEqual([true, false]);
        expect(await texts("r1")).toEqual(["hello"]);
      });

      test("leaves a run that exists as it is and appends its events all the same", async () => {
        await startRun();
        await store.advance(sampleStep("r1"));

        const again = sampleRun("r1", [sampleEffect("r1", "k2")], { model: "another:model" });
        await store.ingest({ run: again, events: [{ runId: "r1", event: said("more") }] });

        expect(await store.findRun("r1")).toMatchObject({ version: 1, spec: { model: "scripted:model" } });
        expect(await store.completeEffect({ key: "k2" })).toBe(false);
        expect(await texts("r1")).toEqual(["more"]);
      });

      test("appends an event with a known dedupe key once, also after it was taken in", async () => {
        await startRun();
        const events = [{ runId: "r1", event: said("once"), dedupe: "e1" }];

        await store.ingest({ events: [...events, ...events] });
        const [event] = await store.inbox("r1");
        await store.advance(sampleStep("r1", { consumed: [event?.id ?? 0] }));
        await store.ingest({ events });

        expect(await texts("r1")).toEqual([]);
        expect(await store.log("r1")).toHaveLength(1);
      });

      test("writes nothing when one of its events names a run that is not there", async () => {
        await startRun();
        const events = [
          { runId: "r1", event: said("hello") },
          { runId: "nobody", event: said("hello") },
        ];

        await expect(store.ingest({ deliveryId: "d1", events })).rejects.toThrow("There is no run nobody.");
        expect(await texts("r1")).toEqual([]);
        expect(await store.ingest({ deliveryId: "d1", events: [] })).toBe(true);
      });

      test("a call that fails does not hurt the others of its turn", async () => {
        const outcomes = await Promise.allSettled([
          startRun(),
          store.ingest({ events: [{ runId: "nobody", event: said("hello") }] }),
          hear("hello"),
        ]);

        expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "fulfilled"]);
        expect(await texts("r1")).toEqual(["hello"]);
      });
    });

    describe("deliveries", () => {
      const delivery = (key: string, queue = "q1") => ({ key, queue, content: { key } });
      const claim = (now = 0, until = 100) => store.claimDelivery(now, until);

      test("a delivery is stored once, also after it was processed", async () => {
        expect(await store.saveDelivery(delivery("d1"))).toBe(true);
        expect(await store.saveDelivery(delivery("d1"))).toBe(false);
        await claim();
        await store.completeDelivery("d1");
        expect(await store.saveDelivery(delivery("d1"))).toBe(false);
        expect(await claim()).toBeUndefined();
      });

      test("a delivery is claimed by one, with its content and how often it was claimed", async () => {
        await store.saveDelivery(delivery("d1"));

        const claims = await Promise.all([claim(), claim()]);

        expect(claims.filter((claimed) => claimed !== undefined)).toEqual([
          { ...delivery("d1"), receivedAt: expect.any(Number), attempts: 1 },
        ]);
      });

      test("the deliveries of one queue are claimed in order, those of others meanwhile", async () => {
        for (const [key, queue] of Object.entries({ d1: "q1", d2: "q1", d3: "q2" })) {
          await store.saveDelivery(delivery(key, queue));
        }

        expect([(await claim())?.key, (await claim())?.key, await claim()]).toEqual(["d1", "d3", undefined]);
        await store.completeDelivery("d1");
        expect((await claim())?.key).toBe("d2");
      });

      test("a claim that was not completed in time is given again, and a postponed delivery when it is due", async () => {
        await store.saveDelivery(delivery("d1"));

        await claim(0, 100);
        expect(await store.nextDeliveryAt()).toBe(100);
        expect(await claim(99, 200)).toBeUndefined();
        expect(await claim(100, 200)).toMatchObject({ key: "d1", attempts: 2 });
        await store.postponeDelivery("d1", 150);
        expect(await claim(150, 300)).toMatchObject({ key: "d1", attempts: 3 });
        await store.completeDelivery("d1");
        expect(await store.nextDeliveryAt()).toBeUndefined();
      });
    });

    describe("runs", () => {
      test("a run that is not there is undefined", async () => {
        expect(await store.findRun("nobody")).toBeUndefined();
      });

      test("a read sees the writes asked before it in the same turn", async () => {
        const asked = [startRun(), hear("hello")];

        expect(await texts("r1")).toEqual(["hello"]);
        await Promise.all(asked);
      });

      test("the runs of a thread are its root runs, newest first, whatever the case of the names", async () => {
        const elsewhere = { ...sampleSpec("r3").origin, thread: 8 };
        await store.ingest({ run: sampleRun("r1"), events: [] });
        await store.ingest({ run: sampleRun("r2"), events: [] });
        await store.ingest({ run: sampleRun("r3", [], { origin: elsewhere }), events: [] });
        await store.ingest({ run: sampleRun("c1", [], { parentId: "r1", rootId: "r1", depth: 1 }), events: [] });

        const rows = await store.runsOfThread({ owner: "Ada", repo: "ENGINE", thread: 7 });
        expect(rows.map((row) => row.spec.id)).toEqual(["r2", "r1"]);
      });

      describe("of a repository that changes its name, its owner or how it is reached", () => {
        const { origin } = sampleSpec("r1");
        const numbered = (id: string, changes = {}) =>
          sampleRun(id, [], { origin: { ...origin, repositoryId: 11 }, ...changes });
        const there = { repositoryId: 11, installationId: 1, ownerId: 5, owner: "ada", repo: "engine", at: 2_000 };
        const thread = { repositoryId: 11, owner: "ada", repo: "engine", thread: 7 };
        const idsOf = (rows: RunRow[]) => rows.map(({ spec }) => spec.id);

        test("are found by its number, and say where it is today, children too", async () => {
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
          expect((await store.childrenOf("r1"))[0]?.spec.origin).toEqual({ ...origin, ...now });
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

        test("are never those of another repository that takes its name", async () => {
          await store.saveLocation(there);
          await store.ingest({ run: numbered("r1"), events: [] });
          await store.saveLocation({ ...there, repo: "loom", at: 3_000 });

          await store.saveLocation({ ...there, repositoryId: 12, createdAt: 3_500, at: 4_000 });

          expect(await store.runsOfThread({ ...thread, repositoryId: 12 })).toEqual([]);
          expect(await store.runsOfThread({ owner: "ada", repo: "engine", thread: 7 })).toEqual([]);
          expect(idsOf(await store.runsOfThread(thread))).toEqual(["r1"]);
        });

        test("and were stored without a number become its own when a delivery tells it", async () => {
          const child = { parentId: "r1", rootId: "r1", depth: 1 };
          for (const [id, more] of [
            ["r1", {}],
            ["c1", child],
          ] as const) {
            await store.ingest({ run: sampleRun(id, [], more), events: [] });
          }
          expect(await store.runsOfThread(thread)).toEqual([]);

          await store.saveLocation({ ...there, owner: "Ada", createdAt: 500 });
          // One more, by a replica of the version before.
          await store.ingest({ run: sampleRun("r2", [], { createdAt: 2_500 }), events: [] });
          await store.saveLocation({ ...there, owner: "Ada", createdAt: 500, at: 3_000 });

          expect(idsOf(await store.runsOfThread(thread))).toEqual(["r2", "r1"]);
          expect((await store.childrenOf("r1"))[0]?.spec.origin).toEqual({ ...origin, repositoryId: 11, owner: "Ada" });
        });

        test("and were stored without a number are found when its renaming is the first that is heard", async () => {
          await store.ingest({ run: sampleRun("r1"), events: [] });
          await store.ingest({ run: sampleRun("r2", [], { origin: { ...origin, repo: "loom" } }), events: [] });

          const previousName = { owner: "ada", repo: "engine" };
          await store.saveLocation({ ...there, repo: "loom", previousName, createdAt: 500 });

          expect(idsOf(await store.runsOfThread(thread))).toEqual(["r1"]);
          // What stood under the new name until then is somebody else's.
          expect(idsOf(await store.runsOfThread({ owner: "ada", repo: "loom", thread: 7 }))).toEqual(["r2"]);
        });

        test("and were stored without a number are not those of a repository that is younger than they", async () => {
          await store.ingest({ run: sampleRun("r1"), events: [] });

          await store.saveLocation({ ...there, createdAt: 1_001 });

          expect(await store.runsOfThread(thread)).toEqual([]);
          expect(idsOf(await store.runsOfThread({ owner: "ada", repo: "engine", thread: 7 }))).toEqual(["r1"]);
        });

        test("stay where they are when a delivery comes late", async () => {
          await store.saveLocation(there);
          await store.ingest({ run: numbered("r1"), events: [] });
          await store.saveLocation({ ...there, repo: "loom", at: 3_000 });

          await store.saveLocation({ ...there, at: 2_999 });

          expect((await store.findRun("r1"))?.spec.origin.repo).toBe("loom");
        });

        test("are counted under any name", async () => {
          await store.saveLocation(there);
          await store.ingest({ run: numbered("r1"), events: [] });
          await store.saveLocation({ ...there, repo: "loom", at: 3_000 });
          await store.ingest({ run: numbered("r2"), events: [] });

          expect(await store.countRuns({ repositoryId: 11, since: 0 })).toBe(2);
          expect(await store.countRuns({ repositoryId: 12, since: 0 })).toBe(0);
        });

        test("are listed by the installation that reaches them today, while they live", async () => {
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
      });

      test("the children of a run are in the order they were made", async () => {
        const child = { parentId: "r1", rootId: "r1", depth: 1 };
        for (const id of ["r1", "c2", "c1"]) {
          await store.ingest({ run: sampleRun(id, [], id === "r1" ? {} : child), events: [] });
        }
        await store.ingest({ run: sampleRun("g1", [], { ...child, parentId: "c1" }), events: [] });

        expect((await store.childrenOf("r1")).map((row) => row.spec.id)).toEqual(["c2", "c1"]);
        expect(await store.childrenOf("c2")).toEqual([]);
      });

      test("counts root runs by person, repository and time", async () => {
        const { origin } = sampleSpec("r1");
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
        expect(await store.countRuns({ owner: "nobody", since: 0 })).toBe(0);
      });

      test("adds up what root runs have cost, by repository and time", async () => {
        const { origin } = sampleSpec("r1");
        const costing = (cost: number) => ({ value: "idle", context: { cost } });
        const runs = [
          { ...sampleRun("r1", [], { createdAt: 1_000 }), snapshot: costing(1) },
          {
            ...sampleRun("r2", [], { createdAt: 2_000, origin: { ...origin, repositoryId: 11 } }),
            snapshot: costing(0.25),
          },
          { ...sampleRun("c1", [], { createdAt: 2_000, parentId: "r2", rootId: "r2" }), snapshot: costing(8) },
        ];
        for (const run of runs) await store.ingest({ run, events: [] });

        expect(await store.costOfRuns({ since: 0 })).toBeCloseTo(1.25);
        expect(await store.costOfRuns({ since: 1_001 })).toBeCloseTo(0.25);
        expect(await store.costOfRuns({ repositoryId: 11, since: 0 })).toBeCloseTo(0.25);
        expect(await store.costOfRuns({ repositoryId: 12, since: 0 })).toBe(0);
      });
    });

    describe("inbox and log", () => {
      test("keep the order over runs, and the log can be read from a point on", async () => {
        await startRun();
        await store.ingest({ run: sampleRun("r2"), events: [] });
        await hear("one");
        await store.ingest({ events: [{ runId: "r2", event: said("aside") }] });
        await hear("two", "three");

        const log = await store.log("r1");
        expect(log.map(({ event }) => event)).toEqual([said("one"), said("two"), said("three")]);
        expect(log.map(({ id }) => id)).toEqual(log.map(({ id }) => id).sort((a, b) => a - b));
        expect(log.every(({ runId, at }) => runId === "r1" && at > 0)).toBe(true);
        expect(await store.log("r1", log[0]?.id)).toEqual(log.slice(1));
        expect(await store.log("r1", log[0]?.id, 1)).toEqual(log.slice(1, 2));
        expect(await store.log("nobody")).toEqual([]);
      });

      test("give back any text as it was", async () => {
        await startRun();
        const odd = `"quotes" \u0000 \ud83d\ude00 \u2028 ${"long ".repeat(5_000)}`;

        await hear(odd);
        expect(await texts("r1")).toEqual([odd]);
      });
    });

    describe("advance", () => {
      test("takes events out of the inbox, keeps the parked ones, and the log keeps all", async () => {
        await startRun();
        await hear("one", "two", "three");
        const [one, two, three] = await store.inbox("r1");
        const ids = [one, three].map((event) => event?.id ?? 0);

        expect(await store.advance(sampleStep("r1", { consumed: ids, seen: three?.id ?? 0 }))).toBe(true);
        expect(await store.inbox("r1")).toEqual([two]);
        expect(await store.log("r1")).toHaveLength(3);
        expect(await store.findRun("r1")).toMatchObject({ version: 1, snapshot: { value: "callingModel" } });
      });

      test("writes nothing at another version", async () => {
        await startRun();
        await hear("one");
        const [one] = await store.inbox("r1");
        await store.advance(sampleStep("r1"));

        const stale = sampleStep("r1", {
          consumed: [one?.id ?? 0],
          snapshot: "lost",
          effects: [sampleEffect("r1", "k2")],
          cancelEffects: { kinds: ["callModel"] },
          timers: { set: [{ timer: "retry", dueAt: 1 }] },
        });
        expect(await store.advance(stale)).toBe(false);
        expect(await texts("r1")).toEqual(["one"]);
        expect(await store.findRun("r1")).toMatchObject({ version: 1, snapshot: { value: "callingModel" } });
        expect(await store.fireTimers(later)).toEqual([]);
        expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "k1" });
        expect(await store.completeEffect({ key: "k2" })).toBe(false);
      });

      test("of two in the same turn from one version, the first wins", async () => {
        await startRun();

        const steps = ["first", "second"].map((snapshot) => store.advance(sampleStep("r1", { snapshot })));
        expect(await Promise.all(steps)).toEqual([true, false]);
        expect(await store.findRun("r1")).toMatchObject({ snapshot: "first" });
      });

      test("never takes an event in twice", async () => {
        await startRun();
        await hear("one");
        const consumed = (await store.inbox("r1")).map(({ id }) => id);
        await store.advance(sampleStep("r1", { consumed }));

        expect(await store.advance(sampleStep("r1", { version: 1, consumed }))).toBe(false);
        expect(await store.findRun("r1")).toMatchObject({ version: 1 });
      });

      test("of a run that is not there is an error", async () => {
        await expect(store.advance(sampleStep("nobody"))).rejects.toThrow("There is no run nobody.");
      });

      test("adds an effect whose key is there already only once", async () => {
        await startRun();
        await store.advance(sampleStep("r1", { effects: [sampleEffect("r1", "k1", { kind: "other" })] }));

        expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "k1", kind: "callModel" });
        await store.completeEffect({ key: "k1" });
        expect(await store.claimEffect("r1", "work", 0)).toBeUndefined();
      });

      test("does an effect once more that was asked for again while it was under way", async () => {
        await startRun();
        expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "k1", attempts: 1 });
        await store.advance(sampleStep("r1", { effects: [sampleEffect("r1", "k1")] }));

        expect(await store.completeEffect({ key: "k1" })).toBe(true);
        expect(await store.dueRuns(0)).toContain("r1");
        expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "k1", attempts: 1 });
        await store.completeEffect({ key: "k1" });
        expect(await store.claimEffect("r1", "work", 0)).toBeUndefined();
      });

      test("drops effects of the unwanted kinds, begun or not, of this run alone", async () => {
        await startRun();
        await store.ingest({ run: sampleRun("r2", [sampleEffect("r2", "other")]), events: [] });
        await store.claimEffect("r1", "work", 0);
        const effects = [
          sampleEffect("r1", "k2"),
          sampleEffect("r1", "k3", { kind: "executeTool" }),
          sampleEffect("r1", "k4"),
        ];
        await store.advance(sampleStep("r1", { effects }));

        const wanted = sampleEffect("r1", "k5");
        const step = { version: 1, cancelEffects: { kinds: ["callModel", "unheard of"] }, effects: [wanted] };
        await store.advance(sampleStep("r1", step));

        expect(await store.completeEffect({ key: "k1", events: [{ runId: "r1", event: said("late") }] })).toBe(false);
        expect(await texts("r1")).toEqual([]);
        expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "k3" });
        await store.completeEffect({ key: "k3" });
        expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "k5" });
        expect(await store.claimEffect("r2", "work", 0)).toMatchObject({ key: "other" });
      });

      test("withdraws the run's pending approvals and leaves decided ones", async () => {
        await startRun();
        await store.ingest({ run: sampleRun("r2", [sampleEffect("r2", "k2")]), events: [] });
        await store.completeEffect({ key: "k1", approvals: [sampleApproval("r1", "a1"), sampleApproval("r1", "a2")] });
        await store.completeEffect({ key: "k2", approvals: [sampleApproval("r2", "b1")] });
        await store.decideApproval({ approvalId: "a2", decision: "approved", by: "ada", now: 2_000 });

        await store.advance(sampleStep("r1", { withdrawApprovals: true }));

        expect((await store.approvalsOf("r1")).map(({ status }) => status)).toEqual(["withdrawn", "approved"]);
        expect(await store.findApproval("b1")).toMatchObject({ status: "pending" });
        expect(
          await store.decideApproval({ approvalId: "a1", decision: "approved", by: "ada", now: 2_000 }),
        ).toMatchObject({
          kind: "settled",
          approval: { status: "withdrawn" },
        });
      });
    });

    describe("effects", () => {
      const queue = (...effects: Parameters<typeof sampleEffect>[]) =>
        store.ingest({
          run: sampleRun(
            "r1",
            effects.map((effect) => sampleEffect(...effect)),
          ),
          events: [],
        });

      test("are begun one at a time, oldest first, each queue for itself", async () => {
        await queue(["r1", "w1"], ["r1", "t1", { queue: "thread" }], ["r1", "w2"], ["r1", "t2", { queue: "thread" }]);

        expect(await store.claimEffect("r1", "work", 0)).toEqual({
          key: "w1",
          runId: "r1",
          queue: "work",
          kind: "callModel",
          input: { prompt: "w1" },
          dueAt: 0,
          attempts: 1,
        });
        expect(await store.claimEffect("r1", "thread", 0)).toMatchObject({ key: "t1", queue: "thread" });
        await store.completeEffect({ key: "w1" });
        expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "w2", attempts: 1 });
        expect(await store.claimEffect("r1", "thread", 0)).toMatchObject({ key: "t1" });
        expect(await store.claimEffect("nobody", "work", 0)).toBeUndefined();
      });

      test("one that was begun and not finished is given again, and says so", async () => {
        await queue(["r1", "w1"], ["r1", "w2"]);
        await store.claimEffect("r1", "work", 0);

        expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "w1", attempts: 2 });
      });

      test("one that is not due yet holds up its queue and no other", async () => {
        await queue(["r1", "w1", { dueAt: 500 }], ["r1", "w2"], ["r1", "t1", { queue: "thread" }]);

        expect(await store.claimEffect("r1", "work", 499)).toBeUndefined();
        expect(await store.claimEffect("r1", "thread", 499)).toMatchObject({ key: "t1" });
        expect(await store.claimEffect("r1", "work", 500)).toMatchObject({ key: "w1", dueAt: 500 });
      });

      test("a postponed one waits in front of its queue and keeps its attempts", async () => {
        await queue(["r1", "w1"], ["r1", "w2"]);
        await store.claimEffect("r1", "work", 0);
        await store.postponeEffect("w1", 900.5);
        await store.postponeEffect("nothing", 900);

        expect(await store.claimEffect("r1", "work", 900)).toBeUndefined();
        expect(await store.claimEffect("r1", "work", 901)).toMatchObject({ key: "w1", attempts: 2, dueAt: 900.5 });
      });
    });

    describe("finish", () => {
      test("writes all its consequences", async () => {
        await startRun();
        await store.ingest({ run: sampleRun("p1", [], {}), events: [] });
        await store.claimEffect("r1", "work", 0);

        const finished = await store.completeEffect({
          key: "k1",
          events: [
            { runId: "r1", event: said("done"), dedupe: "k1 result" },
            { runId: "c1", event: said("task") },
          ],
          changes: { step: "call-1", changes: [{ path: "a.txt", content: bytes("a"), mode: "100644" }] },
          approvals: [sampleApproval("r1", "a1")],
          post: { name: "status", commentId: 42 },
          effects: [sampleEffect("r1", "k2")],
          run: sampleRun("c1", [sampleEffect("c1", "c1-k1")], { parentId: "r1", rootId: "r1", depth: 1 }),
          parentChanges: {
            runId: "p1",
            changes: { step: "call-9", changes: [{ path: "b.txt", content: undefined, mode: "100644" }] },
          },
        });

        expect(finished).toBe(true);
        expect(await texts("r1")).toEqual(["done"]);
        expect(await texts("c1")).toEqual(["task"]);
        expect(await store.changesOf("r1")).toHaveLength(1);
        expect(await store.changesOf("p1")).toMatchObject([{ step: "call-9" }]);
        expect(await store.findApproval("a1")).toEqual(sampleApproval("r1", "a1"));
        expect(await store.findPost("status")).toMatchObject({ commentId: 42 });
        expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "k2" });
        expect(await store.claimEffect("c1", "work", 0)).toMatchObject({ key: "c1-k1" });
        expect((await store.childrenOf("r1")).map((row) => row.spec.id)).toEqual(["c1"]);
      });

      test("counts once", async () => {
        await startRun();
        const finished = { key: "k1", events: [{ runId: "r1", event: said("done") }] };

        expect(await Promise.all([store.completeEffect(finished), store.completeEffect(finished)])).toEqual([
          true,
          false,
        ]);
        expect(await texts("r1")).toEqual(["done"]);
      });

      test("writes nothing at all when one part cannot be written", async () => {
        await askApproval();
        await store.ingest({ run: sampleRun("r2", [sampleEffect("r2", "k2")]), events: [] });

        const taken = { key: "k2", events: [{ runId: "r2", event: said("done") }], post: { name: "p", commentId: 1 } };
        await expect(store.completeEffect({ ...taken, approvals: [sampleApproval("r2", "a1")] })).rejects.toThrow();
        expect(await texts("r2")).toEqual([]);
        expect(await store.findPost("p")).toBeUndefined();
        expect(await store.completeEffect(taken)).toBe(true);
      });

      test("leaves a child run that exists as it is", async () => {
        await startRun();
        await store.ingest({ run: sampleRun("c1"), events: [] });
        await store.advance(sampleStep("c1"));

        await store.completeEffect({ key: "k1", run: sampleRun("c1", [sampleEffect("c1", "again")]) });
        expect(await store.findRun("c1")).toMatchObject({ version: 1 });
        expect(await store.completeEffect({ key: "again" })).toBe(false);
      });

      test("spends an approval that was given, and no other", async () => {
        await startRun();
        const approvals = [sampleApproval("r1", "a1"), sampleApproval("r1", "a2")];
        await store.completeEffect({
          key: "k1",
          approvals,
          effects: [sampleEffect("r1", "k2"), sampleEffect("r1", "k3")],
        });
        await store.decideApproval({ approvalId: "a1", decision: "approved", by: "ada", now: 2_000 });
        await store.decideApproval({ approvalId: "a2", decision: "denied", by: "ada", now: 2_000 });

        await store.completeEffect({ key: "k2", usedApproval: "a1" });
        await store.completeEffect({ key: "k3", usedApproval: "a2" });
        expect((await store.approvalsOf("r1")).map(({ status }) => status)).toEqual(["used", "denied"]);
      });

      test("a post under a known name replaces it", async () => {
        const effects = [sampleEffect("r1", "k1"), sampleEffect("r1", "k2")];
        await store.ingest({ run: sampleRun("r1", effects), events: [] });

        await store.completeEffect({ key: "k1", post: { name: "status", commentId: 1 } });
        await store.completeEffect({ key: "k2", post: { name: "status", commentId: 2 ** 40 } });
        expect(await store.findPost("status")).toEqual({ commentId: 2 ** 40, updatedAt: expect.any(Number) });
      });
    });

    describe("changes", () => {
      test("come back in order, byte for byte", async () => {
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

        for (const [index, changes] of sets.entries()) await store.completeEffect({ key: keys[index] ?? "", changes });

        expect(await store.changesOf("r1")).toEqual(sets);
        expect(await store.changesOf("r1", 1)).toEqual(sets.slice(0, 1));
        expect(await store.changesOf("r1", 0)).toEqual([]);
        expect(await store.findRun("r1")).toMatchObject({ changeSets: 3 });
      });
    });

    describe("decide", () => {
      const approve = { approvalId: "a1", decision: "approved" as const, by: "ada", now: 2_000 };

      test("writes who, when and why, and tells the run", async () => {
        await askApproval({ preview: textPreview("hello") });

        const result = await store.decideApproval({ ...approve, note: "go on", remember: "session" });
        const approval = {
          ...sampleApproval("r1", "a1", { preview: textPreview("hello") }),
          status: "approved",
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

      test("a denial tells the run why", async () => {
        await askApproval();

        await store.decideApproval({ ...approve, decision: "denied", note: "not on a Friday" });
        expect((await store.inbox("r1")).map(({ event }) => event)).toEqual([
          { type: "approval.denied", approvalId: "a1", callId: "call-a1", by: "ada", reason: "not on a Friday" },
        ]);
      });

      test("changed arguments reach the run and the ledger with their own digest", async () => {
        await askApproval();

        await store.decideApproval({ ...approve, changed: { args: { path: "docs.md" }, digest: "e".repeat(64) } });
        expect(await store.findApproval("a1")).toMatchObject({
          args: { path: "README.md" },
          changedArgs: { path: "docs.md" },
          digest: "e".repeat(64),
        });
        expect((await store.inbox("r1"))[0]?.event).toMatchObject({ args: { path: "docs.md" } });
      });

      test("the first decision wins, also within one turn", async () => {
        await askApproval();

        const [first, second] = await Promise.all([
          store.decideApproval(approve),
          store.decideApproval({ ...approve, decision: "denied", by: "grace" }),
        ]);
        expect(first).toMatchObject({ kind: "decided", approval: { status: "approved", decidedBy: "ada" } });
        expect(second).toMatchObject({ kind: "settled", approval: { status: "approved", decidedBy: "ada" } });
        expect(await store.inbox("r1")).toHaveLength(1);
      });

      test("comes too late at the moment it expires, and then it is expired", async () => {
        await askApproval({ expiresAt: 2_000 });

        expect(await store.decideApproval(approve)).toMatchObject({ kind: "settled", approval: { status: "expired" } });
        expect((await store.inbox("r1")).map(({ event }) => event.type)).toEqual(["approval.expired"]);
        expect(await store.fireTimers(2_000)).toEqual([]);
      });

      test("of an approval nobody asked for is unknown", async () => {
        expect(await store.decideApproval({ ...approve, deliveryId: "d1" })).toEqual({ kind: "unknown" });
      });

      test("a delivery heard again gets its first answer, whatever happened since", async () => {
        await startRun();
        await store.completeEffect({
          key: "k1",
          approvals: [sampleApproval("r1", "a1")],
          effects: [sampleEffect("r1", "k2")],
        });

        const first = await store.decideApproval({ ...approve, deliveryId: "d1" });
        await store.completeEffect({ key: "k2", usedApproval: "a1" });
        const again = await store.decideApproval({ ...approve, now: 9_000, deliveryId: "d1" });

        expect(first.kind).toBe("decided");
        expect(again).toEqual(first);
        expect(await store.inbox("r1")).toHaveLength(1);
      });

      test("one delivery may decide several approvals, and be taken in besides", async () => {
        await startRun();
        await store.completeEffect({ key: "k1", approvals: [sampleApproval("r1", "a1"), sampleApproval("r1", "a2")] });
        await store.ingest({ deliveryId: "d1", events: [] });

        const results = ["a1", "a2"].map((approvalId) =>
          store.decideApproval({ ...approve, approvalId, deliveryId: "d1" }),
        );
        expect((await Promise.all(results)).map(({ kind }) => kind)).toEqual(["decided", "decided"]);
      });

      test("approvals of a tree come oldest first", async () => {
        await startRun();
        const child = { parentId: "r1", rootId: "r1", depth: 1 };
        await store.ingest({ run: sampleRun("c1", [sampleEffect("c1", "c1-k1")], child), events: [] });
        await store.completeEffect({ key: "c1-k1", approvals: [sampleApproval("c1", "z1", { rootId: "r1" })] });
        await store.completeEffect({ key: "k1", approvals: [sampleApproval("r1", "a1")] });

        expect((await store.approvalsOf("r1")).map(({ id }) => id)).toEqual(["z1", "a1"]);
        expect(await store.approvalsOf("c1")).toEqual([]);
      });
    });

    describe("timers", () => {
      test("fire once when they are due, in the order they were due", async () => {
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

      test("can be moved and cleared", async () => {
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

      test("an approval nobody decided expires and wakes its run", async () => {
        await askApproval({ expiresAt: 3_000 });

        expect(await store.fireTimers(2_999)).toEqual([]);
        expect(await store.fireTimers(3_000)).toEqual(["r1"]);
        expect(await store.fireTimers(3_000)).toEqual([]);
        expect(await store.findApproval("a1")).toMatchObject({ status: "expired" });
        expect((await store.inbox("r1")).map(({ event }) => event)).toEqual([
          { type: "approval.expired", approvalId: "a1", callId: "call-a1" },
        ]);
      });

      test("the next due time is the earliest of timers, approvals and effects that wait", async () => {
        await startRun();
        expect(await store.nextDueAt()).toBeUndefined();

        const effects = [sampleEffect("r1", "k2"), sampleEffect("r1", "k3", { dueAt: 50 })];
        await store.completeEffect({ key: "k1", approvals: [sampleApproval("r1", "a1", { expiresAt: 700 })], effects });
        expect(await store.nextDueAt()).toBe(700);

        await store.advance(sampleStep("r1", { timers: { set: [{ timer: "deadline", dueAt: 600 }] } }));
        expect(await store.nextDueAt()).toBe(600);

        await store.claimEffect("r1", "work", 0);
        expect(await store.nextDueAt()).toBe(600);
        await store.postponeEffect("k2", 500);
        expect(await store.nextDueAt()).toBe(500);

        await store.completeEffect({ key: "k2" });
        expect(await store.nextDueAt()).toBe(50);
        await store.claimEffect("r1", "work", 50);
        expect(await store.nextDueAt()).toBe(600);
        await store.fireTimers(600);
        expect(await store.nextDueAt()).toBe(700);
        await store.decideApproval({ approvalId: "a1", decision: "approved", by: "ada", now: 650 });
        expect(await store.nextDueAt()).toBeUndefined();
      });
    });

    describe("awake", () => {
      const fold = async (runId: string, changes: Partial<Parameters<typeof sampleStep>[1]> = {}) => {
        const inbox = await store.inbox(runId);
        const row = await store.findRun(runId);
        return store.advance(
          sampleStep(runId, { version: row?.version ?? 0, seen: inbox.at(-1)?.id ?? 0, status: "waiting", ...changes }),
        );
      };

      test("a run with a due effect is awake until it is finished, begun or not", async () => {
        await startRun();
        expect(await store.dueRuns(0)).toEqual(["r1"]);

        await store.claimEffect("r1", "work", 0);
        expect(await store.dueRuns(0)).toEqual(["r1"]);
        await store.postponeEffect("k1", 100);
        expect(await store.dueRuns(99)).toEqual([]);
        expect(await store.dueRuns(100)).toEqual(["r1"]);
        await store.completeEffect({ key: "k1" });
        expect(await store.dueRuns(later)).toEqual([]);
      });

      test("an effect that waits behind another does not wake its run", async () => {
        const effects = [sampleEffect("r1", "k1", { dueAt: 100 }), sampleEffect("r1", "k2")];
        await store.ingest({ run: sampleRun("r1", effects), events: [] });

        expect(await store.dueRuns(99)).toEqual([]);
      });

      test("an event wakes its run until a fold has seen it, also when it is parked", async () => {
        await store.ingest({ run: sampleRun("r1"), events: [] });
        expect(await store.dueRuns(0)).toEqual([]);

        await hear("parked");
        expect(await store.dueRuns(0)).toEqual(["r1"]);
        await fold("r1");
        expect(await store.dueRuns(0)).toEqual([]);
        expect(await texts("r1")).toEqual(["parked"]);

        await hear("new");
        expect(await store.dueRuns(0)).toEqual(["r1"]);
      });

      test("an event that arrives while a fold is under way keeps the run awake", async () => {
        await store.ingest({ run: sampleRun("r1"), events: [] });
        await hear("one");
        const [one] = await store.inbox("r1");
        await hear("meanwhile");

        await store.advance(sampleStep("r1", { consumed: [one?.id ?? 0], seen: one?.id ?? 0, status: "waiting" }));
        expect(await store.dueRuns(0)).toEqual(["r1"]);
      });

      test("a run that is done wakes for its last effects, never for events", async () => {
        await store.ingest({ run: sampleRun("r1"), events: [] });
        await fold("r1", { status: "done", effects: [sampleEffect("r1", "outcome", { queue: "thread" })] });
        await hear("too late");

        expect(await store.dueRuns(0)).toEqual(["r1"]);
        await store.completeEffect({ key: "outcome" });
        expect(await store.dueRuns(0)).toEqual([]);
        expect(await texts("r1")).toEqual(["too late"]);
      });
    });

    test("answers a ping until it is closed, and then refuses everything", async () => {
      await store.ping();
      await startRun();

      await store.close();
      await store.close();
      await expect(store.ping()).rejects.toThrow("The store is closed.");
      await expect(hear("hello")).rejects.toThrow("The store is closed.");
    });
  });
}
