import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readFile, rename, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { inject } from "vitest";
import { postgresPrograms, startPostgresServer } from "./postgres-server.ts";

/** False where PostgreSQL is not installed, and in mutation tests of areas that do not need it. */
export const hasSharedServer = postgresPrograms !== undefined && inject("postgresFolder") !== undefined;

/** Returns the address of a new, empty database. All test files share one server, which the first one starts. */
export async function newDatabase(): Promise<string> {
  const base = new URL(await sharedServer());
  const name = `test_${randomUUID().replaceAll("-", "")}`;
  const client = new pg.Client({ connectionString: base.href });
  await client.connect();
  await client.query(`create database ${name}`);
  await client.end();
  base.pathname = `/${name}`;
  return base.href;
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
