import { existsSync, readFileSync } from "node:fs";
import { z } from "zod";
import { UserError } from "#domain/errors.ts";

/** The plan of an evaluation. It is the first line of a results file, so that the evaluation can be resumed. */
export const EvalPlan = z.object({
  kind: z.literal("eval"),
  paths: z.array(z.string()),
  models: z.array(z.string()),
  repeat: z.number().int().positive(),
  worker: z.string().optional(),
  repositories: z.string().optional(),
  testCommand: z.string().optional(),
});
export type EvalPlan = z.infer<typeof EvalPlan>;

export const HiddenCheckResult = z.object({
  command: z.string(),
  /** Null if the command was killed. */
  exitCode: z.number().nullable(),
  /** The end of its output. */
  output: z.string(),
});
export type HiddenCheckResult = z.infer<typeof HiddenCheckResult>;

/** One attempt of a model at a task. */
export const EvalResult = z.object({
  kind: z.literal("result"),
  task: z.string(),
  model: z.string(),
  /** From 1. */
  attempt: z.number().int().positive(),
  /** `crashed`: the task could not be run or checked, so the attempt says nothing about the model. */
  outcome: z.enum(["solved", "unsolved", "crashed"]),
  /** The reasons why it is not solved, or why the run ended early. */
  reasons: z.array(z.string()).default([]),
  checks: z.array(HiddenCheckResult).default([]),
  changedLines: z.number().default(0),
  referenceLines: z.number().optional(),
  /** For a review: all findings, those about a planted fault, and how many of the planted faults were found. */
  review: z.object({ findings: z.number(), matched: z.number(), faults: z.number(), found: z.number() }).optional(),
  /** US dollars; undefined if the price is unknown. */
  cost: z.number().optional(),
  seconds: z.number().default(0),
  steps: z.number().default(0),
  toolCalls: z.number().default(0),
  tokens: z.object({ input: z.number(), output: z.number() }).default({ input: 0, output: 0 }),
  approvals: z.number().default(0),
  brokenRules: z.array(z.string()).default([]),
  answer: z.string().default(""),
  /** The changes, as a patch for `git apply`. */
  patch: z.string().default(""),
});
export type EvalResult = z.infer<typeof EvalResult>;

/** The report of SWE-bench's own evaluation. */
const HarnessReport = z.looseObject({ submitted_ids: z.array(z.string()), resolved_ids: z.array(z.string()) });

export interface ResultsFile {
  plan: EvalPlan | undefined;
  results: EvalResult[];
}

/**
 * Reads a results file, or the report of SWE-bench's evaluation. If an attempt has two results, the later one counts.
 * Ignores a truncated last line. Throws a UserError for anything else.
 */
export function readResults(file: string): ResultsFile {
  if (!existsSync(file)) throw new UserError(`There is no ${file}.`);
  const text = readFileSync(file, "utf8");
  const report = HarnessReport.safeParse(readJson(text));
  if (report.success) return { plan: undefined, results: resultsOf(report.data) };

  const lines = text.split("\n");
  // A complete file ends with a line feed. Any text after the last one was being written when the process died.
  lines.pop();
  const entries = lines.map((line, index) => {
    const entry = z.discriminatedUnion("kind", [EvalPlan, EvalResult]).safeParse(readJson(line));
    if (entry.success) return entry.data;
    throw new UserError(`${file}, line ${index + 1} is not a result of golem eval.`);
  });
  const results = entries.filter((entry) => entry.kind === "result");
  const latest = new Map(results.map((result) => [keyOf(result), result]));
  return { plan: entries.find((entry) => entry.kind === "eval"), results: [...latest.values()] };
}

export function keyOf({ task, model, attempt }: Pick<EvalResult, "task" | "model" | "attempt">): string {
  return JSON.stringify([task, model, attempt]);
}

function resultsOf({ submitted_ids, resolved_ids }: z.infer<typeof HarnessReport>): EvalResult[] {
  const resolved = new Set(resolved_ids);
  return submitted_ids.map((task) =>
    EvalResult.parse({
      kind: "result",
      task,
      model: "SWE-bench report",
      attempt: 1,
      outcome: resolved.has(task) ? "solved" : "unsolved",
    }),
  );
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
