import { posix } from "node:path";
import { z } from "zod";
import { ToolError } from "#domain/errors.ts";
import type { ToolResult } from "#domain/result.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import type { Workspace } from "#domain/workspace.ts";
import type { TreeChanges } from "#executors/executor.ts";
import { GuardedChild } from "#executors/guarded-child.ts";
import { pluralize } from "#text/pluralize.ts";
import { showHidden } from "#text/visible-text.ts";
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
import { describeMissingProgram } from "./install-command.ts";
import {
  changedPackages,
  findTestRunner,
  packageManifests,
  type TestReport,
  type TestRunner,
  updatesSnapshots,
  withProjectPython,
} from "./test-runner.ts";
import { isForeignFrame, summarizeTests, TestSummary } from "./test-summary.ts";

const inputSchema = z.object({
  path: z.string().optional().describe("Its folder; default: the only changed package, otherwise the root"),
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
  const { folder, runner, only } = await findTests(services.workspace, path);
  if (!runner) {
    throw new ToolError(`No supported test runner was found in ${folder || "the repository"}.`, {
      code: "UNAVAILABLE",
      suggestion: suggestFolders(await packageFolders(services.workspace)),
    });
  }
  const ran = await runCommand(services, {
    settings: { tier: settings.tier, output_bytes: reportBytes },
    context,
    command: withProjectPython([
      ...(args.length > 0 ? (runner.commandForNamed ?? runner.command) : runner.command),
      ...(await namedTests(services.workspace, { folder, only }, args)),
    ]),
    ...(runner.env && { env: runner.env }),
    cwd: folder,
    timeoutMs: Math.min(timeout ?? settings.test_timeout, settings.max_timeout) * 1_000,
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
  return report({ ...runner, reason: `${runner.reason} ${note}`.trim() }, ran, summary, toRoot);
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

/** The folders with a manifest that a suggestion names. */
const maxSuggestedFolders = 12;

/** The folders of a monorepo's packages, without its examples. */
async function packageFolders(workspace: Workspace): Promise<string[]> {
  const folders = (await workspace.paths()).flatMap((path) => {
    const [, folder = ""] = /^(?!.*(?:node_modules|examples?)\/)(.+)\/([^/]+)$/.exec(path) ?? [];
    return folder !== "" && packageManifests.includes(posix.basename(path)) ? [folder] : [];
  });
  return [...new Set(folders)];
}

function suggestFolders(folders: readonly string[]): string {
  if (folders.length === 0) return "Give the folder of the project in `path`, or start its tests with run_code.";
  const shown = folders.slice(0, maxSuggestedFolders).join(", ");
  const more = folders.length > maxSuggestedFolders ? ` and ${folders.length - maxSuggestedFolders} more` : "";
  return `Give the folder of a package in \`path\`: ${shown}${more}.`;
}

/** Explains that the files of submodules are missing, if the output names one. */
async function describeSubmodules(workspace: Workspace, output: string): Promise<string> {
  if (!(await workspace.exists(".gitmodules"))) return "";
  const paths = [...(await workspace.read(".gitmodules")).matchAll(/^\s*path\s*=\s*(\S+)\s*$/gm)];
  const missing = paths.map(([, path = ""]) => path).filter((path) => path !== "" && output.includes(path));
  return missing.length > 0 ? `The files of submodules are not in the sandbox: ${missing.slice(0, 5).join(", ")}.` : "";
}

interface FoundTests {
  folder: string;
  runner: TestRunner | undefined;
  /** The subfolder to which the tests are limited. */
  only?: string;
}

/** Finds the tests of the given folder; by default those of a monorepo's only changed package. */
async function findTests(workspace: Workspace, path: string | undefined): Promise<FoundTests> {
  if (path !== undefined) return findNearest(workspace, workspace.resolve(path));
  const changed = await changedPackages(workspace);
  const [only] = changed;
  if (only !== undefined && changed.length === 1) {
    const found = await findNearest(workspace, only);
    const reason = `These are the tests of ${only}, the only changed package; path "." runs those of the root.`;
    if (found.runner && (found.folder === only || found.only === only))
      return { ...found, runner: { ...found.runner, reason: `${found.runner.reason} ${reason}` } };
  }
  const runner = await findTestRunner(workspace, "");
  if (runner?.scriptOfAllPackages !== undefined) await requirePackage(workspace, runner.scriptOfAllPackages, changed);
  if (!runner || changed.length === 0) return { folder: "", runner };
  const reason = `Changed packages: ${changed.join(", ")}; name one in path to run only its tests.`;
  return { folder: "", runner: { ...runner, reason: `${runner.reason} ${reason}` } };
}

/** The number of packages whose tests one call runs if it names none. */
const maxPackagesAtOnce = 5;

/** Refuses to run the tests of a large monorepo as a whole, which takes minutes or more memory than there is. */
async function requirePackage(workspace: Workspace, script: string, changed: readonly string[]): Promise<void> {
  const folders = await packageFolders(workspace);
  if (folders.length <= maxPackagesAtOnce) return;
  throw new ToolError(
    `The test script of the root, \`${script}\`, starts the tests of all ${folders.length} packages.`,
    {
      code: "INVALID_ARGUMENTS",
      suggestion: `${suggestFolders(changed.length > 0 ? changed : folders)} \`.\` runs all.`,
    },
  );
}

/** Returns the arguments that name tests, relative to the folder in which the runner starts. */
async function namedTests(
  workspace: Workspace,
  { folder, only }: Omit<FoundTests, "runner">,
  args: readonly string[],
): Promise<string[]> {
  if (only === undefined) return [...args];
  if (args.length === 0) return [`${only}/`];
  const paths = args.map(async (arg) => {
    const isFile = !arg.startsWith("-") && (await workspace.exists(posix.join(folder, only, arg)));
    return isFile ? posix.join(only, arg) : arg;
  });
  return Promise.all(paths);
}

/** Finds the runner of a folder, or of the nearest folder above, limited to the tests in this folder if possible. */
async function findNearest(workspace: Workspace, folder: string): Promise<FoundTests> {
  for (let at = folder; ; at = posix.dirname(at) === "." ? "" : posix.dirname(at)) {
    const runner = await findTestRunner(workspace, at);
    if (runner) {
      const only = at !== folder && runner.acceptsFolder ? { only: posix.relative(at, folder) } : {};
      return { folder: at, runner, ...only };
    }
    if (at === "") return { folder, runner: undefined };
  }
}

function report(
  runner: TestRunner,
  { result, applied: taken }: FinishedCommand,
  summary: TestSummary | undefined,
  toRoot: (text: string) => string,
): ToolResult {
  const readable = (text: string) => showHidden(relativePaths(toRoot(text)));
  const soFar = result.timedOut || result.stopped ? " so far" : "";
  const headline = summary ? `${countsOf(summary)}${soFar}` : "No summary could be read from the output";
  const failures =
    summary?.failures.slice(0, shownFailures).map(({ name, error }, at) => {
      const shown = at < shownWhole ? error : error.split("\n").slice(0, linesOfOthers).join("\n");
      return `✗ ${readable(name)}\n${indent(readable(shown))}`;
    }) ?? [];
  const more = (summary?.failures.length ?? 0) - shownFailures;
  const needsOutput = !summary || (result.exitCode !== 0 && failures.length === 0);
  const llmContent = [
    `${runner.name}: ${headline}. ${describeEnd(result)} ${runner.reason}`,
    ...failures,
    more > 0 ? `… and ${pluralize(more, "more failure")}.` : "",
    describeMissingProgram({ ...result, stderr: summary ? failures.join("\n") : result.stderr }) ?? "",
    needsOutput ? `stdout:\n${readable(tail(result.stdout))}\nstderr:\n${readable(tail(result.stderr))}` : "",
    describeChanges(taken) || describeDropped(result.changes),
  ];
  const value = {
    kind: "test.summary",
    data: {
      runner: runner.name,
      command: runner.command.join(" "),
      exitCode: result.exitCode,
      durationMs: Math.round(result.durationMs),
      ...(summary ?? { passed: null, failed: null, skipped: null, failures: [] }),
    },
    summary: `${runner.name}: ${headline}`,
    preview: failures.join("\n"),
  };
  const text = llmContent.filter((line) => line !== "").join("\n");
  if (!result.timedOut && !result.stopped) return { llmContent: text, value };

  const code = result.timedOut ? "TIMEOUT" : "EXECUTION_ERROR";
  return { llmContent: text, value, error: { type: "system_error", code, message: describeEnd(result) } };
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

/** Tests that passed, and Node's warning about a program that sets FORCE_COLOR itself. */
const saysLittle =
  /^\s*(?:[✔✓√] |ok \d+ |# Subtest: )|^\(node:\d+\) Warning: The 'NO_COLOR' env is ignored|^\(Use `node --trace-warnings /;

function tail(text: string): string {
  // Truncated first, so that the cost depends only on what is shown.
  const lines = withoutProgress(text.slice(-4 * shownOutput)).split("\n");
  const own = lines.filter((line) => !isForeignFrame(line.trimStart()) && !saysLittle.test(line)).join("\n");
  const plain = own.trim();
  return plain.length > shownOutput ? `…${plain.slice(-shownOutput)}` : plain || "(nothing)";
}

interface TestOutput {
  report: TestReport;
  stdout: string;
  stderr: string;
}

/** The longest output that is parsed in this process. Longer output could take minutes or a gigabyte of memory. */
const maxInlineLength = 100_000;
/** One line of JSON after the other takes linear time. */
const maxInlineEvents = 500_000;
/** The reports whose totals are at their end, so that the end alone can be summarized. */
const endsWithTotals: readonly TestReport[] = ["pytest", "tap", "unittest", "minitest"];

/** Summarizes a test runner's output; undefined if the format is unknown or parsing takes too long. */
export async function readReport(
  output: TestOutput,
  { signal, killAfterMs = 20_000 }: { signal?: AbortSignal | undefined; killAfterMs?: number } = {},
): Promise<TestSummary | undefined> {
  const { report, stdout, stderr } = output;
  if (stdout.length + stderr.length <= (report === "go" ? maxInlineEvents : maxInlineLength))
    return summarizeTests(report, stdout, stderr);

  const handler = new URL("./test-summary.ts", import.meta.url);
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
