import { randomUUID } from "node:crypto";
import { inspect } from "node:util";
import pg from "pg";
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { UserError } from "#domain/errors.ts";
import { openPostgresStore } from "#runtime/store/postgres/open-postgres-store.ts";
import { openPostgresConnection, type PostgresConnection } from "#runtime/store/postgres/postgres-connection.ts";
import type { Store } from "#runtime/store/store.ts";
import { postgresPrograms, whyNoPostgres } from "../../support/postgres-server.ts";
import { testDatabases } from "../../support/shared-postgres.ts";
import { storeConformance } from "../../support/store-conformance.ts";
import { storeModel } from "../../support/store-model.ts";
import { said, sampleApproval, sampleEffect, sampleRun, sampleStep } from "../../support/store-samples.ts";

const newDatabase = testDatabases();

if (!postgresPrograms) test.skip(`PostgreSQL is not tested here: ${whyNoPostgres}`, () => undefined);

describe.skipIf(!postgresPrograms)("PostgreSQL", () => {
  let connection: PostgresConnection | undefined;
  const statements = new Map<string, number>();
  let watched: { mockRestore(): void } | undefined;
  beforeAll(() => {
    const query = pg.Client.prototype.query as (...values: unknown[]) => unknown;
    watched = vi.spyOn(pg.Client.prototype, "query").mockImplementation(function (
      this: pg.Client,
      ...asked: unknown[]
    ) {
      const { name, text = "", values = [] } = asked[0] as { name?: string; text?: string; values?: unknown[] };
      if (name) statements.set(text, values.length);
      return Reflect.apply(query, this, asked);
    } as never);
  });
  afterAll(async () => {
    watched?.mockRestore();
    await connection?.close();
  });

  /** An empty one, over a connection that all tests share. */
  async function openEmpty(): Promise<Store> {
    connection ??= await openPostgresConnection(await newDatabase());
    await connection.transaction(async (sql) => {
      await sql.script(
        `delete from deliveries; delete from pending_deliveries; delete from inbox; delete from events; delete from effects; delete from timers;
          delete from approvals; delete from posts; delete from changes; delete from change_sets; delete from blobs;
          delete from runs; delete from repositories`,
      );
      return { result: undefined };
    });
    return openPostgresStore({ ...connection, close: async () => undefined });
  }

  storeConformance("a PostgreSQL store", openEmpty);
  storeModel("the PostgreSQL store", openEmpty, 20);

  test("a delivery that a replica claimed is not taken by one whose clock is an hour ahead", async () => {
    const url = await newDatabase();
    const [one, ahead] = [
      openPostgresStore(await openPostgresConnection(url)),
      openPostgresStore(await openPostgresConnection(url)),
    ];
    const claim = { leaseMs: 60_000, limit: 1 };
    await one.saveDelivery({ key: "d1", queue: "7 11#1", content: {} });
    await one.claimDeliveries(claim);
    const clock = vi.spyOn(Date, "now").mockReturnValue(Date.now() + 60 * 60_000);
    try {
      expect(await ahead.claimDeliveries(claim)).toEqual([]);

      // Work that it postpones must not be due an hour too late for the others.
      await ahead.postponeDelivery({ key: "d1", attempts: 1 }, 0);
      clock.mockRestore();
      expect(await one.claimDeliveries(claim)).toMatchObject([{ key: "d1", attempts: 2 }]);
    } finally {
      clock.mockRestore();
      await Promise.all([one.close(), ahead.close()]);
    }
  });

  test("a process that is suspended within a transaction does not keep others waiting, and stores its work when it resumes", async () => {
    const url = await newDatabase();
    const [suspended, other] = [await openPostgresConnection(url), await openPostgresConnection(url)];
    const lock = "select pg_advisory_xact_lock(1)";
    const { promise: isLocked, resolve: locked } = Promise.withResolvers<void>();
    const { promise: resumed, resolve: resume } = Promise.withResolvers<void>();
    const stored = suspended.transaction(async (sql) => {
      await sql.run(lock);
      locked();
      await resumed;
      await sql.run("insert into deliveries (guid, part, received_at) values ('resumed', '', 0)");
      return { result: "stored" };
    });
    try {
      await isLocked;

      await other.transaction(async (sql) => ({ result: await sql.run(lock) }));

      resume();
      expect(await stored).toBe("stored");
    } finally {
      resume();
      await Promise.all([suspended.close(), other.close()]);
    }
  });

  test("a database whose tables belong to another role is opened, although it was restored", async () => {
    const url = await newDatabase();
    await (await openPostgresConnection(url)).close();
    const owner = new pg.Client({ connectionString: url });
    await owner.connect();
    onTestFinished(() => owner.end());
    const role = `app_${randomUUID().replaceAll("-", "")}`;
    await owner.query(`create role ${role} login; grant usage on schema golem_forge to ${role};
      grant select, insert, update, delete on all tables in schema golem_forge to ${role};
      comment on table golem_forge.schema_version is 'of the original'`);
    const guest = new URL(url);
    guest.username = role;

    const opened = await openPostgresConnection(guest.href);

    await opened.ping();
    await opened.close();
  });

  test("a transaction with a failed statement that nobody noticed is not taken for committed", async () => {
    const connection = await openPostgresConnection(await newDatabase());
    try {
      const stored = connection.transaction(async (sql) => {
        await sql.script("select 1 / 0").catch(() => undefined);
        return { result: "stored" };
      });

      await expect(stored).rejects.toThrow("A transaction was rolled back instead of committed.");
    } finally {
      await connection.close();
    }
  });

  test("nothing that a failed transaction has begun continues after its rollback", async () => {
    const connection = await openPostgresConnection(await newDatabase());
    try {
      const rolledBack = Promise.withResolvers<void>();
      let late: Promise<unknown> | undefined;
      const failed = connection.transaction(async (sql) => {
        late = rolledBack.promise.then(() => sql.run("create table late ()"));
        await sql.script("select 1 / 0");
        return { result: "stored" };
      });

      await expect(failed).rejects.toThrow("division by zero");
      rolledBack.resolve();

      await expect(late).rejects.toThrow("The transaction has ended.");
    } finally {
      await connection.close();
    }
  });

  describe("two stores over one database", () => {
    const closing: (() => Promise<unknown>)[] = [];
    afterEach(async () => {
      for (const close of closing.splice(0)) await close();
    });

    async function openTwo() {
      const database = await newDatabase();
      const connections = await Promise.all([openPostgresConnection(database), openPostgresConnection(database)]);
      const [one, other] = connections.map((opened) => openPostgresStore(opened)) as [Store, Store];
      const sql = new pg.Client({ connectionString: database });
      await sql.connect();
      closing.push(one.close, other.close, () => sql.end());
      return { one, other, sql };
    }
    const textsOf = async (store: Store, runId: string) =>
      (await store.log(runId)).map(({ event }) => ("text" in event ? event.text : event.type));

    test("two stores create the schema once when they open at the same time, and see each other's writes", async () => {
      const { one, other } = await openTwo();

      await one.ingest({ run: sampleRun("r1"), events: [{ runId: "r1", event: said("hello") }] });

      expect(await textsOf(other, "r1")).toEqual(["hello"]);
    });

    test("two stores start no more runs than a limit allows, when both are asked at the same time", async () => {
      const { one, other } = await openTwo();
      const limits = [{ requestedBy: "ada", since: 0, max: 1 }];
      const start = (store: Store, id: string) => store.ingest({ run: sampleRun(id), limits, events: [] });

      const started = await Promise.allSettled([1, 2, 3].flatMap((n) => [start(one, `a${n}`), start(other, `b${n}`)]));

      expect(started.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
      expect(await one.countRuns({ since: 0 })).toBe(1);
    });

    test("two stores store a delivery once, decide once and fire a timer once, when both are asked at the same time", async () => {
      const { one, other } = await openTwo();
      const both = <Result>(ask: (store: Store) => Promise<Result>) => Promise.all([ask(one), ask(other)]);
      const runIds = Array.from({ length: 20 }, (_, n) => `r${n}`);
      await Promise.all(
        runIds.map(async (id) => {
          await one.ingest({ run: sampleRun(id, [sampleEffect(id, `${id}/0`)]), events: [] });
          await one.completeEffect({ runId: id, key: `${id}/0`, approvals: [sampleApproval(id, `a-${id}`)] });
          await one.advance(sampleStep(id, { timers: { set: [{ timer: "retry", dueAt: 100 }] } }));
        }),
      );

      const claimed = await Promise.all(
        runIds.map((runId) =>
          both((store) => store.ingest({ deliveryId: runId, events: [{ runId, event: said("hi") }] })),
        ),
      );
      const woken = await both((store) => store.fireTimers(100));
      const decided = await Promise.all(
        runIds.map((id) =>
          both((store) => store.decideApproval({ approvalId: `a-${id}`, decision: "approved", by: "ada", now: 1_000 })),
        ),
      );

      expect(claimed.map((taken) => taken.filter(Boolean).length)).toEqual(runIds.map(() => 1));
      expect(woken.flat().sort()).toEqual(runIds.toSorted());
      expect(decided.map((kinds) => kinds.map(({ kind }) => kind).sort())).toEqual(
        runIds.map(() => ["decided", "settled"]),
      );
      for (const id of runIds) expect(await textsOf(other, id)).toEqual(["hi", "timer.due", "approval.granted"]);
    });

    test("a store keeps the log of a run that gets something to do while another one is about to remove it", async () => {
      const { one, other, sql } = await openTwo();
      await one.ingest({ run: sampleRun("r1"), events: [{ runId: "r1", event: said("hello") }] });
      await one.advance(sampleStep("r1", { status: "done" }));
      const expired = { runsEndedBefore: Number.MAX_SAFE_INTEGER, deliveriesBefore: 0 };

      await sql.query("begin; select 1 from golem_forge.runs where id = 'r1' for update");
      const removing = other.removeExpired(expired);
      const isWaiting = async () => (await sql.query("select 1 from pg_locks where not granted")).rows.length > 0;
      await vi.waitUntil(isWaiting, { timeout: 60_000, interval: 20 });
      await sql.query(`insert into golem_forge.effects (key, run_id, queue, kind, input, due_at, requested_at)
        values ('k1', 'r1', 'work', 'model.call', '{"version": 1}', 0, 0)`);
      await sql.query("commit");

      await removing;
      expect(await textsOf(one, "r1")).toEqual(["hello"]);
    });

    test("two stores number the events of a run in the order of their commits, so that a reader misses none", async () => {
      const { one, sql } = await openTwo();
      await one.ingest({ run: sampleRun("r1"), events: [] });
      await sql.query("begin");
      await sql.query("select 1 from golem_forge.runs where id = 'r1' for no key update");

      const later = one.ingest({ events: [{ runId: "r1", event: said("later") }] });
      await vi.waitUntil(
        async () => {
          const waiting =
            "select 1 from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()";
          await sql.query("select pg_stat_clear_snapshot()");
          return (await sql.query(waiting)).rowCount === 1;
        },
        { timeout: 60_000 },
      );
      await sql.query(`insert into golem_forge.events (run_id, at, event) values ('r1', 0, $1)`, [
        JSON.stringify(said("first")),
      ]);
      await sql.query("commit");
      await later;

      expect(await textsOf(one, "r1")).toEqual(["first", "later"]);
    });

    test("two stores do not deadlock, in whatever order they touch the same runs", async () => {
      const { one, other } = await openTwo();
      for (const id of ["r1", "r2"]) await one.ingest({ run: sampleRun(id), events: [] });
      const events = (n: number) => ["r1", "r2"].map((runId) => ({ runId, event: said(`${n}`) }));

      await Promise.all(
        [one, other].flatMap((store, index) =>
          Array.from({ length: 20 }, (_, n) => store.ingest({ events: index === 0 ? events(n) : events(n).reverse() })),
        ),
      );

      expect(await one.log("r1")).toHaveLength(40);
    });

    test("stores report a full disk until a delivery has space again, although small writes succeed", async () => {
      const { one, sql } = await openTwo();
      const delivery = { key: "full", queue: "q", content: {} };
      await sql.query(`set search_path to golem_forge;
        create function refuse() returns trigger as $$ begin raise 'No space left on device' using errcode = '53100'; end $$ language plpgsql;
        create trigger full_disk before insert on pending_deliveries for each row execute function refuse()`);

      await expect(one.saveDelivery(delivery)).rejects.toThrow(
        /^The disk of the database .* is full\. Free some space\./,
      );
      await expect(one.ping()).rejects.toThrow(/ is full\. /);
      await sql.query("drop trigger full_disk on pending_deliveries");
      await one.ping();

      expect(await one.saveDelivery(delivery)).toBe(true);
    });

    test("stores continue when the server drops their connections", async () => {
      const { one, sql } = await openTwo();
      await one.ingest({ run: sampleRun("r1"), events: [] });

      await sql.query(
        "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname = current_database()",
      );
      await one.ingest({ events: [{ runId: "r1", event: said("hello") }] });

      expect(await textsOf(one, "r1")).toEqual(["hello"]);
    });
  });

  describe("databases", () => {
    const opening = async (prepare: (sql: pg.Client) => Promise<unknown>) => {
      const database = await newDatabase();
      const sql = new pg.Client({ connectionString: database });
      await sql.connect();
      await prepare(sql);
      await sql.end();
      return openPostgresConnection(database);
    };

    test.each([
      [99, "by a newer version of Golem Forge (schema 99; this one supports up to"],
      [2, "before the first release of Golem Forge (schema 2; this one supports 3 to"],
    ])("a database of schema %i is refused: it was written %s", async (version, reason) => {
      await expect(
        opening((sql) =>
          sql.query(`create schema golem_forge; create table golem_forge.schema_version (version integer);
            insert into golem_forge.schema_version values (${version})`),
        ),
      ).rejects.toThrow(`was written ${reason}`);
    });

    test("a database whose schema is another program's is refused", async () => {
      await expect(
        opening((sql) => sql.query("create schema golem_forge; create table golem_forge.songs (title text)")),
      ).rejects.toThrow("belongs to another program");
    });

    test("a database that cannot be reached is refused with a message for people, without the password", async () => {
      const refused = await openPostgresConnection("postgres://forge:hunter2hunter2@127.0.0.1:1/forge").catch(
        (error) => error,
      );

      expect(refused).toBeInstanceOf(UserError);
      expect(refused.message).toMatch(/^The database forge at 127\.0\.0\.1:1 cannot be opened: .*ECONNREFUSED/);
      expect(refused.message).not.toContain("hunter2");
    });

    test.each([
      ["postgres://forge:hunter2hunter2@[::1/forge", "it is not the address of a PostgreSQL database"],
      ["postgres://forge:hunter2hunter2@db/forge?sslrootcert=/no/such/file", "/no/such/file cannot be read (ENOENT)"],
    ])("a database whose address cannot be used is refused without the password: %s", async (url, words) => {
      const refused = await openPostgresConnection(url).catch((error) => error);

      expect(refused).toBeInstanceOf(UserError);
      expect(refused.message).toContain(words);
      expect(inspect(refused)).not.toContain("hunter2");
    });

    test("an unreadable row of a database is named", async () => {
      const store = await openEmpty();
      await store.ingest({ run: sampleRun("r1"), events: [{ runId: "r1", event: said("hello") }] });
      await connection?.raw('update events set event = \'{"type":"nonsense"}\'');

      await expect(store.log("r1")).rejects.toThrow(/Event \d+ cannot be read/);
    });
  });

  test("no statement of the tests above scans a whole table", async () => {
    await openEmpty();
    // The whole schema is read at the start alone.
    const asked = [...statements].filter(
      ([text]) =>
        /^(select|insert|update|delete|with)/.test(text) &&
        !text.includes("pg_") &&
        // These tables contain only pending work, and all of it is counted.
        !/count\(.* from (effects|pending_deliveries)/s.test(text),
    );
    const slow: string[] = [];
    await connection?.transaction(async (sql) => {
      await sql.script("set local enable_seqscan = off; set local plan_cache_mode = force_generic_plan");
      for (const [index, [text, values]] of asked.entries()) {
        await sql.script(`prepare asked_${index} as ${text}`);
        const given = values > 0 ? `(${Array.from({ length: values }, () => "null").join(", ")})` : "";
        const { rows } = await sql.raw(`explain execute asked_${index}${given}`);
        const plan = (rows as { "QUERY PLAN": string }[]).map((row) => row["QUERY PLAN"]).join("\n");
        if (/Seq Scan on (?!schema_version)/.test(plan)) slow.push(`${text}\n${plan}`);
      }
      return { result: undefined, undo: true };
    });

    expect(slow).toEqual([]);
    expect(asked.length).toBeGreaterThan(30);
  });
});
