import { mkdir, mkdtemp, readFile, rm, stat, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync, StatementSync } from "node:sqlite";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { UserError } from "#domain/errors.ts";
import { sqliteMigrations } from "#runtime/store/sqlite/migrations.ts";
import { openMemoryConnection } from "#runtime/store/sqlite/open-database.ts";
import { openMemoryStore, openSqliteStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import { GroupCommits } from "#runtime/store/sqlite/sqlite-connection.ts";
import { storeConformance } from "../../support/store-conformance.ts";
import { said, sampleApproval, sampleEffect, sampleRun, sampleStep, sampleUsage } from "../../support/store-samples.ts";

let folder: string;
let files = 0;
const newPath = () => join(folder, `${++files}`, "golem-forge.db");

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "golem-store-"));
});
afterAll(() => rm(folder, { recursive: true, force: true }));
afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

test("a statement binds a value wherever its name occurs, and is refused without one of its values", () => {
  const sql = openMemoryConnection();
  const row = z.object({ sum: z.number(), name: z.string() });
  const statement = "select :a + :b + :a as sum, ':c' as name";

  expect(sql.get(row, statement, { b: 2, a: 20 })).toEqual({ sum: 42, name: ":c" });
  expect(() => sql.get(row, statement, { a: 1 })).toThrow("The value :b of a statement is missing.");
  sql.close();
});

storeConformance("a store in memory", async () => openMemoryStore());
storeConformance("a store in a file", () => openSqliteStore(newPath()));

test("a store in memory forgets a run with its children and everything that belongs to them, and keeps the others", async () => {
  const store = openMemoryStore();
  const child = { rootId: "r1", parentId: "r1" };
  const changes = { step: "s1", changes: [{ path: "a.txt", mode: "100644" as const, content: Buffer.from("a") }] };
  for (const [id, spec] of [
    ["r1", {}],
    ["r1.1", child],
    ["r2", {}],
  ] as const) {
    await store.ingest({
      run: sampleRun(id, [sampleEffect(id, `${id} first`), sampleEffect(id, `${id} next`)], spec),
      events: [{ runId: id, event: said("hello") }],
    });
    const timers = { set: [{ timer: "deadline" as const, dueAt: 5 }] };
    await store.advance(sampleStep(id, { seen: 0, timers }));
    await store.completeEffect({
      runId: id,
      key: `${id} first`,
      changes,
      approvals: [sampleApproval(id, `approval of ${id}`, { rootId: spec === child ? "r1" : id })],
      posts: [`approval/approval of ${id}`, `status/${id}`].map((name) => ({ name, commentId: 1 })),
    });
  }
  const stored = async (id: string) => ({
    run: await store.findRun(id),
    log: await store.log(id),
    inbox: await store.inbox(id),
    changes: await store.changesOf(id),
    approval: await store.findApproval(`approval of ${id}`),
    posts: await Promise.all([`approval/approval of ${id}`, `status/${id}`].map((name) => store.findPost(name))),
  });
  const others = await stored("r2");

  expect(store.forget("r1")).toMatchObject({ id: "r1" });

  const nothing = {
    run: undefined,
    log: [],
    inbox: [],
    changes: [],
    approval: undefined,
    posts: [undefined, undefined],
  };
  expect(await stored("r1")).toEqual(nothing);
  expect(await stored("r1.1")).toEqual(nothing);
  expect(await stored("r2")).toEqual(others);
  expect(await store.dueRuns(0)).toEqual(["r2"]);
  expect(await store.fireTimers(10)).toEqual(["r2"]);
});

/** Changes a closed database without the store. */
function tamper(path: string, sql: string): void {
  const database = new DatabaseSync(path);
  database.exec(sql);
  database.close();
}

/** The number of commits in the write-ahead log, and of the pages they have written. */
async function countLog(path: string): Promise<{ commits: number; pages: number }> {
  const log = await readFile(`${path}-wal`);
  const frameBytes = 24 + log.readUInt32BE(8);
  const count = { commits: 0, pages: 0 };
  for (let frame = 32; frame < log.length; frame += frameBytes) {
    count.pages += 1;
    // The last page of each commit has the size of the database.
    if (log.readUInt32BE(frame + 4) > 0) count.commits += 1;
  }
  return count;
}

describe("the file", () => {
  test("the file keeps everything when it is closed and reopened", async () => {
    const path = newPath();
    const first = await openSqliteStore(path);
    await first.ingest({
      deliveryId: "d1",
      run: sampleRun("r1", [sampleEffect("r1", "k1")]),
      events: [{ runId: "r1", event: said("hello") }],
    });
    await first.claimEffect("r1", "work", 0);
    const query = { leaseMs: 600_000, limit: 1 };
    await first.saveDelivery({ key: "d2", queue: "1 2#7", content: {} });
    await first.claimDeliveries(query);
    await first.close();

    const second = await openSqliteStore(path);
    expect(await second.ingest({ deliveryId: "d1", events: [] })).toBe(false);
    expect((await second.inbox("r1")).map(({ event }) => event)).toEqual([said("hello")]);
    expect(await second.dueRuns(0)).toEqual(["r1"]);
    expect(await second.claimEffect("r1", "work", 0)).toMatchObject({ key: "k1", attempts: 2 });
    // What another process had claimed does not have to wait for the end of its lease.
    expect(await second.claimDeliveries(query)).toMatchObject([{ key: "d2", attempts: 2 }]);
    await second.close();
  });

  test("the file has everything requested in the same turn as the close", async () => {
    const path = newPath();
    const first = await openSqliteStore(path);
    const asked = first.ingest({ run: sampleRun("r1"), events: [] });
    await first.close();
    expect(await asked).toBe(true);

    const second = await openSqliteStore(path);
    expect(await second.findRun("r1")).toBeDefined();
    await second.close();
  });

  test("the file and its folder are accessible to their owner only", async () => {
    const path = newPath();
    const store = await openSqliteStore(path);
    await store.ingest({ run: sampleRun("r1"), events: [] });

    for (const file of [path, `${path}-wal`]) expect((await stat(file)).mode & 0o077).toBe(0);
    expect((await stat(join(path, ".."))).mode & 0o077).toBe(0);
    await store.close();
  });

  test("the file can be read by another process, such as a backup, while the store is open", async () => {
    const path = newPath();
    const store = await openSqliteStore(path);
    await store.ingest({ run: sampleRun("r1"), events: [] });

    const reader = new DatabaseSync(path, { readOnly: true });
    expect(reader.prepare("select id from runs").all()).toEqual([{ id: "r1" }]);
    reader.close();
    await store.close();
  });

  test("the file cannot be opened by a second process, under another name either", async () => {
    const path = newPath();
    const store = await openSqliteStore(path);
    const alias = join(folder, "alias.db");
    await symlink(path, alias);

    await expect(openSqliteStore(path)).rejects.toThrow(UserError);
    await expect(openSqliteStore(alias)).rejects.toThrow("is in use by another Golem Forge process");
    await store.ping();
    await store.close();
    await (await openSqliteStore(alias)).close();
  });

  test("a file of a newer version is refused and not changed", async () => {
    const path = newPath();
    await (await openSqliteStore(path)).close();
    tamper(path, "pragma user_version = 99");

    const opening = openSqliteStore(path);
    await expect(opening).rejects.toThrow(UserError);
    await expect(opening).rejects.toThrow("newer version of Golem Forge (schema 99; this one supports up to");

    tamper(path, `pragma user_version = ${sqliteMigrations.length}`);
    await (await openSqliteStore(path)).close();
  });

  test("a file of a version before the first release is refused and not changed", async () => {
    const path = newPath();
    await (await openSqliteStore(path)).close();
    tamper(path, "pragma user_version = 2");

    await expect(openSqliteStore(path)).rejects.toThrow(
      "was written before the first release of Golem Forge (schema 2; this one supports 3 to",
    );

    tamper(path, `pragma user_version = ${sqliteMigrations.length}`);
    await (await openSqliteStore(path)).close();
  });

  test.each([
    ["tables", "create table notes (text)"],
    ["an id", "pragma application_id = 42"],
    ["a version", "pragma user_version = 1"],
  ])("a file with %s of another program is refused and not changed", async (_, statement) => {
    const path = join(folder, `other${++files}.db`);
    tamper(path, statement);
    const before = await readFile(path);

    await expect(openSqliteStore(path)).rejects.toThrow("belongs to another program");
    expect(await readFile(path)).toEqual(before);
  });

  test("a file that is not a database, or cannot be created, is refused with a message for people", async () => {
    const text = join(folder, "notes.txt");
    await writeFile(text, "These are notes, not a database, and long enough to be recognized as none. ".repeat(20));
    const directory = join(folder, "directory");
    await mkdir(directory);

    for (const path of [text, directory, join(text, "golem-forge.db")]) {
      const opening = openSqliteStore(path);
      await expect(opening).rejects.toThrow(UserError);
      await expect(opening).rejects.toThrow(`The database ${path} cannot be opened`);
    }
    expect(await readFile(text, "utf8")).toContain("These are notes");
  });

  test.each([
    ["event", `update events set event = '{"type":"unknown"}'`, "log", "Event 1 cannot be read: "],
    ["event", "update events set event = '{'", "log", "Event 1 is not valid JSON."],
    ["approval", "update approvals set approval = '[]'", "approvalsOf", "Approval a1 cannot be read: "],
  ] as const)("a file with an unreadable %s says which: %s", async (_, sql, read, message) => {
    const path = newPath();
    const store = await openSqliteStore(path);
    await store.ingest({
      run: sampleRun("r1", [sampleEffect("r1", "k1")]),
      events: [{ runId: "r1", event: said("hello") }],
    });
    await store.completeEffect({ runId: "r1", key: "k1", approvals: [sampleApproval("r1", "a1")] });
    await store.close();
    tamper(path, sql);

    const broken = await openSqliteStore(path);
    await expect(broken[read]("r1")).rejects.toThrow(message);
    await broken.close();
  });
});

test("the effects of an earlier schema keep their order, their attempts and whether they were requested again", async () => {
  const path = newPath();
  await (await openSqliteStore(path)).close();
  const database = new DatabaseSync(path);
  for (const { name } of database.prepare("select name from sqlite_schema where type = 'table'").all()) {
    if (!String(name).startsWith("sqlite_")) database.exec(`drop table ${name}`);
  }
  const earlier = 11;
  database.exec(sqliteMigrations.slice(0, earlier).join(";"));
  database.exec(`pragma user_version = ${earlier}`);
  database.exec(`insert into runs (id, root_id, owner, repo, thread, requested_by, created_at, updated_at, status, snapshot)
      values ('r1', 'r1', 'ada', 'engine', 1, 'ada', 0, 0, 'active', '{}');
    insert into effects (id, key, run_id, queue, kind, input, due_at, attempts, claimed, repeat) values
      (7, 'z', 'r1', 'work', 'model.call', '{"version":1}', 0, 2, 1, 1),
      (9, 'b', 'r1', 'work', 'model.call', '{"version":1}', 5.5, 0, 0, 0),
      (12, 'a', 'r1', 'thread', 'approvals.close', '{"version":1}', 0, 0, 0, 0)`);
  database.close();

  const store = await openSqliteStore(path);
  expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "z", attempts: 3 });
  expect(await store.completeEffect({ runId: "r1", key: "z" })).toBe(true);
  expect(await store.claimEffect("r1", "work", 0)).toMatchObject({ key: "z", attempts: 1 });
  expect(await store.completeEffect({ runId: "r1", key: "z" })).toBe(true);
  await store.ingest({ events: [], effects: [sampleEffect("r1", "aa")] });
  expect(await store.claimEffect("r1", "work", 6)).toMatchObject({ key: "b", dueAt: 5.5, attempts: 1 });
  expect(await store.completeEffect({ runId: "r1", key: "b" })).toBe(true);
  expect(await store.claimEffect("r1", "work", 6)).toMatchObject({ key: "aa" });
  expect(await store.claimEffect("r1", "thread", 6)).toMatchObject({ key: "a", request: { kind: "approvals.close" } });
  await store.close();
});

test("a step of a run that works writes a page for the run, two for its event and its index, one for their counter, and one for the effects", async () => {
  const path = newPath();
  const store = await openSqliteStore(path);
  await store.ingest({ run: sampleRun("r1", [sampleEffect("r1", "k1")]), events: [] });
  const before = await countLog(path);

  await store.completeStep(
    { runId: "r1", key: "k1", events: [{ runId: "r1", event: said("hello") }] },
    {
      ...{ rootId: "r1", queue: "work", now: 0 },
      advance: (_, inbox) =>
        sampleStep("r1", { consumed: inbox.map(({ id }) => id), effects: [sampleEffect("r1", "k2")] }),
    },
  );

  expect((await countLog(path)).pages - before.pages).toBe(5);
  await store.close();
});

describe("group commit", () => {
  test("many calls of one turn are one commit, and none resolves before it", async () => {
    const path = newPath();
    const store = await openSqliteStore(path);
    await store.ingest({ run: sampleRun("r1"), events: [] });
    const before = await countLog(path);
    const reader = new DatabaseSync(path, { readOnly: true });
    const countEvents = () => reader.prepare("select count(*) as events from events").get()?.events;

    const seen: unknown[] = [];
    const calls = Array.from({ length: 200 }, async (_, n) => {
      await store.ingest({ deliveryId: `d${n}`, events: [{ runId: "r1", event: said(`${n}`) }] });
      seen.push(countEvents());
    });
    expect(countEvents()).toBe(0);
    await Promise.all(calls);

    expect(new Set(seen)).toEqual(new Set([200]));
    expect((await countLog(path)).commits - before.commits).toBe(1);
    reader.close();
    await store.close();
  });

  test("calls of successive turns share a commit until a turn makes none, so that 50 new connections do not cost 50 commits", async () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    const { commits, add, log } = recordedCommits();

    const calls: Promise<unknown>[] = [];
    for (let turn = 0; turn < 50; turn += 1) {
      calls.push(add());
      await nextTurn();
    }
    await Promise.all(calls);

    expect(log).toEqual([...calls.map(() => "added"), "commit"]);
    await commits.close();
  });

  test("calls are committed after four milliseconds, although every turn makes another one", async () => {
    vi.useFakeTimers({ toFake: ["performance"] });
    const { commits, add, log } = recordedCommits();

    for (let turn = 0; turn < 6; turn += 1) {
      void add();
      vi.advanceTimersByTime(2);
      await nextTurn();
    }

    expect(log).toEqual(["added", "added", "commit", "added", "added", "commit", "added", "added", "commit"]);
    await commits.close();
  });

  test("calls that change nothing do not write to the file", async () => {
    const path = newPath();
    const store = await openSqliteStore(path);
    await store.ingest({ deliveryId: "d1", run: sampleRun("r1"), events: [] });
    const before = (await stat(`${path}-wal`)).size;

    await store.ingest({ deliveryId: "d1", events: [] });
    await store.claimEffect("r1", "work", 0);
    await store.advance(sampleStep("r1", { version: 7 }));
    await store.fireTimers(0);
    await store.findRun("r1");

    expect((await stat(`${path}-wal`)).size).toBe(before);
    await store.close();
  });

  const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

  /** Commits to a database in memory, and a log of what was added and committed. */
  function recordedCommits() {
    const log: string[] = [];
    const sql = openMemoryConnection();
    const run: typeof sql.run = (text, values) => {
      if (text === "commit") log.push(text);
      return sql.run(text, values);
    };
    const commits = new GroupCommits({ ...sql, run });
    return { commits, log, add: () => commits.write(() => log.push("added")) };
  }

  /** Makes the next statement of this text fail, as when the disk is full; first `before` happens to the database. */
  function failNext(text: string, before: (database: DatabaseSync) => void = () => {}): void {
    const databases = vi.mocked(DatabaseSync.prototype.prepare).mock.contexts;
    const run = StatementSync.prototype.run;
    const failing = vi.spyOn(StatementSync.prototype, "run").mockImplementation(function (
      this: StatementSync,
      ...values
    ) {
      if (!this.sourceSQL.startsWith(text)) return Reflect.apply(run, this, values);
      failing.mockRestore();
      before(databases.at(-1) as DatabaseSync);
      throw new Error("database or disk is full");
    });
  }

  async function openWatched() {
    vi.spyOn(DatabaseSync.prototype, "prepare");
    const store = await openSqliteStore(newPath());
    await store.ingest({ run: sampleRun("r1"), events: [] });
    const say = (text: string) => store.ingest({ events: [{ runId: "r1", event: said(text) }] });
    const texts = async () => (await store.log("r1")).map(({ event }) => "text" in event && event.text);
    return { store, say, texts };
  }

  test("a failed commit rejects every call of its turn, and the next turn works again", async () => {
    const { store, say, texts } = await openWatched();
    failNext("commit");

    const outcomes = await Promise.allSettled([say("one"), say("two"), texts()]);

    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected", "rejected"]);
    expect(await texts()).toEqual([]);
    await say("three");
    expect(await texts()).toEqual(["three"]);
    await store.close();
  });

  test("the first call of a turn stores nothing if it fails, and the calls after it are stored", async () => {
    const { store, say, texts } = await openWatched();
    failNext("insert into inbox");

    const outcomes = await Promise.allSettled([say("one"), say("two"), say("three")]);

    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "fulfilled", "fulfilled"]);
    expect(await texts()).toEqual(["two", "three"]);
    await store.close();
  });

  test("a run that could not be stored has the spec with which it is stored later", async () => {
    const store = await openSqliteStore(newPath());
    const failed = store.ingest({ run: sampleRun("r1"), events: [{ runId: "unknown", event: said("hello") }] });
    await expect(failed).rejects.toThrow("Run unknown not found.");

    await store.ingest({ run: sampleRun("r1", [], { workerPath: "other" }), events: [] });

    expect(await store.findRun("r1")).toMatchObject({ spec: { workerPath: "other" } });
    await store.close();
  });

  test("a failure that rolls the whole transaction back rejects the calls before it, and not those after it", async () => {
    const { store, say, texts } = await openWatched();

    const before = say("one");
    failNext("insert into inbox", (database) => database.exec("rollback"));
    const outcomes = await Promise.allSettled([before, say("two"), say("three")]);

    expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected", "fulfilled"]);
    expect(await texts()).toEqual(["three"]);
    await store.close();
  });
});

describe("query plans", () => {
  // These contain only pending work, or are read for one row.
  const scannable =
    /^SCAN (inbox|\w+ USING (COVERING )?INDEX (runs_by_state|effects_later|timers_due|approvals_expiring))$/;

  test("no query scans a whole table or sorts rows that an index has in order", async () => {
    const path = newPath();
    const prepare = vi.spyOn(DatabaseSync.prototype, "prepare");
    const store = await openSqliteStore(path);
    await useEverything(store);
    await store.close();
    const queries = [...new Set(prepare.mock.calls.map(([sql]) => sql))].filter((sql) =>
      /^(select|insert|update|delete)/.test(sql),
    );
    prepare.mockRestore();

    const database = new DatabaseSync(path);
    const slow = queries
      // These tables contain only pending work, and all of it is counted, or read by a start.
      .filter((sql) => !sql.includes("sqlite_schema") && !/count\(.* from (effects|pending_deliveries)/s.test(sql))
      .filter((sql) => !/from effects where due_at <= |update effects set due_at = \?\d where claimed = 0/.test(sql))
      .flatMap((sql) =>
        database
          .prepare(`explain query plan ${sql}`)
          .all()
          .map(({ detail }) => String(detail))
          .filter((step) => (step.startsWith("SCAN") && !scannable.test(step)) || step.includes("ORDER BY"))
          .map((step) => `${step}: ${sql}`),
      );
    database.close();

    expect(slow).toEqual([]);
    expect(queries.length).toBeGreaterThan(35);
  });

  async function useEverything(store: Awaited<ReturnType<typeof openSqliteStore>>): Promise<void> {
    const thread = { owner: "ada", repo: "engine", thread: 7 };
    await store.ingest({
      deliveryId: "d1",
      run: sampleRun("r1", [sampleEffect("r1", "k1")]),
      events: [{ runId: "r1", event: said("hello"), dedupe: "e1" }],
    });
    await store.advance(
      sampleStep("r1", {
        consumed: (await store.inbox("r1")).map(({ id }) => id),
        effects: [sampleEffect("r1", "k2"), sampleEffect("r1", "k3")],
        cancelEffects: { kinds: ["other"] },
        timers: { set: [{ timer: "deadline", dueAt: 100 }], clear: ["retry"] },
        withdrawApprovals: true,
        usage: sampleUsage(),
      }),
    );
    await store.dailyCosts({ from: "1970-01-01", to: "1970-01-01" });
    await store.readBacklog(0);
    await store.claimEffect("r1", "work", 0);
    await store.completeEffect({
      runId: "r1",
      key: "k1",
      changes: { step: "c", changes: [{ path: "a", content: new Uint8Array(1), mode: "100644" }] },
      approvals: [sampleApproval("r1", "a1"), sampleApproval("r1", "a2")],
      execution: { approvalId: "a0", outcome: "executed" },
      shownApproval: "a0",
      posts: [{ name: "p", commentId: 1 }],
    });
    await store.postponeEffect({ runId: "r1", key: "k2" }, 50);
    await store.decideApproval({ approvalId: "a1", decision: "approved", by: "ada", now: 1, deliveryId: "d2" });
    await store.nextDueAt();
    await store.dueRuns(99);
    await store.postponedRuns(99);
    await store.fireTimers(10_000);
    await store.log("r1");
    await store.changesOf("r1");
    await store.findPost("p");
    await store.findApproval("a1");
    await store.approvalsOf("r1");
    await store.runsOfThread(thread);
    await store.childrenOf("r1");
    for (const requestedBy of [undefined, "ada"]) {
      await store.countRuns({ requestedBy, since: 0 });
      await store.countRuns({ requestedBy, owner: "ada", repo: "engine", since: 0 });
    }
    await store.ingest({ run: sampleRun("r9", [sampleEffect("r9", "k9")]), events: [] });
    await store.completeEffect({
      runId: "r9",
      key: "k9",
      changes: { step: "c", changes: [{ path: "a", content: new Uint8Array(1), mode: "100644" }] },
    });
    await store.advance(sampleStep("r9", { status: "done" }));
    expect(await store.removeExpired({ runsEndedBefore: Date.now() + 60_000, deliveriesBefore: 0 })).toBe(true);
  }
});
