import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openSqliteStore } from "../../src/runtime/store/sqlite/open-sqlite-store.ts";
import type { Store } from "../../src/runtime/store/store.ts";
import {
  sampleApproval,
  sampleEffect,
  sampleSnapshot,
  sampleSpec,
  sampleStep,
} from "../../test/support/store-samples.ts";
import type { Bench } from "../figure.ts";
import { interleaved, median } from "../measure.ts";
import { runProgram } from "../run-program.ts";
import { inScratch } from "../scratch.ts";

const waitingRuns = 100_000;
const actors = 10_000;
const batch = 2_000;

export const waitingRunsBench: Bench = {
  name: "waiting-runs",
  measure: () =>
    inScratch(async (folder) => {
      const [full, empty] = [join(folder, "full.db"), join(folder, "empty.db")];
      await fill(full);
      await (await openSqliteStore(empty)).close();

      const starts: Record<"full" | "empty", { startMs: number; memoryMb: number }[]> = { full: [], empty: [] };
      await interleaved(3, {
        full: async () => starts.full.push(await child("start-runtime.ts", full)),
        empty: async () => starts.empty.push(await child("start-runtime.ts", empty)),
      });
      const live = await child<{ eachKb: number }>("live-actors.ts", String(actors));
      const startMs = (side: "full" | "empty") => median(starts[side].map((one) => one.startMs));
      const memoryMb = (side: "full" | "empty") => median(starts[side].map((one) => one.memoryMb));
      const what = {
        full: `${waitingRuns.toLocaleString("en-US")} runs wait for an approval`,
        empty: "no runs at all",
      };
      const rounds = starts.full.length;
      return [
        {
          name: "start of the runtime",
          unit: "ms",
          ours: { what: what.full, median: startMs("full") },
          peers: [{ what: what.empty, median: startMs("empty") }],
          rounds,
          note: "From opening the database until every run that has something to do is being processed.",
        },
        {
          name: "memory of the process after its start",
          unit: "MB",
          ours: { what: what.full, median: memoryMb("full") },
          peers: [{ what: what.empty, median: memoryMb("empty") }],
          rounds,
        },
        {
          name: "memory that waiting runs hold",
          unit: "MB",
          ours: {
            what: `${what.full}: the difference above`,
            median: Math.max(0, memoryMb("full") - memoryMb("empty")),
          },
          peers: [{ what: "as live XState actors of the same machine", median: (live.eachKb * waitingRuns) / 1_024 }],
          rounds,
          note: `Ours is within the variation between two starts. The peer is extrapolated from ${actors.toLocaleString("en-US")} actors, ${live.eachKb.toFixed(1)} KB each without a transcript.`,
        },
      ];
    }),
};

/** Fills a database with runs that wait for an approval. */
async function fill(path: string): Promise<void> {
  const store = await openSqliteStore(path);
  for (let first = 0; first < waitingRuns; first += batch) {
    await Promise.all(Array.from({ length: batch }, (_, index) => addWaitingRun(store, first + index)));
  }
  await store.close();
}

async function addWaitingRun(store: Store, index: number): Promise<void> {
  const id = `run-${index}`;
  const key = `${id}/ask`;
  const origin = { ...sampleSpec(id).origin, thread: index + 1 };
  const spec = sampleSpec(id, { origin, createdAt: Date.now() });
  const expiresAt = Date.now() + 72 * 60 * 60_000;
  const written = [
    store.ingest({
      run: { spec, snapshot: sampleSnapshot("preparing"), effects: [sampleEffect(id, key)] },
      events: [],
    }),
    store.claimEffect(id, "work", Date.now()),
    store.completeEffect({
      runId: id,
      key,
      approvals: [sampleApproval(id, `ask-${index}`, { requestedAt: Date.now(), expiresAt })],
    }),
    store.advance(
      sampleStep(id, { snapshot: sampleSnapshot({ handlingCalls: "awaitingApproval" }), status: "waiting" }),
    ),
  ];
  if ((await Promise.all(written)).some((result) => result === false)) throw new Error(`${id} was not stored`);
}

async function child<Answer = { startMs: number; memoryMb: number }>(name: string, argument: string): Promise<Answer> {
  const path = fileURLToPath(new URL(`../children/${name}`, import.meta.url));
  return JSON.parse(await runProgram(process.execPath, [path, argument]));
}
