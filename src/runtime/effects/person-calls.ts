import { approvalDigest } from "#domain/approval.ts";
import { UserError } from "#domain/errors.ts";
import { type Account, canWrite } from "#domain/github.ts";
import type { Preview } from "#domain/preview.ts";
import type { ToolResult } from "#domain/result.ts";
import { shortId } from "#domain/run.ts";
import { getManualTools, isManualTool, type NamedTool } from "#domain/tool.ts";
import { confirmLease } from "#domain/work-context.ts";
import { describeRequirement, factsAbout, findProblem, requirementsOf } from "#runtime/approval-rules.ts";
import type { ToolReply } from "#runtime/front-end.ts";
import { readBaseCommit, stepsOf } from "#runtime/read-log.ts";
import type { EffectResult } from "#runtime/run-environment.ts";
import type { EffectOf } from "#runtime/runtime-effect.ts";
import type { ActiveRun } from "#runtime/scheduler/active-run.ts";
import { type Effect, requireRun } from "#runtime/store/store.ts";
import { readView } from "#runtime/views/read-view.ts";
import { describeRemovedLog } from "#runtime/views/run-summary.ts";
import { didYouMean } from "#text/closest-match.ts";
import type { CallContext, CallReview } from "#toolsets/review-call.ts";
import { resultOfError } from "#toolsets/tool-result.ts";
import type { Toolbox } from "#toolsets/toolbox.ts";
import { classifyCommand, isBuiltinCommand, isInteractive, type ParsedCommand } from "#ui/command.ts";
import { argumentsFromOptions, extractManualToolInfo, getManualToolInfos } from "#ui/form-fields.ts";
import { askPermission, readCurrentSettings } from "./check-approval.ts";
import { type EffectHandler, type EffectServices, PostponedError } from "./effect-handler.ts";
import { confirmationName } from "./post-to-thread.ts";
import { interruptedCall, withOverwritten } from "./tool-calls.ts";

type PersonEffect = Effect<EffectOf<"command.run" | "tool.invoke">>;
type PersonServices = Pick<EffectServices, "store" | "frontEnd" | "now">;

interface PersonCall {
  tool: string;
  args: unknown;
  /** The word that confirms the call. */
  agreed: string | undefined;
  /** The options of the command, to print it again with the confirmation word. */
  options: ParsedCommand["options"];
}

/**
 * Runs a person's command for the run's tools. A tool's changes are stored together with its result. A call that needs
 * confirmation is shown first, and runs when the command is repeated with the word for exactly this call.
 */
export function runToolCommand(services: PersonServices): EffectHandler<EffectOf<"command.run">> {
  return {
    maxAttempts: 3,
    async perform(effect, run, signal) {
      await checkAccess(effect, run, { ...services, signal });
      const command = readToolCommand(effect.request.command, await run.tools(signal));
      switch (command.kind) {
        case "list":
        case "form":
          return reply(effect, command);
        case "unknown":
          return effect.request.mayBeForeign ? {} : refuse(effect, new UserError(command.message));
        case "run":
          return refuseUserErrors(effect, async () => {
            const call = { ...command, tool: command.tool.name, args: await readArguments(command) };
            return execute(effect, run, call, { ...services, signal });
          });
      }
    },
    onFailure: async (effect, _run, error) => (effect.request.mayBeForeign ? {} : refuse(effect, error)),
  };
}

/** Calls a tool for a person at a user interface, as `runToolCommand` does for a command. */
export function invokeTool(services: PersonServices): EffectHandler<EffectOf<"tool.invoke">> {
  return {
    maxAttempts: 3,
    async perform(effect, run, signal) {
      await checkAccess(effect, run, { ...services, signal });
      const { tool, args, agreed } = effect.request;
      const call = { tool, args, agreed, options: {} };
      return refuseUserErrors(effect, () => execute(effect, run, call, { ...services, signal }));
    },
    onFailure: async (effect, _run, error) => refuse(effect, error),
  };
}

async function checkAccess(
  { request: { by, byId } }: PersonEffect,
  run: ActiveRun,
  options: Pick<EffectServices, "store" | "now"> & { signal: AbortSignal },
): Promise<void> {
  const { owner, repo } = run.spec.origin;
  if (!canWrite(await askPermission(run, { login: by, id: byId }, options))) {
    throw new UserError(`You need write access to ${owner}/${repo} to call tools.`);
  }
  if (!readBaseCommit(await run.log())) {
    const removed = describeRemovedLog(await requireRun(options.store, run.spec.id));
    throw new UserError(removed ?? "This run never opened the repository, so it has no tools.");
  }
}

async function execute(
  effect: PersonEffect,
  run: ActiveRun,
  call: PersonCall,
  { frontEnd, store, now, signal }: PersonServices & { signal: AbortSignal },
): Promise<EffectResult> {
  const { callId, by, byId } = effect.request;
  const step = stepsOf(await run.log());
  const context: CallContext = { ...run.callContext({ callId, step, signal }), invokedBy: "person" };
  const toolbox = await run.tools(signal);
  const found = toolbox.find(call.tool);
  const tool = found?.name ?? call.tool;

  return run.change(reviewAndExecute, {
    step: `${step}/${callId}`,
    signal,
    toResult: (done, overwritten) => {
      if (done.kind === "confirm") return reply(effect, done);
      const result = withOverwritten(done.result, overwritten);
      const event = { type: "tool.invoked" as const, callId, tool, by, byId, args: done.args, result };
      return { ...reply(effect), events: [{ runId: effect.runId, event }] };
    },
  });

  async function reviewAndExecute(): Promise<
    Extract<ToolReply, { kind: "confirm" }> | { kind: "executed"; args: unknown; result: ToolResult }
  > {
    const review = await toolbox.review({ callId, tool: call.tool, args: call.args }, context, []);
    signal.throwIfAborted();
    if (review.kind === "refuse") throw toUserError(review, tool);
    const { args } = review;
    const preview = review.kind === "ask" ? review.preview : undefined;
    if (review.kind === "ask") {
      if (!frontEnd.canShow(review)) throw tooLong(tool);
      const word = await confirmationWord(run, { tool, args, preview });
      const isAltered = call.agreed === word && !(await isShown(effect, run, { word, frontEnd, store, now }));
      if (call.agreed !== word || isAltered) {
        const command = writeToolCommand(tool, { ...call.options, yes: word });
        return { kind: "confirm", callId, tool, args, preview, command, word, isAltered };
      }
      const shown = { tool, toolName: tool, toolAliases: found?.aliases, workerPath: run.spec.workerPath, preview };
      await checkMayConfirm(run, { login: by, id: byId }, shown, { store, now, signal });
    }

    const reviewed = { callId, tool: call.tool, args };
    const runsOnce = await toolbox.runsOnce(reviewed, context);
    const mayHaveRun = effect.attempts > 1 && runsOnce;
    if (runsOnce && !mayHaveRun) await confirmLease();
    const result = mayHaveRun
      ? resultOfError(interruptedCall())
      : await toolbox.execute(reviewed, { ...context, ...(preview && { approved: preview }) });
    return { kind: "executed", args, result };
  }
}

/** True if the comments that show the call were in the thread, unedited, when the confirmation word was written. */
async function isShown(
  { runId, request, dueAt }: PersonEffect,
  { spec }: ActiveRun,
  { word, frontEnd, store, now }: PersonServices & { word: string },
): Promise<boolean> {
  const { isUnchanged } = frontEnd;
  if (!isUnchanged || request.kind === "tool.invoke") return true;
  const post = await store.findPost(confirmationName(runId, word));
  // It may be posted, and not stored yet.
  if (!post && dueAt === 0) throw new PostponedError(now() + 1_000);
  const view = await readView(store, spec.rootId);
  if (!post?.shown || !view) return false;
  const { commentId = Number.POSITIVE_INFINITY } = request;
  return post.commentId < commentId && isUnchanged(view, post.shown.comments);
}

/** Throws unless the person may approve the call, and no other approval is needed. */
async function checkMayConfirm(
  run: ActiveRun,
  person: Account,
  call: Parameters<typeof requirementsOf>[0],
  { store, now, signal }: Pick<EffectServices, "store" | "now"> & { signal: AbortSignal },
): Promise<void> {
  const { repository, spec } = run;
  const requirements = await requirementsOf(call, await readCurrentSettings(run, { now, signal }), repository);
  const { spec: root } = await requireRun(store, spec.rootId);
  for (const requirement of requirements) {
    // The caller of a tool wrote its arguments.
    if (requirement.required > 1 || requirement.exclude !== "nobody") {
      const who = describeRequirement({ ...requirement, exclude: "nobody" }, root.origin.requestedBy);
      throw new UserError(
        `${call.tool} needs the approval of a second person here (${who}), so it cannot be called with a command. Ask the worker to call it.`,
      );
    }
    const problem = await findProblem(requirement, person, factsAbout({}, root, { store, repository }));
    if (problem) throw new UserError(problem);
  }
}

async function readArguments({
  tool,
  options,
}: Extract<ToolCommand, { kind: "run" }>): Promise<Record<string, unknown>> {
  try {
    return await argumentsFromOptions(tool.inputSchema, options);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    throw new UserError(`${error.message}\n/tool ${tool.name} -i shows its options.`, { cause: error });
  }
}

function toUserError({ result: { error } }: Extract<CallReview, { kind: "refuse" }>, tool: string): UserError {
  return new UserError([error?.message ?? `${tool} is not allowed here.`, error?.suggestion].filter(Boolean).join(" "));
}

function tooLong(tool: string): UserError {
  return new UserError(
    `${tool} needs your confirmation, but its effect is too long to show in comments. Split it into smaller calls.`,
  );
}

/** Returns the confirmation word for this call of this run with this preview: people can confirm only this call. */
async function confirmationWord(
  run: ActiveRun,
  shown: { tool: string; args: unknown; preview: Preview | undefined },
): Promise<string> {
  const { id: runId, workerPath } = run.spec;
  const baseCommit = readBaseCommit(await run.log())?.commit ?? "";
  return shortId(approvalDigest({ ...shown, runId, workerPath, callId: "", baseCommit }), 8);
}

async function refuseUserErrors(effect: PersonEffect, work: () => Promise<EffectResult>): Promise<EffectResult> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    return refuse(effect, error);
  }
}

function refuse(effect: PersonEffect, error: unknown): EffectResult {
  const message =
    error instanceof UserError ? error.message : "The call failed because of an internal error. Try again.";
  return reply(effect, { kind: "refused", by: effect.request.by, message });
}

/** Requests the reply as a separate effect, so that a failed post does not run the tool again. Default: posts the result. */
function reply({ key, runId, request }: PersonEffect, reply?: ToolReply): EffectResult {
  const { callId } = request;
  const thread = request.kind === "command.run" ? request.thread : undefined;
  const post = { kind: "tool.reply" as const, callId, reply, ...(thread === undefined ? {} : { thread }) };
  return { effects: [{ key: `${key}/reply`, runId, queue: "thread", request: post }] };
}

/** A command, matched with a run's tools. */
type ToolCommand =
  | Extract<ToolReply, { kind: "list" | "form" }>
  /** `agreed` is the value of `--yes`. */
  | { kind: "run"; tool: NamedTool; options: ParsedCommand["options"]; agreed: string | undefined }
  /** The command could be the name of a tool, but there is no such tool. */
  | { kind: "unknown"; message: string };

/** Matches a parsed command with a run's tools. Throws a UserError for a command that cannot be run. */
function readToolCommand(parsed: ParsedCommand, { tools, find }: Pick<Toolbox, "tools" | "find">): ToolCommand {
  const manual = getManualTools(tools);
  const command = classifyCommand(parsed, manual);
  const isBuiltin = isBuiltinCommand(parsed.name.toLowerCase());
  if (command.type !== "tool" && isBuiltin) return { kind: "list", tools: getManualToolInfos(manual) };

  const name = command.type === "tool" ? command.toolName : parsed.name;
  const tool = find(name);
  if (!tool || !isManualTool(tool)) {
    const message = tool
      ? `${tool.name} can only be called by the worker. ${describeManual(manual)}`
      : describeUnknown(name, manual);
    if (!isBuiltin) return { kind: "unknown", message };
    throw new UserError(message);
  }
  const form = isInteractive(parsed) && extractManualToolInfo(tool);
  if (form) return { kind: "form", tool: form };

  const [positional] = isBuiltin ? parsed.args.slice(1) : parsed.args;
  if (positional !== undefined) {
    const value = JSON.stringify(positional);
    throw new UserError(
      `Give ${value} with the name of an option, such as --name ${value}. /tool ${tool.name} -i lists the options.`,
    );
  }
  const { yes, ...options } = parsed.options;
  return { kind: "run", tool, options, agreed: typeof yes === "string" ? yes.toLowerCase() : undefined };
}

/** Returns the command line that `parseCommand` reads as these options of this tool. */
export function writeToolCommand(tool: string, options: ParsedCommand["options"]): string {
  return [`/tool ${tool}`, ...Object.entries(options).map(([name, value]) => writeOption(name, value))].join(" ");
}

function writeOption(name: string, value: string | boolean): string {
  const option = name.length === 1 ? `-${name}` : `--${name}`;
  if (typeof value === "boolean") return option;
  const isPlain = /^[\w./:@+,][\w./:@+,-]*$/.test(value);
  return isPlain ? `${option} ${value}` : `${option}="${value.replace(/["\\]/g, "\\$&")}"`;
}

function describeUnknown(name: string, manual: readonly NamedTool[]): string {
  const names = manual.flatMap((tool) => [tool.name, ...(tool.aliases ?? [])]);
  const suggestion = didYouMean(name, names);
  return `Unknown tool ${JSON.stringify(name)}.${suggestion} ${describeManual(manual)}`;
}

function describeManual(manual: readonly NamedTool[]): string {
  if (manual.length === 0) return "This worker has no tools that people can call.";
  return `You can call: ${manual.map(({ name }) => name).join(", ")}.`;
}
