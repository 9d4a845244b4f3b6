import { copyFile, mkdtemp, open, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { PassThrough } from "node:stream";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { DispatchTarget } from "#runtime/scheduler/dispatch.ts";
import { tables as copiedTables } from "#runtime/store/copy-database.ts";
import { openPostgresStore, openSharedStore } from "#runtime/store/postgres/open-postgres-store.ts";
import { openPostgresConnection } from "#runtime/store/postgres/postgres-connection.ts";
import { openSqliteStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import type { Store } from "#runtime/store/store.ts";
import { golem } from "#terminal/golem/golem-command.ts";
import { hasSharedServer, testDatabases } from "../support/shared-postgres.ts";
import {
  said,
  sampleApproval,
  sampleEffect,
  sampleRun,
  sampleSnapshot,
  sampleSpec,
  sampleStep,
  sampleUsage,
} from "../support/store-samples.ts";

const newDatabase = testDatabases();

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "golem-db-"));
  path = join(folder, "forge.db");
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** Overwrites everything after the first pages of a database. */
async function damage(database: string): Promise<void> {
  const file = await open(database, "r+");
  const { size } = await file.stat();
  await file.write(Buffer.alloc(size - 16_384, 0xa5), 0, size - 16_384, 16_384);
  await file.close();
}

/** Runs `golem db …` in the folder and returns its exit code and everything it printed. */
function db(...args: string[]): Promise<{ code: number; text: string }> {
  return command("db", ...args);
}

async function command(...args: string[]): Promise<{ code: number; text: string }> {
  const streams = [new PassThrough(), new PassThrough(), new PassThrough()] as const;
  let text = "";
  for (const stream of streams) stream.on("data", (chunk) => (text += String(chunk)));
  const [input, output, errors] = streams;
  const environment = { DATABASE_URL: `file:${path}`, PATH: process.env.PATH };
  const code = await golem(args, { cwd: folder, env: environment, input, output, errors, leave: () => {} });
  return { code, text };
}

/** A run with a child, a log, changed files, approvals, a timer, a pending delivery and a ledger. */
async function fill(store: Store): Promise<void> {
  await store.saveLocation({
    repositoryId: 11,
    installationId: 1,
    ownerId: 5,
    owner: "Ada",
    repo: "Engine",
    at: 2_000,
    createdAt: 500,
  });
  const spec = sampleSpec("r1");
  const run = {
    ...sampleRun("r1", [sampleEffect("r1", "k1")]),
    spec: { ...spec, origin: { ...spec.origin, owner: "Ada" } },
  };
  await store.ingest({ deliveryId: "d1", run, events: [{ runId: "r1", event: said("hello \u0000 🙂") }] });
  await store.claimEffect("r1", "work", 0);
  const bytes = new Uint8Array([0, 1, 254, 255]);
  await store.completeEffect({
    runId: "r1",
    key: "k1",
    events: [{ runId: "r1", event: said("more"), dedupe: "once" }],
    changes: {
      step: "c1",
      changes: [
        { path: "b", content: bytes, mode: "100644" },
        { path: "a", content: undefined, mode: "100755" },
      ],
    },
    approvals: [sampleApproval("r1", "a1"), sampleApproval("r1", "a2")],
    posts: [
      { name: "status/r1", commentId: 99, shown: { comments: [{ id: 99, digest: "d", updatedAt: 1 }], revision: 0 } },
    ],
    run: { ...sampleRun("r2", []), spec: { ...sampleSpec("r2"), rootId: "r1", parentId: "r1" } },
    effects: [{ ...sampleEffect("r1", "k2"), dueAt: 5 }, sampleEffect("r1", "k3", { queue: "thread" })],
  });
  await store.decideApproval({ approvalId: "a1", decision: "approved", by: "ada", now: 1, deliveryId: "d2" });
  await store.advance(sampleStep("r1", { timers: { set: [{ timer: "deadline", dueAt: 100 }] } }));
  await store.claimEffect("r1", "work", 10);
  await store.advance(sampleStep("r2", { status: "waiting", snapshot: sampleSnapshot("idle"), usage: sampleUsage() }));
  await store.saveDelivery({ key: "p1", queue: "q", content: { text: "x" } });
}

/** Everything that `fill` stored, as the store returns it. */
async function contentsOf(store: Store) {
  return {
    run: await store.findRun("r1"),
    children: await store.childrenOf("r1"),
    thread: await store.runsOfThread({ owner: "ADA", repo: "engine", thread: 7 }),
    log: await store.log("r1"),
    inbox: await store.inbox("r1"),
    changes: await store.changesOf("r1"),
    approvals: await store.approvalsOf("r1"),
    ledger: await store.readLedger(0, 100),
    post: await store.findPost("status/r1"),
    location: await store.findLocation(11),
    costs: await store.dailyCosts({ from: "1970-01-01", to: "1970-01-01" }),
    states: (await store.readBacklog(0)).runs,
    due: await store.nextDueAt(),
    delivery: await store.hasDelivery("d1"),
    again: await store.decideApproval({ approvalId: "a1", decision: "denied", by: "bob", now: 2, deliveryId: "d2" }),
    effect: await store.claimEffect("r1", "work", 10),
    unclaimed: await store.claimEffect("r1", "thread", 10),
    pending: (await store.claimDeliveries({ leaseMs: 1, limit: 1 }))[0],
  };
}

describe("golem db backup and restore", () => {
  test("golem db backup copies a database in use, and restore restores it unchanged", async () => {
    const store = await openSqliteStore(path);
    await fill(store);

    expect(await db("backup", "forge.backup")).toMatchObject({ code: 0 });
    expect((await stat(join(folder, "forge.backup"))).mode & 0o777).toBe(0o600);
    const expected = await contentsOf(store);
    await store.ingest({ run: sampleRun("later"), events: [] });
    expect(await db("restore", "forge.backup")).toMatchObject({
      code: 2,
      text: expect.stringContaining("is in use by another Golem Forge process"),
    });
    await store.close();
    const { code, text } = await db("restore", "forge.backup");

    expect(code).toBe(0);
    const restored = await openSqliteStore(path);
    const contents = await contentsOf(restored);
    expect(contents).toEqual({
      ...expected,
      // It may have been processed after the backup.
      pending: { ...expected.pending, attempts: 2 },
      effect: { ...expected.effect, attempts: 2 },
      unclaimed: { ...expected.unclaimed, attempts: 2 },
    });
    expect(await restored.findRun("later")).toBeUndefined();
    await restored.close();
    const replaced = await openSqliteStore(/previous database is now (.*)\.\n/.exec(text)?.[1] ?? "");
    expect(await replaced.findRun("later")).toBeDefined();
    await replaced.close();
  });

  test("apply the log of a copied database, and never that of a replaced one", async () => {
    const store = await openSqliteStore(path);
    await fill(store);
    await db("backup", "forge.backup");
    await store.ingest({ run: sampleRun("later"), events: [] });
    // As after kill -9: the log of the database exists, and no process has it open.
    const [main, log] = await Promise.all([readFile(path), readFile(`${path}-wal`)]);
    await store.close();
    await writeFile(path, main);
    await writeFile(`${path}-wal`, log);

    const { code, text } = await db("restore", "forge.backup");

    expect(code).toBe(0);
    const restored = await openSqliteStore(path);
    expect(await restored.findRun("later")).toBeUndefined();
    await restored.close();

    // The replaced database has the contents of its log, which is gone.
    const previous = /previous database is now (.*)\.\n/.exec(text)?.[1] ?? "";
    expect((await readdir(folder)).filter((name) => /-(wal|shm)$/.test(name))).toEqual([]);
    const replaced = await openSqliteStore(previous);
    expect(await replaced.findRun("later")).toBeDefined();
    await replaced.close();

    // A copy of the files, with which the log belongs.
    await writeFile(join(folder, "copied.db"), main, { mode: 0o644 });
    await writeFile(join(folder, "copied.db-wal"), log);
    expect(await db("restore", "copied.db")).toMatchObject({ code: 0 });
    expect((await stat(path)).mode & 0o777).toBe(0o600);
    const withLog = await openSqliteStore(path);
    expect(await withLog.findRun("later")).toBeDefined();
    await withLog.close();
  });

  test("overwrite no file, and refuse a damaged backup", async () => {
    await (await openSqliteStore(path)).close();
    await writeFile(join(folder, "taken"), "mine");
    expect(await db("backup", "taken")).toMatchObject({
      code: 2,
      text: expect.stringContaining("file already exists"),
    });
    expect(await readFile(join(folder, "taken"), "utf8")).toBe("mine");

    expect(await db("restore", "taken")).toMatchObject({ code: 2, text: expect.stringContaining("cannot be read") });
    await db("backup", "broken");
    await damage(join(folder, "broken"));
    const before = await readFile(path);
    expect(await db("restore", "broken")).toMatchObject({
      code: 2,
      text: expect.stringMatching(/broken is damaged: /),
    });
    expect(await readFile(path)).toEqual(before);
    expect((await readdir(folder)).filter((name) => /incoming|replaced/.test(name))).toEqual([]);
  });

  test("leave no file when the database is damaged", async () => {
    const store = await openSqliteStore(path);
    await fill(store);
    await store.close();
    await damage(path);

    expect(await db("backup", "forge.backup")).toMatchObject({
      code: 2,
      text: expect.stringMatching(/The backup \S+forge.backup could not be written: .*malformed\./),
    });

    expect((await readdir(folder)).filter((name) => name.includes("backup"))).toEqual([]);
  });
});

test("golem db check finds a damaged table and a broken ledger", async () => {
  const store = await openSqliteStore(path);
  await fill(store);
  await store.close();
  expect(await db("check")).toMatchObject({ code: 0, text: "The database is intact. Its ledger has 3 entries.\n" });

  const database = new DatabaseSync(path);
  database.exec("drop trigger ledger_is_never_updated; update ledger set entry = '{}' where number = 2");
  expect(await db("check")).toMatchObject({ code: 1, text: "Entry 2 does not match its hash.\n" });
  database.exec("pragma foreign_keys = off; delete from runs where id = 'r1'");
  database.close();
  expect(await db("check")).toMatchObject({
    code: 1,
    text: expect.stringContaining("refer to rows that do not exist"),
  });
});

test("golem db compact frees the space of removed data, and does not wait for readers", async () => {
  const store = await openSqliteStore(path);
  expect(await db("compact")).toMatchObject({ code: 2, text: expect.stringContaining("in use") });
  await store.close();
  const database = new DatabaseSync(path);
  database.exec("create table filler (x blob); insert into filler values (zeroblob(3000000)); drop table filler");
  database.close();

  expect(await db("compact")).toMatchObject({ code: 0 });

  expect((await stat(path)).size).toBeLessThan(1_000_000);
});

test("golem db copy knows every table", async () => {
  await (await openSqliteStore(path)).close();
  const database = new DatabaseSync(path);
  const stored = database
    .prepare("select name from sqlite_schema where type = 'table' and name not like 'sqlite_%'")
    .all()
    .map(({ name }) => name);
  database.close();

  // PostgreSQL has specs in the rows of the runs.
  expect(copiedTables.map(({ name }) => name).sort()).toEqual(stored.filter((name) => name !== "specs").sort());
});

describe.skipIf(!hasSharedServer)("over PostgreSQL, golem db", () => {
  test("golem db copy copies everything from SQLite to an empty PostgreSQL database, once", async () => {
    const url = await newDatabase();
    const store = await openSqliteStore(path);
    await fill(store);
    expect(await db("copy", "--from", `sqlite:${path}`, "--to", url)).toMatchObject({
      code: 2,
      text: expect.stringContaining("is in use by another Golem Forge process"),
    });
    await store.close();
    const incomplete = join(folder, "incomplete.db");
    await copyFile(path, incomplete);
    const database = new DatabaseSync(incomplete);
    database.exec("pragma foreign_keys = off; delete from specs where run_id = 'r2'");
    database.close();
    expect(await db("copy", "--from", incomplete, "--to", url)).toMatchObject({
      code: 2,
      text: expect.stringContaining("Nothing was copied: of the 2 rows of runs, 1 arrived."),
    });

    const copied = await db("copy", "--from", `sqlite:${path}`, "--to", url);

    expect(copied).toMatchObject({
      code: 0,
      text: expect.stringContaining("All rows were copied and counted; the ledger is intact: 3 entries."),
    });
    const again = await db("copy", "--from", `sqlite:${path}`, "--to", url);
    expect(again).toMatchObject({ code: 2, text: expect.stringContaining("The target is not empty") });
    const source = await openSqliteStore(path);
    const target = openPostgresStore(await openPostgresConnection(url));
    expect(await contentsOf(target)).toEqual(await contentsOf(source));
    // The counters continue after what was copied.
    for (const opened of [source, target]) await opened.ingest({ events: [{ runId: "r1", event: said("new") }] });
    expect((await target.log("r1")).at(-1)?.id).toBe((await source.log("r1")).at(-1)?.id);
    await Promise.all([source.close(), target.close()]);
  });

  test("golem db copy refuses a target that a replica uses", async () => {
    const url = await newDatabase();
    await (await openSqliteStore(path)).close();
    const target: DispatchTarget = {
      process: async () => "finished",
      notify: () => false,
      revokeLease: () => {},
      sweep: async () => {},
    };
    const startReplica = async () => {
      const replica = await openSharedStore({ url, runsPerRepository: undefined }, { onError: () => {} });
      await replica.dispatch.attach(target);
      return replica;
    };
    const replicas = [await startReplica()];

    const refused = await db("copy", "--from", path, "--to", url);
    replicas.push(await startReplica());
    const refusedAgain = await db("copy", "--from", path, "--to", url);

    expect(refused).toMatchObject({ code: 2, text: expect.stringContaining("in use by a Golem Forge process") });
    expect(refusedAgain).toMatchObject({ code: 2, text: expect.stringContaining("in use by 2 Golem Forge processes") });
    for (const { store, dispatch } of replicas) {
      await dispatch.detach(async () => {});
      await store.close();
    }
  });

  test("golem db backs up and restores PostgreSQL with pg_dump, and shows no password", async () => {
    const url = await newDatabase();
    const store = openPostgresStore(await openPostgresConnection(url));
    await fill(store);
    const dumped = await db("backup", "forge.dump", "--database", url);
    expect(dumped).toMatchObject({ code: 0 });
    expect((await stat(join(folder, "forge.dump"))).mode & 0o777).toBe(0o600);
    expect(await db("backup", "forge.dump", "--database", url)).toMatchObject({
      code: 2,
      text: expect.stringContaining("file already exists"),
    });
    expect(await db("backup", "none.dump", "--database", `${url}_missing`)).toMatchObject({ code: 2 });
    expect(await readdir(folder)).not.toContain("none.dump");
    expect(await db("check", "--database", url)).toMatchObject({ code: 0 });
    const expected = await contentsOf(store);
    await store.close();

    const refused = await db("restore", "forge.dump", "--database", url);
    expect(refused).toMatchObject({ code: 2, text: expect.stringContaining("already holds data of Golem Forge") });
    expect(refused.text).not.toContain(new URL(url).password);
    const other = await newDatabase();
    expect(await db("restore", "forge.dump", "--database", other)).toMatchObject({ code: 0 });

    const restored = openPostgresStore(await openPostgresConnection(other));
    expect((await contentsOf(restored)).log).toEqual(expected.log);
    expect(await restored.readLedger(0, 100)).toEqual(expected.ledger);
    await restored.close();
  });
});

describe("golem costs", () => {
  test("golem costs shows what models have cost, also as CSV, while the server uses the database", async () => {
    const store = await openSqliteStore(path);
    await fill(store);
    const days = ["--from", "1970-01-01", "--to", "1970-01-02"];

    const shown = await command("costs", ...days);
    const csv = await command("costs", "--csv", ...days);

    expect(shown).toEqual({
      code: 0,
      text: `$0.2500 from 1970-01-01 to 1970-01-02 (UTC)

by repository
     $0.2500  Ada/Engine

by worker
     $0.2500  fixer

by day
     $0.2500  1970-01-01
`,
    });
    expect(csv.text.split("\r\n")[1]).toBe("1970-01-01,Ada/Engine,fixer,1,1,100,50,10,0.25");
    expect(await command("costs", "--from", "yesterday")).toMatchObject({
      code: 2,
      text: expect.stringContaining("is not a valid date"),
    });
    await store.close();
  });
});
