import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { GuestFolder } from "#executors/os/guest-folder.ts";
import { validateChanges } from "#executors/validate-changes.ts";

let tree: string;
let outside: string;
const known = new Set(["README.md", "src/a.ts"]);

beforeEach(() => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "golem-guest-folder-")));
  tree = join(folder, "tree");
  outside = join(folder, "outside");
  for (const path of [tree, outside]) mkdirSync(path);
  writeFileSync(join(outside, "secret"), "a secret of this machine");
  writeFileSync(join(outside, "a.ts"), "a secret of this machine");
});
afterEach(() => rmSync(join(tree, ".."), { recursive: true }));

async function brought(limits?: ConstructorParameters<typeof GuestFolder>[2]) {
  const guest = new GuestFolder(tree, undefined, limits);
  const file = (path: string) => ({ path, content: Buffer.from(`${path}\n`), executable: false });
  await guest.write({ write: [...known].map(file), remove: [] });
  return guest;
}

function swap(folder: string): void {
  renameSync(join(tree, folder), join(tree, `${folder}-before`));
  symlinkSync(outside, join(tree, folder));
}

const validate = (proposed: Awaited<ReturnType<GuestFolder["collect"]>>) =>
  validateChanges(proposed ?? [], { resolve: (path) => path, known, isIgnored: () => false });

// It holds folders open by their descriptors, as Linux shows them.
describe.skipIf(process.platform !== "linux")("reading the changes of a command", () => {
  test("a folder that becomes a link meanwhile is not entered", async () => {
    const guest = await brought();
    mkdirSync(join(tree, "made"));
    writeFileSync(join(tree, "made/secret"), "harmless");

    const proposed = await guest.collect({
      known,
      isIgnored: (path) => {
        if (path === "made/") swap("made");
        return false;
      },
    });

    const changes = await validate(proposed);
    expect(changes.written.map(({ content }) => Buffer.from(content).toString())).not.toContain(
      "a secret of this machine",
    );
    expect(proposed?.map(({ path }) => path)).not.toContain("made/secret");
  });

  test("a file whose folder became a link after it was listed is not read", async () => {
    const guest = await brought();
    writeFileSync(join(tree, "src/a.ts"), "changed\n");
    const proposed = await guest.collect({ known, isIgnored: () => false });

    swap("src");

    await expect(validate(proposed)).rejects.toThrow("no longer the plain file it was");
  });

  test("reading the changes stops at its limits before any file is read, and returns nothing", async () => {
    const guest = await brought({ entries: 100, folders: 100, changes: 1_000 });
    for (let at = 0; at < 300; at += 1) writeFileSync(join(tree, `f${at}`), "");
    let asked = 0;

    const proposed = await guest.collect({
      known,
      isIgnored: () => {
        asked += 1;
        return false;
      },
    });

    expect(proposed).toBeUndefined();
    expect(asked).toBeLessThanOrEqual(100);
  });

  test.each([
    ["folders", { entries: 1_000, folders: 10, changes: 1_000 }, (at: number) => mkdirSync(join(tree, `d${at}`))],
    [
      "changed files",
      { entries: 1_000, folders: 100, changes: 10 },
      (at: number) => writeFileSync(join(tree, `f${at}`), ""),
    ],
  ])("reading the changes stops at too many %s", async (_, limits, make) => {
    const guest = await brought(limits);
    expect(await guest.collect({ known, isIgnored: () => false })).toEqual([]);

    for (let at = 0; at < 12; at += 1) make(at);

    expect(await guest.collect({ known, isIgnored: () => false })).toBeUndefined();
    if (limits.changes === 10)
      expect(await guest.collect({ known, isIgnored: (path) => /^f/.test(path) })).toHaveLength(12);
  });

  test.each<[string, string[], () => void]>([
    ["a new file", ["file src/deep/new.ts"], () => writeFileSync(join(tree, "src/deep/new.ts"), "")],
    ["a changed file", ["file src/deep/b.ts"], () => writeFileSync(join(tree, "src/deep/b.ts"), "SRC/deep/b.ts\n")],
    ["a changed mode", ["file src/deep/b.ts"], () => chmodSync(join(tree, "src/deep/b.ts"), 0o755)],
    ["a deleted file", ["gone src/deep/b.ts"], () => rmSync(join(tree, "src/deep/b.ts"))],
    ["a deleted folder", ["gone src/deep/b.ts"], () => rmSync(join(tree, "src/deep"), { recursive: true })],
    [
      "a renamed folder",
      ["file src/moved/b.ts", "gone src/deep/b.ts"],
      () => renameSync(join(tree, "src/deep"), join(tree, "src/moved")),
    ],
    [
      "a folder moved away and replaced by a link to it",
      ["file deep/b.ts", "gone src/deep/b.ts", "special src/deep"],
      () => {
        renameSync(join(tree, "src/deep"), join(tree, "deep"));
        symlinkSync("../deep", join(tree, "src/deep"));
      },
    ],
    [
      "a file moved over another",
      ["file src/a.ts", "gone src/deep/b.ts"],
      () => renameSync(join(tree, "src/deep/b.ts"), join(tree, "src/a.ts")),
    ],
  ])("%s is found in folders that were visited before", async (_, expected, change) => {
    const guest = await brought();
    await guest.write({
      write: [{ path: "src/deep/b.ts", content: Buffer.from("src/deep/b.ts\n"), executable: false }],
      remove: [],
    });
    const collect = () => guest.collect({ known: new Set([...known, "src/deep/b.ts"]), isIgnored: () => false });
    vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 60_000 });
    onTestFinished(() => void vi.useRealTimers());
    for (let visits = 0; visits < 2; visits += 1) expect(await collect()).toEqual([]);

    change();

    const found = (await collect())?.map(({ kind, path }) => `${kind} ${path}`);
    expect(found?.sort()).toEqual(expected);
  });

  test("a change with the same size and an old time is detected, and nothing of a huge file is read", async () => {
    const guest = await brought();
    writeFileSync(join(tree, "src/a.ts"), "SRC/a.ts\n");
    utimesSync(join(tree, "src/a.ts"), new Date(0), new Date(0));
    writeFileSync(join(tree, "sparse"), "");
    truncateSync(join(tree, "sparse"), 2 ** 40);
    const started = performance.now();

    const changes = await validate(await guest.collect({ known, isIgnored: () => false }));

    expect(changes.written.map(({ path }) => path)).toEqual(["src/a.ts"]);
    expect(changes.rejected).toMatchObject([{ path: "sparse", reason: "is larger than 10 MB" }]);
    expect(performance.now() - started).toBeLessThan(20_000);
  });
});
