import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { runAtOnce } from "#domain/async-work.ts";
import { mergeFile } from "#sandbox/merge/merge-file.ts";
import { propertyRuns } from "../../support/property-runs.ts";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "golem-merge-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

function gitMergeFile(versions: Versions): { content: string; clean: boolean } {
  for (const [name, content] of Object.entries(versions)) writeFileSync(join(folder, name), content);
  const args = ["merge-file", "-p", "-L", "us", "-L", "base", "-L", "them", "ours", "base", "theirs"];
  const { stdout, status } = spawnSync("git", args, { cwd: folder, encoding: "utf8", maxBuffer: 10 ** 8 });
  return { content: stdout, clean: status === 0 };
}

function merge({ ours, base, theirs }: Versions, labels = { ours: "us", theirs: "them" }) {
  const versions = { ours: Buffer.from(ours), base: Buffer.from(base), theirs: Buffer.from(theirs) };
  const merged = runAtOnce(mergeFile(versions, labels));
  return merged && { content: merged.content.toString("utf8"), clean: merged.clean };
}

/** Merges with `git merge-tree`, all in one process. */
function gitMerges(all: readonly Versions[]): { content: string; clean: boolean }[] {
  const directory = join(folder, "repository");
  const git = (args: string[], input = "") =>
    spawnSync("git", args, { cwd: directory, input, encoding: "utf8", maxBuffer: 10 ** 8 }).stdout;
  mkdirSync(directory);
  git(["init", "--quiet", "--bare"]);
  const commit = (name: string, content: string, from = "") =>
    `commit refs/heads/${name}\ncommitter a <a@b> 1 +0000\ndata 0\n${from && `from refs/heads/${from}\n`}M 100644 inline f\ndata ${Buffer.byteLength(content)}\n${content}\n`;
  const commits = all.flatMap(({ base, ours, theirs }, at) => [
    commit(`b${at}`, base),
    commit(`o${at}`, ours, `b${at}`),
    commit(`t${at}`, theirs, `b${at}`),
  ]);
  git(["fast-import", "--quiet"], commits.join(""));
  const pairs = all.map((_, at) => `o${at} t${at}\n`).join("");
  const merged = git(["merge-tree", "--stdin", "--write-tree", "--name-only", "--no-messages"], pairs).split("\0");
  const results = merged.flatMap((text, at) =>
    /^[0-9a-f]{40}$/.test(text) ? [{ tree: text, clean: merged[at - 1] === "1" }] : [],
  );
  let batch = git(["cat-file", "--batch"], results.map(({ tree }) => `${tree}:f\n`).join(""));
  const contents = results.map(({ clean }) => {
    const [header = "", size] = /^\w+ blob (\d+)\n/.exec(batch) ?? [];
    const content = batch.slice(header.length, header.length + Number(size));
    batch = batch.slice(header.length + content.length + 1);
    return { content, clean };
  });
  rmSync(directory, { recursive: true });
  return contents;
}

type Versions = Record<"ours" | "base" | "theirs", string>;

/** Edits of a text whose lines are all different, so that its diff is unambiguous. */
const edits = fc.array(
  fc.tuple(fc.nat(14), fc.constantFrom("delete", "replace", "insert"), fc.constantFrom("x", "y", "z")),
  { maxLength: 4 },
);

function edit(lines: readonly string[], changes: [number, string, string][]): string {
  const copy = lines.map((line) => [line]);
  for (const [at, kind, word] of changes) {
    if (kind === "insert") copy[at]?.unshift(`${word}${at}\n`);
    else copy[at] = kind === "delete" ? [] : [`${word}${at}\n`];
  }
  return copy.flat().join("");
}

test("merges have the result of git merge-file", () => {
  const lines = Array.from({ length: 15 }, (_, index) => `line ${index}\n`);

  fc.assert(
    fc.property(edits, edits, (left, right) => {
      const versions = { ours: edit(lines, left), base: lines.join(""), theirs: edit(lines, right) };

      const [own, git] = [merge(versions), gitMergeFile(versions)];

      expect(own?.clean).toBe(git.clean);
      expect(own?.content).toBe(git.content);
    }),
    { numRuns: propertyRuns(300) },
  );
});

test("merges of texts with equal lines have the result of git merge", () => {
  const line = fc.constantFrom<string>("", "}", "  }", "a", "b", "c", "d", "return", "## Other", "x");
  const change = fc.tuple(fc.nat(40), fc.nat(4), fc.array(line, { maxLength: 5 }));
  const changes = fc.array(change, { minLength: 1, maxLength: 4 });
  const versions = fc.tuple(
    fc.array(line, { minLength: 10, maxLength: 40 }),
    changes,
    changes,
    fc.constantFrom("\n", "\r\n"),
  );
  const all = fc.sample(versions, propertyRuns(100)).map(([base, left, right, ending]) => {
    const applied = (side: [number, number, string[]][]) =>
      side.reduce((lines, [at, removed, added]) => lines.toSpliced(at, removed, ...added), base);
    const text = (lines: readonly string[]) => lines.map((words) => words + ending).join("");
    return { base: text(base), ours: text(applied(left)), theirs: text(applied(right)) };
  });

  const own = all.map((each, at) => merge(each, { ours: `o${at}`, theirs: `t${at}` }));

  expect(own).toEqual(gitMerges(all));
});

test("a text in another encoding than UTF-8 is merged, as by git", () => {
  const [base, ours, theirs] = ["caf\xe9\n1\n2\n3\n", "ol\xe9\n1\n2\n3\n", "caf\xe9\n1\n2\nt\xeate\n"].map((text) =>
    Buffer.from(text, "latin1"),
  ) as [Buffer, Buffer, Buffer];

  const merged = runAtOnce(mergeFile({ base, ours, theirs }, { ours: "us", theirs: "them" }));

  expect(merged).toEqual({ content: Buffer.from("ol\xe9\n1\n2\nt\xeate\n", "latin1"), clean: true });
});

test("a conflict shows only the lines that differ", () => {
  const versions = { ours: "a\nsame\nours\nz\n", base: "a\nold\nz\n", theirs: "a\nsame\ntheirs\nz\n" };

  expect(merge(versions)).toEqual({
    clean: false,
    content: "a\nsame\n<<<<<<< us\nours\n=======\ntheirs\n>>>>>>> them\nz\n",
  });
});

test.each([
  [
    "an added paragraph follows the blank line",
    "path = a\nopen\n\n  1\n  2\n\nend\n",
    "path = a\nopen\n\n1\n2\n\nend\n",
    "path = b\nopen\n\n1\n2\n\n# note\nremove\n\nend\n",
  ],
  [
    "a removed paragraph, too",
    "path = a\nopen\n\n  1\n  2\n\n# note\nremove\n\nend\n",
    "path = a\nopen\n\n1\n2\n\n# note\nremove\n\nend\n",
    "path = b\nopen\n\n1\n2\n\nend\n",
  ],
])("changes between equal lines are where git sees them: %s", (_, ours, base, theirs) => {
  const [own, git] = [merge({ ours, base, theirs }), gitMergeFile({ ours, base, theirs })];

  expect(own?.clean).toBe(git.clean);
  expect(git.clean && own?.content).toBe(git.content);
});

test.each([
  ["with equal lines at both ends", "a\nsame\nx\nend\n", "a\nold\n", "a\nsame\ny\nend\n"],
  ["without a line break at the end", "a\nx", "a\nold", "a\ny"],
  ["of a changed and a removed line", "a\nx\nz\n", "a\nold\nz\n", "a\nz\n"],
])("a conflict %s looks as in git", (_, ours, base, theirs) => {
  expect(merge({ ours, base, theirs })).toEqual(gitMergeFile({ ours, base, theirs }));
});

test("files with many equal lines merge quickly", () => {
  const base = Array.from({ length: 100_000 }, (_, index) => `line ${index % 300}\n`).join("");
  const startedAt = performance.now();

  expect(merge({ ours: `first\n${base}`, base, theirs: `${base}last\n` })).toEqual({
    clean: true,
    content: `first\n${base}last\n`,
  });
  expect(performance.now() - startedAt).toBeLessThan(20_000);
});

test("many conflicts with few lines between them become one quickly", () => {
  const text = (word: string) =>
    Array.from({ length: 30_000 }, (_, at) => `${at % 2 ? "same" : word} ${at}\n`).join("");
  const before = process.cpuUsage();

  const merged = merge({ ours: text("ours"), base: text("base"), theirs: text("theirs") });

  expect(merged?.content.match(/^<{7}/gm)).toHaveLength(1);
  const { user, system } = process.cpuUsage(before);
  expect(user + system).toBeLessThan(5_000_000);
});

test("changes that are far apart in a long file are merged as by git", () => {
  const lines = Array.from({ length: 40_000 }, (_, index) => `line ${index}\n`);
  const versions = {
    base: lines.join(""),
    ours: lines.with(5, "ours\n").with(39_000, "ours, too\n").join(""),
    theirs: lines.with(150, "theirs\n").toSpliced(39_990, 5).join(""),
  };

  const [own, git] = [merge(versions), gitMergeFile(versions)];

  expect(own?.clean).toBe(true);
  expect(own?.content === git.content).toBe(true);
});

test("a long merge pauses often, so that it does not block the event loop", () => {
  const lines = (word: string) => Buffer.from(Array.from({ length: 50_000 }, (_, at) => `${word} ${at}\n`).join(""));
  const steps = mergeFile({ ours: lines("a"), base: lines("b"), theirs: lines("c") }, { ours: "us", theirs: "them" });

  expect([...steps].length).toBeGreaterThan(100);
});

test("binary files are not merged", () => {
  expect(merge({ ours: "a\0", base: "a", theirs: "b" })).toBeUndefined();
});
