import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { basename, join, resolve } from "node:path";
import type { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import type { Config } from "#config/config.ts";
import { narrowLimits } from "#config/repository-settings.ts";
import { UserError } from "#domain/errors.ts";
import type { RunView } from "#domain/run.ts";
import type { NamedTool } from "#domain/tool.ts";
import { AttachmentPolicy } from "#domain/worker.ts";
import type { RunAttachment } from "#embed/options.ts";
import type { Program } from "#embed/program.ts";
import { createModels } from "#models/create-models.ts";
import type { Models } from "#models/models.ts";
import { modelFor } from "#runtime/start/admit-worker.ts";
import { checkAttachments, detectMediaType } from "#runtime/start/attachments.ts";
import { readView } from "#runtime/views/read-view.ts";
import { type Checkout, openCheckout } from "#sandbox/checkout/open-checkout.ts";
import { isTerminal } from "#terminal/style.ts";
import { oneLine } from "#terminal/value-to-text.ts";
import { didYouMean } from "#text/closest-match.ts";
import { pluralize } from "#text/pluralize.ts";
import { type ApprovalCallback, ApprovalController, type ApprovalMode } from "#ui/approval-controller.ts";
import type { CommandContext } from "./command-context.ts";
import type { LocalWorker, LocalWorkers } from "./local-workers.ts";
import type { ResumeRequest, RunFlags, RunRequest } from "./run-request.ts";
import { areChangesHandled, changesOfTurns, type SavedRun, type SavedRuns, turnsOf } from "./saved-runs.ts";
import { findNamedWorker, findSurroundings } from "./surroundings.ts";
import type { Terminal } from "./terminal.ts";

/** A run that is ready to start. */
export interface PreparedRun {
  id: string;
  config: Pick<Config, "models" | "executors" | "policy" | "web">;
  checkout: Checkout;
  workers: LocalWorkers;
  chosen: LocalWorker;
  models: Models;
  model: string;
  /** The program that the worker belongs to; undefined for a worker of a checkout and for an included one. */
  program?: Program;
  /** The instructions that the repository gives every worker. */
  repositoryInstructions: string | undefined;
  /** Undefined if the person has to be asked for it. */
  task: string | undefined;
  /** The files given with `--attach`. */
  attachments?: RunAttachment[];
  savedRuns: SavedRuns;
  /** Undefined for a dry run, or if the run cannot be saved. */
  saved: SavedRun | undefined;
  /** The reason why the run cannot be saved. */
  notSaved?: string;
  /** The last turn of a run that is resumed. */
  resumed?: RunView;
}

/** The time to wait for piped text if a task was already given. */
const pipeWaitMs = 3_000;
const maxTaskCharacters = 1_000_000;

/** Finds the checkout, worker, model and task of a new run. Rejects with a UserError if one of them is missing. */
export async function prepareRun(request: RunRequest, context: CommandContext): Promise<PreparedRun> {
  const { name, surroundings } = await findNamedWorker(request.worker, context);
  const { root, config, workers, settings, savedRuns, program, isFolder } = surroundings;
  const { worker: asFound, ...file } = await workers.find(name);
  const worker = { ...asFound, limits: narrowLimits(asFound.limits, settings) };
  const models = request.dryRun ? modelsOfDryRun(config, worker) : createModels(config.models);
  const model = chooseModel(worker, request.model ?? worker.model ?? file.model ?? program?.config.model, models);
  const task = request.dryRun ? request.task?.trim() : await readTask(request.task?.trim(), context);
  if (task !== undefined && task.length > maxTaskCharacters) {
    throw new UserError(`The task is longer than ${maxTaskCharacters.toLocaleString("en")} characters.`);
  }
  if (task === "" && !worker.allow_empty_input) {
    throw new UserError(`Say what ${worker.name} should do, as in golem run ${worker.name} "…".`);
  }
  const attachments = await readFiles(request.attach, { worker, cwd: context.cwd });
  const id = randomUUID().slice(0, 8);
  const kept = request.dryRun ? { saved: undefined } : await save(savedRuns, id);
  try {
    const checkout = await openCheckout(root, { policy: worker.sandbox, record: kept.saved?.record, isFolder });
    const repositoryInstructions = settings.instructions;
    const chosen = { ...file, worker };
    const known = { id, config, checkout, workers, chosen, models, model, task, repositoryInstructions };
    return { ...known, attachments, savedRuns, ...kept, ...(program && { program }) };
  } catch (error) {
    await kept.saved?.store.close();
    savedRuns.delete(id);
    throw error;
  }
}

/** Reads the files to attach. Rejects with a UserError for a file that models cannot read or the worker does not accept. */
async function readFiles(
  paths: readonly string[],
  { worker, cwd }: { worker: LocalWorker["worker"]; cwd: string },
): Promise<RunAttachment[]> {
  const files = await Promise.all(
    paths.map(async (path) => {
      const bytes = await readFile(resolve(cwd, path)).catch((error: NodeJS.ErrnoException) => {
        const reason = error.code === "ENOENT" ? "there is no such file" : (error.code ?? error.message);
        throw new UserError(`${path} cannot be attached: ${reason}.`, { cause: error });
      });
      const mediaType = detectMediaType(path, bytes);
      if (mediaType) return { name: basename(path), mediaType, bytes };
      throw new UserError(`${path} cannot be attached: it is not an image, a PDF or a text file.`);
    }),
  );
  checkAttachments({ ...worker, attachment_policy: worker.attachment_policy ?? AttachmentPolicy.parse({}) }, files);
  return files.map(({ name, mediaType, bytes }) => ({ name, mimeType: mediaType, data: bytes }));
}

/** Resolves to the task and the piped text. With a task, waits briefly: some parents never write to the pipe. */
async function readTask(task: string | undefined, { input, errors }: CommandContext): Promise<string | undefined> {
  if (isTerminal(input)) return task;
  if (task === undefined) return (await text(input)).trim();
  const begins =
    input.readableEnded || (await Promise.race([firstRead(input), delay(pipeWaitMs, false, { ref: false })]));
  if (!begins) {
    errors.write("golem: nothing was piped in, so only the task is used.\n");
    return task;
  }
  const piped = (await text(input)).trim();
  return piped === "" ? task : `${task}\n\n${piped}`;
}

async function firstRead(input: Readable): Promise<true> {
  await Promise.race([once(input, "readable"), once(input, "end")]);
  return true;
}

/** Opens a saved run with its worker, model and changes. Rejects with a UserError if it cannot be resumed. */
export async function prepareResume(request: ResumeRequest, context: CommandContext): Promise<PreparedRun> {
  const { root, config, workers, settings, savedRuns, program, isFolder } = await findSurroundings(context);
  const id = request.run === undefined ? await newestUnfinished(savedRuns) : savedRuns.find(request.run);
  const saved = await savedRuns.open(id);
  try {
    const turns = await turnsOf(saved.store);
    const last = turns.at(-1)?.spec;
    const resumed = last && (await readView(saved.store, last.id));
    if (!last || !resumed) throw new UserError(`The run ${id} was never started. Start a new one with golem run.`);
    if (await areChangesHandled(saved.store)) {
      throw new UserError(
        `The run ${id} has ended and cannot be resumed. golem log ${id} shows it, and golem run starts a new one.`,
      );
    }
    const models = createModels(config.models);
    const model = chooseModel(last.worker, request.model ?? last.model, models);
    const changes = await changesOfTurns(saved.store, turns);
    const policy = last.worker.sandbox;
    const checkout = await openCheckout(root, { policy, changes, record: saved.record, isFolder });
    const repositoryInstructions = settings.instructions;
    // The run keeps the worker it was started with. Only the mode and the code of the worker come from its current file.
    const file = await workers.find(last.worker.name).catch(noneIfUnreadable);
    const { mode } = file?.worker ?? last.worker;
    const chosen = {
      path: file?.path ?? join(root, `${last.worker.name}.worker`),
      isOwn: file?.isOwn ?? true,
      worker: { ...last.worker, mode },
    };
    const task = await firstMessage(saved, turns[0]?.spec.id);
    const known = { id, config, checkout, workers, chosen, models, model, task, repositoryInstructions };
    return { ...known, savedRuns, saved, resumed, ...(program && { program }) };
  } catch (error) {
    await saved.store.close();
    throw error;
  }
}

/** Returns models that are never called, so that neither a model nor its key has to be configured. */
function modelsOfDryRun(config: Pick<Config, "models">, worker: LocalWorker["worker"]): Models {
  const models = createModels(config.models);
  const defaultModel = models.defaultModel ?? worker.compatible_models?.[0] ?? "no model";
  return { ...models, defaultModel, findModelProblem: () => undefined, findToolProblem: () => undefined };
}

function chooseModel(worker: LocalWorker["worker"], named: string | undefined, models: Models): string {
  const wanted = named ?? models.defaultModel;
  if (wanted) return modelFor(worker, wanted, models);
  throw new UserError(
    "No model is configured: set GOLEM_FORGE_MODEL and its key (GOLEM_FORGE_MODEL=anthropic:claude-sonnet-4-5 and ANTHROPIC_API_KEY=…), or name one with --model. To see a worker run without a key: npm run demo.",
  );
}

/** Opens the saved run. If the state folder cannot be written, the run starts without being saved. */
async function save(savedRuns: SavedRuns, id: string): Promise<Pick<PreparedRun, "saved" | "notSaved">> {
  try {
    return { saved: await savedRuns.open(id) };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    return { saved: undefined, notSaved: error.message };
  }
}

async function newestUnfinished(savedRuns: SavedRuns): Promise<string> {
  for (const id of savedRuns.ids()) {
    const store = await savedRuns.read(id);
    const isUnfinished = (await turnsOf(store)).length > 0 && !(await areChangesHandled(store));
    await store.close();
    if (isUnfinished) return id;
  }
  throw new UserError("This checkout has no unfinished run. golem log lists all runs.");
}

async function firstMessage({ store }: SavedRun, runId: string | undefined): Promise<string | undefined> {
  const log = runId === undefined ? [] : await store.log(runId);
  const first = log.find(({ event }) => event.type === "message.received")?.event;
  return first?.type === "message.received" ? first.text : undefined;
}

export function noneIfUnreadable(error: unknown): undefined {
  if (!(error instanceof UserError)) throw error;
  return undefined;
}

/** Returns the lines printed before a worker starts: the worker, its files, and the tools that are unavailable here. */
export function startupLines(
  { chosen, model, checkout, id, resumed, notSaved, program }: PreparedRun,
  {
    omitted,
    request: { yes, dryRun },
    terminal,
  }: { omitted: readonly string[]; request: RunFlags; terminal: Terminal },
): string[] {
  const { worker, isOwn } = chosen;
  const at = checkout.head ? ` at ${checkout.head.slice(0, 7)}` : "";
  const files = pluralize(checkout.fileCount, "file");
  const from = isOwn && !program ? " (of this checkout)" : "";
  const approvesAll = yes.includes("all") || program?.config.approval.mode === "approve_all";
  const preApproved = approvesAll ? "all tools" : yes.map(oneLine).join(", ");
  const ignored = program?.ignored ?? [];
  const without = Object.keys(worker.toolsets).filter((name) => omitted.includes(name) && name !== "ask");
  const { paint } = terminal;
  return [
    `${paint("bold", oneLine(worker.name))}${from} · ${oneLine(model)} · ${oneLine(checkout.branch)}${at} · ${files}`,
    ...(resumed ? [paint("gray", `Resuming the run ${id}. golem log ${id} shows what it did.`)] : []),
    ...(notSaved ? [paint("yellow", `This run cannot be resumed later: ${oneLine(notSaved)}`)] : []),
    ...(without.length > 0
      ? [paint("gray", `Running locally, so these toolsets are off: ${without.join(", ")}.`)]
      : []),
    ...(ignored.length > 0
      ? [
          paint(
            "yellow",
            `The program's configuration has settings without effect: ${ignored.map(oneLine).join(", ")}.`,
          ),
        ]
      : []),
    ...(preApproved === "" ? [] : [paint("yellow", `Approved in advance: ${preApproved}.`)]),
    ...(terminal.isInteractive || dryRun
      ? []
      : [
          paint(
            "gray",
            "There is no terminal to ask: ask_user is off, and calls that need approval are denied unless --yes names the tool.",
          ),
        ]),
  ];
}

/** Describes a worker's tools, one per line, and marks those that need approval. */
export function describeTools(tools: readonly NamedTool[]): string[] {
  const width = Math.max(0, ...tools.map(({ name }) => name.length));
  return tools.map(({ name, needsApproval, manualExecution }) => {
    const isForPeople = manualExecution?.mode === "manual";
    const asks = typeof needsApproval === "function" ? "may ask" : needsApproval === false ? "" : "asks";
    return `  ${oneLine(name).padEnd(width)}  ${isForPeople ? "for people" : asks}`.trimEnd();
  });
}

/** Approves what `--yes` or the program's mode allow, and asks about the rest; without a terminal, denies it. */
export function createPreApproval(
  yes: readonly string[],
  ask: ApprovalCallback,
  terminal: Terminal,
  mode: ApprovalMode = "interactive",
): ApprovalController {
  return new ApprovalController({
    mode: "interactive",
    approvalCallback: async (request) => {
      const tool = request.toolName;
      const isNamed = yes.includes("all") || yes.includes(tool);
      if (isNamed || mode === "approve_all") {
        const by = isNamed ? "with --yes" : "by the program's configuration";
        terminal.bus.emit("status", { type: "info", message: `${oneLine(tool)} was approved in advance ${by}.` });
        return { approved: true };
      }
      if (mode === "auto_deny") {
        return { approved: false, note: "the program's configuration denies every call that needs approval" };
      }
      if (terminal.isInteractive) return ask(request);
      terminal.bus.emit("status", {
        type: "warning",
        message: `${oneLine(tool)} was denied: there is no terminal to ask for approval, and --yes does not name it.`,
      });
      return { approved: false, note: "there is no terminal to ask for approval" };
    },
  });
}

/** Throws a UserError for a tool named with `--yes` that the worker does not have. */
export function checkPreApproved(yes: readonly string[], tools: readonly string[], worker: string): void {
  const unknown = yes.find((name) => name !== "all" && !tools.includes(name));
  if (unknown === undefined) return;
  throw new UserError(
    `--yes ${unknown}: ${worker} has no such tool.${didYouMean(unknown, [...tools, "all"])} It has: ${tools.join(", ") || "none"}.`,
  );
}
