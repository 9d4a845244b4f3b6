import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { writeBundle } from "../../scripts/bundle.ts";
import type { ToolResult } from "../../src/domain/result.ts";
import { openSandbox } from "../../src/sandbox/open-sandbox.ts";
import { fileChange } from "../../src/sandbox/preview-files.ts";
import type { GitSandbox } from "../../src/sandbox/sandbox.ts";
import { createGrepTool } from "../../src/toolsets/search/grep.ts";
import { createSearchCodeTool } from "../../src/toolsets/search/search-code.ts";
import { toolContext } from "../../test/support/toolset-world.ts";
import type { Bench, Figure, Missing } from "../figure.ts";
import { startSeparateGitServer } from "../git-server.ts";
import { type LargeRepository, prepareLargeRepository } from "../large-repository.ts";
import { interleaved, median, timed } from "../measure.ts";
import { runProgram } from "../run-program.ts";
import { inScratch, writeTree } from "../scratch.ts";
import { firstRequest } from "./first-request.ts";

export const largeRepositoryBench: Bench = {
  name: "large-repository",
  measure: async () => {
    const server = await startSeparateGitServer();
    try {
      const large = await prepareLargeRepository(server);
      return await inScratch(async (folder) => [
        ...(await opening(folder, large)),
        ...(await firstRequest(large, (round) => clone(folder, large, `first-${round}`))),
        ...(await moving(folder, large)),
        ...(await memory(folder, large)),
        ...(await searching(folder, large)),
        ...(await history(folder, large)),
        await pushing(folder, large),
      ]);
    } finally {
      await server.close();
    }
  },
};

/** The minimum number of rounds of `interleaved`, so that each round finds the clone of the previous measurement. */
const rounds = 3;
/** More, since the first ones run code that is not compiled yet. */
const coldRounds = 7;

function open({ repository: { url } }: LargeRepository, tenant: string): Promise<GitSandbox> {
  const source = { tenant, url, token: async () => undefined };
  return openSandbox({ source, at: { branch: "bench" }, changes: [] });
}

/** Opens a sandbox, and waits until every file can be read. */
async function openWhole(large: LargeRepository, tenant: string): Promise<GitSandbox> {
  const sandbox = await open(large, tenant);
  await sandbox.stat("");
  return sandbox;
}

function git(cwd: string, ...args: string[]): Promise<string> {
  const env = { PATH: process.env.PATH, HOME: cwd, GIT_CONFIG_NOSYSTEM: "1" };
  return runProgram("git", ["-c", "user.name=Ada", "-c", "user.email=ada@example.com", ...args], { cwd, env });
}

async function clone(folder: string, { repository }: LargeRepository, name: string, ...options: string[]) {
  await git(folder, "clone", "--quiet", "--depth", "1", "--branch", "bench", ...options, repository.url, name);
  return join(folder, name);
}

async function opening(folder: string, large: LargeRepository): Promise<Figure[]> {
  await large.moveTo("before");
  const whole = await interleaved(coldRounds, {
    // Tenants do not share a base, so each of these starts with nothing.
    ours: (round) => timed(() => openWhole(large, `whole ${round}`)),
    git: (round) => timed(() => clone(folder, large, `whole-${round}`)),
  });
  const listed = await interleaved(rounds, {
    ours: (round) => timed(async () => (await open(large, `list ${round}`)).paths()),
    git: (round) =>
      timed(async () => {
        const copy = await clone(folder, large, `list-${round}`, "--filter=blob:none", "--no-checkout");
        return git(copy, "ls-tree", "-r", "--name-only", "HEAD");
      }),
  });
  return [
    {
      name: `cold open of ${large.name}`,
      unit: "ms",
      ours: { what: "in-memory sandbox, until every file can be read", median: median(whole.ours) },
      peers: [{ what: "git clone --depth 1", median: median(whole.git) }],
      rounds: whole.ours.length,
      note: "The same git server on loopback serves both, on the same cores.",
    },
    {
      name: "list of its files",
      unit: "ms",
      ours: { what: "in-memory sandbox", median: median(listed.ours) },
      peers: [{ what: "git clone --filter=blob:none --no-checkout, git ls-tree -r", median: median(listed.git) }],
      rounds: listed.ours.length,
      note: "Ours is already fetching the contents.",
    },
  ];
}

async function moving(folder: string, large: LargeRepository): Promise<Figure[]> {
  await large.moveTo("before");
  const tenants = Array.from({ length: rounds }, (_, round) => `move ${round}`);
  const kept = [];
  for (const tenant of tenants) kept.push(await openWhole(large, tenant));
  const same = await interleaved(rounds, {
    ours: (round) => timed(() => openWhole(large, `move ${round}`)),
    git: (round) => timed(() => git(join(folder, `whole-${round}`), "fetch", "--quiet", "--depth", "1")),
  });
  await large.moveTo("tip");
  const listed: number[] = [];
  const moved = await interleaved(rounds, {
    ours: (round) =>
      timed(async () => {
        listed.push(await timed(() => open(large, `move ${round}`)));
        await openWhole(large, `move ${round}`);
      }),
    git: (round) =>
      timed(async () => {
        const copy = join(folder, `whole-${round}`);
        await git(copy, "fetch", "--quiet", "--depth", "1", "origin", "bench");
        await git(copy, "reset", "--quiet", "--hard", "FETCH_HEAD");
      }),
  });
  const peers = [{ what: "git fetch --depth 1, git reset --hard", median: median(moved.git) }];
  return [
    {
      name: "open again, branch unchanged",
      unit: "ms",
      ours: { what: "in-memory sandbox", median: median(same.ours) },
      peers: [{ what: "git fetch --depth 1", median: median(same.git) }],
      rounds: same.ours.length,
    },
    {
      name: "open again, branch moved by 20 commits",
      unit: "ms",
      ours: { what: "in-memory sandbox, until every file that did not change can be read", median: median(listed) },
      peers,
      rounds: listed.length,
      note: `Ours fetches the differences from the previous base. ${kept.length} bases were in memory.`,
    },
    {
      name: "the same, until every file can be read",
      unit: "ms",
      ours: { what: "in-memory sandbox", median: median(moved.ours) },
      peers,
      rounds: moved.ours.length,
    },
  ];
}

const OpenMemory = z.object({ bareMb: z.number(), peakMb: z.number(), openMb: z.number(), eachKb: z.number() });

async function memory(folder: string, { repository }: LargeRepository): Promise<Figure[]> {
  const script = fileURLToPath(new URL("../children/open-memory.ts", import.meta.url));
  // The package has no TypeScript, whose removal takes memory of its own.
  await writeBundle({ entries: { "open-memory": script }, folder });
  // The app sets the second flag at its start.
  const flags = ["--expose-gc", "--heap-growing-percent=50"];
  const processes: z.infer<typeof OpenMemory>[] = [];
  while (processes.length < rounds) {
    const printed = await runProgram(process.execPath, [...flags, "open-memory.cjs", repository.url], { cwd: folder });
    processes.push(OpenMemory.parse(JSON.parse(printed)));
  }
  const medianOf = (name: keyof z.infer<typeof OpenMemory>) => median(processes.map((figures) => figures[name]));
  const bare = { what: "Node with our modules loaded", median: medianOf("bareMb") };
  return [
    {
      name: "memory: peak while opening it",
      unit: "MB",
      ours: { what: "resident", median: medianOf("peakMb") },
      peers: [bare],
      rounds,
    },
    {
      name: "memory: first run on it",
      unit: "MB",
      ours: { what: "resident", median: medianOf("openMb") },
      peers: [bare],
      rounds,
    },
    {
      name: "memory: each further run, five files of 4 KB changed",
      unit: "KB",
      ours: { what: "heap and buffers", median: medianOf("eachKb") },
      peers: [],
      rounds: 50,
    },
  ];
}

/** Returns the number of lines that the `grep` tool counted. */
function lineCountOf(result: ToolResult | undefined): number {
  const { summary } = z.object({ summary: z.string() }).parse(result?.value);
  return Number(/^([\d,]+) match/.exec(summary)?.[1]?.replaceAll(",", "") ?? 0);
}

async function searching(folder: string, large: LargeRepository): Promise<(Figure | Missing)[]> {
  const sandbox = await openWhole(large, "search");
  const copy = await clone(folder, large, "search");
  const hasRipgrep = await runProgram("rg", ["--version"]).then(
    () => true,
    () => false,
  );
  if (!hasRipgrep) return [{ name: "grep", missing: "Not measured: ripgrep is not installed." }];

  const grep = createGrepTool(sandbox);
  const context = toolContext({ sandbox });
  const figures: Figure[] = [];
  for (const [name, pattern] of Object.entries(large.patterns)) {
    const ignoreCase = name === "caseInsensitive";
    const counts = { ours: 0, rg: 0 };
    const search = async () => {
      const result = await grep.execute?.(
        { pattern, case_insensitive: ignoreCase, output_mode: "count", limit: 1_000 },
        context,
      );
      counts.ours = lineCountOf(result);
    };
    const rg = async () => {
      const options = [
        "--count",
        "--hidden",
        "--no-ignore",
        "--glob",
        "!.git",
        ...(ignoreCase ? ["--ignore-case"] : []),
      ];
      const printed = await runProgram(
        "sh",
        ["-c", 'rg "$@" || [ $? = 1 ]', "rg", ...options, "--regexp", pattern, "."],
        { cwd: copy },
      );
      counts.rg = printed.split("\n").reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(":") + 1)), 0);
    };
    const found = await interleaved(9, { ours: () => timed(search), rg: () => timed(rg) });
    if (counts.ours !== counts.rg) throw new Error(`${pattern}: ${counts.ours} lines, ripgrep ${counts.rg}`);
    figures.push({
      name: `grep, ${name}: ${pattern}`,
      unit: "ms",
      ours: { what: `grep tool, ${counts.ours.toLocaleString("en-US")} lines`, median: median(found.ours) },
      peers: [{ what: "rg, spawned, the same lines", median: median(found.rg) }],
      rounds: found.ours.length,
    });
  }
  const tool = createSearchCodeTool(sandbox);
  const ranked = await interleaved(5, { ours: () => timed(() => tool.execute?.({ query: large.query }, context)) });
  return [
    ...figures,
    {
      name: `search_code: ${large.query}`,
      unit: "ms",
      ours: { what: "best files first, no index", median: median(ranked.ours) },
      peers: [],
      rounds: ranked.ours.length,
    },
  ];
}

async function history(folder: string, large: LargeRepository): Promise<Figure[]> {
  const first = await interleaved(3, {
    ours: async (round) => {
      const sandbox = await openWhole(large, `log ${round}`);
      return timed(() => sandbox.log({ limit: 10 }));
    },
    git: (round) =>
      timed(async () => {
        const options = ["--quiet", "--filter=tree:0", "--no-checkout", "--depth", "50", "--branch", "bench"];
        await git(folder, "clone", ...options, large.repository.url, `log-${round}`);
        return git(join(folder, `log-${round}`), "log", "-10");
      }),
  });
  const ofPath = await interleaved(3, {
    ours: async (round) => {
      const sandbox = await openWhole(large, `path ${round}`);
      return timed(() => sandbox.log({ limit: 10, path: large.historyOf }));
    },
    git: (round) =>
      timed(async () => {
        const options = ["--quiet", "--filter=blob:none", "--no-checkout", "--branch", "bench"];
        await git(folder, "clone", ...options, large.repository.url, `path-${round}`);
        return git(join(folder, `path-${round}`), "log", "-10", "--", large.historyOf);
      }),
  });
  return [
    {
      name: "first page of the log",
      unit: "ms",
      ours: { what: "git_log, history fetched", median: median(first.ours) },
      peers: [{ what: "git clone --filter=tree:0 --depth 50, git log -10", median: median(first.git) }],
      rounds: first.ours.length,
    },
    {
      name: `first page of the log of ${large.historyOf}`,
      unit: "ms",
      ours: { what: "git_log, history fetched in steps", median: median(ofPath.ours) },
      peers: [{ what: "git clone --filter=blob:none, git log -10 -- path", median: median(ofPath.git) }],
      rounds: ofPath.ours.length,
    },
  ];
}

async function pushing(folder: string, large: LargeRepository): Promise<Figure> {
  const copy = await clone(folder, large, "push");
  const pushed = await interleaved(rounds, {
    ours: async (round) => {
      const sandbox = await openWhole(large, "push");
      const paths = (await sandbox.paths()).filter((_, index) => index % 1_500 === 7).slice(0, 5);
      for (const path of paths) await sandbox.write(path, `changed ${round}\n`);
      const changes = (await sandbox.outgoing()).map(fileChange);
      const author = { name: "Ada", email: "ada@example.com" };
      return timed(() => sandbox.push({ branch: `ours-${round}`, message: "Change", author, at: new Date(), changes }));
    },
    git: async (round) => {
      const paths = (await git(copy, "ls-files"))
        .split("\n")
        .filter((_, index) => index % 1_500 === 7)
        .slice(0, 5);
      await writeTree(copy, Object.fromEntries(paths.map((path) => [path, `changed ${round}\n`])));
      return timed(async () => {
        await git(copy, "add", "--all");
        await git(copy, "commit", "--quiet", "-m", "Change");
        await git(copy, "push", "--quiet", "origin", `HEAD:refs/heads/git-${round}`);
      });
    },
  });
  return {
    name: "commit and push of 5 files",
    unit: "ms",
    ours: { what: "one request", median: median(pushed.ours) },
    peers: [{ what: "git add, commit, push", median: median(pushed.git) }],
    rounds: pushed.ours.length,
  };
}
