import { findApproverProblem } from "#config/repository-settings.ts";
import { approvalDigest } from "#domain/approval.ts";
import { UserError } from "#domain/errors.ts";
import { canWrite } from "#domain/github.ts";
import type { NamedTool } from "#domain/tool.ts";
import type { ActiveRun } from "#runtime/active-run.ts";
import { type AskedOfTools, readInvocation } from "#runtime/calls/read-tool-command.ts";
import type { ToolReply } from "#runtime/calls/tool-reply.ts";
import { writeCommand } from "#runtime/calls/write-tool-command.ts";
import type { FrontEnd } from "#runtime/front-end.ts";
import { readBase, stepsOf } from "#runtime/read-log.ts";
import { readSettings } from "#runtime/read-settings.ts";
import type { EffectHandler, EffectResult } from "#runtime/run-scheduler.ts";
import { shortId } from "#runtime/short-id.ts";
import type { Effect } from "#runtime/store/store.ts";
import { resultOfError } from "#toolsets/failed-result.ts";
import type { CallContext } from "#toolsets/toolbox.ts";
import { argumentsFromOptions } from "#ui/form-fields.ts";
import { callContext } from "./call-context.ts";
import type { EffectServices } from "./effect-services.ts";
import { runInSandbox } from "./run-in-sandbox.ts";
import { interruptedCall } from "./unknown-effect.ts";

/** A person's command for a run's tools, as it is stored when it is heard. */
export interface Invocation {
  callId: string;
  by: string;
  /** The first line of the comment. */
  line: string;
  /** Its word may be another bot's: unless it is the name of a tool, nothing is said. */
  mayBeForeign: boolean;
}

type AskedToRun = Extract<AskedOfTools, { kind: "run" }>;

/**
 * Does what a person's command asks of the run's tools. What a tool changed is stored with its result; what must be
 * agreed to is shown first, and runs when the command comes again with the word that stands for exactly this.
 */
export function invokeTool({ frontEnd }: Pick<EffectServices, "frontEnd">): EffectHandler {
  return {
    maxAttempts: 3,
    async perform(effect, desk, signal) {
      const invocation = effect.input as Invocation;
      await checkAccess(desk, invocation.by);
      if (!readBase(await desk.log())) throw new UserError("This run never opened the repository, so it has no tools.");

      const toolbox = await desk.tools(signal);
      const asked = readInvocation(invocation.line, toolbox);
      switch (asked.kind) {
        case "list":
        case "form":
          return reply(effect, asked);
        case "unknown":
          return invocation.mayBeForeign ? {} : refused(effect, new UserError(asked.message));
        case "run":
          return run(effect, desk, asked, { signal, frontEnd }).catch((error) => {
            if (!(error instanceof UserError)) throw error;
            return refused(effect, error);
          });
      }
    },
    onFailure: async (effect, _desk, error) =>
      (effect.input as Invocation).mayBeForeign ? {} : refused(effect, error),
  };
}

async function checkAccess({ github, spec: { origin } }: ActiveRun, by: string): Promise<void> {
  if (canWrite(await github.getPermission(by))) return;
  throw new UserError(`GitHub does not confirm that you have write access to ${origin.owner}/${origin.repo}.`);
}

/** What has to be approved is not agreed to by who may not approve, or where it takes two. */
async function checkMayAgree({ github }: ActiveRun, by: string, { name }: NamedTool): Promise<void> {
  const settings = await readSettings(github);
  const refusal = findApproverProblem({ ...settings, second_person: false }, { by, requestedBy: by });
  if (refusal) throw new UserError(refusal);
  if (!settings.second_person) return;
  throw new UserError(
    `Here a second person has to agree, and a command has only one: ${name} cannot be called like this.`,
  );
}

async function run(
  effect: Effect,
  desk: ActiveRun,
  asked: AskedToRun,
  { signal, frontEnd }: { signal: AbortSignal; frontEnd: FrontEnd },
): Promise<EffectResult> {
  const { callId, by } = effect.input as Invocation;
  const { tool } = asked;
  const step = stepsOf(await desk.log());
  const context: CallContext = { ...callContext(desk, { callId }, step, signal), invokedBy: "person" };
  const [toolbox, sandbox] = [await desk.tools(signal), await desk.sandbox(signal)];
  // What an earlier attempt left half done was never stored.
  sandbox.rollback();

  const call = { callId, tool: tool.name, args: await readArguments(asked) };
  const review = await toolbox.review(call, context, []);
  signal.throwIfAborted();
  if (review.kind === "refuse") throw refusal(review.result.error, tool);
  const { args } = review;
  if (review.kind === "ask") {
    if (!frontEnd.canShow(review)) throw tooLong(tool);
    const word = await wordFor(desk, { tool: tool.name, args, preview: review.preview });
    if (asked.agreed !== word) {
      const command = writeCommand(tool.name, { ...asked.options, yes: word });
      return reply(effect, { kind: "confirm", tool: tool.name, args, preview: review.preview, command });
    }
    await checkMayAgree(desk, by, tool);
  }

  const mayHaveRun = effect.attempts > 1 && tool.afterCrash === "report";
  const { result, stored } = await runInSandbox(sandbox, { step: `${step}/${callId}`, signal }, async () =>
    mayHaveRun ? resultOfError(interruptedCall()) : toolbox.execute({ ...call, args }, context),
  );
  return {
    ...reply(effect),
    events: [{ runId: effect.runId, event: { type: "tool.invoked", callId, tool: tool.name, by, args, result } }],
    ...stored,
  };
}

async function readArguments({ tool, options }: AskedToRun): Promise<Record<string, unknown>> {
  try {
    return await argumentsFromOptions(tool.inputSchema, options);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    throw new UserError(`${error.message}\n/tool ${tool.name} -i shows what it takes.`, { cause: error });
  }
}

function refusal(error: { message: string; suggestion?: string } | undefined, { name }: NamedTool): UserError {
  return new UserError([error?.message ?? `${name} is not allowed here.`, error?.suggestion].filter(Boolean).join(" "));
}

function tooLong({ name }: NamedTool): UserError {
  return new UserError(
    `What ${name} would do has to be agreed to, and is too long to be shown in comments. Do it in smaller parts.`,
  );
}

/** Stands for this run, call and preview, so that nobody agrees to something else than what they were shown. */
async function wordFor(
  desk: ActiveRun,
  shown: { tool: string; args: unknown; preview: string | undefined },
): Promise<string> {
  const { id: runId, workerPath } = desk.spec;
  const baseCommit = readBase(await desk.log())?.commit ?? "";
  return shortId(approvalDigest({ ...shown, runId, workerPath, callId: "", baseCommit }), 8);
}

function refused(effect: Effect, error: unknown): EffectResult {
  const { by } = effect.input as Invocation;
  const message = error instanceof UserError ? error.message : "Something failed on our side. Try again later.";
  return reply(effect, { kind: "refused", by, message });
}

/** Said in an effect of its own, so that a lost comment does not run the tool again. Without words: the result, from the log. */
function reply({ key, runId, input }: Effect, words?: ToolReply): EffectResult {
  const { callId } = input as Invocation;
  return { effects: [{ key: `${key}/reply`, runId, queue: "thread", kind: "tool.reply", input: { callId, words } }] };
}
