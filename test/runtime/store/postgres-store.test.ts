import { afterAll, describe, test } from "vitest";
import { openPostgresStore } from "#runtime/store/postgres/open-postgres-store.ts";
import { openPostgresConnection, type PostgresConnection } from "#runtime/store/postgres/postgres-connection.ts";
import type { Store } from "#runtime/store/store.ts";
import { postgresPrograms, whyNoPostgres } from "../../support/postgres-server.ts";
import { newDatabase } from "../../support/shared-postgres.ts";
import { storeConformance } from "../../support/store-conformance.ts";
import { storeModel } from "../../support/store-model.ts";

if (!postgresPrograms) test.skip(`PostgreSQL is not tested here: ${whyNoPostgres}`, () => undefined);

describe.skipIf(!postgresPrograms)("PostgreSQL", () => {
  let connection: PostgresConnection | undefined;
  afterAll(() => connection?.close());

  /** An empty one, over a connection that all tests share. */
  async function openEmpty(): Promise<Store> {
    connection ??= await openPostgresConnection(await newDatabase());
    await connection.transaction(async (sql) => {
      await sql.script(
        `delete from deliveries; delete from inbox; delete from events; delete from effects; delete from timers;
          delete from approvals; delete from posts; delete from changes; delete from change_sets; delete from blobs;
          delete from runs`,
      );
      return { result: undefined };
    });
    return openPostgresStore({ ...connection, close: async () => undefined });
  }

  storeConformance("a PostgreSQL store", openEmpty);
  storeModel("the PostgreSQL store", openEmpty, 20);
});
