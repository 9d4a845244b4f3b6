import { existsSync, readFileSync } from "node:fs";
import { z } from "zod";
import { UserError } from "#domain/errors.ts";
import { parseJson } from "#text/json-values.ts";

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

/**
 * Reads a results file, or the report of SWE-bench's evaluation. If an attempt has two results, the later one counts.
 * Ignores a truncated last line. Throws a UserError for anything else.
 */
export function readResults(file: string): { plan: EvalPlan | undefined; results: EvalResult[] } {
  if (!existsSync(file)) throw new UserError(`${file} not found.`);
  const text = readFileSync(file, "utf8");
  const report = HarnessReport.safeParse(parseJson(text));
  if (report.success) return { plan: undefined, results: resultsOf(report.data) };

  const lines = text.split("\n");
  // A complete file ends with a line feed. Any text after the last one was being written when the process died.
  lines.pop();
  const entries = lines.map((line, index) => {
    const entry = z.discriminatedUnion("kind", [EvalPlan, EvalResult]).safeParse(parseJson(line));
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

/** Statistics of a model's attempts at one task, or at all tasks. */
interface Summary {
  attempts: number;
  solved: number;
  crashed: number;
  /** Mean of the changed lines divided by those of the reference, of solved attempts. */
  minimal: number | undefined;
  /** Findings about a planted fault divided by all findings. */
  signal: number | undefined;
  /** Means of the attempts that did not crash. */
  cost: number | undefined;
  seconds: number;
  steps: number;
  tokens: number;
  approvals: number;
  rulesKept: number;
}

function summarize(all: readonly EvalResult[]): Summary {
  const results = all.filter(({ outcome }) => outcome !== "crashed");
  const solved = results.filter(({ outcome }) => outcome === "solved");
  const ratios = solved.flatMap(({ changedLines, referenceLines }) =>
    referenceLines ? [changedLines / referenceLines] : [],
  );
  const costs = results.flatMap(({ cost }) => cost ?? []);
  const reviews = results.flatMap(({ review }) => review ?? []);
  const findings = sum(reviews.map((review) => review.findings));
  return {
    attempts: all.length,
    solved: solved.length,
    crashed: all.length - results.length,
    minimal: mean(ratios),
    signal: findings > 0 ? sum(reviews.map(({ matched }) => matched)) / findings : undefined,
    cost: mean(costs),
    seconds: mean(results.map(({ seconds }) => seconds)) ?? 0,
    steps: mean(results.map(({ steps }) => steps)) ?? 0,
    tokens: mean(results.map(({ tokens }) => tokens.input + tokens.output)) ?? 0,
    approvals: mean(results.map(({ approvals }) => approvals)) ?? 0,
    rulesKept: results.filter(({ brokenRules }) => brokenRules.length === 0).length,
  };
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, one) => total + one, 0);
const mean = (numbers: readonly number[]) => (numbers.length === 0 ? undefined : sum(numbers) / numbers.length);
const rounded = (value: number) => String(Math.round(value * 10) / 10);
const percent = (value: number | undefined) => (value === undefined ? "" : `${Math.round(value * 100)}%`);
const dollars = (value: number | undefined) => (value === undefined ? "?" : `$${value.toFixed(4)}`);

const head = ["solved", "minimal", "signal", "cost", "time", "steps", "tokens", "approvals", "rules"];

function cells(all: readonly EvalResult[]): string[] {
  const summary = summarize(all);
  const played = summary.attempts - summary.crashed;
  const solved = `${summary.solved}/${played}${summary.crashed > 0 ? ` (${summary.crashed} crashed)` : ""}`;
  if (played === 0) return [solved, ...head.slice(1).map(() => "")];
  return [
    solved,
    summary.minimal === undefined ? "" : rounded(summary.minimal),
    percent(summary.signal),
    dollars(summary.cost),
    `${rounded(summary.seconds)} s`,
    rounded(summary.steps),
    Math.round(summary.tokens).toLocaleString("en"),
    rounded(summary.approvals),
    summary.rulesKept === played ? "kept" : `broken ${played - summary.rulesKept}/${played}`,
  ];
}

/** Renders a table with a row for each model and task, and the reasons for unsolved attempts. */
export function renderResults(results: readonly EvalResult[]): string {
  const rows = [...Map.groupBy(results, ({ model }) => model)]
    .sort(byName)
    .flatMap(([model, own]) => [
      ...[...Map.groupBy(own, ({ task }) => task)].sort(byName).map(([task, few]) => [model, task, ...cells(few)]),
      [model, "all tasks", ...cells(own)],
    ]);
  const problems = results.flatMap(describeProblems).sort();
  const scripted = [...new Set(results.map(({ model }) => model))].filter((model) => model.endsWith(":scripted"));
  return [
    renderTable([["model", "task", ...head], ...rows]),
    "Cost, time, steps, tokens and approvals are means of an attempt. minimal: changed lines ÷ those of the reference.\n",
    ...(problems.length > 0 ? ["\n", ...problems.map((line) => `${line}\n`)] : []),
    ...scripted.map((model) => `\n${model} replays a script: this tests golem eval itself, not a model.\n`),
  ].join("");
}

function describeProblems({ task, model, attempt, outcome, reasons, brokenRules }: EvalResult): string[] {
  const name = `${task}, ${model}, attempt ${attempt}`;
  const broken = brokenRules.map((rule) => `rule broken: ${rule}`);
  const found = [...reasons.map((reason) => reason.split("\n")[0] ?? ""), ...broken];
  return found.length === 0 ? [] : [`${name}: ${outcome === "crashed" ? "crashed: " : ""}${found.join("; ")}`];
}

/** Renders the differences between two evaluations by task. Lists tasks that are in only one of them. */
export function renderComparison(before: readonly EvalResult[], after: readonly EvalResult[]): string {
  const modelsOf = (results: readonly EvalResult[]) => new Set(results.map(({ model }) => model));
  // If each evaluation has one model, those two are compared with each other.
  const byModel = modelsOf(before).size > 1 || modelsOf(after).size > 1;
  const group = (results: readonly EvalResult[]) =>
    Map.groupBy(results, ({ task, model }) => (byModel ? `${task} (${model})` : task));
  const [one, other] = [group(before), group(after)];
  const common = [...one.keys()].filter((name) => other.has(name)).sort();
  const only = (these: typeof one, those: typeof one) => [...these.keys()].filter((name) => !those.has(name)).sort();
  const [removed, added] = [only(one, other), only(other, one)];
  const both = (results: typeof one) => common.flatMap((name) => results.get(name) ?? []);
  const rows = [
    ...common.map((name) => [name, ...differences(one.get(name) ?? [], other.get(name) ?? [])]),
    ["all of these", ...differences(both(one), both(other))],
  ];
  return [
    `before: ${[...modelsOf(before)].join(", ")}\nafter:  ${[...modelsOf(after)].join(", ")}\n\n`,
    renderTable([["task", ...head], ...rows]),
    ...(removed.length > 0 ? [`Only before: ${removed.join(", ")}\n`] : []),
    ...(added.length > 0 ? [`Only after: ${added.join(", ")}\n`] : []),
  ].join("");
}

function differences(before: readonly EvalResult[], after: readonly EvalResult[]): string[] {
  const [one, other] = [cells(before), cells(after)];
  return one.map((cell, index) => (cell === other[index] ? cell : `${cell || "-"} → ${other[index] || "-"}`));
}

/** Leaves out the columns that are empty in every row. */
function renderTable(rows: readonly (readonly string[])[]): string {
  const [titles = [], ...body] = rows;
  const shown = titles.map((_, column) => column).filter((column) => body.some((row) => row[column] !== ""));
  const widths = shown.map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const lines = rows.map((row) => shown.map((column, at) => (row[column] ?? "").padEnd(widths[at] ?? 0)).join("  "));
  return lines.map((line) => `${line.trimEnd()}\n`).join("");
}

function byName([one]: [string, unknown], [other]: [string, unknown]): number {
  return one < other ? -1 : 1;
}
