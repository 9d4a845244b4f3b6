import { randomUUID } from "node:crypto";
import { dirname } from "node:path";
import { UserError } from "#domain/errors.ts";
import { approveOnBus } from "#embed/approve-on-bus.ts";
import { WorkerRuntime } from "#embed/worker-runtime.ts";
import { createExecutors } from "#executors/create-executors.ts";
import { plain } from "#terminal/paint.ts";
import { createTraceFormatter } from "#terminal/trace-formatter.ts";
import { createRuntimeUI } from "#ui/runtime-ui.ts";
import { approveBeforehand, checkApproved } from "./approve-beforehand.ts";
import { briefing } from "./briefing.ts";
import { type ConversationEnd, converse } from "./converse.ts";
import { describeTools } from "./describe-tools.ts";
import { type Desk, openDesk } from "./desk.ts";
import { endOnSignals } from "./end-on-signals.ts";
import { createGitUncommittedTool } from "./git-uncommitted.ts";
import { handOver } from "./hand-over.ts";
import { createJsonLines, type JsonLines } from "./json-lines.ts";
import { type KeptPatch, keptPatch } from "./keep-patch.ts";
import { needsTrust } from "./needs-trust.ts";
import { opening } from "./opening.ts";
import { exitCodes, type Place } from "./place.ts";
import { type PreparedRun, prepareRun } from "./prepare-run.ts";
import type { RunRequest } from "./run-request.ts";

/** A run that is about to begin, with all that belongs to it. */
interface Begun extends PreparedRun {
  request: RunRequest;
  place: Place;
  desk: Desk;
  kept: KeptPatch;
  json: JsonLines | undefined;
  id: string;
}

/** Runs a worker on the checkout of the folder, and resolves to the exit code. Rejects with a UserError when it does not start. */
export async function runWorker(request: RunRequest, place: Place): Promise<number> {
  const prepared = await prepareRun(request, place);
  const desk = await openDesk(place, request);
  const id = randomUUID().slice(0, 8);
  const begun: Begun = {
    ...prepared,
    request,
    place,
    desk,
    kept: keptPatch(prepared.checkout, id, place),
    json: request.json ? createJsonLines(place.output) : undefined,
    id,
  };
  const release = endOnSignals(desk, begun.kept, place);
  try {
    return await work(begun);
  } finally {
    release();
    await desk.close();
  }
}

async function work(begun: Begun): Promise<number> {
  const { request, place, desk, checkout, chosen, workers, config, models, model, kept, json } = begun;
  const omitToolsets = ["github", "pull_request", ...(desk.canAsk ? [] : ["ask"])];
  desk.say(...opening(begun, { omitted: omitToolsets, request, desk }));
  if (!request.trustTools && !request.dryRun) await askForTrust(begun);

  const trace = request.trace ? createTraceFormatter({ output: place.errors }) : undefined;
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
    bus: desk.bus,
    approvalController: approveBeforehand(
      request.yes,
      approveOnBus(createRuntimeUI(desk.bus), desk.interruption),
      desk,
    ),
    omitToolsets: request.dryRun && !request.trustTools ? [...omitToolsets, "custom", "external", "mcp"] : omitToolsets,
    briefing: briefing({ root: checkout.root, cwd: place.cwd, canAsk: desk.canAsk, houseRules: begun.houseRules }),
    executors,
    web: config.web,
    onEvent: (event) => {
      json?.(event);
      trace?.(event);
      // Nothing that is done is lost, whatever ends this process.
      if (event.type === "tool_call_end") kept.keep();
    },
  });
  try {
    await runtime.initialize();
    const tools = Object.values(runtime.getTools());
    checkApproved(
      request.yes,
      tools.map(({ name }) => name),
      chosen.worker.name,
    );
    if (request.dryRun) return sayTools(begun, describeTools(tools));

    const task = begun.task ?? (await askForTask(begun));
    if (task === undefined) return exitCodes.interrupted;
    const end = await converse(task, runtime, { desk, chats: chosen.worker.mode === "chat" && desk.canAsk });
    return await finish(end, task, begun);
  } finally {
    await runtime.dispose();
    await executors.close();
  }
}

async function finish(end: ConversationEnd, task: string, begun: Begun): Promise<number> {
  const { request, desk, json, id, chosen } = begun;
  const { isLeaving, ...told } = end;
  desk.listen();
  desk.say(desk.paint("gray", spent(end)));
  const { done, asWished } = await handOver({
    ...begun,
    ending: request.ending,
    isUnfinished: end.code !== exitCodes.answered,
    isLeaving,
    branch: `golem/${id}`,
    message: commitMessage(chosen.worker.name, task),
  });
  const code = asWished ? end.code : exitCodes.failed;
  json?.({ type: "result", ...told, code, changes: done });
  return code;
}

/** What came with a clone is trusted only when the person says so. */
async function askForTrust({ checkout, chosen, workers, desk }: Begun): Promise<void> {
  const things = (await needsTrust(checkout.root, chosen, workers)).map(plain);
  if (things.length === 0) return;

  const brings = `${chosen.worker.name} comes with this checkout, and brings:`;
  desk.say(desk.paint("yellow", brings), ...things.map((line) => `  ${line}`));
  const answer = await desk.ask("Do you trust that? [y/N] ");
  if (/^\s*y(es)?\s*$/i.test(answer ?? "")) return;
  throw new UserError(
    desk.canAsk
      ? "Nothing of it was loaded, and the worker did not start."
      : `${brings} ${things.join("; ")}. Read that, then add --trust-tools.`,
  );
}

async function askForTask({ chosen, desk }: Begun): Promise<string | undefined> {
  const { name, allow_empty_input: mayBeEmpty } = chosen.worker;
  const task = await desk.ask(`What should ${plain(name)} do? `);
  if (task === undefined || task.trim() !== "" || mayBeEmpty) return task;
  throw new UserError(`Say what ${name} should do, as in golem run ${name} "…".`);
}

function sayTools({ desk, json, model, chosen }: Begun, lines: string[]): number {
  desk.say("Its tools:", ...lines, "Nothing was run.");
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
