import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll } from "vitest";
import { openPostgresStore } from "#runtime/store/postgres/open-postgres-store.ts";
import { openPostgresConnection } from "#runtime/store/postgres/postgres-connection.ts";
import { openSqliteStore } from "#runtime/store/sqlite/open-sqlite-store.ts";
import { hasSharedServer, testDatabases } from "../../support/shared-postgres.ts";
import { unreadableDataConformance } from "../../support/unreadable-data.ts";

const newDatabase = testDatabases();

const folder = await mkdtemp(join(tmpdir(), "golem-unreadable-"));
afterAll(() => rm(folder, { recursive: true, force: true }));
let files = 0;

unreadableDataConformance("SQLite", async () => {
  files += 1;
  const path = join(folder, `${files}.db`);
  const store = await openSqliteStore(path);
  const execute = async (sql: string) => {
    const database = new DatabaseSync(path);
    database.exec(sql);
    database.close();
  };
  return { store, execute, specs: { table: "specs", id: "run_id" } };
});

if (hasSharedServer) {
  unreadableDataConformance("PostgreSQL", async () => {
    const connection = await openPostgresConnection(await newDatabase());
    const execute = async (sql: string) => {
      await connection.raw(sql);
    };
    return { store: openPostgresStore(connection), execute, specs: { table: "runs", id: "id" } };
  });
}
