import { execFile } from "node:child_process";
import { readFileSync, statfsSync } from "node:fs";
import { chmod, mkdir, mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import type { TestProject } from "vitest/node";
import { stopPostgresServer } from "./postgres-server.ts";

/**
 * Bundles the programs. Keeps temporary files in memory if possible. Provides a folder for one PostgreSQL server that all
 * test files share, and stops it in the end.
 */
export default async function setUp(project: TestProject): Promise<() => Promise<void>> {
  const temporary = await mkdtemp(join(memoryFolder() ?? tmpdir(), "golem-tests-"));
  // Other users, such as PostgreSQL's, need to get through it.
  await chmod(temporary, 0o755);
  // Vitest's workers inherit this.
  process.env.TMPDIR = temporary;
  const folder = join(temporary, "postgres");
  await mkdir(folder);
  project.provide("postgresFolder", folder);
  // Vitest's workers inherit these. Many tests start Node programs: what Node compiled the first time serves the others, and
  // the next test runs, since a changed file replaces its own entry only.
  Object.assign(process.env, await bundlePrograms());
  return async () => {
    const pid = await readFile(join(folder, "pid"), "utf8").catch(() => undefined);
    if (pid && !(await stopPostgresServer(Number(pid)))) {
      const log = await readFile(join(folder, "server", "server.log"), "utf8");
      console.error(`PostgreSQL ended before the tests did. It said:\n${log.slice(-5_000)}`);
    }
    await rm(temporary, { recursive: true, force: true, maxRetries: 3 });
  };
}

/** Bundles the app and `golem`, and returns the variables that make tests start the bundles. */
export async function bundlePrograms(
  bundler = fileURLToPath(new URL("./bundle-app.ts", import.meta.url)),
): Promise<Record<string, string>> {
  const { stdout } = await promisify(execFile)(process.execPath, [bundler]);
  const { app, golem, compileCache } = JSON.parse(stdout) as Record<"app" | "golem" | "compileCache", string>;
  return { GOLEM_FORGE_TEST_APP: app, GOLEM_FORGE_TEST_GOLEM: golem, NODE_COMPILE_CACHE: compileCache };
}

/**
 * Returns the folder of a file system in memory from which programs may be started, if this machine has one with enough
 * space. On a disk, each commit of a database waits for milliseconds.
 */
export function memoryFolder(): string | undefined {
  const folder = "/dev/shm";
  try {
    const mounts = readFileSync("/proc/mounts", "utf8").split("\n");
    const options = mounts.findLast((mount) => mount.split(" ")[1] === folder)?.split(" ")[3] ?? "noexec";
    const { bavail, bsize } = statfsSync(folder);
    return options.split(",").includes("noexec") || bavail * bsize < 4e9 ? undefined : folder;
  } catch {
    return undefined;
  }
}
