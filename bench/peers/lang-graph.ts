import { createRequire } from "node:module";
import { DatabaseSync } from "node:sqlite";
import { pathToFileURL } from "node:url";

/** The parts of LangGraph that are used. Its own types are missing if the optional package is not installed. */
interface StateGraph {
  addNode(name: string, work: (state: State) => Partial<State>): StateGraph;
  addEdge(from: string, to: string): StateGraph;
  addConditionalEdges(from: string, choose: (state: State) => string): StateGraph;
  compile(options: { checkpointer: unknown }): { invoke(state: Partial<State>, options: object): Promise<State> };
}

interface LangGraph {
  StateGraph: new (state: unknown) => StateGraph;
  Annotation: { (options?: object): unknown; Root(channels: object): unknown };
  START: string;
  END: string;
}

interface Checkpointer {
  SqliteSaver: new (database: unknown) => { setup(): void };
}

interface State {
  step: number;
  steps: number;
  messages: string[];
}

const text = "A sentence that the model says, about as long as such sentences are. ".repeat(8);

/**
 * Opens LangGraph with its SQLite checkpointer and one node per step; resolves to undefined if it is not installed. The
 * checkpointer uses Node's SQLite instead of better-sqlite3: the same engine with the same settings as ours.
 */
export async function openLangGraph(path: string) {
  const installed = await load();
  if (!installed) return undefined;

  const { StateGraph, Annotation, START, END, SqliteSaver } = installed;
  const database = new DatabaseSync(path);
  const saver = new SqliteSaver({
    pragma: (statement: string) => database.exec(`pragma ${statement}`),
    exec: (sql: string) => database.exec(sql),
    prepare: (sql: string) => database.prepare(sql),
    transaction:
      (work: (...args: unknown[]) => unknown) =>
      (...args: unknown[]) => {
        database.exec("begin immediate");
        const result = work(...args);
        database.exec("commit");
        return result;
      },
  });
  saver.setup();
  database.exec("pragma synchronous=full");

  const append = { reducer: (before: string[], more: string[]) => before.concat(more), default: () => [] };
  const state = Annotation.Root({ step: Annotation(), steps: Annotation(), messages: Annotation(append) });
  const graph = new StateGraph(state)
    .addNode("work", ({ step }) => ({ step: step + 1, messages: [text] }))
    .addEdge(START, "work")
    .addConditionalEdges("work", ({ step, steps }) => (step < steps ? "work" : END))
    .compile({ checkpointer: saver });

  return {
    run: async (thread: string, steps: number): Promise<void> => {
      const options = { configurable: { thread_id: thread }, recursionLimit: steps + 10, durability: "sync" };
      const end = await graph.invoke({ step: 0, steps }, options);
      if (end.step !== steps) throw new Error("LangGraph executed a different number of steps");
    },
    close: () => database.close(),
  };
}

async function load(): Promise<(LangGraph & Checkpointer) | undefined> {
  const require = createRequire(new URL("../package.json", import.meta.url));
  const names = ["@langchain/langgraph", "@langchain/langgraph-checkpoint-sqlite"];
  try {
    const paths = names.map((name) => pathToFileURL(require.resolve(name)).href);
    const [graph, checkpointer] = await Promise.all(paths.map((path) => import(path)));
    return { ...graph, ...checkpointer };
  } catch (error) {
    if ((error as { code?: string }).code === "MODULE_NOT_FOUND") return undefined;
    throw error;
  }
}
