/**
 * Plays the stories of up to twelve issues at the same time under random faults (processes and jobs that are killed or suspended, a
 * database that restarts), and compares the final content of GitHub with that of a run without faults. Exits with 1 if a
 * schedule fails.
 *
 * usage: npm run crash -- [--schedules N] [--seed S] [--database sqlite|postgres|git] [--parallel N] [--clocks]
 *        [--previous <folder>]
 *
 * --parallel N         plays N schedules at the same time, each with a separate database server. Default: two per core,
 *                      since a schedule mostly waits
 * --clocks             also sets the clocks of processes forward and back, by five minutes or an hour
 * --previous <folder>  starts with the version that is installed in that folder, and upgrades the processes one by one
 *
 * The schedules have the seeds S, S+1, …: `--schedules 1 --seed S` replays one.
 */
import { existsSync } from "node:fs";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import pg from "pg";
import {
  type CrashDatabase,
  type CrashSchedule,
  type CrashServer,
  type PreviousVersion,
  playSchedule,
  playUndisturbed,
  scheduleOf,
} from "../test/support/crash-schedule.ts";
import { bundlePrograms, memoryFolder } from "../test/support/global-setup.ts";
import { postgresPrograms, startPostgresServer, stopPostgresServer } from "../test/support/postgres-server.ts";

const { values } = parseArgs({
  options: {
    schedules: { type: "string" },
    seed: { type: "string" },
    database: { type: "string" },
    parallel: { type: "string" },
    clocks: { type: "boolean" },
    previous: { type: "string" },
  },
});
const count = Number(values.schedules ?? 10);
const parallel = Number(values.parallel ?? 2 * availableParallelism());
const firstSeed = Number(values.seed ?? Math.floor(Math.random() * 1_000_000));
const available: CrashSchedule["database"][] = postgresPrograms ? ["sqlite", "postgres", "git"] : ["sqlite", "git"];
const databases = available.filter((database) => values.database === undefined || database === values.database);
if (![count, parallel, firstSeed].every(Number.isInteger) || parallel < 1 || databases.length === 0) {
  process.stderr.write(
    "usage: npm run crash -- [--schedules N] [--seed S] [--database sqlite|postgres|git] [--parallel N] [--clocks] [--previous <folder>]\n",
  );
  process.exit(2);
}

/** Creates a new database for a schedule. */
async function databaseOf(
  { database, seed }: CrashSchedule,
  server: CrashServer | undefined,
  previous: PreviousVersion | undefined,
): Promise<CrashDatabase> {
  if (database === "git") return {};
  if (database !== "postgres" || !server) return { previous };
  const client = new pg.Client({ connectionString: server.server.url("postgres") });
  await client.connect();
  await client.query(`create database seed_${seed}`);
  await client.end();
  return { url: server.server.url(`seed_${seed}`), server, previous };
}

/** Rejects when this process is asked to end, so that its servers are stopped and its folder is removed. */
const interrupted = new Promise<never>((_, reject) => {
  for (const signal of ["SIGHUP", "SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => reject(new Error(`Interrupted by ${signal}.`)));
  }
});
interrupted.catch(() => undefined);

let nextSeed = firstSeed;
let failed = 0;
let injected = 0;
let stories = 0;

/** Plays schedules until all of them have been started, by this worker or another one. */
async function playSchedules(folder: string, expected: Expected): Promise<void> {
  let server: CrashServer | undefined;
  try {
    if (databases.includes("postgres")) server = { folder, server: await startPostgresServer(folder) };
    while (nextSeed < firstSeed + count) {
      const seed = nextSeed;
      nextSeed += 1;
      await playSeed(seed, server, expected);
    }
  } finally {
    if (server) await stopPostgresServer(server.server.pid);
  }
}

async function playSeed(seed: number, server: CrashServer | undefined, expected: Expected): Promise<void> {
  const schedule = scheduleOf(seed, databases, {
    clocks: values.clocks ?? false,
    upgrades: expected.previous !== undefined,
  });
  const database = await databaseOf(schedule, server, expected.previous);
  const { problem, ...played } = await Promise.race([
    interrupted,
    playSchedule(schedule, expected.of.get(schedule.database), database),
  ]);
  injected += played.injected;
  stories += schedule.stories.length;
  process.stdout.write(`${problem === undefined ? "ok" : "FAILED"} ${JSON.stringify(schedule)}\n`);
  if (problem === undefined) return;
  failed += 1;
  const options = [
    values.database && ` --database ${values.database}`,
    values.clocks && " --clocks",
    values.previous && ` --previous ${values.previous}`,
  ];
  const given = options.filter(Boolean).join("");
  process.stdout.write(`${problem}\nReplay: npm run crash -- --schedules 1 --seed ${seed}${given}\n`);
}

/** The content of GitHub after runs without faults. */
interface Expected {
  of: ReadonlyMap<CrashSchedule["database"], unknown>;
  previous: PreviousVersion | undefined;
}

async function playWithoutFaults(previousProgram: string | undefined): Promise<Expected> {
  const of = new Map<CrashSchedule["database"], unknown>();
  for (const database of databases) of.set(database, await playUndisturbed(database));
  if (previousProgram === undefined) return { of, previous: undefined };
  return { of, previous: { program: previousProgram, expected: await playUndisturbed("sqlite", previousProgram) } };
}

/** Returns the program of a version that is installed in a folder: its bundle, which starts in half the time, if it has one. */
async function programIn(folder: string): Promise<string | undefined> {
  const bundler = resolve(folder, "test/support/bundle-app.ts");
  if (!existsSync(bundler)) return resolve(folder, "src/main.ts");
  return (await bundlePrograms(bundler)).GOLEM_FORGE_TEST_APP;
}

// Processes wait for a disk at each commit, but not for a file system in memory.
process.env.TMPDIR = memoryFolder() ?? tmpdir();
Object.assign(process.env, await bundlePrograms());
const previousProgram = values.previous === undefined ? undefined : await programIn(values.previous);
const folder = await mkdtemp(join(tmpdir(), "golem-crash-"));
// The server may run as another user, who needs access to the folder.
await chmod(folder, 0o755);
try {
  const expected = await Promise.race([interrupted, playWithoutFaults(previousProgram)]);
  const workers = Array.from({ length: parallel }, (_, index) =>
    playSchedules(join(folder, `postgres-${index}`), expected),
  );
  // Wait for all of them, so that each stops its server even if another one fails.
  for (const worker of await Promise.allSettled(workers)) if (worker.status === "rejected") throw worker.reason;
} finally {
  await rm(folder, { recursive: true, force: true });
}
process.stdout.write(
  `${count - failed} of ${count} schedules ended as a run without faults (seeds from ${firstSeed}; ${stories} stories, ${injected} faults).\n`,
);
process.exit(failed === 0 ? 0 : 1);
