import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { openPostgresStore, openSharedStore } from "../../src/runtime/store/postgres/open-postgres-store.ts";
import { openPostgresConnection } from "../../src/runtime/store/postgres/postgres-connection.ts";
import { openSqliteStore } from "../../src/runtime/store/sqlite/open-sqlite-store.ts";
import type { Store } from "../../src/runtime/store/store.ts";
import {
  postgresPrograms,
  startPostgresServer,
  stopPostgresServer,
  whyNoPostgres,
} from "../../test/support/postgres-server.ts";
import { said, sampleEffect, sampleRun } from "../../test/support/store-samples.ts";
import { durableRun } from "../durable-run.ts";
import type { Bench, Figure } from "../figure.ts";
import { interleaved, median, percentile, timed } from "../measure.ts";
import { inScratch } from "../scratch.ts";

const stepsOfOne = 60;
const runsAtOnce = 100;
const acks = 600;
const wakes = 60;
const takeovers = 5;
const note = "PostgreSQL on this machine with fsync, over loopback; SQLite with synchronous=FULL.";

export const postgresBench: Bench = {
  name: "postgres",
  measure: async () => {
    if (!postgresPrograms) {
      return [{ name: "the store over PostgreSQL, and takeover", missing: `Not measured: ${whyNoPostgres}.` }];
    }
    return inScratch(async (folder) => {
      await chmod(folder, 0o755);
      const server = await startPostgresServer(join(folder, "server"), { durable: true });
      try {
        const stores: Stores = {
          ours: openPostgresStore(await openPostgresConnection(server.url("postgres"))),
          sqlite: await openSqliteStore(join(folder, "sqlite.db")),
        };
        const stored = [await alone(stores), await together(stores), await acknowledged(stores)];
        await Promise.all([stores.ours.close(), stores.sqlite.close()]);
        const url = server.url("golem");
        await createDatabase(server.url("postgres"));
        return [...stored, await woken(url), await takenOver(url, join(folder, "killed.db"))];
      } finally {
        await stopPostgresServer(server.pid);
      }
    });
  },
};

type Stores = Record<"ours" | "sqlite", Store>;

async function createDatabase(url: string): Promise<void> {
  const connection = await openPostgresConnection(url);
  await connection.raw("create database golem");
  await connection.close();
}

/** Measures both stores in alternation. */
function both(rounds: number, stores: Stores, measure: (store: Store, round: number) => Promise<number>) {
  return interleaved(rounds, {
    ours: (round) => measure(stores.ours, round),
    sqlite: (round) => measure(stores.sqlite, round),
  });
}

async function alone(stores: Stores): Promise<Figure> {
  const found = await both(5, stores, async (store, round) => {
    return (await timed(() => durableRun(store, `alone-${round}`, stepsOfOne))) / stepsOfOne;
  });
  return {
    name: "one durable step of one run, PostgreSQL",
    unit: "ms",
    ours: { what: "store the result, advance the run, claim the next effect", median: median(found.ours) },
    peers: [{ what: "the same over SQLite", median: median(found.sqlite) }],
    rounds: found.ours.length,
    note,
  };
}

async function together(stores: Stores): Promise<Figure> {
  const steps = 3;
  const found = await both(3, stores, async (store, round) => {
    const runs = Array.from({ length: runsAtOnce }, (_, index) => `many-${round}-${index}`);
    const took = await timed(() => Promise.all(runs.map((runId) => durableRun(store, runId, steps))));
    return (runsAtOnce * steps * 1_000) / took;
  });
  return {
    name: `durable steps with ${runsAtOnce} runs at once, PostgreSQL`,
    unit: "per second",
    ours: { what: "store the result, advance the run, claim the next effect", median: median(found.ours) },
    peers: [{ what: "the same over SQLite, one process", median: median(found.sqlite) }],
    rounds: found.ours.length,
    note: `${steps} steps per run, including its start. One process here; several may share a PostgreSQL.`,
  };
}

async function acknowledged(stores: Stores): Promise<Figure> {
  const threads = Array.from({ length: 50 }, (_, index) => `thread-${index}`);
  for (const store of Object.values(stores)) {
    await Promise.all(threads.map((id) => store.ingest({ run: sampleRun(id), events: [] })));
  }
  const found = await both(3, stores, async (store, round) => {
    const ingest = (index: number) => {
      const runId = threads[index % threads.length] ?? "";
      return store.ingest({ deliveryId: `${round}/${index}`, events: [{ runId, event: said("Have a look.") }] });
    };
    const took = await timed(() => Promise.all(Array.from({ length: acks }, (_, index) => ingest(index))));
    return (acks * 1_000) / took;
  });
  return {
    name: "deliveries stored, PostgreSQL",
    unit: "per second",
    ours: { what: "deduplicated, appended, on disk", median: median(found.ours) },
    peers: [{ what: "the same over SQLite, one commit for all", median: median(found.sqlite) }],
    rounds: found.ours.length,
    note: `${acks} at once, for ${threads.length} runs.`,
  };
}

/** Measures the time from storing an event until the scheduler is told to process its run. */
async function woken(url: string): Promise<Figure> {
  const shared = await openSharedStore(
    { url, runsPerRepository: undefined },
    { onError: (error) => console.error(error) },
  );
  let opened = Promise.withResolvers<void>();
  await shared.dispatch.attach({
    process: async () => {
      opened.resolve();
      return "finished";
    },
    notify: () => false,
    revokeLease: () => undefined,
    sweep: async () => undefined,
  });
  await shared.store.ingest({ run: sampleRun("woken"), events: [] });
  const waits: number[] = [];
  for (let wake = 0; wake < wakes; wake += 1) {
    opened = Promise.withResolvers();
    waits.push(
      await timed(async () => {
        await shared.store.ingest({ events: [{ runId: "woken", event: said("hello") }] });
        shared.dispatch.wake("woken");
        await opened.promise;
      }),
    );
  }
  await shared.dispatch.detach(async () => undefined);
  await shared.store.close();
  return {
    name: "from a delivery until its waiting run is processed, PostgreSQL",
    unit: "ms",
    ours: { what: "stored, queued, notified, taken", median: median(waits), p99: percentile(waits, 0.99) },
    peers: [],
    rounds: waits.length,
    note: "A single process needs no queue between the commit and the processing.",
  };
}

async function takenOver(url: string, path: string): Promise<Figure> {
  const [postgres, sqlite] = [
    await openSharedStore({ url, runsPerRepository: undefined }, { onError: console.error }),
    await openSqliteStore(path),
  ];
  for (const store of [postgres.store, sqlite]) {
    await store.ingest({ run: sampleRun("left", [sampleEffect("left", "left/0")]), events: [] });
    await store.close();
  }
  let current = startTaker("postgres", url);
  await current.prints("left");
  const found = await interleaved(takeovers, {
    ours: async () => {
      const next = startTaker("postgres", url);
      await next.prints("ready");
      const took = await timed(async () => {
        current.child.kill("SIGKILL");
        await next.prints("left");
      });
      current = next;
      return took;
    },
    sqlite: async () => {
      const killed = startTaker("sqlite", path);
      await killed.prints("left");
      return timed(async () => {
        const exited = once(killed.child, "exit");
        killed.child.kill("SIGKILL");
        await exited;
        const again = startTaker("sqlite", path);
        await again.prints("left");
        again.child.kill("SIGKILL");
        await once(again.child, "exit");
      });
    },
  });
  current.child.kill("SIGKILL");
  return {
    name: "from kill -9 until another replica processes the run, PostgreSQL",
    unit: "ms",
    ours: { what: "a second replica takes over", median: median(found.ours), p99: percentile(found.ours, 0.99) },
    peers: [{ what: "over SQLite: the process, restarted immediately", median: median(found.sqlite) }],
    rounds: found.ours.length,
    note: "The restart does not include the delay of a supervisor.",
  };
}

function startTaker(
  kind: "postgres" | "sqlite",
  where: string,
): { child: ChildProcess; prints(line: string): Promise<void> } {
  const script = fileURLToPath(new URL("../children/take-run.ts", import.meta.url));
  const child = spawn(process.execPath, [script, kind, where], { stdio: ["ignore", "pipe", "inherit"] });
  const printed = new Map<string, PromiseWithResolvers<void>>();
  const printedLine = (line: string) => {
    const known = printed.get(line) ?? Promise.withResolvers<void>();
    printed.set(line, known);
    return known;
  };
  createInterface({ input: child.stdout }).on("line", (line) => printedLine(line).resolve());
  return { child, prints: (line) => printedLine(line).promise };
}
