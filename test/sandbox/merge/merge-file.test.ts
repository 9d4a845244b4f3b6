import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
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

function gitMergeFile(versions: Record<"ours" | "base" | "theirs", string>): { content: string; clean: boolean } {
  for (const [name, content] of Object.entries(versions)) writeFileSync(join(folder, name), content);
  const args = ["merge-file", "-p", "-L", "us", "-L", "base", "-L", "them", "ours", "base", "theirs"];
  const { stdout, status } = spawnSync("git", args, { cwd: folder, encoding: "utf8", maxBuffer: 10 ** 8 });
  return { content: stdout, clean: status === 0 };
}

const merge = ({ ours, base, theirs }: Record<"ours" | "base" | "theirs", string>) =>
  runAtOnce(
    mergeFile(
      { ours: Buffer.from(ours), base: Buffer.from(base), theirs: Buffer.from(theirs) },
      { ours: "us", theirs: "them" },
    ),
  );

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
