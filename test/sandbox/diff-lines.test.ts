import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { applyPatch } from "diff";
import fc from "fast-check";
import { expect, test } from "vitest";
import { runAtOnce } from "#domain/async-work.ts";
import { DiffBudget, differingPart, diffFile, diffLines, hunkHeader, moveHunks } from "#sandbox/diff-file.ts";
import { propertyRuns } from "../support/property-runs.ts";

const patchOf = (before: string, after: string, budget?: DiffBudget) =>
  [
    "--- a",
    "+++ b",
    ...runAtOnce(diffLines(before, after, budget)).flatMap((hunk) => [hunkHeader(hunk), ...hunk.lines]),
    "",
  ].join("\n");

/** A text of a few different lines, with or without a newline at its end. */
const text = fc
  .tuple(fc.array(fc.constantFrom("a", "b", "c", "", "d\r", "same", "x"), { maxLength: 30 }), fc.boolean())
  .map(([lines, isClosed]) => lines.join("\n") + (isClosed && lines.length > 0 ? "\n" : ""));

test("the hunks make the new text of the old one, within the budget and beyond it", () => {
  const spent = new DiffBudget();
  spent.spend(10_000);

  fc.assert(
    fc.property(text, text, (before, after) => {
      for (const budget of [new DiffBudget(), spent]) {
        const patch = patchOf(before, after, budget);
        expect(applyPatch(before, patch, { autoConvertLineEndings: false })).toBe(after);
      }
    }),
    { numRuns: propertyRuns(1_000) },
  );
});

test("the part that differs has the hunks of the whole text", () => {
  const far = "far\n".repeat(5);
  fc.assert(
    fc.property(text, text, text, fc.boolean(), (before, after, same, isFar) => {
      const [first, last] = isFar ? [`${same}\n${far}`, `\n${far}${same}`] : [same, same];
      const whole = { before: first + before + last, after: first + after + last };

      const part = differingPart(Buffer.from(whole.before), Buffer.from(whole.after));

      const hunks = moveHunks(runAtOnce(diffLines(part.before.toString(), part.after.toString())), part);
      expect(hunks).toEqual(runAtOnce(diffLines(whole.before, whole.after)));
    }),
    { numRuns: propertyRuns(1_000) },
  );
});

test("git applies the hunks", () => {
  const folder = mkdtempSync(join(tmpdir(), "golem-diff-"));
  const [before, after] = [
    `${"a\nb\nc\n".repeat(40)}end`,
    `first\n${"a\nb\nC\n".repeat(20)}${"a\nb\nc\n".repeat(20)}end\n`,
  ];
  writeFileSync(join(folder, "f"), before);
  const version = (content: string) => ({ content: Buffer.from(content), executable: false });

  execFileSync("git", ["apply", "-"], {
    cwd: folder,
    input: runAtOnce(diffFile("f", { before: version(before), after: version(after) })),
  });

  expect(readFileSync(join(folder, "f"), "utf8")).toBe(after);
  rmSync(folder, { recursive: true });
});

test("a small change in a large file is a small diff", () => {
  const lines = Array.from({ length: 20_000 }, (_, index) => `line ${index % 50}\n`);
  const changed = [...lines];
  changed[10_000] = "changed\n";
  changed.splice(15_000, 1);

  const hunks = runAtOnce(diffLines(lines.join(""), changed.join("")));
  const part = differingPart(Buffer.from(lines.join("")), Buffer.from(changed.join("")));

  expect(part.skippedLines).toBe(9_997);
  expect(part.before.length).toBeLessThan(80_000);
  expect(hunks).toHaveLength(2);
  expect(hunks.flatMap(({ lines }) => lines.filter((line) => !line.startsWith(" ")))).toEqual([
    "-line 0",
    "+changed",
    "-line 0",
  ]);
});

test("texts that are slow to compare take no time, and nothing of them is missing", () => {
  const lines = (seed: number) => `${Array.from({ length: 30_000 }, (_, at) => `${(at * seed) % 97}`).join("\n")}\n`;
  const long = (seed: string) => `${`${"x".repeat(2_000)}${seed}\n`.repeat(400)}`;
  const startedAt = performance.now();

  for (const [before, after] of [
    [lines(7_919), lines(104_729)],
    [long("a"), long("b")],
    ["a\nb\n".repeat(30_000), "b\na\na\n".repeat(20_000)],
  ] as const) {
    const budget = new DiffBudget();
    for (let file = 0; file < 5; file++) expect(runAtOnce(diffLines(before, after, budget)).length).toBeGreaterThan(0);
    expect(applyPatch(before, patchOf(before, after, budget))).toBe(after);
  }

  expect(performance.now() - startedAt).toBeLessThan(20_000);
});
