import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { RunEvent } from "../../src/events.ts";
import type { EffectRequest } from "../../src/machines/effects.ts";
import { firstState, fold } from "../../src/runtime/fold.ts";
import { openSqliteStore } from "../../src/runtime/store/sqlite/open-sqlite-store.ts";
import type { Effect, Store } from "../../src/runtime/store/store.ts";
import { sampleSpec } from "../../test/support/store-samples.ts";
import type { Bench, Figure, Side } from "../figure.ts";
import { interleaved, median, timed } from "../measure.ts";
import { openLangGraph } from "../peers/lang-graph.ts";
import { inScratch } from "../scratch.ts";

const stepsOfOne = 120;
const runsAtOnce = 1_000;
const stepsAtOnce = 3;
/** Fewer, since a rate is what counts and it takes its time. */
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
        return [await alone(sides), await together(sides)];
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

async function alone({ store, bare, graph }: Sides): Promise<Figure> {
  const each = async (work: () => Promise<void> | void) => (await timed(work)) / stepsOfOne;
  const found = await interleaved(5, {
    ours: (round) => each(() => ourRun(store, `alone-${round}`, stepsOfOne)),
    bare: () => each(() => bare.write(stepsOfOne * 3)),
    graph: async (round) => (graph ? each(() => graph.run(`alone-${round}`, stepsOfOne)) : Number.NaN),
  });
  return {
    name: "one durable step of one run",
    unit: "ms",
    ours: { what: "begin, finish, fold, advance", median: median(found.ours) },
    peers: [
      { what: "three commits of one row: what the disk costs", median: median(found.bare) },
      ...langGraph(graph, median(found.graph)),
    ],
    rounds: found.ours.length,
    note: `${stepsOfOne} steps a round, SQLite with synchronous=FULL for all.${graph ? "" : ` ${howToInstall}`}`,
  };
}

async function together({ store, bare, graph }: Sides): Promise<Figure> {
  const all = async (count: number, work: (index: number) => Promise<void>) => {
    const took = await timed(() => Promise.all(Array.from({ length: count }, (_, index) => work(index))));
    return (count * stepsAtOnce * 1_000) / took;
  };
  const found = await interleaved(3, {
    ours: (round) => all(runsAtOnce, (index) => ourRun(store, `many-${round}-${index}`, stepsAtOnce)),
    bare: () => all(1_000, async () => bare.write(stepsAtOnce * 3)),
    graph: async (round) =>
      graph ? all(graphsAtOnce, (index) => graph.run(`many-${round}-${index}`, stepsAtOnce)) : Number.NaN,
  });
  return {
    name: `durable steps with ${runsAtOnce.toLocaleString("en-US")} runs at once`,
    unit: "per second",
    ours: { what: "begin, finish, fold, advance", median: median(found.ours) },
    peers: [
      { what: "three commits of one row each, one after the other", median: median(found.bare) },
      ...langGraph(graph, median(found.graph)),
    ],
    rounds: found.ours.length,
    note: `Ours shares commits between runs. ${stepsAtOnce} steps a run, its start counted; LangGraph with ${graphsAtOnce} threads at once.`,
  };
}

const howToInstall = "LangGraph was not measured: `npm ci --ignore-scripts --prefix bench` installs it.";

function langGraph(graph: Sides["graph"], value: number): Side[] {
  return graph ? [{ what: "LangGraph, one node with its SQLite checkpointer", median: value }] : [];
}

async function ourRun(store: Store, runId: string, steps: number): Promise<void> {
  const spec = sampleSpec(runId);
  spec.worker.limits.steps = steps;
  await store.ingest({ run: firstState(spec), events: [] });
  for (let step = 0; step < steps; step += 1) {
    const effect = await store.begin(runId, "work", Date.now());
    if (!effect) throw new Error("There is nothing to do");
    await store.finish({ key: effect.key, events: [{ runId, event: answerTo(effect, step) }] });
    const [row, inbox] = await Promise.all([store.run(runId), store.inbox(runId)]);
    const folded = row && fold(row, inbox, Date.now());
    if (!folded || !(await store.advance(folded.advance))) throw new Error("The step was not taken");
  }
}

/** What the outside world would have answered. */
function answerTo({ kind, input }: Effect, step: number): RunEvent {
  const tool = "read_file";
  switch (kind as EffectRequest["kind"]) {
    case "sandbox.open":
      return { type: "sandbox.opened", commit: "0".repeat(40), branch: "main" };
    case "model.call":
      return {
        type: "model.answered",
        text,
        calls: [{ callId: `call-${step}`, tool, args: { path: "README.md" } }],
        messages: [{ role: "assistant", content: text }],
        usage: { inputTokens: 1_000, outputTokens: 100 },
        finishReason: "tool-calls",
        seen: 0,
      };
    case "calls.review":
      return { type: "calls.reviewed", verdicts: [{ kind: "allow", callId: `call-${step - 1}`, tool, as: "tool" }] };
    case "tool.execute": {
      const { callId } = input as { callId: string };
      return {
        type: "tool.finished",
        callId,
        tool,
        result: { llmContent: text, value: { kind: "text", content: text } },
      };
    }
    default:
      throw new Error(`${kind} is not expected here`);
  }
}

/** The same file settings, and no product: one row for each commit. */
function openBare(path: string) {
  const database = new DatabaseSync(path);
  database.exec(
    "pragma journal_mode=wal; pragma synchronous=full; create table rows (id integer primary key, text text)",
  );
  const insert = database.prepare("insert into rows (text) values (?)");
  return {
    write: (commits: number) => {
      for (let index = 0; index < commits; index += 1) insert.run(text);
    },
    close: () => database.close(),
  };
}
