import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { generateFiles } from "../../bench/generate-files.ts";
import { interleaved, median, percentile } from "../../bench/measure.ts";
import { render } from "../../bench/render.ts";

test("each round starts with a different side, and all sides are measured equally often", async () => {
  const order: string[] = [];
  const side = (name: string, value: number) => async () => {
    order.push(name);
    return value;
  };

  const found = await interleaved(3, { a: side("a", 1), b: side("b", 2) });

  expect(order.join("")).toBe("abbaab");
  expect(found).toEqual({ a: [1, 1, 1], b: [2, 2, 2] });
});

test.each([
  [[5, 1, 3], 3, 5],
  [[1, 2, 3, 4], 2, 4],
  [[], Number.NaN, Number.NaN],
])("of %j the median is %d and the 99th percentile %d", (values, middle, high) => {
  expect([median(values), percentile(values, 0.99)]).toEqual([middle, high]);
});

test("generated files are the same every time, and every hundredth has a needle", () => {
  const files = generateFiles(2_000);

  expect(files).toEqual(generateFiles(2_000));
  expect(Object.keys(files)).toHaveLength(2_000);
  expect(Object.values(files).filter((text) => text.includes("needle"))).toHaveLength(19);
});

test("a peer's line has the ratio to ours, and a missing figure has its reason", () => {
  const peers = [{ what: "theirs", median: 3 }];
  const figure = {
    name: "a thing",
    unit: "ms" as const,
    ours: { what: "ours", median: 1.5, p99: 2 },
    peers,
    rounds: 5,
  };

  const page = render({ bench: "group", figures: [figure, { name: "another", missing: "Not measured: no sandbox." }] });

  expect(page).toContain("a thing, 5 rounds");
  expect(page).toMatch(/1\.5 ms\s+ours\s+ours\s+\(p99 2\)/);
  expect(page).toMatch(/3 ms\s+×2\s+theirs/);
  expect(page).toContain("Not measured: no sandbox.");
});

test.each([
  [["--only", "shel"], 'Unknown benchmark "shel". Did you mean shell? The benchmarks are shell, os-sandbox,'],
  [["--jsno"], "Unknown option '--jsno'"],
])("%j is refused with a sentence", async (args, words) => {
  const script = fileURLToPath(new URL("../../bench/run.ts", import.meta.url));
  const child = spawn(process.execPath, [script, ...args]);
  let printed = "";
  child.stderr.on("data", (chunk) => {
    printed += chunk;
  });

  const code = await new Promise((resolve) => child.on("close", resolve));

  expect(printed).toContain(words);
  expect(code).toBe(2);
});
