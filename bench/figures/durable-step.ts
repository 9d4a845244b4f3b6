import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { openSqliteStore } from "../../src/runtime/store/sqlite/open-sqlite-store.ts";
import type { Store } from "../../src/runtime/store/store.ts";
import { durableRun } from "../durable-run.ts";
import type { Bench, Figure, Side } from "../figure.ts";
import { cpuTime, interleaved, median, timed } from "../measure.ts";
import { openLangGraph } from "../peers/lang-graph.ts";
import { inScratch } from "../scratch.ts";

const runsAtOnce = 1_000;
const stepsAtOnce = 3;
/** Fewer, because they take longer and only the rate is compared. */
const graphsAtOnce = 200;
const text = "A sentence that the model says, about as long as such sentences are. ".repeat(8);

export const durableStepBench: Bench = {
  name: "durable-step",
  measure: () =>
    inScratch(async (folder) => {
      const store = await openSqliteStore(join(folder, "ours.db"));
      const bare = openBare(join(folder, "bare.db"));
      const graph = await openLangGraph(join(folder, "graph.db"));
      try {
        const sides = { store, bare, graph };
        return [await alone(sides, 20), await alone(sides, 400), await together(sides)];
      } finally {
        graph?.close();
        bare.close();
        await store.close();
      }
    }),
};

interface Sides {
  store: Store;
  bare: ReturnType<typeof openBare>;
  graph: Awaited<ReturnType<typeof openLangGraph>>;
}

async function alone({ store, bare, graph }: Sides, steps: number): Promise<Figure> {
  const each = async (work: () => Promise<void> | void) => (await cpuTime(work)) / steps;
  const found = await interleaved(5, {
    ours: (round) => each(() => durableRun(store, `alone-${steps}-${round}`, steps)),
    bare: (round) => each(() => bare.write(`alone-${steps}-${round}`, steps)),
    graph: async (round) => (graph ? each(() => graph.run(`alone-${steps}-${round}`, steps)) : Number.NaN),
  });
  return {
    name: `processor time of a durable step, one run of ${steps} steps`,
    unit: "ms",
    ours: { what: "store the result, advance the run, claim the next effect", median: median(found.ours) },
    peers: [{ what: rowsAlone, median: median(found.bare) }, ...langGraph(graph, median(found.graph))],
    rounds: found.ours.length,
    note: `SQLite with synchronous=FULL for all.${graph ? "" : ` ${howToInstall}`}`,
  };
}

async function together({ store, bare, graph }: Sides): Promise<Figure> {
  const all = async (count: number, work: (index: number) => Promise<void>) => {
    const took = await timed(() => Promise.all(Array.from({ length: count }, (_, index) => work(index))));
    return (count * stepsAtOnce * 1_000) / took;
  };
  const found = await interleaved(3, {
    ours: (round) => all(runsAtOnce, (index) => durableRun(store, `many-${round}-${index}`, stepsAtOnce)),
    bare: (round) => all(runsAtOnce, async (index) => bare.write(`many-${round}-${index}`, stepsAtOnce)),
    graph: async (round) =>
      graph ? all(graphsAtOnce, (index) => graph.run(`many-${round}-${index}`, stepsAtOnce)) : Number.NaN,
  });
  return {
    name: `durable steps with ${runsAtOnce.toLocaleString("en-US")} runs at once`,
    unit: "per second",
    ours: { what: "store the result, advance the run, claim the next effect", median: median(found.ours) },
    peers: [
      { what: `${rowsAlone}, one after the other`, median: median(found.bare) },
      ...langGraph(graph, median(found.graph)),
    ],
    rounds: found.ours.length,
    note: `Ours shares commits between runs. ${stepsAtOnce} steps per run, including its start; LangGraph with ${graphsAtOnce} threads at once.`,
  };
}

const howToInstall = "LangGraph was not measured: `npm ci --ignore-scripts --prefix bench` installs it.";

function langGraph(graph: Sides["graph"], value: number): Side[] {
  return graph ? [{ what: "LangGraph, one node with its SQLite checkpointer", median: value }] : [];
}

const rowsAlone = "the rows of a step in one commit, and nothing else";

/**
 * Opens a database with the same settings and the fewest tables that a step needs: a commit appends a row to the log, updates the
 * row of the run, removes an effect and adds the next one. This is the least that any implementation of such a step costs.
 */
function openBare(path: string) {
  const database = new DatabaseSync(path);
  database.exec(`pragma journal_mode=wal; pragma synchronous=full;
    create table runs (id text primary key, snapshot text) without rowid;
    create table events (id integer primary key, run_id text, event text);
    create index events_of_run on events (run_id);
    create table effects (run_id text, key text, input text, primary key (run_id, key)) without rowid`);
  const addRun = database.prepare("insert into runs (id, snapshot) values (?, ?)");
  const append = database.prepare("insert into events (run_id, event) values (?, ?)");
  const update = database.prepare("update runs set snapshot = ? where id = ?");
  const remove = database.prepare("delete from effects where run_id = ? and key = ?");
  const request = database.prepare("insert into effects (run_id, key, input) values (?, ?, '{}')");
  return {
    write: (runId: string, commits: number) => {
      addRun.run(runId, text);
      for (let index = 0; index < commits; index += 1) {
        database.exec("begin immediate");
        remove.run(runId, `${index - 1}`);
        append.run(runId, text);
        update.run(text, runId);
        request.run(runId, `${index}`);
        database.exec("commit");
      }
    },
    close: () => database.close(),
  };
}
