import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { startModelServer, turnOf } from "../../playground/model/model-server.ts";
import { forgeRepository, type Replica, startForge } from "../../test/support/forge-world.ts";
import type { Bench, Figure } from "../figure.ts";
import { interleaved, median, timed } from "../measure.ts";
import { runProgram } from "../run-program.ts";
import { inScratch } from "../scratch.ts";

/**
 * The steps at which two runs of one process begin to alternate. Those before compile code, and fill the first page of
 * each table and index of the new database.
 */
const earlyStep = 60;
const lateStep = 330;
const blocks = 12;
const blockSteps = 10;
const runsAtOnce = 60;
const stepsAtOnce = 61;
const runsInModelCall = 1_000;

const worker = `---
name: reader
description: Reads the same file again and again.
toolsets:
  filesystem: {}
limits: { steps: 500, tokens: 1000000000, minutes: 600, cost: 100000 }
max_context_tokens: 1000000
---
Read.`;
const policy = "limits: { steps: 1000, tokens: 1000000000, minutes: 600, cost: 100000 }";

/** CPU time and memory of the app as the npm package starts it: at startup, for one long run, and for many concurrent runs. */
export const appCostBench: Bench = {
  name: "app-cost",
  measure: () =>
    inScratch(async (folder) => {
      const policyFile = join(folder, "policy.yml");
      writeFileSync(policyFile, policy);
      await runProgram(process.execPath, [pathOf("scripts/build.ts")]);
      return [
        await start(),
        ...(await longRun(policyFile)),
        ...(await manyRuns(policyFile)),
        await runsInCall(policyFile),
      ];
    }),
};

const pathOf = (file: string) => fileURLToPath(new URL(`../../${file}`, import.meta.url));
/** The program of the npm package. */
const built = pathOf("dist/src/main.js");

async function start(): Promise<Figure> {
  const forge = await startForge({ script: () => ({ hang: true }) });
  const started = async (program: string) => {
    let app: Replica | undefined;
    const took = await timed(async () => {
      app = await forge.startReplica({}, program);
    });
    await app?.end("SIGTERM");
    return took;
  };
  try {
    const source = pathOf("src/main.ts");
    for (const program of [built, source]) await started(program);
    const found = await interleaved(15, {
      ours: () => started(built),
      source: () => started(source),
      node: () => timed(() => runProgram(process.execPath, ["-e", "0"])),
    });
    return {
      name: "start of the app until it is ready, code compiled before",
      unit: "ms",
      ours: { what: "the npm package", median: median(found.ours) },
      peers: [
        { what: "node -e 0", median: median(found.node) },
        { what: "the app from TypeScript", median: median(found.source) },
      ],
      rounds: found.ours.length,
    };
  } finally {
    await forge.close();
  }
}

/** Measures a young run and one with a long log in turns, so that other load on the machine affects both equally. */
async function longRun(policyFile: string): Promise<Figure[]> {
  const early = { firstStep: earlyStep, ...turns() };
  const late = { firstStep: lateStep, ...turns() };
  const { promise: started, resolve: start } = Promise.withResolvers<AppProcess>();
  const onCall = async (turn: number, app: AppProcess, index: number) => {
    const run = index === 0 ? early : late;
    if (turn < run.firstStep || turn % blockSteps !== 0) return;
    start(app);
    await run.arrive();
  };
  const measured = { early: [] as number[], late: [] as number[], bytes: 0 };
  const measure = async () => {
    const app = await started;
    const block = async ({ next }: typeof early) => {
      const before = app.cpuMs();
      await next();
      return (app.cpuMs() - before) / blockSteps;
    };
    await Promise.all([early.arrived(), late.arrived()]);
    const bytesBefore = app.databaseBytes();
    for (let index = 0; index < blocks; index += 1) {
      measured.late.push(await block(late));
      measured.early.push(await block(early));
    }
    measured.bytes = app.databaseBytes() - bytesBefore;
    early.release();
    late.release();
  };
  const steps = (first: number) => first + blocks * blockSteps;
  await Promise.all([
    measure(),
    runToEnd({ runs: 2, steps: (index) => steps(index === 0 ? earlyStep : lateStep), policyFile, onCall }),
  ]);
  const what = (first: number) => `steps ${first} to ${steps(first)} of a run`;
  return [
    {
      name: "CPU of a step at the end of a long run",
      unit: "ms",
      ours: { what: what(lateStep), median: median(measured.late) },
      peers: [
        {
          what: `${what(earlyStep)} in the same process, every ${blockSteps} steps in turns`,
          median: median(measured.early),
        },
      ],
      rounds: blocks,
      note: "The whole process: also the AI SDK, which sends the growing conversation, HTTP and the status on GitHub.",
    },
    {
      name: "stored per step",
      unit: "KB",
      ours: {
        what: "what the database grows by, with indexes",
        median: measured.bytes / (2 * blocks * blockSteps) / 1_024,
      },
      peers: [],
      rounds: 1,
    },
  ];
}

/** Lets a run proceed from one `arrive` to the next. */
function turns() {
  let here = Promise.withResolvers<void>();
  let proceed = Promise.withResolvers<void>();
  const release = () => {
    here = Promise.withResolvers();
    const { resolve } = proceed;
    proceed = Promise.withResolvers();
    resolve();
  };
  return {
    /** Called by the run: waits until it may proceed. */
    arrive: () => {
      here.resolve();
      return proceed.promise;
    },
    arrived: () => here.promise,
    release,
    /** Resolves when the run has arrived again. */
    next: () => {
      release();
      return here.promise;
    },
  };
}

async function manyRuns(policyFile: string): Promise<Figure[]> {
  const marks: { calls: number; cpuMs: number }[] = [];
  let calls = 0;
  const onCall = (_turn: number, app: AppProcess) => {
    calls += 1;
    // The first steps compile code and open sandboxes.
    if (calls % (runsAtOnce * 5) === 0) marks.push({ calls, cpuMs: app.cpuMs() });
  };
  const { peakMb } = await runToEnd({ runs: runsAtOnce, steps: stepsAtOnce, policyFile, onCall });
  const [first = { calls: 0, cpuMs: 0 }] = marks;
  const last = marks.at(-1) ?? first;
  const what = `${runsAtOnce} runs at once, ${stepsAtOnce} steps each`;
  return [
    {
      name: "CPU of the app per step",
      unit: "ms",
      ours: { what, median: (last.cpuMs - first.cpuMs) / (last.calls - first.calls) },
      peers: [{ what: "the AI SDK's own loop, nothing stored", median: await cpuOfPlainAgents() }],
      rounds: 1,
    },
    { name: "memory at the peak", unit: "MB", ours: { what, median: peakMb }, peers: [], rounds: 1 },
  ];
}

async function runsInCall(policyFile: string): Promise<Figure> {
  const { peakMb } = await runToEnd({ runs: runsInModelCall, steps: 2, holdsLastAnswers: true, policyFile });
  const what = `${runsInModelCall.toLocaleString("en-US")} runs of one repository in a model call at once, after two steps each`;
  return { name: "memory of runs in a model call", unit: "MB", ours: { what, median: peakMb }, peers: [], rounds: 1 };
}

/** The milliseconds of CPU per step of as many agents in one process that only call the model and a tool. */
async function cpuOfPlainAgents(): Promise<number> {
  const script: Parameters<typeof startModelServer>[0]["script"] = ({ messages }) =>
    scriptedAnswer(turnOf(messages), stepsAtOnce);
  const server = await startModelServer({ script });
  try {
    const loop = fileURLToPath(new URL("../children/plain-agent.ts", import.meta.url));
    return Number(await runProgram(process.execPath, [loop, server.url, String(stepsAtOnce), String(runsAtOnce)]));
  } finally {
    await server.close();
  }
}

function scriptedAnswer(turn: number, steps: number) {
  if (turn >= steps) return { text: "Read." };
  return {
    text: `I read it again after turn ${turn}.`,
    calls: [{ name: "read_file", args: { path: "src/total.js" } }],
  };
}

interface AppProcess {
  cpuMs(): number;
  databaseBytes(): number;
  /** The largest resident size so far. */
  peakMb(): number;
}

/** Starts the app, executes runs with this number of steps, and stops it once every run has asked for its last answer. */
async function runToEnd({
  runs,
  steps,
  policyFile,
  onCall,
  holdsLastAnswers = false,
}: {
  runs: number;
  steps: number | ((index: number) => number);
  policyFile: string;
  /** The answer waits until this has resolved. `index` is that of the run. */
  onCall?(turn: number, app: AppProcess, index: number): void | Promise<void>;
  /** The model's last answers begin when all runs wait for them. */
  holdsLastAnswers?: boolean;
}): Promise<{ peakMb: number }> {
  let app: AppProcess = { cpuMs: () => 0, peakMb: () => 0, databaseBytes: () => 0 };
  // By task, since a call that takes long is repeated.
  const tasks = new Set<string>();
  const allAsked = Promise.withResolvers<void>();
  const script: Parameters<typeof startModelServer>[0]["script"] = async ({ messages }) => {
    const turn = turnOf(messages);
    const briefing = JSON.stringify(messages.find(({ role }) => role === "user"));
    const index = Number(/Run (\d+)/.exec(briefing)?.[1]);
    const last = typeof steps === "number" ? steps : steps(index);
    await onCall?.(turn, app, index);
    if (turn >= last) {
      tasks.add(
        JSON.stringify(
          messages.slice(
            0,
            messages.findIndex(({ role }) => role === "assistant"),
          ),
        ),
      );
      if (tasks.size === runs) allAsked.resolve();
      if (holdsLastAnswers) await allAsked.promise;
    }
    return scriptedAnswer(turn, last);
  };
  const [commit] = forgeRepository.commits;
  if (!commit) throw new Error("unreachable: it has one");
  const files = { ...commit.files, ".github/workers/reader.worker": worker };
  const forge = await startForge({
    script,
    repositories: [{ ...forgeRepository, commits: [{ ...commit, files }] }],
    environment: {
      GOLEM_FORGE_STATUS_INTERVAL_MS: "4000",
      GOLEM_FORGE_POLICY: policyFile,
      GOLEM_FORGE_RUNS_PER_HOUR: "10000",
      GOLEM_FORGE_REPOSITORY_RUNS_PER_HOUR: "10000",
    },
  });
  try {
    app = processOf((await forge.startProcess({}, built)).pid ?? 0, forge.databasePath);
    for (let index = 0; index < runs; index += 1) {
      const issue = forge.github.as("visitor").openIssue({ title: `Run ${index}`, body: "Read." });
      forge.github.as("maintainer").comment(issue.number, "/run reader");
      // Up to a hundred a second: thousands of connections at once would be measured as well.
      if (index % runsAtOnce === runsAtOnce - 1) await pause(600);
    }
    await allAsked.promise;
    const peakMb = app.peakMb();
    await forge.end("SIGTERM");
    return { peakMb };
  } finally {
    await forge.close();
  }
}

function processOf(pid: number, databasePath: string): AppProcess {
  return {
    databaseBytes: () => {
      const database = new DatabaseSync(databasePath, { readOnly: true });
      const row = database
        .prepare("select page_count * page_size as bytes from pragma_page_count, pragma_page_size")
        .get();
      database.close();
      return Number(row?.bytes);
    },
    cpuMs: () =>
      readdirSync(`/proc/${pid}/task`)
        .map((thread) => readFileSync(`/proc/${pid}/task/${thread}/schedstat`, "utf8"))
        .reduce((sum, text) => sum + Number(text.split(" ")[0]) / 1e6, 0),
    peakMb: () => Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) / 1_024,
  };
}
