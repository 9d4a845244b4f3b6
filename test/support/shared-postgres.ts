import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { afterAll, inject } from "vitest";
import { postgresPrograms, startPostgresServer } from "./postgres-server.ts";

/** False where PostgreSQL is not installed, and in mutation tests of areas that do not need it. */
export const hasSharedServer = postgresPrograms !== undefined && inject("postgresFolder") !== undefined;

/**
 * Returns a function that creates an empty database and resolves to its address, for the tests of one file. All files share
 * one server, which the first one starts. In mutation tests, which repeat a file thousands of times, its databases are dropped
 * at its end; otherwise they are removed with the server.
 */
export function testDatabases(): () => Promise<string> {
  const created: string[] = [];
  afterAll(async () => {
    if (created.length === 0 || !process.env.GOLEM_FORGE_MUTATION_POSTGRES) return;
    // A mutant may have left connections open.
    await query(created.splice(0).map((name) => `drop database ${name} with (force)`));
  });
  return async () => {
    const name = `test_${randomUUID().replaceAll("-", "")}`;
    created.push(name);
    const address = new URL(await query([`create database ${name}`]));
    address.pathname = `/${name}`;
    return address.href;
  };
}

/** Executes statements, and returns the server's address. */
async function query(statements: readonly string[]): Promise<string> {
  const connectionString = await sharedServer();
  const client = new pg.Client({ connectionString });
  await client.connect();
  for (const statement of statements) await client.query(statement);
  await client.end();
  return connectionString;
}

async function sharedServer(): Promise<string> {
  const folder = inject("postgresFolder") ?? "";
  const ready = join(folder, "ready");
  try {
    // Succeeds in only one process.
    await mkdir(join(folder, "server"));
  } catch {
    while (!existsSync(ready)) await pause(20);
    return readFile(ready, "utf8");
  }
  const server = await startPostgresServer(join(folder, "server"));
  await writeFile(join(folder, "pid"), String(server.pid));
  await writeFile(`${ready}.new`, server.url("postgres"));
  await rename(`${ready}.new`, ready);
  return server.url("postgres");
}

declare module "vitest" {
  interface ProvidedContext {
    /** The folder of the test run's PostgreSQL server. */
    postgresFolder: string | undefined;
  }
}
