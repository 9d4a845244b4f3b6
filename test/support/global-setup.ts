import { execFile } from "node:child_process";
import { chmod, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { TestProject } from "vitest/node";
import { stopPostgresServer } from "./postgres-server.ts";

/** Bundles the app. Provides a folder for one PostgreSQL server that all test files share, and stops it in the end. */
export default async function setUp(project: TestProject): Promise<() => Promise<void>> {
  const folder = await mkdtemp(join(tmpdir(), "golem-postgres-"));
  await chmod(folder, 0o755);
  project.provide("postgresFolder", folder);
  const bundler = fileURLToPath(new URL("./bundle-app.ts", import.meta.url));
  const { stdout: app } = await promisify(execFile)(process.execPath, [bundler]);
  // Vitest's workers inherit both. Many tests start Node programs: what Node compiled the first time serves the others. The
  // cache is deleted with the bundle when the program has changed.
  process.env.GOLEM_FORGE_TEST_APP = app;
  process.env.NODE_COMPILE_CACHE = join(dirname(app), "compile-cache");
  return async () => {
    const pid = await readFile(join(folder, "pid"), "utf8").catch(() => undefined);
    if (pid && !(await stopPostgresServer(Number(pid)))) {
      const log = await readFile(join(folder, "server", "server.log"), "utf8");
      console.error(`PostgreSQL ended before the tests did. It said:\n${log.slice(-5_000)}`);
    }
    await rm(folder, { recursive: true, force: true });
  };
}
