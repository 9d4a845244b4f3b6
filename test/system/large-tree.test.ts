import { afterAll, beforeAll, expect, test } from "vitest";
import { createGitFolder } from "#sandbox/git/git-folder.ts";
import { encodeTree } from "#sandbox/git/git-objects.ts";
import { ObjectStore } from "#sandbox/git/object-store.ts";
import { buildTree } from "#sandbox/git/push-changes.ts";
import { readBase } from "#sandbox/git/read-base.ts";
import { createOverlay } from "#sandbox/overlay.ts";
import { createWorkspaceView } from "#sandbox/workspace-view.ts";
import { createZones } from "#sandbox/zones.ts";
import { createEditFileTool } from "#toolsets/filesystem/edit-file.ts";
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

const editedLines = Array.from({ length: 20_000 }, (_, at) => `  “line ${at}” of a file to edit`);

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
  repository = await world.repositoryWith({
    ...Object.fromEntries(files),
    "large.txt": large,
    "edited.txt": editedLines.map((text) => `${text}\n`).join(""),
  });
});
afterAll(() => world.close());

test("opening, reading, grep and search_code of a large tree leave the event loop free", {
  timeout: 120_000,
}, async () => {
  const { url } = repository;
  let tenants = 0;
  let edited = 0;
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
    "edit_file, a hundred inexact edits": async () => {
      const chosen = editedLines.filter((_, at) => at % 200 === edited);
      const edits = chosen.map((line) => ({ old_text: line.trim().replaceAll(/[“”]/g, '"'), new_text: "edited" }));
      edited++;
      return createEditFileTool(sandbox).execute?.({ path: "edited.txt", edits }, context);
    },
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

test("opening, searching, planning a commit and moving files in a tree of 100,000 files leave the event loop free", {
  timeout: 120_000,
}, async () => {
  const store = new ObjectStore();
  const blob = store.add({ type: "blob", data: Buffer.from("A file.\n") });
  const tree = (mode: string, names: string, count: number, oid: string) => {
    const items = Array.from({ length: count }, (_, at) => ({ mode, oid, name: Buffer.from(`${names}-${at}`) }));
    return store.add({ type: "tree", data: encodeTree(items) });
  };
  const area = tree("40000", "module", 10, tree("100644", "file", 50, blob));
  const head = `tree ${tree("40000", "area", 200, area)}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nFiles\n`;
  const commit = store.add({ type: "commit", data: Buffer.from(head) });
  const base = await readBase(store, commit);
  await base.foldPaths();
  const openView = () => {
    const overlay = createOverlay(base, () => false);
    return { overlay, view: createWorkspaceView(base, overlay, { zones: createZones(undefined) }) };
  };
  const changed = openView().overlay;
  const paths = base.files.filter((_, at) => at % 50 === 0);
  for (const path of paths) changed.write("repository", path, Buffer.from("Changed.\n"));
  const sandbox = openView().view;
  const context = toolContext({ sandbox });
  const operations: Record<string, () => Promise<unknown>> = {
    open: () => readBase(store, commit),
    "grep, a line of each file": async () => createGrepTool(sandbox).execute?.({ pattern: "file" }, context),
    "search_code, a part of each path": async () =>
      createSearchCodeTool(sandbox).execute?.({ query: "area module" }, context),
    "plan a commit with a change in each of 2,000 folders": () => buildTree(base, changed.layers.repository, paths),
    "move 2,500 files": async () => {
      const { view, overlay } = openView();
      for (const module of [0, 1, 2, 3, 4]) await view.move(`area-${module}`, `moved-${module}`);
      overlay.pendingChanges("1/move");
      overlay.rollback();
    },
    "git's folder": async () => {
      const folder = createGitFolder({ ...base }, "main");
      await folder.files();
      const pack = folder.pack();
      while (!(await pack.next()).done);
    },
  };

  const blocked: Record<string, number> = {};
  for (const [name, operation] of Object.entries(operations)) {
    await operation();
    blocked[name] = await longestTurnMs(operation);
  }

  expect(base.files).toHaveLength(100_000);
  expect(Object.entries(blocked).filter(([, ms]) => ms > maxBlockedMs)).toEqual([]);
});
