import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { openSandbox } from "../../src/sandbox/open-sandbox.ts";
import type { GitSandbox } from "../../src/sandbox/sandbox.ts";
import { createGrepTool } from "../../src/toolsets/search/grep.ts";
import type { GitRepository } from "../../test/support/git-server.ts";
import { toolContext } from "../../test/support/toolset-world.ts";
import type { Bench, Figure } from "../figure.ts";
import { generateFiles } from "../generate-files.ts";
import { startSeparateGitServer } from "../git-server.ts";
import { interleaved, median, timed } from "../measure.ts";
import { runProgram } from "../run-program.ts";
import { inScratch, writeTree } from "../scratch.ts";

const files = generateFiles(2_000);
const paths = Object.keys(files);
const changed = paths.filter((_, index) => index % 200 === 0);

export const sandboxBench: Bench = {
  name: "sandbox",
  measure: async () => {
    const server = await startSeparateGitServer();
    try {
      const repository = await server.repository("bench/generated");
      await repository.commit({ files });
      return await inScratch(async (folder) => [
        ...(await opening(folder, repository)),
        await another(folder, repository),
        ...(await working(folder, repository)),
      ]);
    } finally {
      await server.close();
    }
  },
};

function open({ url }: GitRepository, tenant: string): Promise<GitSandbox> {
  const source = { tenant, url, token: async () => undefined };
  return openSandbox({ source, at: { branch: "main" }, changes: [] });
}

function git(cwd: string, ...args: string[]): Promise<string> {
  return runProgram("git", args, { cwd, env: { PATH: process.env.PATH, HOME: cwd, GIT_CONFIG_NOSYSTEM: "1" } });
}

async function opening(folder: string, repository: GitRepository): Promise<Figure[]> {
  const clone = async (name: string) => {
    await git(folder, "clone", "--quiet", "--depth", "1", repository.url, name);
    return join(folder, name);
  };
  const cold = await interleaved(7, {
    // Tenants do not share a base, so each of these starts with nothing.
    ours: (round) => timed(() => open(repository, `cold ${round}`)),
    git: (round) => timed(() => clone(`cold-${round}`)),
  });
  const read = await interleaved(5, {
    ours: (round) =>
      timed(async () => {
        const sandbox = await open(repository, `read ${round}`);
        for (const path of paths) await sandbox.readBytes(path);
      }),
    git: (round) =>
      timed(async () => {
        const copy = await clone(`read-${round}`);
        for (const path of paths) await readFile(join(copy, path));
      }),
  });
  return [
    {
      name: "cold open of 2,000 files",
      unit: "ms",
      ours: { what: "in-memory sandbox", median: median(cold.ours) },
      peers: [{ what: "git clone --depth 1", median: median(cold.git) }],
      rounds: cold.ours.length,
      note: "The same git server on loopback serves both. Ours decompresses a file when it is read.",
    },
    {
      name: "cold open, then read every file",
      unit: "ms",
      ours: { what: "in-memory sandbox", median: median(read.ours) },
      peers: [{ what: "git clone --depth 1, then read", median: median(read.git) }],
      rounds: read.ours.length,
    },
  ];
}

async function another(folder: string, repository: GitRepository): Promise<Figure> {
  const held = [await open(repository, "shared")];
  const clone = join(folder, "cold-0");
  const second = await interleaved(9, {
    ours: () => timed(async () => held.push(await open(repository, "shared"))),
    git: (round) => timed(() => git(clone, "worktree", "add", "--quiet", "--detach", join(folder, `tree-${round}`))),
  });
  return {
    name: "second sandbox on the same base",
    unit: "ms",
    ours: { what: "in-memory sandbox", median: median(second.ours) },
    peers: [{ what: "git worktree add", median: median(second.git) }],
    rounds: second.ours.length,
    note: "Ours checks with the server that the run may still read the repository; git worktree contacts no server.",
  };
}

async function working(folder: string, repository: GitRepository): Promise<Figure[]> {
  const sandbox = await open(repository, "work");
  const copy = join(folder, "cold-1");
  for (const path of changed) {
    const content = `${files[path]}// changed\n`;
    await sandbox.write(path, content);
    await writeTree(copy, { [path]: content });
  }
  const grep = createGrepTool(sandbox);
  const context = toolContext({ sandbox });
  const search = (pattern: string) => timed(() => grep.execute?.({ pattern, limit: 1_000 }, context));
  const plain = (pattern: string) => timed(() => git(copy, "grep", "-n", "-E", pattern));
  await Promise.all([search("needle"), plain("needle")]);

  const status = await interleaved(20, {
    ours: () => timed(() => sandbox.changes()),
    git: () => timed(() => git(copy, "status", "--porcelain")),
  });
  const text = await interleaved(15, { ours: () => search("needle"), git: () => plain("needle") });
  const pattern = "(harbor|violet)_4[0-9] = .winter copper";
  const expression = await interleaved(9, { ours: () => search(pattern), git: () => plain(pattern) });
  const figure = (name: string, found: { ours: number[]; git: number[] }, ours: string, peer: string): Figure => ({
    name,
    unit: "ms",
    ours: { what: ours, median: median(found.ours) },
    peers: [{ what: peer, median: median(found.git) }],
    rounds: found.ours.length,
  });
  return [
    figure(`status with ${changed.length} changed files`, status, "in-memory sandbox", "git status"),
    figure("search for a word", text, "grep tool", "git grep"),
    figure("search for an expression", expression, "grep tool", "git grep -E"),
    await extraMemory(folder, repository),
  ];
}

async function extraMemory(folder: string, { url }: GitRepository): Promise<Figure> {
  const count = 60;
  const script = fileURLToPath(new URL("../children/sandbox-memory.ts", import.meta.url));
  const { eachKb } = JSON.parse(await runProgram(process.execPath, [script, url, String(count)]));
  const disk = Number((await runProgram("du", ["-sk", join(folder, "tree-0")])).split("\t")[0]);
  return {
    name: "cost of one more sandbox on the same base, one file changed",
    unit: "KB",
    ours: { what: "in-memory sandbox: memory", median: eachKb },
    peers: [{ what: "git worktree: disk", median: disk }],
    rounds: count,
    note: "Each is what one more run needs: memory in one case, disk space in the other. Files it only reads are shared.",
  };
}
