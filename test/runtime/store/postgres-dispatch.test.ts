import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { DispatchTarget, Processed } from "#runtime/scheduler/dispatch.ts";
import { openSharedStore } from "#runtime/store/postgres/open-postgres-store.ts";
import { requireRun } from "#runtime/store/store.ts";
import {
  postgresPrograms,
  restartPostgresServer,
  startPostgresServer,
  stopPostgresServer,
  whyNoPostgres,
} from "../../support/postgres-server.ts";
import { testDatabases } from "../../support/shared-postgres.ts";
import { said, sampleEffect, sampleRun, sampleStep } from "../../support/store-samples.ts";

const newDatabase = testDatabases();

if (!postgresPrograms) test.skip(`replicas are not tested here: ${whyNoPostgres}`, () => undefined);

describe.skipIf(!postgresPrograms)("replicas over one database", () => {
  let database: string;
  let sql: pg.Client;
  let stops: (() => Promise<void>)[] = [];

  beforeAll(async () => {
    database = await newDatabase();
    sql = new pg.Client({ connectionString: database });
    await sql.connect();
  });
  afterAll(() => sql.end());
  beforeEach(async () => {
    stops = [];
    // Jobs that replicas handed over when they stopped must not reach the next test. The first test finds no queue.
    await sql.query("delete from golem_forge_queue.job").catch(() => undefined);
  });
  afterEach(async () => {
    for (const stop of stops) await stop();
  });

  /** Starts a replica that processes runs with `open`. */
  async function startReplica(
    open: (runId: string, replica: Pick<Awaited<ReturnType<typeof openSharedStore>>, "store">) => Promise<unknown>,
    { runsPerRepository, url = database }: { runsPerRepository?: number; url?: string } = {},
  ) {
    const errors: unknown[] = [];
    const shared = await openSharedStore({ url, runsPerRepository }, { onError: (error) => errors.push(error) });
    const driver = {
      process: vi.fn<DispatchTarget["process"]>(async (runId) =>
        (await open(runId, shared)) === "awaitsTurn" ? "awaitsTurn" : "finished",
      ),
      notify: vi.fn<DispatchTarget["notify"]>(() => false),
      revokeLease: vi.fn<DispatchTarget["revokeLease"]>(),
      sweep: vi.fn<DispatchTarget["sweep"]>(async () => undefined),
      showWaiting: vi.fn<NonNullable<DispatchTarget["showWaiting"]>>(async () => true),
    };
    await shared.dispatch.attach(driver);
    stops.push(async () => {
      await shared.dispatch.detach(async () => undefined);
      await shared.store.close();
    });
    return { ...shared, driver, errors };
  }

  /** Starts a replica that holds every run until it is released. */
  async function startHolder(url?: string) {
    const gates = new Map<string, PromiseWithResolvers<void>>();
    const replica = await startReplica(
      (runId) => {
        const gate = Promise.withResolvers<void>();
        gates.set(runId, gate);
        return gate.promise;
      },
      url === undefined ? {} : { url },
    );
    return { ...replica, finish: (runId: string) => gates.get(runId)?.resolve() };
  }

  const lockOf = (holder: string) =>
    `select pid from pg_locks where locktype = 'advisory' and objid = (${holder}) and classid = ${0x474c4d46}`;

  test("every event is applied by one replica at a time, whichever replicas are notified and however often", async () => {
    const driving = new Map<string, number>();
    let most = 0;
    const takeIn: Parameters<typeof startReplica>[0] = async (runId, { store }) => {
      driving.set(runId, (driving.get(runId) ?? 0) + 1);
      most = Math.max(most, driving.get(runId) ?? 0);
      const [row, inbox] = await Promise.all([requireRun(store, runId), store.inbox(runId)]);
      const ids = inbox.map(({ id }) => id);
      const taken = { version: row.version, consumed: ids, seen: ids.at(-1) ?? 0, status: "waiting" as const };
      expect(await store.advance(sampleStep(runId, taken))).toBe(true);
      driving.set(runId, (driving.get(runId) ?? 0) - 1);
    };
    const both = [await startReplica(takeIn), await startReplica(takeIn)];
    const runIds = ["s1", "s2", "s3"];
    for (const id of runIds) await both[0]?.store.ingest({ run: sampleRun(id), events: [] });

    const rounds = Array.from({ length: 25 }, (_, n) => n);
    await Promise.all(
      both.map(async ({ store, dispatch }) => {
        for (const n of rounds) {
          const runId = runIds[n % runIds.length] ?? "";
          await store.ingest({ events: [{ runId, event: said(`${n}`) }] });
          dispatch.wake(runId);
        }
      }),
    );

    await vi.waitUntil(async () => (await sql.query("select 1 from golem_forge.inbox")).rowCount === 0, {
      timeout: 60_000,
    });
    const { rows } = await sql.query(
      "select count(*)::integer as events from golem_forge.events where run_id = any ($1)",
      [runIds],
    );
    expect(rows).toEqual([{ events: 2 * rounds.length }]);
    expect(most).toBe(1);
    expect(both.flatMap(({ errors }) => errors)).toEqual([]);
  });

  test("a run that is notified while its processing ends is processed again", async () => {
    const holder = await startHolder();
    await holder.store.ingest({ run: sampleRun("n1"), events: [] });
    holder.dispatch.wake("n1");
    await vi.waitUntil(() => holder.driver.process.mock.calls.length === 1, { timeout: 60_000 });

    holder.dispatch.wake("n1");
    await vi.waitUntil(
      async () => (await sql.query("select 1 from golem_forge.runs where wake_requested")).rowCount === 1,
      { timeout: 60_000 },
    );
    holder.finish("n1");

    await vi.waitUntil(() => holder.driver.process.mock.calls.length === 2, { timeout: 60_000 });
    holder.finish("n1");
    await vi.waitUntil(
      async () => (await sql.query("select 1 from golem_forge.runs where holder > 0")).rowCount === 0,
      { timeout: 60_000 },
    );
    expect((await sql.query("select 1 from golem_forge_queue.job")).rowCount).toBe(0);
  });

  test("a replica that loses its lock stops its work, stores nothing more, and joins again", async () => {
    const cut = await startHolder();
    await cut.store.ingest({
      run: sampleRun("l1", [sampleEffect("l1", "l1/0"), sampleEffect("l1", "l1/1")]),
      events: [],
    });
    cut.dispatch.wake("l1");
    await vi.waitUntil(() => cut.driver.process.mock.calls.length > 0, { timeout: 60_000 });
    expect(await cut.store.claimEffect("l1", "work", 0)).toMatchObject({ key: "l1/0", attempts: 1 });
    const other = await startHolder();

    await sql.query(
      `select pg_terminate_backend(pid) from (${lockOf("select holder from golem_forge.runs where id = 'l1'")}) as it`,
    );

    await vi.waitUntil(() => cut.driver.revokeLease.mock.calls.length > 0, { timeout: 60_000 });
    expect(cut.driver.revokeLease).toHaveBeenCalledWith("l1");
    await vi.waitUntil(() => other.driver.process.mock.calls.length + cut.driver.process.mock.calls.length === 2, {
      timeout: 60_000,
    });
    const [old, next] = other.driver.process.mock.calls.length > 0 ? [cut, other] : [other, cut];
    expect(await old.store.claimEffect("l1", "work", 0)).toBeUndefined();
    expect(
      await old.store.completeEffect({ runId: "l1", key: "l1/0", events: [{ runId: "l1", event: said("stale") }] }),
    ).toBe(false);
    await expect(old.store.advance(sampleStep("l1"))).rejects.toThrow("Another replica has the run l1 now.");
    await old.store.postponeEffect({ runId: "l1", key: "l1/0" }, 1_000_000);
    expect(await next.store.claimEffect("l1", "work", 0)).toMatchObject({ key: "l1/0", attempts: 2 });
    expect(await next.store.completeEffect({ runId: "l1", key: "l1/0" })).toBe(true);
    next.finish("l1");
    cut.finish("l1");
    expect(cut.errors.map(String)).toEqual([expect.stringContaining("lost its liveness lock")]);

    await cut.store.ingest({ run: sampleRun("l2"), events: [] });
    const opened = () =>
      [cut, other].filter(({ driver }) => driver.process.mock.calls.some(([runId]) => runId === "l2"));
    cut.dispatch.wake("l2");
    await vi.waitUntil(() => opened().length === 1, { timeout: 60_000 });
    for (const { finish } of [cut, other]) finish("l2");
  });

  test("a replica does not wait for another one's changes of deliveries before those of a dead one are due again", async () => {
    const cut = await startHolder();
    const other = await startHolder();
    const query = { leaseMs: 24 * 3_600_000, limit: 10 };
    for (const key of ["e1", "e2"]) await cut.store.saveDelivery({ key, queue: key, content: {} });
    await cut.store.claimDeliveries(query);
    const changing = new pg.Client({ connectionString: database });
    await changing.connect();
    await changing.query("begin; delete from golem_forge.pending_deliveries where key = 'e1'");

    await sql.query(
      `select pg_terminate_backend(pid) from (${lockOf("select claimed_by from golem_forge.pending_deliveries where key = 'e2'")}) as it`,
    );

    const claims = () => other.store.claimDeliveries(query);
    await expect.poll(claims, { timeout: 60_000 }).toMatchObject([{ key: "e2", attempts: 2 }]);
    await changing.query("commit");
    await changing.end();
    await other.store.completeDelivery("e2");
    await vi.waitUntil(() => cut.dispatch.problem?.() === undefined, { timeout: 60_000 });
  });

  test("deliveries that a replica claimed are due again when it loses its lock, and it does not hold them any longer", async () => {
    const cut = await startHolder();
    const other = await startHolder();
    const query = { leaseMs: 24 * 3_600_000, limit: 10 };
    for (const key of ["c1", "c2"]) {
      await cut.store.saveDelivery({ key, queue: key, content: {} });
    }
    const [lost] = await cut.store.claimDeliveries({ ...query, limit: 1 });
    const [kept] = await other.store.claimDeliveries({ ...query, limit: 1 });
    if (!lost || !kept) throw new Error("Two deliveries were due.");

    await sql.query(
      `select pg_terminate_backend(pid) from (${lockOf("select claimed_by from golem_forge.pending_deliveries where key = 'c1'")}) as it`,
    );

    await vi.waitUntil(async () => !(await cut.store.holdsDelivery(lost)), { timeout: 60_000 });
    expect(await other.store.claimDeliveries(query)).toMatchObject([{ key: "c1", attempts: 2 }]);
    await cut.store.postponeDelivery(lost, 0);
    expect(await cut.store.claimDeliveries(query)).toEqual([]);
    expect(await other.store.holdsDelivery(kept)).toBe(true);
    for (const key of ["c1", "c2"]) await other.store.completeDelivery(key);
    await vi.waitUntil(() => cut.dispatch.problem?.() === undefined, { timeout: 60_000 });
  });

  test("a run that a replica takes under the number of a session that it has lost meanwhile is processed at once", async () => {
    const cut = await startHolder();
    await cut.store.ingest({ run: sampleRun("t1"), events: [] });
    const newest = "select max(id) as id from golem_forge.replicas";
    const [{ id: lost }] = (await sql.query(newest)).rows;
    const other = new pg.Client({ connectionString: database });
    await other.connect();
    await other.query("begin; select 1 from golem_forge.runs where id = 't1' for update");
    cut.dispatch.wake("t1");
    const isTaking = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
    await vi.waitUntil(async () => (await sql.query(isTaking)).rowCount === 1, { timeout: 60_000 });

    await sql.query(`select pg_terminate_backend(pid) from (${lockOf(newest)}) as it`);
    const isGivenBack = async () => {
      const { rows } = await sql.query("select id from golem_forge.replicas");
      return rows.length > 0 && rows.every(({ id }) => id !== lost);
    };
    await vi.waitUntil(isGivenBack, { timeout: 60_000 });
    await other.query("rollback");
    await other.end();

    const [{ id }] = (await sql.query(newest)).rows;
    const isHeld = async () =>
      (await sql.query("select 1 from golem_forge.runs where id = 't1' and holder = $1", [id])).rowCount === 1;
    await vi.waitUntil(isHeld, { timeout: 60_000 });
    // Not only after ten seconds without a heartbeat.
    expect((await sql.query("select retry_count from golem_forge_queue.job")).rows).toEqual([{ retry_count: 0 }]);
    await vi.waitUntil(() => cut.driver.process.mock.calls.length > 0, { timeout: 60_000 });
    cut.finish("t1");
  });

  test("a replica that sends no heartbeat loses its jobs to another, and stores nothing from then on", async () => {
    const silent = await startHolder();
    await silent.store.ingest({ run: sampleRun("q1", [sampleEffect("q1", "q1/0")]), events: [] });
    silent.dispatch.wake("q1");
    await vi.waitUntil(() => silent.driver.process.mock.calls.length > 0, { timeout: 60_000 });
    const other = await startHolder();

    await vi.waitUntil(
      async () => {
        if (other.driver.process.mock.calls.length > 0) return true;
        // pg-boss does this when a job had no heartbeat for ten seconds. The silent replica may get it again.
        await sql.query("update golem_forge_queue.job set state = 'retry' where singleton_key = 'q1'");
        other.dispatch.wake("q1");
        return false;
      },
      { timeout: 60_000, interval: 100 },
    );

    expect(await silent.store.claimEffect("q1", "work", 0)).toBeUndefined();
    expect(await other.store.claimEffect("q1", "work", 0)).toMatchObject({ key: "q1/0" });
    await vi.waitUntil(() => silent.driver.revokeLease.mock.calls.length > 0, { timeout: 60_000 });
    for (const { finish } of [silent, other]) finish("q1");
  });

  test("no more runs of one repository are active at once than configured, and those that only have comments to post do not count", async () => {
    const runs = ["g1", "g2"];
    const open = new Map<string, () => void>();
    let most = 0;
    const replica = await startReplica(
      async (runId) => {
        if (runId === "ended") return;
        await new Promise<void>((resolve) => {
          open.set(runId, resolve);
          most = Math.max(most, open.size);
        });
        open.delete(runId);
      },
      { runsPerRepository: 1 },
    );
    for (const id of [...runs, "ended"]) await replica.store.ingest({ run: sampleRun(id), events: [] });
    await sql.query("update golem_forge.runs set status = 'done' where id = 'ended'");

    for (const id of runs) replica.dispatch.wake(id);

    await vi.waitUntil(() => open.size === 1, { timeout: 60_000 });
    replica.dispatch.wake("ended");
    await vi.waitUntil(() => replica.driver.process.mock.calls.some(([runId]) => runId === "ended"), {
      timeout: 60_000,
    });
    const [first] = [...open.keys()];
    open.get(first ?? "")?.();
    await vi.waitUntil(() => open.size === 1 && !open.has(first ?? ""), { timeout: 60_000 });
    for (const finish of open.values()) finish();
    expect(most).toBe(1);
  });

  test("a run that is stopped while it waits for its turn is performed at once, and one that has to work nevertheless awaits its turn", async () => {
    const open = new Map<string, (processed: Processed) => void>();
    const replica = await startReplica((runId) => new Promise<Processed>((resolve) => open.set(runId, resolve)), {
      runsPerRepository: 1,
    });
    const performed = () => replica.driver.process.mock.calls.map(([runId, isCounted]) => `${runId} ${isCounted}`);
    const isPerformed = (...runs: string[]) => vi.waitUntil(() => performed().join() === runs.join(), 60_000);
    for (const id of ["w1", "w2"]) await replica.store.ingest({ run: sampleRun(id), events: [] });
    replica.dispatch.wake("w1");
    await isPerformed("w1 true");
    replica.dispatch.wake("w2");
    await vi.waitUntil(async () => (await sql.query("select 1 from golem_forge_queue.job")).rowCount === 2, 60_000);

    const events = [said("\u0000, half an emoji: \ud83d, and \\u0000"), { type: "run.cancel" as const, by: "ada" }];
    await replica.store.ingest({ events: events.map((event) => ({ runId: "w2", event })) });
    replica.dispatch.wake("w2");

    await isPerformed("w1 true", "w2 false");
    open.get("w2")?.("awaitsTurn");
    await vi.waitUntil(async () => {
      const { rows } = await sql.query(
        "select 1 from golem_forge_queue.job where singleton_key = 'w2' and group_id is not null",
      );
      return rows.length === 1;
    }, 60_000);
    open.get("w1")?.("finished");
    await isPerformed("w1 true", "w2 false", "w2 true");
    open.get("w2")?.("finished");
    expect(replica.errors).toEqual([]);
  });

  test("runs that wait for others of their repository are shown with their positions, which follow the queue", async () => {
    const closing = new Map<string, () => void>();
    const open = (runId: string) => new Promise<void>((resolve) => closing.set(runId, resolve));
    const [one, other] = [
      await startReplica(open, { runsPerRepository: 1 }),
      await startReplica(open, { runsPerRepository: 1 }),
    ];
    const shown: [string, string][] = [];
    for (const replica of [one, other]) {
      replica.driver.showWaiting.mockImplementation(async (runId, reason, confirmLease) => {
        await confirmLease();
        // Nothing else of the run is performed at the same time.
        expect(closing.has(runId)).toBe(false);
        shown.push([runId, reason]);
        return true;
      });
    }
    for (const id of ["q1", "q2", "q3"]) {
      await one.store.ingest({ run: sampleRun(id, [sampleEffect(id, `${id}/0`)]), events: [] });
      one.dispatch.wake(id);
      await vi.waitUntil(
        async () =>
          (await sql.query("select 1 from golem_forge_queue.job where singleton_key = $1", [id])).rowCount === 1,
        { timeout: 60_000 },
      );
    }

    await vi.waitUntil(() => shown.length === 2, { timeout: 60_000 });
    expect(shown).toEqual([
      ["q2", "Waiting for its turn: position 1 in the queue of this repository, where one run is active at a time."],
      ["q3", "Waiting for its turn: position 2 in the queue of this repository, where one run is active at a time."],
    ]);
    closing.get("q1")?.();

    await vi.waitUntil(() => closing.has("q2"), { timeout: 60_000 });
    await vi.waitUntil(() => shown.length === 3, { timeout: 60_000 });
    expect(shown.at(-1)).toEqual(["q3", expect.stringContaining("position 1 in the queue")]);
    closing.get("q2")?.();
    await vi.waitUntil(() => closing.has("q3"), { timeout: 60_000 });
    closing.get("q3")?.();
    expect([...one.errors, ...other.errors]).toEqual([]);
  });

  test("replicas continue as soon as a restarted database server answers", async () => {
    const folder = await mkdtemp(join(tmpdir(), "golem-restart-"));
    const server = await startPostgresServer(folder);
    const replica = await startHolder(server.url("postgres"));
    await replica.store.ingest({ run: sampleRun("s1", [sampleEffect("s1", "s1/0")]), events: [] });
    replica.dispatch.wake("s1");
    await vi.waitUntil(() => replica.driver.process.mock.calls.length === 1, { timeout: 60_000 });

    await stopPostgresServer(server.pid);
    const hearing = replica.store.ingest({ events: [{ runId: "s1", event: said("meanwhile") }] });
    const restarted = await restartPostgresServer(folder, server);

    expect(await hearing).toBe(true);
    await vi.waitUntil(() => replica.driver.process.mock.calls.length === 2, { timeout: 60_000 });
    expect(replica.driver.revokeLease).toHaveBeenCalledWith("s1");
    expect(await replica.store.claimEffect("s1", "work", 0)).toMatchObject({ key: "s1/0" });
    expect(replica.driver.sweep).toHaveBeenCalled();
    // While the server does not answer, the log names the database.
    expect(replica.errors.map(String).filter((error) => error.startsWith("Error: connect "))).toEqual([]);
    for (const stop of stops.splice(0)) await stop();
    await stopPostgresServer(restarted.pid);
    await rm(folder, { recursive: true, force: true });
  });

  test("every failure of the queue is reported as an error with its message", async () => {
    const url = await newDatabase();
    vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
    try {
      const replica = await startReplica(async () => undefined, { url });
      const client = new pg.Client({ connectionString: url });
      await client.connect();
      await client.query("alter table golem_forge_queue.queue rename to missing");
      await client.end();
      vi.advanceTimersByTime(60_000);
      await expect
        .poll(() => replica.errors.map(String), { timeout: 60_000 })
        .toContainEqual(expect.stringContaining('relation "golem_forge_queue.queue" does not exist'));
      await expect.poll(() => replica.errors.length, { timeout: 60_000 }).toBeGreaterThan(1);
      expect(replica.errors.filter((error) => !(error instanceof Error))).toEqual([]);
      for (const stop of stops.splice(0)) await stop();
    } finally {
      vi.useRealTimers();
    }
  });
});
