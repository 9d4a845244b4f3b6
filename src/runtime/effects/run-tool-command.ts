import { findApproverProblem } from "#config/repository-settings.ts";
import { approvalDigest } from "#domain/approval.ts";
import { UserError } from "#domain/errors.ts";
import { canWrite } from "#domain/github.ts";
import type { Preview } from "#domain/preview.ts";
import type { ActiveRun } from "#runtime/active-run.ts";
import { type AskedOfTools, readInvocation } from "#runtime/calls/read-tool-command.ts";
import type { ToolReply } from "#runtime/calls/tool-reply.ts";
import { writeCommand } from "#runtime/calls/write-tool-command.ts";
import type { EffectHandler, EffectResult } from "#runtime/effects/effect-handler.ts";
import type { FrontEnd } from "#runtime/front-end.ts";
import { readBase, stepsOf } from "#runtime/read-log.ts";
import { readSettings } from "#runtime/read-settings.ts";
import { shortId } from "#runtime/short-id.ts";
import type { Effect } from "#runtime/store/store.ts";
import { resultOfError } from "#toolsets/failed-result.ts";
import type { CallContext } from "#toolsets/toolbox.ts";
import type { ParsedCommand } from "#ui/command.ts";
import { argumentsFromOptions } from "#ui/form-fields.ts";
import { callContext } from "./call-context.ts";
import type { EffectServices } from "./effect-services.ts";
import { interruptedCall } from "./unknown-effect.ts";

/** A person's command for a run's tools, as it is stored when it is received. */
export type Invocation = { callId: string; by: string } & (
  | {
      command: ParsedCommand;
      /** The command may be meant for another bot: without a tool of that name there is no answer. */
      mayBeForeign: boolean;
    }
  /** A call from a user interface. `agreed` confirms exactly what was shown. */
  | { call: { tool: string; args: unknown }; agreed?: string }
);

interface PersonCall {
  tool: string;
  args: unknown;
  agreed: string | undefined;
  /** The options of the command that made the call, to write it again with the word that confirms it. */
  options: ParsedCommand["options"];
}

/**
 * Runs a person's command for the run's tools. Changes of the tool are stored with its result. A call that has to be
 * confirmed is shown first, and runs when the command is repeated with the word that stands for exactly this call.
 */
export function invokeTool({ frontEnd }: Pick<EffectServices, "frontEnd">): EffectHandler {
  return {
    maxAttempts: 3,
    async perform(effect, desk, signal) {
      const invocation = effect.input as Invocation;
      await checkAccess(desk, invocation.by);
      if (!readBase(await desk.log())) throw new UserError("This run never opened the repository, so it has no tools.");

      const runCall = (call: PersonCall) =>
        run(effect, desk, call, { signal, frontEnd }).catch((error) => {
          if (!(error instanceof UserError)) throw error;
          return refused(effect, error);
        });
      if ("call" in invocation) return runCall({ agreed: undefined, ...invocation, ...invocation.call, options: {} });

      const asked = readInvocation(invocation.command, await desk.tools(signal));
      switch (asked.kind) {
        case "list":
        case "form":
          return reply(effect, asked);
        case "unknown":
          return invocation.mayBeForeign ? {} : refused(effect, new UserError(asked.message));
        case "run": {
          const { tool, options, agreed } = asked;
          const args = await readArguments(asked).catch((error) => {
            if (error instanceof UserError) return error;
            throw error;
          });
          return args instanceof UserError
            ? refused(effect, args)
            : runCall({ tool: tool.name, args, agreed, options });
        }
      }
    },
    onFailure: async (effect, _desk, error) => (isForeign(effect) ? {} : refused(effect, error)),
  };
}

function isForeign({ input }: Effect): boolean {
  const invocation = input as Invocation;
  return "command" in invocation && invocation.mayBeForeign;
}

async function checkAccess({ repository, spec: { origin } }: ActiveRun, by: string): Promise<void> {
  if (canWrite(await repository.getPermission(by))) return;
  throw new UserError(`GitHub does not confirm that you have write access to ${origin.owner}/${origin.repo}.`);
}

/** What has to be approved is not agreed to by who may not approve, or where it takes two. */
async function checkMayAgree({ repository }: ActiveRun, by: string, tool: string): Promise<void> {
  const settings = await readSettings(repository);
  const refusal = findApproverProblem({ ...settings, second_person: false }, { by, requestedBy: by });
  if (refusal) throw new UserError(refusal);
  if (!settings.second_person) return;
  throw new UserError(
    `Here a second person has to agree, and a command has only one: ${tool} cannot be called like this.`,
  );
}

async function run(
  effect: Effect,
  desk: ActiveRun,
  { tool: name, args: given, agreed, options }: PersonCall,
  { signal, frontEnd }: { signal: AbortSignal; frontEnd: FrontEnd },
): Promise<EffectResult> {
  const { callId, by } = effect.input as Invocation;
  const step = stepsOf(await desk.log());
  const context: CallContext = { ...callContext(desk, { callId }, step, signal), invokedBy: "person" };
  const toolbox = await desk.tools(signal);

  const { result: done, stored } = await desk.change(reviewAndExecute, { step: `${step}/${callId}`, signal });
  return { ...done, ...stored };

  async function reviewAndExecute(): Promise<EffectResult> {
    const call = { callId, tool: name, args: given };
    const review = await toolbox.review(call, context, []);
    signal.throwIfAborted();
    if (review.kind === "refuse") throw refusal(review.result.error, name);
    const { args } = review;
    const tool = toolbox.find(name)?.name ?? name;
    let approved: Preview | undefined;
    if (review.kind === "ask") {
      if (!frontEnd.canShow(review)) throw tooLong(tool);
      const { preview } = review;
      const word = await wordFor(desk, { tool, args, preview });
      if (agreed !== word) {
        const command = writeCommand(tool, { ...options, yes: word });
        return reply(effect, { kind: "confirm", callId, tool, args, preview, command, word });
      }
      await checkMayAgree(desk, by, tool);
      approved = preview;
    }

    const mayHaveRun = effect.attempts > 1 && toolbox.find(name)?.afterCrash === "report";
    const result = mayHaveRun
      ? resultOfError(interruptedCall())
      : await toolbox.execute({ ...call, args }, approved ? { ...context, approved } : context);
    const event = { type: "tool.invoked" as const, callId, tool, by, args, result };
    return { ...reply(effect), events: [{ runId: effect.runId, event }] };
  }
}

async function readArguments({
  tool,
  options,
}: Extract<AskedOfTools, { kind: "run" }>): Promise<Record<string, unknown>> {
  try {
    return await argumentsFromOptions(tool.inputSchema, options);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    throw new UserError(`${error.message}\n/tool ${tool.name} -i shows what it takes.`, { cause: error });
  }
}

function refusal(error: { message: string; suggestion?: string } | undefined, tool: string): UserError {
  return new UserError([error?.message ?? `${tool} is not allowed here.`, error?.suggestion].filter(Boolean).join(" "));
}

function tooLong(tool: string): UserError {
  return new UserError(
    `What ${tool} would do has to be agreed to, and is too long to be shown in comments. Do it in smaller parts.`,
  );
}

/** Stands for this run, call and preview, so that nobody agrees to something else than what they were shown. */
async function wordFor(
  desk: ActiveRun,
  shown: { tool: string; args: unknown; preview: Preview | undefined },
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
