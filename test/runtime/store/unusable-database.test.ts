import { execFile, spawnSync } from "node:child_process";
import { copyFile, link, mkdtemp, open, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync, StatementSync } from "node:sqlite";
import { promisify } from "node:util";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { DatabaseError, UserError } from "#domain/errors.ts";
import { DatabaseInUseError } from "#runtime/store/sqlite/open-database.ts";
import { openSqliteStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import { connectionOf, GroupCommits, problemOf } from "#runtime/store/sqlite/sqlite-connection.ts";
import { said, sampleRun } from "../../support/store-samples.ts";

/** Mounts a file system of two megabytes in a namespace of its own, and runs a command there. */
const withSmallDisk = (folder: string, command: string) => [
  "-rm",
  "sh",
  "-c",
  `mount -t tmpfs -o size=2m tmpfs ${folder} && ${command}`,
];

let folder: string;
let path: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "golem-disk-"));
  path = join(folder, "forge.db");
});
afterEach(() => rm(folder, { recursive: true, force: true }));

const canMount = spawnSync("unshare", withSmallDisk(tmpdir(), "true")).status === 0;

describe.skipIf(!canMount)("a file system", () => {
  async function runThere(command: string): Promise<string> {
    const { stdout } = await promisify(execFile)("unshare", withSmallDisk(folder, command));
    return stdout;
  }

  test("a file system that is full is reported with what to do; nothing acknowledged is lost, and work continues when it has space", async () => {
    const printed = await runThere(`'${process.execPath}' test/support/full-disk-child.ts ${folder}`);

    const { acknowledged, refusal, whileFull, whenFreed, next, texts } = JSON.parse(printed);
    expect(refusal).toMatch(/^The disk of the database \/.*forge\.db is full\. Free some space\./);
    expect(whileFull).toBe(refusal);
    expect([whenFreed, next]).toEqual(["ok", "ok"]);
    expect(texts).toEqual(Array.from({ length: acknowledged + 1 }, (_, n) => n));
  });

  test("a file system that is read-only is reported when the database is opened", async () => {
    const openStore = `
      const { openSqliteStore } = await import("#runtime/store/sqlite/open-sqlite-store.ts");
      await openSqliteStore("${path}").then((store) => store.close(), (error) => console.log(error.name, error.message))`;
    const node = `'${process.execPath}' --input-type=module -e '${openStore}'`;

    const printed = await runThere(`${node} && mount -o remount,ro ${folder} && ${node}`);

    expect(printed).toMatch(/^UserError The database \S+forge\.db cannot be opened: the file system is read-only\./);
  });
});

test.runIf(process.platform === "linux").each([
  ["/proc/golem/forge.db", "The folder /proc/golem of the database cannot be created: no folder can be created there."],
  [
    "/etc/passwd/golem/forge.db",
    "The folder /etc/passwd/golem of the database cannot be created: a part of its path is a file.",
  ],
])("a database at %s is refused with what to do", async (database, sentence) => {
  const refusal = openSqliteStore(database);

  await expect(refusal).rejects.toThrow(UserError);
  await expect(refusal).rejects.toThrow(`${sentence} Create it for this process, or set DATABASE_URL to another file.`);
});

test("a damaged lock is not reported as a database in use", async () => {
  await writeFile(`${path}.lock`, "This is no database. ".repeat(100));

  const refusal = await openSqliteStore(path).catch((error) => error);

  expect(refusal).toBeInstanceOf(Error);
  expect(refusal).not.toBeInstanceOf(DatabaseInUseError);
});

describe("a damaged file", () => {
  /** Overwrites a part of the closed database. */
  async function damage(from: number, bytes: number): Promise<void> {
    const file = await open(path, "r+");
    await file.write(Buffer.alloc(bytes, 0xa5), 0, bytes, from);
    await file.close();
  }

  async function fill(): Promise<void> {
    const store = await openSqliteStore(path);
    await store.ingest({ run: sampleRun("r1"), events: [] });
    for (let n = 0; n < 40; n += 1)
      await store.ingest({ events: [{ runId: "r1", event: said(`${n} ${"x".repeat(5_000)}`) }] });
    await store.close();
  }

  test("a file whose beginning is damaged is refused with what to do", async () => {
    await fill();
    await damage(0, 100);

    const refused = await openSqliteStore(path).catch((error) => error);

    expect(refused).toBeInstanceOf(UserError);
    expect(refused.message).toMatch(
      /forge\.db cannot be opened: it is damaged or not a SQLite database\. .*golem db restore\.$/,
    );
  });

  test("a damaged file is reported by what reads the damaged part, and by every ping from then on", async () => {
    await fill();
    const { size } = await stat(path);
    await damage(size - 180_000, 170_000);
    const store = await openSqliteStore(path);

    const failure = await store.log("r1").catch((error) => error);

    expect(failure).toBeInstanceOf(DatabaseError);
    expect(failure.message).toMatch(/forge\.db is damaged: /);
    await expect(store.ping()).rejects.toThrow("is damaged");
    await store.close();
  });
});

test.each([
  [8, "The database forge.db is read-only. Give this process write access to the file and its folder."],
  [
    10,
    "The database forge.db cannot be read or written: disk I/O error. Check its disk, and the limits of this process.",
  ],
  [
    11,
    "The database forge.db is damaged: disk I/O error. Stop the server, and restore a backup with golem db restore.",
  ],
  [13, "The disk of the database forge.db is full. Free some space."],
  [14, "The database forge.db cannot be opened. Check that its folder exists and that this process may use it."],
  [26, "The database forge.db cannot be opened: it is damaged or not a SQLite database."],
])("SQLite's error %i, and each of its extended codes, is explained", (code, sentence) => {
  for (const errcode of [code, code | (3 << 8)]) {
    const error = Object.assign(new Error("disk I/O error"), { errcode });

    const problem = problemOf(error, "forge.db");

    expect(problem).toBeInstanceOf(DatabaseError);
    expect(problem?.message).toContain(sentence);
    expect(problem?.cause).toBe(error);
  }
});

test("an error that neither the file nor its disk has caused is not explained", () => {
  expect(problemOf(Object.assign(new Error("database is locked"), { errcode: 5 }), "forge.db")).toBeUndefined();
  expect(problemOf(new Error("no such table: runs"), "forge.db")).toBeUndefined();
  expect(problemOf({ errcode: 13 }, "forge.db")).toBeUndefined();
});

test("a full database rejects the writes of its turn, is reported until it has space, and then works again", async () => {
  const database = new DatabaseSync(path);
  database.exec("pragma journal_mode = wal; create table texts (text)");
  const lock = { close: vi.fn() };
  const sql = connectionOf(database, lock, path);
  const commits = new GroupCommits(sql);
  const add = (bytes: number) =>
    commits.write(() => sql.run("insert into texts values (:text)", { text: "x".repeat(bytes) }));
  const countPages = () => Number(database.prepare("pragma page_count").get()?.page_count);
  database.exec(`pragma max_page_count = ${countPages() + 20}`);

  const outcomes = await Promise.allSettled([add(1), add(1_000_000), add(2)]);

  expect(outcomes).toMatchObject([
    { status: "rejected", reason: expect.any(DatabaseError) },
    { status: "rejected", reason: { message: expect.stringContaining("is full"), cause: { errcode: 13 } } },
    { status: "fulfilled", value: 1 },
  ]);
  expect(sql.exists("select 1 from texts where text = 'xx'")).toBe(true);
  expect(sql.exists("select 1 from texts where text = 'x'")).toBe(false);
  sql.ping();
  await commits.close();
  expect(lock.close).toHaveBeenCalled();
});

test.runIf(process.platform === "linux")(
  "a database that was full is reported while the disk has no space, and not before it was full",
  () => {
    const database = new DatabaseSync(path);
    database.exec("create table texts (text)");
    const sql = connectionOf(database, { close: vi.fn() }, "/proc/forge.db");
    database.exec("pragma max_page_count = 1");
    expect(() => sql.run("insert into texts values (:text)", { text: "x".repeat(100_000) })).toThrow("is full");

    expect(() => sql.ping()).toThrow(DatabaseError);
    expect(() => sql.ping()).toThrow("is full");

    sql.close();
  },
);

test("a database that was full is no longer reported once it has space, although it is always being written to", async () => {
  const store = await openSqliteStore(path);
  await store.ingest({ run: sampleRun("r1"), events: [] });
  const say = () => store.ingest({ events: [{ runId: "r1", event: said("hello") }] });
  const run = vi.spyOn(StatementSync.prototype, "run").mockImplementationOnce(() => {
    throw Object.assign(new Error("database or disk is full"), { errcode: 13 });
  });
  await expect(say()).rejects.toThrow("is full");
  run.mockRestore();

  const outcomes = await Promise.allSettled([say(), store.ping(), say()]);

  expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "fulfilled"]);
  await store.close();
});

test.each<[string, () => Promise<void>]>([
  ["deleted", () => rm(path)],
  ["moved", () => rename(path, `${path}.moved`)],
  ["replaced", () => copyFile(path, `${path}.copy`).then(() => rename(`${path}.copy`, path))],
])("nothing is acknowledged after the file was %s, since it would be lost when the process ends", async (_, change) => {
  const store = await openSqliteStore(path);
  await store.ingest({ run: sampleRun("r1"), events: [] });
  const say = (text: string) => store.ingest({ events: [{ runId: "r1", event: said(text) }] });
  await say("before");
  await link(path, `${path}.kept`);
  await change();

  const refusal = await say("meanwhile").catch((error) => error);

  expect(refusal).toBeInstanceOf(DatabaseError);
  expect(refusal.message).toMatch(
    /forge\.db was deleted, moved or replaced while this process uses it\. Put the file back/,
  );
  await expect(store.ping()).rejects.toThrow(refusal.message);
  await rename(`${path}.kept`, path);
  await say("after");
  await store.ping();
  expect((await store.log("r1")).map(({ event }) => "text" in event && event.text)).toEqual(["before", "after"]);
  await store.close();
});
