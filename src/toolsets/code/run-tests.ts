import { posix } from "node:path";
import { z } from "zod";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { TreeChanges } from "#executors/executor.ts";
import { GuardedChild } from "#executors/guarded-child.ts";
import { pluralize } from "#text/pluralize.ts";
import { normalizeText, showHidden } from "#text/visible-text.ts";
import {
  describeChanges,
  describeEnd,
  type FinishedCommand,
  listSome,
  runCommand,
  withoutProgress,
} from "#toolsets/run-command.ts";
import type { ToolServices } from "#toolsets/toolset.ts";
import type { CodeConfig } from "./code-config.ts";
import { type FoundTests, findTests, testCommand } from "./find-tests.ts";
import { describeMissingProgram, type FailedCommand, lastInstallation } from "./install-command.ts";
import { summarizeTests } from "./test-output/summarize-tests.ts";
import { isForeignFrame, TestSummary } from "./test-output/test-summary.ts";
import { type TestReport, type TestRunner, updatesSnapshots, withProjectTools } from "./test-runner.ts";

const inputSchema = z.object({
  path: z.string().optional().describe("Its folder; default: the changed packages, otherwise the root"),
  args: z.array(z.string()).default([]).describe("For the runner, such as a test file"),
  timeout: z.number().positive().optional().describe("Seconds; default 300"),
});
type Input = z.infer<typeof inputSchema>;

/** Reports are read whole, since truncated JSON cannot be parsed. */
const reportBytes = 16_000_000;
const shownFailures = 10;
/** The number of failures that are shown with all their lines. The others often repeat them. */
const shownWhole = 4;
const linesOfOthers = 3;
const shownOutput = 6_000;
/** Of a run without a readable summary that succeeded, the end is enough. */
const shownOutputOfSuccess = 1_000;

export function createRunTestsTool(settings: CodeConfig, services: ToolServices): NamedTool<Input> {
  return {
    name: "run_tests",
    description:
      "Run the project's tests with its own runner, and see what failed and how. No network: call install_package first.",
    inputSchema,
    needsApproval: false,
    manualExecution: { mode: "both", label: "Run tests", category: "Development" },
    execute: (input, context) => execute(input, context, settings, services),
  };
}

async function execute(
  { path, args, timeout }: Input,
  context: ToolContext,
  settings: CodeConfig,
  services: ToolServices,
): Promise<ToolResult> {
  const { offered_tools: offered } = services.spec.worker;
  const canRunCode = !offered || offered.includes("run_code");
  const found = (await findTests(services.workspace, { path, args, canRunCode })).flatMap(eachCommand);
  const endsAt = performance.now() + Math.min(timeout ?? settings.test_timeout, settings.max_timeout) * 1_000;
  const finished: FinishedTests[] = [];
  for (const tests of found) {
    const timeoutMs = Math.max(1, endsAt - performance.now());
    const last = await runTests(tests, { args, timeoutMs, tier: settings.tier }, context, services);
    finished.push(last);
    if (last.result.timedOut || last.result.stopped) break;
  }
  return report(finished, lastInstallation(services.history()));
}

/** Splits tests with several commands, of which each may find none of the named tests. */
function eachCommand(found: FoundTests): FoundTests[] {
  const { command, furtherCommands = [], folderOptions } = found.runner;
  if (furtherCommands.length === 0) return [found];
  const allowed = folderOptions && { folderOptions: [] };
  return [command, ...furtherCommands].map((each) => ({
    ...found,
    runner: { ...found.runner, ...allowed, command: [...each, ...(folderOptions ?? [])] },
  }));
}

interface FinishedTests extends FinishedCommand {
  folder: string;
  command: string[];
  runner: TestRunner;
  summary: TestSummary | undefined;
  /** Makes the paths in a text relative to the root. */
  toRoot(text: string): string;
}

async function runTests(
  tests: FoundTests,
  { args, timeoutMs, tier }: { args: readonly string[]; timeoutMs: number; tier: CodeConfig["tier"] },
  context: ToolContext,
  services: ToolServices,
): Promise<FinishedTests> {
  const { folder, runner } = tests;
  const command = await testCommand(services.workspace, tests, args);
  const ran = await runCommand(services, {
    settings: { tier, output_bytes: reportBytes },
    context,
    command: withProjectTools(command),
    ...(runner.env && { env: runner.env }),
    cwd: folder,
    timeoutMs,
    // What tests write, such as reports or snapshots of a broken version, would otherwise end up in the pull request.
    appliesChanges: args.some((arg) => updatesSnapshots.test(arg)),
  });
  const { stdout, stderr } = ran.result;
  const summary = await readReport({ report: runner.report, stdout, stderr }, { signal: context.abortSignal });
  const said = [
    ...(summary?.failures.map(({ name, error }) => `${name}\n${error}`) ?? []),
    ...[stdout, stderr].map((output) => output.slice(-shownOutput)),
  ].join("\n");
  const note = ran.result.exitCode === 0 ? "" : await describeSubmodules(services.workspace, said);
  const toRoot = await pathsFromRoot(services.workspace, folder, said);
  return { ...ran, folder, command, runner: { ...runner, reason: `${runner.reason} ${note}`.trim() }, summary, toRoot };
}

/** A file with a line or a test, as runners print it: relative to the folder in which they run, or only its name, as go does. */
const mentionedFile = /(?<![\w@./-])(?:[\w@.-]+\/)*[\w@.-]+\.[a-z]{1,4}(?=::?\w)/gi;
const maxMentionedFiles = 100;

/** Returns a function that makes the paths of mentioned files relative to the root. */
async function pathsFromRoot(workspace: Workspace, folder: string, output: string): Promise<(text: string) => string> {
  const mentioned = new Set([...output.matchAll(mentionedFile)].slice(0, maxMentionedFiles).map(([path]) => path));
  if (mentioned.size === 0) return (text) => text;
  const names = new Set([...mentioned].map((path) => posix.basename(path)));
  const files = (await workspace.paths()).filter((path) => names.has(posix.basename(path)));
  const fromRoot = new Map<string, string>();
  for (const path of mentioned) {
    const inFolder = posix.join(folder, path);
    const found = files.includes(inFolder) ? [inFolder] : files.filter((file) => `/${file}`.endsWith(`/${path}`));
    if (found.length === 1 && found[0] !== undefined) fromRoot.set(path, found[0]);
  }
  return (text) => text.replace(mentionedFile, (path) => fromRoot.get(path) ?? path);
}

/** Explains that the files of submodules are missing, if the output names one. */
async function describeSubmodules(workspace: Workspace, output: string): Promise<string> {
  if (!(await workspace.exists(".gitmodules"))) return "";
  const paths = [...(await workspace.read(".gitmodules")).matchAll(/^[ \t]*path[ \t]*=[ \t]*(\S+)[ \t\r]*$/gm)];
  const missing = paths.map(([, path = ""]) => path).filter((path) => path !== "" && output.includes(path));
  return missing.length > 0 ? `The files of submodules are not in the sandbox: ${missing.slice(0, 5).join(", ")}.` : "";
}

function report(finished: readonly FinishedTests[], installation: FailedCommand | undefined): ToolResult {
  const described = finished.map((tests) => describeTests(tests, installation));
  const llmContent = described.map(({ text }) => text).join("\n");
  const data = dataOf(finished);
  const value = {
    kind: "test.summary",
    data,
    summary: described.map(({ runner, headline }) => `${runner.name}: ${headline}`).join("; "),
    preview: described.flatMap(({ failures }) => failures).join("\n"),
  };
  const unfinished = finished.find(({ result }) => result.timedOut || result.stopped)?.result;
  if (!unfinished) return { llmContent, value };

  const code = unfinished.timedOut ? "TIMEOUT" : "EXECUTION_ERROR";
  return { llmContent, value, error: { type: "system_error", code, message: describeEnd(unfinished) } };
}

function describeTests(
  { runner, result, applied, summary, toRoot }: FinishedTests,
  installation: FailedCommand | undefined,
) {
  const readable = (text: string) => showHidden(relativePaths(toRoot(text)));
  const soFar = result.timedOut || result.stopped ? " so far" : "";
  const headline = summary ? `${countsOf(summary)}${soFar}` : "No summary could be read from the output";
  const intro = runner.report === "plain" ? "" : `${headline}. `;
  const failures =
    summary?.failures.slice(0, shownFailures).map(({ name, error }, at) => {
      const shown = at < shownWhole ? error : error.split("\n").slice(0, linesOfOthers).join("\n");
      return `✗ ${readable(name)}\n${indent(readable(shown))}`;
    }) ?? [];
  const more = (summary?.failures.length ?? 0) - shownFailures;
  // Maven prints what is missing to its output.
  const errors = runner.report === "maven" ? `${result.stderr}\n${result.stdout}` : result.stderr;
  const needsOutput = !summary || (result.exitCode !== 0 && failures.length === 0);
  const shownLength = result.exitCode === 0 ? shownOutputOfSuccess : shownOutput;
  const [stdout, stderr] = [result.stdout, result.stderr].map((output) => readable(tail(output, shownLength)));
  const lines = [
    `${runner.name}: ${intro}${describeEnd(result)} ${runner.reason}`,
    ...failures,
    more > 0 ? `… and ${pluralize(more, "more failure")}.` : "",
    describeMissingProgram({ ...result, stderr: summary ? failures.join("\n") : errors }, installation) ?? "",
    needsOutput ? `stdout:\n${stdout}\nstderr:\n${stderr}` : "",
    describeChanges(applied) || describeDropped(result.changes),
  ];
  return { runner, headline, failures, text: lines.filter((line) => line !== "").join("\n") };
}

/** The result for the evidence in a pull request. The tests of several packages are one run. */
function dataOf(finished: readonly FinishedTests[]) {
  const summaries = finished.flatMap(({ summary }) => summary ?? []);
  const isCounted = summaries.length === finished.length;
  const sum = (count: (summary: TestSummary) => number) =>
    isCounted ? summaries.reduce((total, summary) => total + count(summary), 0) : null;
  const commands = finished.map(({ command, folder }) => {
    const line = command.join(" ");
    return finished.length === 1 || folder === "" ? line : `${line} (in ${folder})`;
  });
  return {
    runner: [...new Set(finished.map(({ runner }) => runner.name))].join(", "),
    command: commands.join("; "),
    exitCode: (finished.find(({ result }) => result.exitCode !== 0) ?? finished[0])?.result.exitCode ?? null,
    durationMs: Math.round(finished.reduce((total, { result }) => total + result.durationMs, 0)),
    passed: sum(({ passed }) => passed),
    failed: sum(({ failed }) => failed),
    skipped: sum(({ skipped }) => skipped),
    failures: summaries.flatMap(({ failures }) => failures),
  };
}

function describeDropped({ written, deleted }: TreeChanges): string {
  const paths = [...written.map(({ path }) => path), ...deleted];
  return paths.length > 0 ? `Not kept, since tests wrote it: ${listSome(paths)}` : "";
}

function countsOf({ passed, failed, skipped }: TestSummary): string {
  if (passed + failed + skipped === 0) return "no test ran";
  return `${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`;
}

function indent(text: string): string {
  return text
    .split("\n")
    .map((line) => `    ${line}`)
    .join("\n");
}

/** Makes paths relative to the root, as the file tools expect them. */
function relativePaths(text: string): string {
  return text.replace(/file:\/\/(?:\/workspace\/|(?=[\w.@]))|(?<![\w.~/-])\/workspace\//g, "");
}

/** The commands of a build, which may be thousands: `    CC adlist.o`, or `gcc -O2 -c a.c`. Its errors are lines of their own. */
const compiles =
  /^\s*(?:(?:CC|CXX|AR|LD|LINK) +\S+|(?:[\w.]+-)*(?:cc|gcc|clang|c\+\+|g\+\+|clang\+\+)(?:-\d+)? .*-c .*)$/;

/** Tests that passed, go's downloads, and make's folders. */
const saysLittle =
  /^\s*(?:[✔✓√] |ok \d+ |# Subtest: |go: downloading |make\[\d+\]: (?:Entering|Leaving) directory )|^\(Use `node --trace-warnings /;

/** A frame of a Python package or of Python itself, with its source lines. */
const foreignPythonFrame =
  /^( *)File "(?:\/usr\/lib\/python|<frozen |[^"\n]*\/(?:site|dist)-packages\/)[^\n]*\n(?:\1 {2}[^\n]*\n)*/gm;

function tail(text: string, length: number): string {
  // Truncated first, so that the cost depends only on what is shown.
  const lines = normalizeText(withoutProgress(text.slice(-4 * length)))
    .replace(foreignPythonFrame, "")
    .split("\n");
  const isShown = (line: string) => !isForeignFrame(line.trimStart()) && !saysLittle.test(line) && !compiles.test(line);
  const own = lines.filter(isShown).join("\n");
  const plain = own.trim();
  return plain.length > length ? `…${plain.slice(-length)}` : plain || "(nothing)";
}

/** The longest output that is parsed in this process. Longer output could take minutes or a gigabyte of memory. */
const maxInlineLength = 100_000;
/** One line of JSON after the other takes linear time. */
const maxInlineEvents = 500_000;
/** The reports whose totals are at their end, so that the end alone can be summarized. */
const endsWithTotals: readonly TestReport[] = ["pytest", "tap", "unittest", "minitest", "ctest"];

/** Summarizes a test runner's output; undefined if the format is unknown or parsing takes too long. */
export async function readReport(
  output: { report: TestReport; stdout: string; stderr: string },
  { signal, killAfterMs = 20_000 }: { signal?: AbortSignal | undefined; killAfterMs?: number } = {},
): Promise<TestSummary | undefined> {
  const { report, stdout, stderr } = output;
  if (stdout.length + stderr.length <= (report === "go" ? maxInlineEvents : maxInlineLength))
    return summarizeTests(report, stdout, stderr);

  const handler = new URL("./test-output/summarize-tests.ts", import.meta.url);
  const child = new GuardedChild({ handler, memoryMb: 512, messageBytes: 1_000_000, cpuSeconds: 30 });
  try {
    return TestSummary.nullable().parse(await child.call(output, { killAfterMs, signal })) ?? undefined;
  } catch (error) {
    if (signal?.aborted) throw error;
    const endOf = (text: string) => text.slice(-maxInlineLength / 2);
    return endsWithTotals.includes(report) ? summarizeTests(report, endOf(stdout), endOf(stderr)) : undefined;
  } finally {
    child.kill();
  }
}
