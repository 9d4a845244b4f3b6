import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import pg from "pg";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import type { RunOrigin } from "#domain/run.ts";
import { applyEvents, stateName } from "#runtime/apply-events.ts";
import { openPostgresStore } from "#runtime/store/postgres/open-postgres-store.ts";
import { openPostgresConnection } from "#runtime/store/postgres/postgres-connection.ts";
import { openSqliteStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import { readable, type Store } from "#runtime/store/store.ts";
import { readView } from "#runtime/views/read-view.ts";
import { startForge } from "../../support/forge-world.ts";
import { postgresPrograms } from "../../support/postgres-server.ts";
import { testDatabases } from "../../support/shared-postgres.ts";
import type { TestGitHub } from "../../support/test-github.ts";

const newDatabase = testDatabases();

// Each was written by the app of an earlier commit: one run that opened a pull request, and one that waits for an approval.
const fixtures = new URL("./earlier-versions/", import.meta.url);
const read = async (name: string) => gunzipSync(await readFile(new URL(name, fixtures)));

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "golem-earlier-"));
});
afterEach(() => rm(folder, { recursive: true, force: true }));

/** A database in the state of the fixture. */
interface Fixture {
  url: string;
  /** Migrates it. */
  open(): Promise<Store>;
}

async function sqliteFixture(version: string): Promise<Fixture> {
  const path = join(folder, "forge.db");
  await writeFile(path, await read(`${version}.db.gz`));
  return { url: `file:${path}`, open: () => openSqliteStore(path) };
}

async function postgresFixture(version: string): Promise<Fixture> {
  const url = await newDatabase();
  const sql = new pg.Client({ connectionString: url });
  await sql.connect();
  await sql.query((await read(`${version}.sql.gz`)).toString());
  await sql.end();
  return { url, open: async () => openPostgresStore(await openPostgresConnection(url)) };
}

const versions = [
  ["SQLite", "schema-3", sqliteFixture],
  ["SQLite", "schema-5", sqliteFixture],
  ["PostgreSQL", "schema-3", postgresFixture],
  ["PostgreSQL", "schema-5", postgresFixture],
] as const;

describe.each(versions)("a database of an earlier version, %s %s", (kind, version, createFixture) => {
  test.skipIf(kind === "PostgreSQL" && !postgresPrograms)(
    "the database is migrated; its runs are shown as they were, and the waiting one continues",
    async () => {
      const store = await (await createFixture(version)).open();
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

  test.skipIf(kind === "PostgreSQL" && !postgresPrograms)(
    "the app starts with the database, and people continue the runs in it",
    async () => {
      const { url, open } = await createFixture(version);
      const store = await open();
      const runs = (await store.latestRuns({ limit: 10 })).map(readable);
      await store.close();
      const { github, botComment, start, close } = await startForge({ script: () => ({ text: "Continued." }) });
      onTestFinished(close);
      for (const title of ["One", "Two", "Three"]) github.as("visitor").openIssue({ title });
      giveIds(github, runs[0]?.spec.origin);
      await start({ DATABASE_URL: url });

      for (const { spec, snapshot } of runs.filter(({ status }) => status !== "done")) {
        const { thread } = spec.origin;
        if (stateName(snapshot) === "awaitingApproval") {
          github.as("maintainer").comment(thread, "/stop");
          await botComment(thread, /is paused/);
        }
        github.as("maintainer").comment(thread, "/resume and explain it.");
        await botComment(thread, /Continued\./);
      }
    },
  );
});

/** Gives the repository and the installation the ids that they had when the fixture was written. */
function giveIds(github: TestGitHub, { repositoryId, installationId }: Partial<RunOrigin> = {}): void {
  const [installation] = github.world.installations.values();
  if (!installation || repositoryId === undefined || installationId === undefined) throw new Error("An id is missing.");
  github.repository().id = repositoryId;
  github.world.installations.clear();
  installation.id = installationId;
  github.world.installations.set(installationId, installation);
}
