import { randomUUID } from "node:crypto";
import { dirname } from "node:path";
import { UserError } from "#domain/errors.ts";
import { approveOnBus } from "#embed/approve-on-bus.ts";
import { WorkerRuntime } from "#embed/worker-runtime.ts";
import { createExecutors } from "#executors/create-executors.ts";
import { plain } from "#terminal/paint.ts";
import { createTraceFormatter } from "#terminal/trace-formatter.ts";
import { createRuntimeUI } from "#ui/runtime-ui.ts";
import { type BackupPatch, createBackupPatch } from "./backup-patch.ts";
import { briefing } from "./briefing.ts";
import { type CommandContext, exitCodes } from "./command-context.ts";
import { type ConversationEnd, converse } from "./converse.ts";
import { deliverChanges } from "./deliver-changes.ts";
import { describeTools } from "./describe-tools.ts";
import { endOnSignals } from "./end-on-signals.ts";
import { createGitUncommittedTool } from "./git-uncommitted.ts";
import { createJsonLines, type JsonLines } from "./json-lines.ts";
import { checkPreApproved, createPreApproval } from "./pre-approval.ts";
import { type PreparedRun, prepareRun } from "./prepare-run.ts";
import type { RunRequest } from "./run-request.ts";
import { startupLines } from "./startup-lines.ts";
import { openTerminal, type Terminal } from "./terminal.ts";
import { findCodeToTrust } from "./trusted-code.ts";

/** A run that is about to begin, with all that belongs to it. */
interface StartedRun extends PreparedRun {
  request: RunRequest;
  context: CommandContext;
  terminal: Terminal;
  backup: BackupPatch;
  json: JsonLines | undefined;
  id: string;
}

/** Runs a worker on the checkout of the folder, and resolves to the exit code. Rejects with a UserError when it does not start. */
export async function runWorker(request: RunRequest, context: CommandContext): Promise<number> {
  const prepared = await prepareRun(request, context);
  const terminal = await openTerminal(context, request);
  const id = randomUUID().slice(0, 8);
  const started: StartedRun = {
    ...prepared,
    request,
    context,
    terminal,
    backup: createBackupPatch(prepared.checkout, id, context),
    json: request.json ? createJsonLines(context.output) : undefined,
    id,
  };
  const release = endOnSignals(terminal, started.backup, context);
  try {
    return await work(started);
  } finally {
    release();
    await terminal.close();
  }
}

async function work(started: StartedRun): Promise<number> {
  const { request, context, terminal, checkout, chosen, workers, config, models, model, backup, json } = started;
  const omitToolsets = ["github", "pull_request", ...(terminal.isInteractive ? [] : ["ask"])];
  terminal.print(...startupLines(started, { omitted: omitToolsets, request, terminal }));
  if (!request.trustTools && !request.dryRun) await askForTrust(started);

  const trace = request.trace ? createTraceFormatter({ output: context.errors }) : undefined;
  const executors = createExecutors(config.executors);
  const runtime = new WorkerRuntime({
    // It remembers what was said before an interruption.
    worker: { ...chosen.worker, mode: "chat" },
    workerDirectory: dirname(chosen.path),
    workers: (name) => workers.find(name).then(({ path }) => path, noneIfUnreadable),
    model,
    models,
    sandbox: checkout.tree,
    tools: "git" in chosen.worker.toolsets ? [createGitUncommittedTool(checkout)] : [],
    bus: terminal.bus,
    approvalController: createPreApproval(
      request.yes,
      approveOnBus(createRuntimeUI(terminal.bus), terminal.interruptSignal),
      terminal,
    ),
    omitToolsets: request.dryRun && !request.trustTools ? [...omitToolsets, "custom", "external", "mcp"] : omitToolsets,
    briefing: briefing({
      root: checkout.root,
      cwd: context.cwd,
      isInteractive: terminal.isInteractive,
      repositoryInstructions: started.repositoryInstructions,
    }),
    executors,
    web: config.web,
    onEvent: (event) => {
      json?.(event);
      trace?.(event);
      // Nothing that is done is lost, whatever ends this process.
      if (event.type === "tool_call_end") backup.save();
    },
  });
  try {
    await runtime.initialize();
    const tools = Object.values(runtime.getTools());
    checkPreApproved(
      request.yes,
      tools.map(({ name }) => name),
      chosen.worker.name,
    );
    if (request.dryRun) return sayTools(started, describeTools(tools));

    const task = started.task ?? (await askForTask(started));
    if (task === undefined) return exitCodes.interrupted;
    const end = await converse(task, runtime, {
      terminal,
      chats: chosen.worker.mode === "chat" && terminal.isInteractive,
    });
    return await finish(end, task, started);
  } finally {
    await runtime.dispose();
    await executors.close();
  }
}

async function finish(end: ConversationEnd, task: string, started: StartedRun): Promise<number> {
  const { request, terminal, json, id, chosen } = started;
  const { isLeaving, ...told } = end;
  terminal.resetInterrupt();
  terminal.print(terminal.paint("gray", spent(end)));
  const { done, asRequested } = await deliverChanges({
    ...started,
    ending: request.ending,
    isUnfinished: end.code !== exitCodes.answered,
    isLeaving,
    branch: `golem/${id}`,
    message: commitMessage(chosen.worker.name, task),
  });
  const code = asRequested ? end.code : exitCodes.failed;
  json?.({ type: "result", ...told, code, changes: done });
  return code;
}

/** What came with a clone is trusted only when the person says so. */
async function askForTrust({ checkout, chosen, workers, terminal }: StartedRun): Promise<void> {
  const things = (await findCodeToTrust(checkout.root, chosen, workers)).map(plain);
  if (things.length === 0) return;

  const brings = `${chosen.worker.name} comes with this checkout, and brings:`;
  terminal.print(terminal.paint("yellow", brings), ...things.map((line) => `  ${line}`));
  const answer = await terminal.ask("Do you trust that? [y/N] ");
  if (/^\s*y(es)?\s*$/i.test(answer ?? "")) return;
  throw new UserError(
    terminal.isInteractive
      ? "Nothing of it was loaded, and the worker did not start."
      : `${brings} ${things.join("; ")}. Read that, then add --trust-tools.`,
  );
}

async function askForTask({ chosen, terminal }: StartedRun): Promise<string | undefined> {
  const { name, allow_empty_input: mayBeEmpty } = chosen.worker;
  const task = await terminal.ask(`What should ${plain(name)} do? `);
  if (task === undefined || task.trim() !== "" || mayBeEmpty) return task;
  throw new UserError(`Say what ${name} should do, as in golem run ${name} "…".`);
}

function sayTools({ terminal, json, model, chosen }: StartedRun, lines: string[]): number {
  terminal.print("Its tools:", ...lines, "Nothing was run.");
  json?.({
    type: "dry_run",
    worker: chosen.worker.name,
    model,
    tools: lines.map((line) => line.trim().split(/\s+/)[0]),
  });
  return exitCodes.answered;
}

function commitMessage(worker: string, task: string): string {
  const text = plain(task).trim();
  const [first = ""] = text.split("\n");
  const subject = `${worker}: ${first}`;
  return subject.length <= 72 && first === text ? `${subject}\n` : `${subject.slice(0, 71)}…\n\n${text}\n`;
}

function spent({ toolCallCount, tokens: { input, output }, cost }: ConversationEnd): string {
  const calls = `${toolCallCount} ${toolCallCount === 1 ? "tool call" : "tool calls"}`;
  const tokens = `${(input + output).toLocaleString("en")} tokens`;
  return [calls, tokens, ...(cost > 0 ? [`$${cost.toFixed(4)}`] : [])].join(", ");
}

function noneIfUnreadable(error: unknown): undefined {
  if (!(error instanceof UserError)) throw error;
  return undefined;
}
