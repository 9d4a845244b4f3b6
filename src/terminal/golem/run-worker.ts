import { constants } from "node:os";
import { dirname, join, relative, sep } from "node:path";
import type { Writable } from "node:stream";
import { z } from "zod";
import { sandboxTools } from "#config/deployment-policy.ts";
import { UserError } from "#domain/errors.ts";
import type { NamedTool } from "#domain/tool.ts";
import { approveOnBus } from "#embed/program-front-end.ts";
import { WorkerRuntime } from "#embed/worker-runtime.ts";
import { createExecutors } from "#executors/create-executors.ts";
import type { Checkout } from "#sandbox/checkout/open-checkout.ts";
import { runGit, withoutOwnFilters } from "#sandbox/checkout/run-git.ts";
import { isYes } from "#terminal/prompter.ts";
import { visible } from "#terminal/style.ts";
import { createTraceFormatter } from "#terminal/trace-formatter.ts";
import { pluralize } from "#text/pluralize.ts";
import { truncateLine } from "#text/truncate.ts";
import type { RuntimeEvent, RuntimeEventCallback } from "#ui/runtime-events.ts";
import { createRuntimeUI } from "#ui/runtime-ui.ts";
import { type CommandContext, exitCodes } from "./command-context.ts";
import { type ConversationEnd, converse } from "./converse.ts";
import {
  type BackupPatch,
  createBackupPatch,
  type HandledChanges,
  handleChanges,
  printBackup,
} from "./handle-changes.ts";
import {
  checkPreApproved,
  createPreApproval,
  describeTools,
  noneIfUnreadable,
  type PreparedRun,
  prepareResume,
  prepareRun,
  startupLines,
} from "./prepare-run.ts";
import type { ResumeRequest, RunFlags, RunRequest } from "./run-request.ts";
import { markChangesHandled, stateFolder, turnsOf } from "./saved-runs.ts";
import { openTerminal, type Terminal } from "./terminal.ts";
import { findCodeToTrust } from "./trusted-code.ts";

/** Writes events as JSON lines for a script. */
type JsonLines = (event: RuntimeEvent | { type: "result" | "dry_run"; [more: string]: unknown }) => void;

interface StartedRun extends PreparedRun {
  request: RunFlags;
  context: CommandContext;
  terminal: Terminal;
  backup: BackupPatch;
  json: JsonLines | undefined;
}

/** Runs a worker on the current checkout. Resolves to the exit code; rejects with a UserError if it cannot start. */
export async function runWorker(request: RunRequest, context: CommandContext): Promise<number> {
  return start(await prepareRun(request, context), request, context);
}

/** Continues a saved run. Resolves to the exit code; rejects with a UserError if it cannot be resumed. */
export async function resumeRun(request: ResumeRequest, context: CommandContext): Promise<number> {
  return start(await prepareResume(request, context), request, context);
}

async function start(prepared: PreparedRun, request: RunFlags, context: CommandContext): Promise<number> {
  const { checkout, id, saved, savedRuns } = prepared;
  const { json: isJson, quiet } = request;
  const historyFile = join(stateFolder(context), "history");
  const files = () => checkout.tree.paths();
  const terminal = await openTerminal(context, { json: isJson, quiet, historyFile, files });
  const backup = createBackupPatch(checkout, id, context);
  const json = request.json ? createJsonLines(context.output) : undefined;
  const stopListening = endOnSignals(terminal, backup, context);
  try {
    return await work({ ...prepared, request, context, terminal, backup, json });
  } finally {
    stopListening();
    await terminal.close();
    const isEmpty = saved && (await turnsOf(saved.store)).length === 0;
    await saved?.store.close();
    if (isEmpty) savedRuns.delete(id);
  }
}

/** The toolsets that run code from outside of Golem Forge. */
const codeToolsets = ["custom", "external", "mcp"];

async function work(started: StartedRun): Promise<number> {
  const { request, context, terminal, checkout, chosen, workers, config, models, model, program } = started;
  const omitToolsets = [
    "github",
    "pull_request",
    ...(checkout.isRepository ? [] : ["git"]),
    ...(terminal.isInteractive ? [] : ["ask"]),
  ];
  if (!request.quiet) terminal.print(...startupLines(started, { omitted: omitToolsets, request, terminal }));
  if (!request.trustTools && !request.dryRun) await askForTrust(started);

  const executors = createExecutors(config.executors);
  const runtime = new WorkerRuntime(
    {
      // In mode `chat` it remembers the messages before an interruption.
      worker: { ...chosen.worker, mode: "chat" },
      workerDirectory: dirname(chosen.path),
      workers: program
        ? Object.fromEntries(program.workers())
        : (name) => workers.find(name).then(({ path }) => path, noneIfUnreadable),
      ...(program && { programDirectory: program.folder }),
      model,
      models,
      sandbox: checkout.tree,
      tools: "git" in chosen.worker.toolsets && checkout.isRepository ? [createGitUncommittedTool(checkout)] : [],
      bus: terminal.bus,
      approvalController: createPreApproval(
        request.yes,
        approveOnBus(createRuntimeUI(terminal.bus), terminal.interruptSignal),
        terminal,
        program?.config.approval.mode,
      ),
      omitToolsets: request.dryRun && !request.trustTools ? [...omitToolsets, ...codeToolsets] : omitToolsets,
      briefing: briefing({ ...started, ...checkout, cwd: context.cwd, isInteractive: terminal.isInteractive }),
      executors,
      networkHosts: config.policy.network_hosts,
      sandboxTools: sandboxTools(config.policy),
      web: config.web,
      onEvent: reportTo(started),
    },
    started.saved,
  );
  try {
    await runtime.initialize();
    return await runToEnd(runtime, started);
  } finally {
    await runtime.dispose();
    await executors.close();
  }
}

function reportTo({ request, context, json, backup }: StartedRun): RuntimeEventCallback {
  const trace = request.trace ? createTraceFormatter({ output: context.errors }) : undefined;
  return (event) => {
    json?.(event);
    trace?.(event);
    if (event.type === "tool_call_end") backup.save();
  };
}

async function runToEnd(runtime: WorkerRuntime, started: StartedRun): Promise<number> {
  const { request, terminal, chosen, resumed } = started;
  const tools = Object.values(runtime.getTools());
  const names = tools.map(({ name }) => name);
  checkPreApproved(request.yes, names, chosen.worker.name);
  if (request.dryRun) return printTools(started, describeTools(tools));

  const task = started.task ?? (await askForTask(started));
  if (task === undefined) return exitCodes.interrupted;
  const chats = chosen.worker.mode === "chat" && terminal.isInteractive;
  const end = await converse({
    first: resumed ?? task,
    attachments: started.attachments ?? [],
    runtime,
    terminal,
    chats,
  });
  return finish(end, task, started);
}

async function finish(end: ConversationEnd, task: string, started: StartedRun): Promise<number> {
  const { request, context, terminal, json, id, chosen, backup, saved } = started;
  const { isLeaving, ...reported } = end;
  terminal.resetInterrupt();
  if (!json && !terminal.outputIsForPeople && end.response !== undefined) {
    context.output.write(`${visible(end.response)}\n`);
  }
  if (!request.quiet) terminal.print(terminal.paint("gray", describeUsage(end)));
  if (saved && end.code === exitCodes.interrupted) {
    terminal.print(terminal.paint("gray", `Continue this run with: golem resume ${id}`));
  }
  const { done, asRequested } = await handleChanges({
    ...started,
    ending: request.ending,
    isUnfinished: end.code !== exitCodes.answered,
    isLeaving,
    isQuiet: request.quiet,
    branch: `golem/${id}`,
    message: commitMessage(chosen.worker.name, task),
  });
  if (saved && isFinal(done, { end, backup })) await markChangesHandled(saved.store);
  const code = asRequested ? end.code : exitCodes.failed;
  json?.({ type: "result", id, ...reported, code, changes: done });
  return code;
}

/** False for a run that can be resumed: its changes are only in the backup, or it was interrupted without changes. */
function isFinal(done: HandledChanges, { end, backup }: { end: ConversationEnd; backup: BackupPatch }): boolean {
  switch (done.kind) {
    case "applied":
    case "branch":
    case "discarded":
      return true;
    case "patch":
      return done.path !== backup.path;
    case "nothing":
      return end.code !== exitCodes.interrupted;
  }
}

/** Asks before loading code that came with the checkout. */
async function askForTrust({ checkout, chosen, workers, program, terminal }: StartedRun): Promise<void> {
  const code = (await findCodeToTrust(checkout.root, chosen, { workers, program })).map(visible);
  if (code.length === 0) return;

  const brings = `${chosen.worker.name} is part of this ${program ? "program" : "checkout"} and uses:`;
  terminal.print(terminal.paint("yellow", brings), ...code.map((line) => `  ${line}`));
  const answer = await terminal.askToDecide("Do you trust it? [y/N] ");
  if (isYes(answer)) return;
  throw new UserError(
    terminal.isInteractive
      ? "Nothing was loaded, and the worker did not start."
      : `${brings} ${code.join("; ")}. Review it, then add --trust-tools.`,
  );
}

async function askForTask({ chosen, terminal }: StartedRun): Promise<string | undefined> {
  const { name, allow_empty_input: mayBeEmpty } = chosen.worker;
  const task = await terminal.ask(`What should ${visible(name)} do? `, { isProse: true });
  if (task === undefined || task.trim() !== "" || mayBeEmpty) return task;
  throw new UserError(`Say what ${name} should do, as in golem run ${name} "…".`);
}

function printTools({ terminal, json, model, chosen, request }: StartedRun, lines: string[]): number {
  const untrusted = request.trustTools ? [] : codeToolsets.filter((name) => name in chosen.worker.toolsets);
  const leftOut = `Its toolset ${untrusted.join(" and ")} is left out: its code is loaded only with --trust-tools.`;
  terminal.print("Tools:", ...lines, ...(untrusted.length > 0 ? [leftOut] : []), "This was a dry run.");
  json?.({
    type: "dry_run",
    worker: chosen.worker.name,
    model,
    tools: lines.map((line) => line.trim().split(/\s+/)[0]),
  });
  return exitCodes.answered;
}

function commitMessage(worker: string, task: string): string {
  const text = visible(task).trim();
  const [first = ""] = text.split("\n");
  const subject = `${worker}: ${first}`;
  return subject.length <= 72 && first === text ? `${subject}\n` : `${truncateLine(subject, 72)}\n\n${text}\n`;
}

function describeUsage({ toolCallCount, tokens: { input, output }, cost }: ConversationEnd): string {
  const calls = pluralize(toolCallCount, "tool call");
  const tokens = `${(input + output).toLocaleString("en")} tokens`;
  return [calls, tokens, ...(cost === undefined ? [] : [`$${cost.toFixed(4)}`])].join(", ");
}

/** Writes one event per line. The messages sent to a model are replaced by their number. */
function createJsonLines(output: Writable): JsonLines {
  return (event) => {
    const { messages, ...rest } = event as { messages?: unknown[] };
    output.write(`${JSON.stringify(messages ? { ...rest, messageCount: messages.length } : rest)}\n`);
  };
}

interface Situation {
  root: string;
  isRepository: boolean;
  cwd: string;
  isInteractive: boolean;
  repositoryInstructions: string | undefined;
}

/** Returns instructions for every worker about working in a checkout instead of a thread. */
function briefing({ root, isRepository, cwd, isInteractive, repositoryInstructions }: Situation): string {
  const folder = relative(root, cwd).split(sep).join("/");
  return [
    `You work in a ${isRepository ? "git checkout" : "folder"} on the machine of the person you work for. There is no issue and no pull request, even if your instructions mention them: the task is what the person writes. Do not try to do what you have no tools for.`,
    `Your changes stay in memory. When you are done, the person reviews them and decides whether to write them to disk.${isRepository ? " Their uncommitted changes are part of the files you see: git_status and git_diff show your changes, git_uncommitted shows theirs." : ""}`,
    ...(folder && !folder.startsWith("..") ? [`The person is in the folder ${folder}.`] : []),
    ...(isInteractive ? [] : ["You cannot ask anybody: decide yourself, and state your assumptions in your answer."]),
    ...(repositoryInstructions ? [`Instructions of this repository for every worker:\n${repositoryInstructions}`] : []),
    "When you are done, answer with a short summary: what you changed, what you checked, and what is left open.",
  ].join("\n");
}

/** Creates a tool that shows the person's own uncommitted changes, which people often want reviewed. */
function createGitUncommittedTool({ root, head }: Pick<Checkout, "root" | "head">): NamedTool {
  return {
    name: "git_uncommitted",
    description:
      "Show the person's uncommitted changes as a unified diff, and their new files. They are part of the files you see, but not of what git_diff shows.",
    inputSchema: z.object({}),
    readOnly: true,
    needsApproval: false,
    execute: async (_, { abortSignal: signal }) => {
      const at = { cwd: root, signal };
      const config = await withoutOwnFilters(root);
      const options = ["--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty"];
      const [diff, added] = await Promise.all([
        head ? runGit([...config, "diff", ...options, head], at) : Buffer.alloc(0),
        runGit(["ls-files", "-z", "--others", "--exclude-standard"], at),
      ]);
      const files = added.toString("utf8").split("\0").filter(Boolean);
      const parts = [
        ...(files.length > 0 ? [`New files:\n${files.join("\n")}`] : []),
        ...(diff.length > 0 ? [diff.toString("utf8")] : []),
      ];
      return parts.join("\n\n") || "There are no uncommitted changes.";
    },
  };
}

/** Ends the process on a signal or a second Ctrl+C, after saving the patch. Returns a function that stops listening. */
function endOnSignals(terminal: Terminal, backup: BackupPatch, context: CommandContext): () => void {
  function leave(code: number): void {
    try {
      if (backup.save()) printBackup(backup, terminal);
    } finally {
      context.leave(code);
    }
  }

  const interrupt = () => terminal.bus.emit("interrupt", { reason: "Ctrl+C" });
  const end = (signal: "SIGTERM" | "SIGHUP") => leave(128 + constants.signals[signal]);
  const unsubscribe = terminal.onSecondInterrupt(() => leave(exitCodes.interrupted));
  process.on("SIGINT", interrupt);
  process.on("SIGTERM", end);
  process.on("SIGHUP", end);
  return () => {
    unsubscribe();
    process.off("SIGINT", interrupt);
    process.off("SIGTERM", end);
    process.off("SIGHUP", end);
  };
}
