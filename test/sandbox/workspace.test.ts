import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ToolError } from "#domain/errors.ts";
import type { Workspace } from "#domain/workspace.ts";
import { createMemoryWorkspace } from "#sandbox/create-memory-workspace.ts";
import type { GitSandbox, StepChanges } from "#sandbox/sandbox.ts";
import type { GitFile, GitRepository } from "../support/git-server.ts";
import { type SandboxWorld, startSandboxWorld, textOf } from "../support/sandbox-world.ts";

const pointer = `version https://git-lfs.github.com/spec/v1\noid sha256:${"a".repeat(64)}\nsize 12345\n`;
const files: Record<string, GitFile> = {
  "README.md": "hello\n",
  "bin/run.sh": { content: "#!/bin/sh\n", executable: true },
  "src/a.ts": "a\n",
  "src/deep/b.ts": "b\n",
  "big.psd": pointer,
  "caf\u0065\u0301.txt": "decomposed\n",
  "CLAUDE.md": { link: "README.md" },
  "links/out": { link: "../../etc/passwd" },
  "links/root": { link: "/etc/passwd" },
  "links/git": { link: "../.git/config" },
  "links/loop": { link: "loop" },
  "links/src": { link: "../src" },
  "links/dangling": { link: "nowhere" },
  module: { submodule: "1".repeat(40) },
};

let world: SandboxWorld;
let repository: GitRepository;
beforeAll(async () => {
  world = await startSandboxWorld();
  repository = await world.repositoryWith(files);
});
afterAll(() => world.close());

const open = (changes: StepChanges[] = []) => world.open(repository, { changes });
const code = (work: Promise<unknown>) =>
  work.then(
    () => "it worked",
    (error) => (error instanceof ToolError ? error.code : error),
  );

test("a folder lists its direct entries, or everything below it, sorted by path", async () => {
  const sandbox = await open();

  expect((await sandbox.list("src")).map(({ path, type, size }) => ({ path, type, size }))).toEqual([
    { path: "src/a.ts", type: "file", size: 2 },
    { path: "src/deep", type: "directory", size: 0 },
  ]);
  expect((await sandbox.list("src", { recursive: true })).map(({ path }) => path)).toEqual([
    "src/a.ts",
    "src/deep",
    "src/deep/b.ts",
  ]);
  expect((await sandbox.stat("module")).type).toBe("submodule");
  expect((await sandbox.stat("CLAUDE.md")).type).toBe("symlink");
  expect((await sandbox.stat("bin/run.sh")).executable).toBe(true);
  expect((await sandbox.stat("README.md")).modified).toEqual(new Date(1_700_000_000_000));
});

test("a recursive list is sorted by path, although names next to a folder sort before what is in it", async () => {
  const paths = ["a!b", "a-b/c", "a/b", "a/b-c", "a/b0/d", "a/b0/x/f", "a0", "b"];
  const sandbox = await world.open(await world.repositoryWith(Object.fromEntries(paths.map((path) => [path, path]))));
  await sandbox.write("a.b/new", "new");
  await sandbox.write("a/b!new", "new");

  const listed = (await sandbox.list("", { recursive: true })).map(({ path }) => path);

  const folders = ["a", "a-b", "a.b", "a/b0", "a/b0/x"];
  expect(listed).toEqual([...paths, "a.b/new", "a/b!new", ...folders].sort());
});

test("a file counts as changed until its old content is written back", async () => {
  const sandbox = await open();

  await sandbox.write("new.txt", "new");
  await sandbox.write("README.md", "changed");
  await sandbox.remove("src/a.ts");

  expect(await sandbox.changes()).toEqual([
    { path: "README.md", status: "modified" },
    { path: "new.txt", status: "added" },
    { path: "src/a.ts", status: "deleted" },
  ]);
  expect(textOf(await sandbox.readBase("README.md"))).toBe("hello\n");
  expect(await sandbox.readBase("new.txt")).toBeUndefined();

  await sandbox.write("README.md", "hello\n");
  await sandbox.write("src/a.ts", "a\n");
  await sandbox.remove("new.txt");

  expect(await sandbox.changes()).toEqual([]);
});

test("the executable bit is kept unless it is set explicitly", async () => {
  const sandbox = await open();

  await sandbox.write("bin/run.sh", "#!/bin/sh\necho\n");
  await sandbox.move("bin/run.sh", "bin/go.sh");
  await sandbox.write("src/a.ts", "a\n", { executable: true });

  expect((await sandbox.stat("bin/go.sh")).executable).toBe(true);
  expect(await sandbox.changes()).toContainEqual({ path: "src/a.ts", status: "modified" });
});

test("symbolic links are followed inside the tree and never out of it", async () => {
  const sandbox = await open();

  expect(textOf(await sandbox.readBytes("CLAUDE.md"))).toBe("hello\n");
  expect(textOf(await sandbox.readBytes("links/src/deep/b.ts"))).toBe("b\n");
  expect((await sandbox.list("links/src")).map(({ path }) => path)).toEqual(["src/a.ts", "src/deep"]);
  expect(await code(sandbox.readBytes("links/out"))).toBe("INVALID_PATH");
  expect(await code(sandbox.readBytes("links/root"))).toBe("INVALID_PATH");
  expect(await code(sandbox.readBytes("links/git"))).toBe("INVALID_PATH");
  expect(await code(sandbox.readBytes("links/loop"))).toBe("INVALID_PATH");
  expect(await code(sandbox.readBytes("links/dangling"))).toBe("FILE_NOT_FOUND");
});

test("links, submodules and Git LFS files cannot be written", async () => {
  const sandbox = await open();

  expect(await code(sandbox.write("CLAUDE.md", "x"))).toBe("NOT_A_FILE");
  expect(await code(sandbox.write("links/src/new.ts", "x"))).toBe("NOT_A_FILE");
  expect(await code(sandbox.write("module", "x"))).toBe("READ_ONLY");
  expect(await code(sandbox.write("module/file", "x"))).toBe("READ_ONLY");
  expect(await code(sandbox.remove("module"))).toBe("READ_ONLY");
  expect(await code(sandbox.write("big.psd", "x"))).toBe("READ_ONLY");
  expect(await code(sandbox.move("README.md", "big.psd", { overwrite: true }))).toBe("READ_ONLY");
  expect(await code(sandbox.remove("", { recursive: true }))).toBe("READ_ONLY");
  expect(await sandbox.changes()).toEqual([]);
});

test("undoing a step restores a deleted link", async () => {
  const sandbox = await open();
  await sandbox.remove("CLAUDE.md");
  sandbox.pendingChanges("call-1");
  sandbox.markStored();
  const [step] = await sandbox.history();

  for (const { path, content } of step?.before ?? []) if (content) await sandbox.write(path, content);

  expect(await sandbox.changes()).toEqual([]);
  expect((await sandbox.stat("CLAUDE.md")).type).toBe("symlink");
});

test("a file cannot replace a folder, nor a folder a file", async () => {
  const sandbox = await open();

  expect(await code(sandbox.write("src", "x"))).toBe("NOT_A_FILE");
  expect(await code(sandbox.write("", "x"))).toBe("NOT_A_FILE");
  expect(await code(sandbox.write("README.md/x", "x"))).toBe("NOT_A_DIRECTORY");
  expect(await code(sandbox.readBytes("src"))).toBe("NOT_A_FILE");
  expect(await code(sandbox.list("README.md"))).toBe("NOT_A_DIRECTORY");
  expect(await code(sandbox.remove("src"))).toBe("NOT_A_FILE");
  expect(await code(sandbox.readBytes("src/zzz"))).toBe("FILE_NOT_FOUND");
  expect(await code(sandbox.move("src", "src/inner"))).toBe("INVALID_PATH");
  expect(await code(sandbox.move("README.md", "src/a.ts"))).toBe("FILE_EXISTS");
  expect(await code(sandbox.move("README.md", "src", { overwrite: true }))).toBe("NOT_A_FILE");
});

test("the error for a missing file suggests a similar name", async () => {
  const sandbox = await open();

  const error = await sandbox.readBytes("src/a.tsx").catch((thrown) => thrown);

  expect(error.suggestion).toBe("Did you mean src/a.ts?");
});

test("the error for a missing file suggests the files of this name in other folders", async () => {
  const files = [
    "lib/in/main.ts",
    "lib/src/main.ts",
    "old/src/main.ts",
    "a/index.ts",
    "b/index.ts",
    "c/index.ts",
    "d/index.ts",
  ];
  const workspace = await createMemoryWorkspace(Object.fromEntries(files.map((path) => [path, ""])));
  await workspace.remove("old/src/main.ts");
  const suggestion = (path: string) => workspace.read(path).catch(({ suggestion }) => suggestion);

  expect(await suggestion("main.ts")).toBe("Did you mean lib/in/main.ts or lib/src/main.ts?");
  expect(await suggestion("/workspace/src/main.ts")).toBe("Did you mean lib/src/main.ts?");
  expect(await suggestion("e/index.ts")).toBe("List the folder to see what is there.");
});

test("a path that is not found in a folder of tens of thousands of entries is not compared with them", async () => {
  const names = Array.from({ length: 20_001 }, (_, index) => `data/${index}.json`);
  const workspace = await createMemoryWorkspace(Object.fromEntries(names.map((name) => [name, ""])));

  const error: ToolError = await workspace.read("data/1.jsn").catch((thrown) => thrown);

  expect(error.suggestion).toBe("List the folder to see what is there.");
});

test("a path that differs from another only in case is refused, and another Unicode form is the same file", async () => {
  const sandbox = await open();

  expect(await code(sandbox.write("readme.md", "x"))).toBe("FILE_EXISTS");
  expect(await code(sandbox.write("SRC/new.ts", "x"))).toBe("FILE_EXISTS");
  await sandbox.write("caf\u00e9.txt", "composed\n");
  expect(await sandbox.changes()).toEqual([{ path: "cafe\u0301.txt", status: "modified" }]);
  await sandbox.move("README.md", "readme.md");
  expect(textOf(await sandbox.readBytes("readme.md"))).toBe("hello\n");
  expect(await code(sandbox.write("Readme.md", "x"))).toBe("FILE_EXISTS");
  await sandbox.remove("readme.md");
  await sandbox.write("Readme.md", "now it is free");
});

test("moving a folder moves its contents", async () => {
  const sandbox = await open();

  await sandbox.move("src", "lib/source");

  expect((await sandbox.paths()).filter((path) => /^(src|lib)/.test(path))).toEqual([
    "lib/source/a.ts",
    "lib/source/deep/b.ts",
  ]);
  expect(await sandbox.exists("src")).toBe(false);
});

test.each(["../x", ".git/config", "a/.GIT/x", "C:/x", "a\\b", "a\0b"])("no operation accepts %j", async (path) => {
  const sandbox = await open();
  const tries = [
    sandbox.exists(path),
    sandbox.stat(path),
    sandbox.readBytes(path),
    sandbox.write(path, ""),
    sandbox.remove(path),
    sandbox.move(path, "x"),
    sandbox.move("README.md", path),
    sandbox.list(path),
    sandbox.readBase(path),
    sandbox.stage([path]),
    sandbox.discard([path]),
    sandbox.diffAgainstBase(path),
    sandbox.log({ limit: 1, path }),
  ];

  expect(new Set(await Promise.all(tries.map(code)))).toEqual(new Set(["INVALID_PATH"]));
  expect(() => sandbox.ruleFor(path)).toThrow(ToolError);
});

test("a rollback keeps the steps that were stored before", async () => {
  const sandbox = await open();
  await sandbox.write("README.md", "settled");
  await sandbox.remove("src/a.ts");
  sandbox.pendingChanges("call-1");
  sandbox.markStored();

  await sandbox.write("README.md/", "half way");
  await sandbox.write("src/a.ts/now/folder", "x");
  await sandbox.remove("src/deep", { recursive: true });
  await sandbox.write("src/deep", "a file");
  sandbox.rollback();

  expect(textOf(await sandbox.readBytes("README.md"))).toBe("settled");
  expect((await sandbox.paths()).filter((path) => path.startsWith("src"))).toEqual(["src/deep/b.ts"]);
  expect(sandbox.pendingChanges("call-2")).toBeUndefined();
});

test("the history has every stored step with the previous contents", async () => {
  const sandbox = await open();
  await sandbox.write("README.md", "one");
  sandbox.pendingChanges("call-1");
  sandbox.markStored();
  await sandbox.write("README.md", "two");
  await sandbox.write("new.sh", "x", { executable: true });
  sandbox.pendingChanges("call-2");
  sandbox.markStored();

  const readable = (await sandbox.history()).map(({ step, before, after }) => ({
    step,
    before: before.map(({ path, content }) => [path, textOf(content)]),
    after: after.map(({ path, content, mode }) => [path, textOf(content), mode]),
  }));

  expect(readable).toEqual([
    { step: "call-1", before: [["README.md", "hello\n"]], after: [["README.md", "one", "100644"]] },
    {
      step: "call-2",
      before: [
        ["README.md", "one"],
        ["new.sh", undefined],
      ],
      after: [
        ["README.md", "two", "100644"],
        ["new.sh", "x", "100755"],
      ],
    },
  ]);
});

// Names that collide: files that are folders elsewhere, and paths of the base.
const path = fc.constantFrom(
  "README.md",
  "src/a.ts",
  "src/deep/b.ts",
  "src",
  "src/deep",
  "x",
  "x/y",
  "x/y/z",
  "q/r",
  "bin/run.sh",
);
const action = fc.oneof(
  fc.record({ kind: fc.constant("write" as const), path, content: fc.string({ maxLength: 3 }) }),
  fc.record({ kind: fc.constant("remove" as const), path, recursive: fc.boolean() }),
  fc.record({ kind: fc.constant("move" as const), path, to: path, overwrite: fc.boolean() }),
  fc.record({ kind: fc.constant("settle" as const) }),
  fc.record({ kind: fc.constant("rollback" as const) }),
);

test("any sequence of operations gives the same tree as a plain map, also after a restart", async () => {
  const start = await plainTree(await open());

  await fc.assert(
    fc.asyncProperty(fc.array(action, { maxLength: 25 }), async (actions) => {
      const sandbox = await open();
      const stored: StepChanges[] = [];
      let model = new Map(start);
      let settled = new Map(start);
      for (const [index, step] of actions.entries()) {
        if (step.kind === "settle") {
          const changes = sandbox.pendingChanges(`call-${index}`);
          if (changes) stored.push(changes);
          sandbox.markStored();
          settled = new Map(model);
        } else if (step.kind === "rollback") {
          sandbox.rollback();
          model = new Map(settled);
        } else {
          const worked = (await code(act(sandbox, step))) === "it worked";
          expect(worked, JSON.stringify(step)).toBe(actOnMap(model, step));
        }
        expect(await plainTree(sandbox)).toEqual(model);
      }

      const restarted = await open(stored);
      expect(await plainTree(restarted)).toEqual(settled);
      sandbox.rollback();
      expect(await restarted.changes()).toEqual(await sandbox.changes());
      expect(await restarted.list("", { recursive: true })).toEqual(
        (await sandbox.list("", { recursive: true })).map((entry) => ({ ...entry, modified: expect.any(Date) })),
      );
      expect(await restarted.history()).toEqual(await sandbox.history());
    }),
    { numRuns: 40 },
  );
});

type Step =
  | { kind: "write"; path: string; content: string }
  | { kind: "remove"; path: string; recursive: boolean }
  | { kind: "move"; path: string; to: string; overwrite: boolean };

async function act(workspace: Workspace, step: Step): Promise<void> {
  if (step.kind === "write") await workspace.write(step.path, step.content);
  if (step.kind === "remove") await workspace.remove(step.path, { recursive: step.recursive });
  if (step.kind === "move") await workspace.move(step.path, step.to, { overwrite: step.overwrite });
}

/** The same on a map of files. False when it is refused; then nothing is changed. */
function actOnMap(model: Map<string, string>, step: Step): boolean {
  const isFolder = (at: string) => [...model.keys()].some((file) => file.startsWith(`${at}/`));
  const blocked = (at: string) => isFolder(at) || [...model.keys()].some((file) => at.startsWith(`${file}/`));
  const below = [...model.keys()].filter((file) => file === step.path || file.startsWith(`${step.path}/`));
  if (step.kind === "write") {
    if (blocked(step.path)) return false;
    model.set(step.path, step.content);
    return true;
  }
  if (below.length === 0) return false;
  if (step.kind === "remove") {
    if (isFolder(step.path) && !step.recursive) return false;
    for (const file of below) model.delete(file);
    return true;
  }
  if (step.path === step.to) return true;
  if (isFolder(step.path) && step.to.startsWith(`${step.path}/`)) return false;
  if (isFolder(step.to) || (model.has(step.to) && (isFolder(step.path) || !step.overwrite))) return false;
  if (below.some((file) => blocked(step.to + file.slice(step.path.length)))) return false;

  const moved = below.map((file) => [step.to + file.slice(step.path.length), model.get(file) ?? ""] as const);
  for (const file of below) model.delete(file);
  for (const [file, content] of moved) model.set(file, content);
  return true;
}

async function plainTree(sandbox: GitSandbox | Workspace): Promise<Map<string, string>> {
  const tree = new Map<string, string>();
  for (const file of await sandbox.paths()) tree.set(file, textOf(await sandbox.readBytes(file)) ?? "");
  return tree;
}
