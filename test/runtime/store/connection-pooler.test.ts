import { spawn, spawnSync } from "node:child_process";
import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import pg from "pg";
import { afterEach, describe, expect, test } from "vitest";
import { freePort } from "#playground/github/listen.ts";
import { openPostgresConnection } from "#runtime/store/postgres/postgres-connection.ts";
import { postgresPrograms, runAs } from "../../support/postgres-server.ts";
import { testDatabases } from "../../support/shared-postgres.ts";

const newDatabase = testDatabases();

const program = spawnSync("sh", ["-c", "PATH=$PATH:/usr/sbin command -v pgbouncer"]).stdout.toString().trim();
const isInstalled = program !== "" && postgresPrograms !== undefined;
if (!isInstalled)
  test.skip("PgBouncer is not tested here: it is not on this machine (Debian: apt-get install pgbouncer)", () => {});

const cleanUps: (() => Promise<unknown> | unknown)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

/** Starts PgBouncer in front of a new database, and returns the address of the database through it. */
async function openPool(mode: "transaction" | "statement" | "session"): Promise<string> {
  const direct = new URL(await newDatabase());
  const folder = await mkdtemp(join(tmpdir(), "golem-pool-"));
  cleanUps.push(() => rm(folder, { recursive: true, force: true }));
  await chmod(folder, 0o755);
  const port = await freePort();
  const settings = join(folder, "pgbouncer.ini");
  await writeFile(
    settings,
    `[databases]\n* = host=127.0.0.1 port=${direct.port} user=${direct.username}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n` +
      `listen_port = ${port}\nunix_socket_dir =\nauth_type = any\npool_mode = ${mode}\nlogfile =\npidfile =\n`,
  );
  const child = spawn(program, [settings], { stdio: "ignore", ...runAs() });
  const ended = new Promise((resolve) => child.on("close", resolve));
  cleanUps.push(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  direct.port = String(port);
  for (;;) {
    const client = new pg.Client({ connectionString: direct.href });
    client.on("error", () => undefined);
    const isReady = await client.connect().then(
      () => true,
      () => false,
    );
    await client.end().catch(() => undefined);
    if (isReady) return direct.href;
    await pause(20);
  }
}

describe.skipIf(!isInstalled)("behind PgBouncer", () => {
  test.each(["transaction", "statement"] as const)("PgBouncer in %s mode is refused with what to do", async (mode) => {
    const url = await openPool(mode);

    await expect(openPostgresConnection(url)).rejects.toThrow(
      /is behind a connection pooler that shares sessions, such as PgBouncer in transaction mode\. Point DATABASE_URL at the server itself/,
    );
  });

  test("PgBouncer in session mode is used", async () => {
    const connection = await openPostgresConnection(await openPool("session"));

    await connection.ping();

    await connection.close();
  });
});
