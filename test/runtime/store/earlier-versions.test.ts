import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { applyEvents } from "#runtime/apply-events.ts";
import { openPostgresStore } from "#runtime/store/postgres/open-postgres-store.ts";
import { openPostgresConnection } from "#runtime/store/postgres/postgres-connection.ts";
import { openSqliteStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import { readable, type Store } from "#runtime/store/store.ts";
import { readView } from "#runtime/views/read-view.ts";
import { postgresPrograms } from "../../support/postgres-server.ts";
import { testDatabases } from "../../support/shared-postgres.ts";

const newDatabase = testDatabases();

// Each was written by the app of an earlier commit: one run that opened a pull request, and one that waits for an approval.
const fixtures = new URL("./earlier-versions/", import.meta.url);
const read = async (name: string) => gunzipSync(await readFile(new URL(name, fixtures)));

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "golem-earlier-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

async function openSqlite(version: string): Promise<Store> {
  const path = join(folder, "forge.db");
  await writeFile(path, await read(`${version}.db.gz`));
  return openSqliteStore(path);
}

async function openPostgres(version: string): Promise<Store> {
  const url = await newDatabase();
  const sql = new pg.Client({ connectionString: url });
  await sql.connect();
  await sql.query((await read(`${version}.sql.gz`)).toString());
  await sql.end();
  return openPostgresStore(await openPostgresConnection(url));
}

const readableVersions = [
  ["SQLite", "schema-3", openSqlite],
  ["SQLite", "schema-5", openSqlite],
  ["PostgreSQL", "schema-3", openPostgres],
  ["PostgreSQL", "schema-5", openPostgres],
] as const;

describe.each(readableVersions)("a database of an earlier version, %s %s", (kind, version, openFixture) => {
  test.skipIf(kind === "PostgreSQL" && !postgresPrograms)(
    "the database is migrated; its runs are shown as they were, and the waiting one continues",
    async () => {
      const store = await openFixture(version);
      const [waiting, answered] = (await store.latestRuns({ limit: 10 })).map(readable);
      const id = waiting?.id ?? "";

      expect(await readView(store, answered?.id ?? "")).toMatchObject({ steps: 4, usage: { outputTokens: 131 } });
      expect(await readView(store, id)).toMatchObject({ state: "awaitingApproval", steps: 3, log: expect.any(Array) });
      expect((await store.changesOf(id))[0]?.changes[0]?.path).toBe("src/total.js");
      const [asked] = await store.approvalsOf(id);
      expect(asked).toMatchObject({ status: "pending", tool: "open_pull_request" });
      expect(await store.findPost(`approval/${asked?.id}`)).toBeDefined();
      const decision = { approvalId: asked?.id ?? "", decision: "approved", by: "maintainer" } as const;
      expect(await store.decideApproval({ ...decision, now: asked?.requestedAt ?? 0 })).toMatchObject({
        kind: "decided",
      });

      expect(await store.dueRuns(Date.now())).toContain(id);
      const inbox = await store.inbox(id);
      const applied = waiting && applyEvents(waiting, inbox, { now: Date.now(), elapsedMs: 0 });
      expect(applied && (await store.advance(applied.advance))).toBe(true);
      expect(await store.claimEffect(id, "work", Date.now())).toMatchObject({ request: { kind: "tool.execute" } });
      await store.close();
    },
  );
});

test("runs of a version whose state cannot be read any longer are shown as stopped, and nothing of them is performed", async () => {
  const store = await openSqlite("schema-2");

  for (const run of await store.latestRuns({ limit: 10 })) {
    expect(run.unreadable?.message).toMatch(/^The state of the run cannot be read: /);
    expect(await readView(store, run.id)).toMatchObject({
      state: "interrupted",
      activity: expect.stringMatching(/^Paused\./),
    });
  }
  expect(await store.latestRuns({ limit: 10 })).toHaveLength(2);
  await store.close();
});
