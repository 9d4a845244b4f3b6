import { afterAll, beforeAll, expect, test } from "vitest";
import { filesystemToolset } from "#toolsets/filesystem/filesystem-toolset.ts";
import { createGrepTool } from "#toolsets/search/grep.ts";
import { createSearchCodeTool } from "#toolsets/search/search-code.ts";
import type { GitRepository } from "../support/git-server.ts";
import { longestTurnMs } from "../support/longest-turn.ts";
import { type SandboxWorld, startSandboxWorld } from "../support/sandbox-world.ts";
import { toolContext, toolsetWorld } from "../support/toolset-world.ts";

/** Without turns in between, each operation would take more than a second. The garbage collector takes some of this, too. */
const maxBlockedMs = 150;
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
  const large = Array.from({ length: 1_000_000 }, (_, at) => `line ${at} of many\n`).join("");
  repository = await world.repositoryWith({ ...Object.fromEntries(files), "large.txt": large });
}, 60_000);
afterAll(() => world.close());

test("opening, reading, grep and search_code of a large tree leave the event loop free", {
  timeout: 60_000,
}, async () => {
  const { url } = repository;
  let tenants = 0;
  const sandbox = await world.open(repository);
  const context = toolContext({ sandbox });
  const grep = createGrepTool(sandbox);
  const search = createSearchCodeTool(sandbox);
  const { call } = await toolsetWorld(filesystemToolset, { sandbox });
  const operations: Record<string, () => Promise<unknown>> = {
    // Tenants do not share a base, so each of these starts with nothing.
    open: () => world.open(repository, { source: { tenant: `${tenants++}`, url, token: async () => undefined } }),
    "grep, a text in most lines": async () => grep.execute?.({ pattern: "ledger" }, context),
    "grep, ignoring case": async () => grep.execute?.({ pattern: "VIOLET.?_77", case_insensitive: true }, context),
    "grep, every line": async () => grep.execute?.({ pattern: "\\w+\\s+=", output_mode: "count" }, context),
    "grep, with a glob": async () => grep.execute?.({ pattern: "zebra", glob: "src/**/file-*[0-9].ts" }, context),
    "grep, the end of a large file": async () => grep.execute?.({ pattern: "line 999.*many", limit: 100 }, context),
    "read_file, a large file": () => call("read_file", { path: "large.txt" }),
    "read_file, the end of a large file": () => call("read_file", { path: "large.txt", offset: -20 }),
    search_code: async () => search.execute?.({ query: "where is the violet engine" }, context),
  };

  const blocked: Record<string, number> = {};
  for (const [name, operation] of Object.entries(operations)) {
    // The first run compiles the code.
    await operation();
    blocked[name] = await longestTurnMs(operation);
  }

  expect(Object.entries(blocked).filter(([, ms]) => ms > maxBlockedMs)).toEqual([]);
});
