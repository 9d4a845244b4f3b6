import { mkdtempDisposable } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { z } from "zod";
import { deferred } from "#domain/async-work.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { WorkerDefinition } from "#domain/worker.ts";
import { WorkerRuntime } from "#embed/worker-runtime.ts";
import type { Executors } from "#executors/create-executors.ts";
import type { Models } from "#models/models.ts";
import { applyChanges } from "#sandbox/checkout/apply-changes.ts";
import { writePatch } from "#sandbox/checkout/export-changes.ts";
import { type Checkout, type CheckoutChange, openCheckout } from "#sandbox/checkout/open-checkout.ts";
import { matchesSomePath } from "#text/path-pattern.ts";
import { pluralize } from "#text/pluralize.ts";
import { ReviewInput } from "#toolsets/reviews/create-review.ts";
import { parseHunks, renderHunks } from "#toolsets/reviews/pull-request-diff.ts";
import type { InterruptSignal } from "#ui/interrupt-signal.ts";
import type { RuntimeEvent } from "#ui/runtime-events.ts";
import type { EvalResult } from "./eval-results.ts";
import { changedLines, type EvalTask } from "./eval-tasks.ts";
import { commitAll, type OpenedTask, openChanged, openTask } from "./open-task.ts";
import { runCommandList } from "./run-checks.ts";

/** The services that all attempts share. */
export interface EvalHost {
  models: Models;
  executors: Executors;
  /** Finds a worker by name or by the path of its file. */
  findWorker(name: string): Promise<{ worker: WorkerDefinition; path: string }>;
  /** Runs setup and checks without a sandbox. */
  unsafeChecks: boolean;
  interruptSignal: InterruptSignal;
}

/** Excluded because an evaluation has no pull request and no person, and models must not look up their task. */
export const omitToolsets = ["github", "pull_request", "reviews", "ask", "web"];

const briefing =
  "You work in a git checkout. There is no issue and no pull request, even if your instructions mention them: the task is the message you get. Do not try to do what you have no tools for. You cannot ask anybody: decide yourself. Your changes are taken over when you are done; then answer with a short summary of what you changed, what you checked, and what is left open.";
const reviewBriefing =
  "The change under review is the last commit: read_pull_request_diff shows it, and create_review takes your findings.";

/** The counts and calls of a run. */
interface Recording {
  steps: number;
  approvals: number;
  calls: { tool: string; args: unknown }[];
}

/**
 * Runs a worker on a task in a temporary checkout, and checks the result. Approves every call and counts the requests.
 * Rejects if the task cannot be run or checked, or is interrupted.
 */
export async function playTask(task: EvalTask, model: string, host: EvalHost): Promise<Omit<EvalResult, "attempt">> {
  await using folder = await mkdtempDisposable(join(tmpdir(), "golem-eval-"));
  const opened = await openTask(task, folder.path);
  await setUp(task, opened.root, host);
  return await play(task, model, { ...opened, host });
}

/** Runs the setup and commits the files it writes, so that they are part of the worker's base commit. */
async function setUp(task: EvalTask, root: string, host: EvalHost): Promise<void> {
  if (task.setup.length === 0) return;
  const checkout = await openCheckout(root);
  await runSetup(task, checkout, host);
  applyChanges(root, checkout.changes());
  await commitAll(root, "Setup");
}

async function runSetup(task: EvalTask, checkout: Checkout, host: EvalHost): Promise<void> {
  const results = await runCommandList(task.setup, checkout, { ...checkOptions(task, host), stopOnFailure: true });
  const failed = results.find(({ exitCode }) => exitCode !== 0);
  if (failed) throw new Error(`The setup failed: ${failed.command}\n${failed.output}`);
}

function checkOptions({ sandbox, checkTimeoutMs }: EvalTask, { executors, unsafeChecks, interruptSignal }: EvalHost) {
  return { sandbox, checkTimeoutMs, executors, unsafe: unsafeChecks, signal: interruptSignal.signal };
}

async function play(
  task: EvalTask,
  model: string,
  { root, hidden, host }: OpenedTask & { host: EvalHost },
): Promise<Omit<EvalResult, "attempt">> {
  const { worker, path } = await host.findWorker(task.worker);
  const checkout = await openCheckout(root, { policy: worker.sandbox });
  const recording: Recording = { steps: 0, approvals: 0, calls: [] };
  const findings: Parameters<typeof judgeFindings>[0][number][] = [];
  const runtime = new WorkerRuntime({
    worker: { ...worker, mode: "single" },
    workerDirectory: dirname(path),
    workers: (name) => host.findWorker(name).then(({ path: file }) => file),
    model,
    models: host.models,
    sandbox: checkout.tree,
    tools: task.review ? createReviewTools(task.review.patch, findings) : [],
    approvalMode: "approve_all",
    interruptSignal: host.interruptSignal,
    omitToolsets,
    briefing: task.review ? `${briefing} ${reviewBriefing}` : briefing,
    executors: host.executors,
    networkHosts: [],
    onEvent: (event) => record(recording, event),
  });
  const started = performance.now();
  const run = await runToEnd(runtime, task.prompt);
  const seconds = Math.round((performance.now() - started) / 10) / 100;
  host.interruptSignal.signal.throwIfAborted();
  if (!run.success && recording.steps === 0) throw new Error(run.error ?? "The model did not answer.");

  const changes = checkout.changes();
  const patch = writePatch(changes);
  const answer = run.response ?? "";
  const review = task.review && judgeFindings(findings, task.review.faults);
  const checks = await check(task, { root, hidden, changes, host });
  const unmet = [
    ...checks.filter(({ exitCode }) => exitCode !== 0).map(({ command }) => `the check failed: ${command}`),
    ...task.answerPatterns
      .filter((pattern) => !new RegExp(pattern, "im").test(answer))
      .map((pattern) => `the answer does not match ${pattern}`),
    ...(review && task.review ? unmetReview(review, task.review.min_signal) : []),
  ];
  return {
    kind: "result",
    task: task.name,
    model,
    outcome: unmet.length === 0 ? "solved" : "unsolved",
    reasons: [...unmet, ...(run.error === undefined ? [] : [`the run ended early: ${run.error}`])],
    checks,
    changedLines: changedLines(patch).length,
    ...(task.referenceLines !== undefined && { referenceLines: task.referenceLines }),
    ...(review && { review }),
    ...(run.cost !== undefined && { cost: run.cost }),
    seconds,
    steps: recording.steps,
    toolCalls: recording.calls.length,
    tokens: run.tokens,
    approvals: recording.approvals,
    brokenRules: brokenRules(task.rules, { changes, patch, answer, calls: recording.calls }),
    answer,
    patch,
  };
}

async function runToEnd(runtime: WorkerRuntime, prompt: string) {
  await using _ = deferred(() => runtime.dispose());
  await runtime.initialize();
  return await runtime.run(prompt);
}

function record(recording: Recording, event: RuntimeEvent): void {
  if (event.type === "response_receive") recording.steps += 1;
  if (event.type === "approval_request") recording.approvals += 1;
  if (event.type === "tool_call_start") recording.calls.push({ tool: event.toolName, args: event.toolArgs });
}

/** Runs the setup and the checks on the worker's files, after adding the hidden files. */
async function check(
  task: EvalTask,
  { root, hidden, changes, host }: OpenedTask & { changes: CheckoutChange[]; host: EvalHost },
) {
  if (task.checks.length === 0) return [];
  const checkout = await openChanged(root, changes, hidden);
  // One session for all commands, so that files the setup installs in ignored folders are kept.
  const commands = [...task.setup, ...task.checks];
  return (await runCommandList(commands, checkout, checkOptions(task, host))).slice(task.setup.length);
}

function unmetReview(
  { found, faults, findings, matched }: NonNullable<EvalResult["review"]>,
  minSignal: number,
): string[] {
  const signal = findings === 0 ? 1 : matched / findings;
  return [
    ...(found < faults ? [`${faults - found} of ${faults} planted faults were not found`] : []),
    ...(signal < minSignal
      ? [`only ${matched} of ${pluralize(findings, "finding is", "findings are")} about a planted fault`]
      : []),
  ];
}

/** Not searched for forbidden text: their arguments repeat existing text, and new text is among the added lines. */
const fileTools = ["write_file", "edit_file", "apply_patch"];

interface RunOutput {
  changes: readonly CheckoutChange[];
  patch: string;
  answer: string;
  calls: Recording["calls"];
}

function brokenRules(rules: EvalTask["rules"], { changes, patch, answer, calls }: RunOutput): string[] {
  const { allowed_paths: allowed, forbidden_paths, forbidden_tools, forbidden_text } = rules;
  const paths = changes.map(({ path }) => path);
  const added = changedLines(patch).filter((line) => line.startsWith("+"));
  const otherCalls = calls.filter(({ tool }) => !fileTools.includes(tool));
  const written = [answer, ...otherCalls.map(({ args }) => JSON.stringify(args)), ...added].join("\n");
  return [
    ...paths
      .filter((path) => !matchesSomePath(allowed, [path]) || matchesSomePath(forbidden_paths, [path]))
      .map((path) => `changed ${path}`),
    ...[...new Set(calls.map(({ tool }) => tool))]
      .filter((tool) => forbidden_tools.includes(tool))
      .map((tool) => `called ${tool}`),
    ...forbidden_text.filter((pattern) => new RegExp(pattern, "im").test(written)).map((one) => `wrote ${one}`),
  ];
}

type Finding = z.output<typeof ReviewInput>["findings"][number];

/** Creates the tools of a review without a pull request: one shows the change, the other collects the findings. */
function createReviewTools(patch: string, findings: Finding[]): NamedTool[] {
  const files = patch.split(/^diff --git /m).slice(1);
  const diff = files.map((file) => `${/^\+\+\+ b\/(.*)$/m.exec(file)?.[1] ?? ""}\n${renderHunks(parseHunks(file))}`);
  const text = (content: string): ToolResult => ({ llmContent: content, value: { kind: "text", content } });
  const readDiff: NamedTool<object, ToolResult> = {
    name: "read_pull_request_diff",
    description: "Read the diff of the change under review with line numbers before and after the change.",
    inputSchema: z.object({}),
    readOnly: true,
    needsApproval: false,
    execute: async () => text(diff.join("\n\n")),
  };
  const createReview: NamedTool<z.output<typeof ReviewInput>, ToolResult> = {
    name: "create_review",
    description: "Review the change: one summary, and findings on lines of its diff.",
    inputSchema: ReviewInput,
    needsApproval: false,
    execute: async (review) => {
      findings.push(...review.findings);
      return text(`The review was posted with ${review.findings.length} findings.`);
    },
  };
  return [readDiff, createReview];
}

/** Compares the findings of a review with the planted faults. */
function judgeFindings(
  findings: readonly Finding[],
  faults: NonNullable<EvalTask["review"]>["faults"],
): NonNullable<EvalResult["review"]> {
  const matches = (finding: Finding, { path, lines: [first, last], about }: (typeof faults)[number]) =>
    finding.path === path &&
    finding.line >= first - 1 &&
    (finding.start_line ?? finding.line) <= last + 1 &&
    (about === undefined || new RegExp(about, "im").test(`${finding.key} ${finding.text}`));
  return {
    findings: findings.length,
    matched: findings.filter((finding) => faults.some((fault) => matches(finding, fault))).length,
    faults: faults.length,
    found: faults.filter((fault) => findings.some((finding) => matches(finding, fault))).length,
  };
}
