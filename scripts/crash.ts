/**
 * Plays the story of one issue under random faults (processes and jobs that are killed or suspended, a database that restarts),
 * and compares what GitHub holds in the end with a run without faults. Ends with exit code 1 when a schedule fails.
 *
 * usage: npm run crash -- [--schedules N] [--seed S] [--database sqlite|postgres|git] [--clocks] [--previous <folder>]
 *
 * With --clocks, clocks of processes are also set forward and back, by five minutes or an hour. With --previous, the processes
 * start with the version that is checked out and installed in that folder, and are replaced by this version one by one.
 *
 * The schedules have the seeds S, S+1, …: `--schedules 1 --seed S` replays one.
 */
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
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
import { postgresPrograms, startPostgresServer, stopPostgresServer } from "../test/support/postgres-server.ts";

const { values } = parseArgs({
  options: {
    schedules: { type: "string" },
    seed: { type: "string" },
    database: { type: "string" },
    clocks: { type: "boolean" },
    previous: { type: "string" },
  },
});
const count = Number(values.schedules ?? 10);
const previousProgram = values.previous === undefined ? undefined : resolve(values.previous, "src/main.ts");
const firstSeed = Number(values.seed ?? Math.floor(Math.random() * 1_000_000));
const available: CrashSchedule["database"][] = postgresPrograms ? ["sqlite", "postgres", "git"] : ["sqlite", "git"];
const databases = available.filter((database) => values.database === undefined || database === values.database);
if (!Number.isInteger(count) || !Number.isInteger(firstSeed) || databases.length === 0) {
  process.stderr.write(
    "usage: npm run crash -- [--schedules N] [--seed S] [--database sqlite|postgres|git] [--clocks] [--previous <folder>]\n",
  );
  process.exit(2);
}

/** A new database on the server, unless the schedule is over SQLite. */
async function databaseOf({ database, seed }: CrashSchedule): Promise<CrashDatabase> {
  const previous = previousProgram === undefined || database === "git" ? undefined : await previousOf(previousProgram);
  if (database !== "postgres" || !crashServer) return { previous };
  const client = new pg.Client({ connectionString: crashServer.server.url("postgres") });
  await client.connect();
  await client.query(`create database seed_${seed}`);
  await client.end();
  return { url: crashServer.server.url(`seed_${seed}`), server: crashServer, previous };
}

let previousVersion: PreviousVersion | undefined;

async function previousOf(program: string): Promise<PreviousVersion> {
  previousVersion ??= { program, expected: await playUndisturbed("sqlite", program) };
  return previousVersion;
}

const folder = await mkdtemp(join(tmpdir(), "golem-crash-"));
// The server may run as another user, who has to get through.
await chmod(folder, 0o755);
let crashServer: CrashServer | undefined;
let failed = 0;
try {
  if (databases.includes("postgres")) {
    const serverFolder = join(folder, "postgres");
    crashServer = { folder: serverFolder, server: await startPostgresServer(serverFolder) };
  }
  const undisturbed = new Map<CrashSchedule["database"], unknown>();
  for (let seed = firstSeed; seed < firstSeed + count; seed += 1) {
    const schedule = scheduleOf(seed, databases, {
      clocks: values.clocks ?? false,
      upgrades: previousProgram !== undefined,
    });
    const { database } = schedule;
    const expected = undisturbed.get(database) ?? (await playUndisturbed(database));
    undisturbed.set(database, expected);
    const problem = await playSchedule(schedule, expected, await databaseOf(schedule));
    process.stdout.write(`${problem === undefined ? "ok" : "FAILED"} ${JSON.stringify(schedule)}\n`);
    if (problem === undefined) continue;
    failed += 1;
    const options = [
      values.database && ` --database ${values.database}`,
      values.clocks && " --clocks",
      values.previous && ` --previous ${values.previous}`,
    ];
    const given = options.filter(Boolean).join("");
    process.stdout.write(`${problem}\nReplay: npm run crash -- --schedules 1 --seed ${seed}${given}\n`);
  }
} finally {
  if (crashServer) await stopPostgresServer(crashServer.server.pid);
  await rm(folder, { recursive: true, force: true });
}
process.stdout.write(
  `${count - failed} of ${count} schedules ended as a run without faults (seeds from ${firstSeed}).\n`,
);
process.exit(failed === 0 ? 0 : 1);
