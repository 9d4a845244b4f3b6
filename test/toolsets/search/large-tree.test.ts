import { setImmediate } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { createGrepTool } from "#toolsets/search/grep.ts";
import { createSearchCodeTool } from "#toolsets/search/search-code.ts";
import type { GitRepository } from "../../support/git-server.ts";
import { type SandboxWorld, startSandboxWorld } from "../../support/sandbox-world.ts";
import { toolContext } from "../../support/toolset-world.ts";

/** Milliseconds of processor time, so that other load on the machine does not count. */
const maxBlockedMs = 50;
const words = ["ledger", "parcel", "winter", "copper", "meadow", "signal", "harbor", "violet", "engine", "thread"];

let world: SandboxWorld;
let repository: GitRepository;
beforeAll(async () => {
  world = await startSandboxWorld();
  const word = (seed: number) => words[(seed * 7_919) % words.length];
  const line = (file: number, at: number) =>
    `export const ${word(file + at)}_${at} = "${word(at)} ${word(file * at)}";\n`;
  const files = Array.from({ length: 3_000 }, (_, file) => [
    `src/area-${file % 20}/file-${file}.ts`,
    Array.from({ length: 100 }, (_, at) => line(file, at)).join(""),
  ]);
  repository = await world.repositoryWith(Object.fromEntries(files));
}, 60_000);
afterAll(() => world.close());

/** The longest time that the work keeps the event loop from its other work, in milliseconds of processor time. */
async function longestTurn(work: () => Promise<unknown>): Promise<number> {
  const turns: number[] = [];
  let isDone = false;
  const done = work().finally(() => {
    isDone = true;
  });
  while (!isDone) {
    const before = process.threadCpuUsage();
    await setImmediate();
    const { user, system } = process.threadCpuUsage(before);
    turns.push((user + system) / 1_000);
  }
  await done;
  return Math.max(...turns);
}

test("opening, grep and search_code of a large tree leave the event loop free", { timeout: 60_000 }, async () => {
  const { url } = repository;
  let tenants = 0;
  const sandbox = await world.open(repository);
  const context = toolContext({ sandbox });
  const grep = createGrepTool(sandbox);
  const search = createSearchCodeTool(sandbox);
  const operations: Record<string, () => Promise<unknown>> = {
    // Tenants do not share a base, so each of these starts with nothing.
    open: () => world.open(repository, { source: { tenant: `${tenants++}`, url, token: async () => undefined } }),
    "grep, a text in most lines": async () => grep.execute?.({ pattern: "ledger" }, context),
    "grep, ignoring case": async () => grep.execute?.({ pattern: "VIOLET.?_77", case_insensitive: true }, context),
    "grep, every line": async () => grep.execute?.({ pattern: "\\w+\\s+=", output_mode: "count" }, context),
    search_code: async () => search.execute?.({ query: "where is the violet engine" }, context),
  };

  const blocked: Record<string, number> = {};
  for (const [name, operation] of Object.entries(operations)) {
    // The first run compiles the code.
    await operation();
    blocked[name] = await longestTurn(operation);
  }

  expect(Object.entries(blocked).filter(([, ms]) => ms > maxBlockedMs)).toEqual([]);
});
