import { z } from "zod";
import { parseJson } from "#text/json-values.ts";
import { type FailedTest, type TestSummary, textOrEmpty } from "./test-summary.ts";

const GoEvent = z.object({ Action: z.string(), Package: textOrEmpty, Test: textOrEmpty, Output: textOrEmpty });

export function readGo(text: string): TestSummary | undefined {
  const outputs = new Map<string, string[]>();
  const ended = new Map<string, string>();
  let isJson = false;
  for (const line of text.split("\n")) {
    const event = line.startsWith("{") ? GoEvent.safeParse(parseJson(line)).data : undefined;
    if (!event) continue;
    isJson = true;
    const { Action: action, Test: test } = event;
    const name = [event.Package, test].filter(Boolean).join(" ");
    if (action === "output") outputs.set(name, [...(outputs.get(name) ?? []).slice(-40), event.Output]);
    if (action === "fail" || (test !== "" && ["pass", "skip"].includes(action))) ended.set(name, action);
  }
  if (!isJson) return undefined;

  const names = [...ended.keys()];
  // Packages and parent tests fail with their subtests, so only the innermost failures are kept.
  const failed = names.filter(
    (name) => ended.get(name) === "fail" && !names.some((other) => isBelow(other, name) && ended.get(other) === "fail"),
  );
  const count = (action: string) => names.filter((name) => ended.get(name) === action && name.includes(" ")).length;
  const failures = failed.map((name) => ({
    name,
    error: withoutGoFrames(outputs.get(name) ?? []).join(""),
  }));
  return { passed: count("pass"), failed: failed.length, skipped: count("skip"), failures };
}

/** Leaves out headings and the frames of the standard library, whose first line is a function and whose second is its location. */
function withoutGoFrames(lines: readonly string[]): string[] {
  const isFrame = (line = "") =>
    /^\t\S*\/(?:src|libexec\/src)\/(?:testing|runtime|reflect)\/\S+\.(?:go|s):\d+/.test(line);
  return lines.filter((line, at) => !/^(=== |--- )/.test(line.trim()) && !isFrame(line) && !isFrame(lines[at + 1]));
}

function isBelow(name: string, parent: string): boolean {
  return name.startsWith(`${parent}/`) || (!parent.includes(" ") && name.startsWith(`${parent} `));
}

export function readCargo(text: string): TestSummary | undefined {
  const results = [...text.matchAll(/^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored/gm)];
  if (results.length === 0) return undefined;

  const sum = (index: number) => results.reduce((total, result) => total + Number(result[index]), 0);
  return { passed: sum(1), failed: sum(2), skipped: sum(3), failures: cargoFailures(text) };
}

/** Reads the output of each failed test, which follows a line with its name. */
function cargoFailures(text: string): FailedTest[] {
  const sections: { name: string; lines: string[] }[] = [];
  let current: string[] | undefined;
  for (const line of text.split("\n")) {
    const name = line.startsWith("---- ") && line.endsWith(" stdout ----") ? line.slice(5, -12) : undefined;
    if (name !== undefined) {
      current = [];
      sections.push({ name, lines: current });
    } else if (line === "failures:") current = undefined;
    else current?.push(line);
  }
  return sections.map(({ name, lines }) => ({ name, error: lines.join("\n") }));
}
