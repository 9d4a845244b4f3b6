import { arch, availableParallelism, platform, release, totalmem } from "node:os";
import { resolve } from "node:path";
import { parseArgs } from "node:util";
import { UserError } from "../src/domain/errors.ts";
import { closestMatch } from "../src/text/closest-match.ts";
import { benches } from "./benches.ts";
import type { Bench, Figure, Missing } from "./figure.ts";
import { type Measured, ratioOf, render } from "./render.ts";

const usage = `Compares Golem Forge with its peers. Measurements of all sides alternate within one run.

  npm run bench                        run all benchmarks
  npm run bench -- --only shell,kill   run some of them: ${benches.map(({ name }) => name).join(", ")}
  npm run bench -- --json              print JSON
  npm run bench -- --repository PATH   use this repository for large-repository instead of a generated one

×2 next to a peer means that its figure is twice ours.`;

function chosen(only: string | undefined): readonly Bench[] {
  if (only === undefined) return benches;
  const names = benches.map(({ name }) => name);
  return only.split(",").map((asked) => {
    const bench = benches.find(({ name }) => name === asked.trim());
    if (bench) return bench;
    const near = closestMatch(asked, names);
    throw new UserError(
      `Unknown benchmark "${asked}".${near ? ` Did you mean ${near}?` : ""} The benchmarks are ${names.join(", ")}.`,
    );
  });
}

async function measure({ name, measure }: Bench): Promise<Measured> {
  const startedAt = performance.now();
  const figures = await measure();
  process.stderr.write(`${name}: ${Math.round((performance.now() - startedAt) / 1_000)} s\n`);
  return { bench: name, figures };
}

function withRatios(figure: Figure | Missing): object {
  if ("missing" in figure) return figure;
  const { ours, peers } = figure;
  return { ...figure, peers: peers.map((peer) => ({ ...peer, ratio: ratioOf(peer, ours) })) };
}

async function run(): Promise<void> {
  const { values } = parseArgs({
    options: {
      json: { type: "boolean" },
      only: { type: "string" },
      repository: { type: "string" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) return console.log(usage);
  if (values.repository) process.env.GOLEM_FORGE_BENCH_REPOSITORY = resolve(values.repository);

  const asked = chosen(values.only);
  const machine = {
    node: process.version,
    system: `${platform()} ${release()} ${arch()}`,
    cores: availableParallelism(),
    memoryGb: Math.round(totalmem() / 2 ** 30),
  };
  const { node, system, cores, memoryGb } = machine;
  if (!values.json) console.log(`Node ${node}, ${system}, ${cores} cores, ${memoryGb} GB. ×2 means twice ours.\n`);
  const measured: Measured[] = [];
  for (const bench of asked) {
    const found = await measure(bench);
    measured.push(found);
    if (!values.json) console.log(render(found));
  }
  if (!values.json) return;
  const results = measured.map(({ bench, figures }) => ({ bench, figures: figures.map(withRatios) }));
  console.log(JSON.stringify({ machine, results }, null, 2));
}

try {
  await run();
} catch (error) {
  const isTypo = (error as { code?: string }).code?.startsWith("ERR_PARSE_ARGS");
  if (!(error instanceof UserError) && !isTypo) throw error;
  console.error((error as Error).message);
  process.exitCode = 2;
}
