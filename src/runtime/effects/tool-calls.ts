import type { RepositorySettings } from "#config/repository-settings.ts";
import { type Approval, approvalDigest } from "#domain/approval.ts";
import { ToolError } from "#domain/errors.ts";
import type { LoggedEvent, ModelCall, Verdict } from "#domain/events.ts";
import { textOf } from "#domain/preview.ts";
import type { ToolResult } from "#domain/result.ts";
import { openedPullRequest, pushedCommit, type RunSpec, shortId } from "#domain/run.ts";
import type { NamedTool, ToolContext } from "#domain/tool.ts";
import { confirmLease } from "#domain/work-context.ts";
import { approversOf, describeRequirement, requirementsOf, resolveAccounts } from "#runtime/approval-rules.ts";
import { lastAnswer, openCallOf, readBaseCommit, stepsOf } from "#runtime/read-log.ts";
import type { EffectResult } from "#runtime/run-environment.ts";
import { readSettings } from "#runtime/run-environment.ts";
import type { EffectOf } from "#runtime/runtime-effect.ts";
import type { ActiveRun } from "#runtime/scheduler/active-run.ts";
import { type Effect, restoredPost, type Store } from "#runtime/store/store.ts";
import { type CallReview, tooLong } from "#toolsets/review-call.ts";
import { failedResult, resultOfError } from "#toolsets/tool-result.ts";
import type { Toolbox } from "#toolsets/toolbox.ts";
import { checkApproval, type Grant, NotRunError, postponeDuringOutage } from "./check-approval.ts";
import type { EffectHandler, EffectServices } from "./effect-handler.ts";

type ReviewServices = Pick<EffectServices, "store" | "frontEnd" | "now" | "approvalMs">;

/** Checks every call of the last answer against policy, and creates the approvals people have to give. */
export function reviewCalls(services: ReviewServices): EffectHandler<EffectOf<"calls.review">> {
  const { store, frontEnd, now } = services;
  return {
    maxAttempts: 3,
    async perform({ runId }, run, signal) {
      const [log, toolbox] = await Promise.all([run.log(), run.tools(signal)]);
      const last = lastAnswer(log);
      if (!last) throw new Error(`Run ${runId} has no answer to review`);

      const { step, answer } = last;
      const remembered = await sessionApprovals(store, run.spec, now());
      const newApproval = approvalsOf(run, { step, baseCommit: readBaseCommit(log)?.commit ?? "", ...services });
      const verdicts: Verdict[] = [];
      const approvals: Approval[] = [];
      for (const call of answer.calls) {
        const context = run.callContext({ callId: call.callId, step, signal });
        const reviewed = await toolbox.review(call, context, remembered);
        const { callId, tool } = call;
        const { name: toolName = tool, aliases } = toolbox.find(tool) ?? {};
        const isTooLong = reviewed.kind === "ask" && !frontEnd.canShow(reviewed);
        const review = isTooLong ? refuseTooLong(toolName, reviewed) : reviewed;
        if (review.kind !== "ask") {
          verdicts.push(verdictOf(call, review));
          continue;
        }
        const approval = await newApproval(call, { toolName, toolAliases: aliases, review });
        approvals.push(approval);
        verdicts.push({ kind: "ask", callId, tool, answeredBy: review.answeredBy, approvalId: approval.id });
      }
      signal.throwIfAborted();
      return { events: [{ runId, event: { type: "calls.reviewed", verdicts } }], approvals };
    },
    async onFailure({ runId }, run, error) {
      const calls = lastAnswer(await run.log())?.answer.calls ?? [];
      const message = `This call could not be reviewed: ${error instanceof Error ? error.message : "unknown reason"}`;
      const result = failedResult(message, { code: "UNAVAILABLE", type: "system_error" });
      const verdicts = calls.map(({ callId, tool }): Verdict => ({ kind: "refuse", callId, tool, result }));
      return { events: [{ runId, event: { type: "calls.reviewed", verdicts } }] };
    },
  };
}

/**
 * Reviews the calls of an answer before it is stored, so that both are stored at once. Returns undefined if a call may need
 * approval or cannot be reviewed now: then the answer is stored without delay, and `calls.review` follows.
 */
export async function reviewWithAnswer(
  { store, now }: Pick<ReviewServices, "store" | "now">,
  run: ActiveRun,
  calls: readonly ModelCall[],
  signal: AbortSignal,
): Promise<Verdict[] | undefined> {
  try {
    const [log, toolbox] = await Promise.all([run.log(), run.tools(signal)]);
    // Their previews can take long, so they are made only once.
    if (calls.some(({ tool }) => alwaysAsks(toolbox.find(tool)))) return undefined;
    const step = stepsOf(log) + 1;
    const remembered = await sessionApprovals(store, run.spec, now());
    const verdicts: Verdict[] = [];
    for (const call of calls) {
      const context = run.callContext({ callId: call.callId, step, signal });
      const review = await toolbox.review(call, context, remembered);
      if (review.kind === "ask") return undefined;
      verdicts.push(verdictOf(call, review));
    }
    signal.throwIfAborted();
    return verdicts;
  } catch {
    return undefined;
  }
}

function alwaysAsks(tool: NamedTool | undefined): boolean {
  return tool !== undefined && (tool.needsApproval ?? true) === true;
}

function verdictOf({ callId, tool }: ModelCall, review: Exclude<CallReview, Question>): Verdict {
  if (review.kind === "refuse") return { kind: "refuse", callId, tool, result: review.result };
  const { kind, answeredBy, approvalId } = review;
  return { kind, callId, tool, answeredBy, approvalId };
}

/** Returns the approvals that cover more calls of this run. They do not count for its parent or its children. */
async function sessionApprovals(store: Store, { id, rootId }: RunSpec, now: number): Promise<Approval[]> {
  const approvals = await store.approvalsOf(rootId);
  return approvals.filter(
    ({ runId, remember, status, expiresAt }) =>
      runId === id && remember === "session" && (status === "approved" || status === "used") && now < expiresAt,
  );
}

type Question = Extract<CallReview, { kind: "ask" }>;

/** Returns a function that creates the approval of a call that people have to decide. */
function approvalsOf(
  { spec, repository }: ActiveRun,
  { step, baseCommit, store, now, approvalMs }: ReviewServices & { step: number; baseCommit: string },
): (
  call: ModelCall,
  asked: Pick<Approval, "toolAliases"> & { toolName: string; review: Question },
) => Promise<Approval> {
  // Read only if an approval is needed, which is rare.
  let reading: Promise<RepositorySettings> | undefined;

  return async ({ callId, tool }, { toolName, toolAliases, review: { args, preview, reason } }) => {
    const { id: runId, rootId, workerPath, origin } = spec;
    const { repositoryId, requestedBy } = origin;
    reading ??= readSettings(repository);
    const settings = await reading;
    const requirements = await requirementsOf(
      { tool, toolName, toolAliases, workerPath, preview },
      settings,
      repository,
    );
    const accounts = await resolveAccounts(requirements, repository);
    const subject = { runId, workerPath, callId, tool, args, baseCommit, preview };
    return {
      ...subject,
      id: await unusedId(store, `${runId}/${step}/${callId}`),
      toolName,
      ...(toolAliases && { toolAliases }),
      rootId,
      ...(repositoryId !== undefined && { repositoryId }),
      digest: approvalDigest(subject),
      reason,
      status: "pending",
      approvers: requirements.map((requirement) => describeRequirement(requirement, requestedBy)).join("; "),
      quorums: requirements.map((requirement) => ({
        who: describeRequirement({ ...requirement, required: 1 }, requestedBy),
        required: requirement.required,
        by: [],
      })),
      ...(Object.keys(accounts).length > 0 && { accounts }),
      ...(settings.approve_by_checkbox && { hasCheckbox: true }),
      requestedAt: now(),
      expiresAt: now() + approvalMs,
    };
  };
}

/** Returns an approval id that is not in use. Four letters are usually enough. */
async function unusedId(store: Store, seed: string): Promise<string> {
  for (let length = 4; length < 16; length += 1) {
    const id = shortId(seed, length);
    if (!(await store.findApproval(id))) return id;
  }
  throw new Error("No short id is free");
}

/** Refuses a call that cannot be shown completely, because people must not approve what they have not seen. */
function refuseTooLong(toolName: string, { args, preview }: Question): Extract<CallReview, { kind: "refuse" }> {
  const texts = [JSON.stringify(args) ?? "", ...(preview?.sections ?? []).map(textOf)];
  const characters = texts.reduce((sum, { length }) => sum + length, 0);
  return { kind: "refuse", result: tooLong(toolName, characters) };
}

/** Executes a call, after checking its approval again. Result and changes are stored together or not at all. */
export function executeTool(services: Pick<EffectServices, "store" | "now">): EffectHandler<EffectOf<"tool.execute">> {
  return {
    maxAttempts: 3,
    perform: (effect, run, signal) =>
      postponeDuringOutage(() => executeOnce(services, effect, run, signal), { now: services.now, signal }),
    async onFailure({ key, runId, request: { callId, approvalId } }, run, error) {
      const { call } = openCallOf(await run.log(), callId);
      const approval = approvalId === undefined ? undefined : await services.store.findApproval(approvalId);
      const hasBegun = approval?.begun?.includes(key) === true;
      // An attempt that a crash interrupted began under the approval, which applies no longer.
      const refused = error instanceof NotRunError && !hasBegun;
      const result = resultOfError(error instanceof NotRunError && hasBegun ? interruptedCall(error) : error);
      const isKnown = refused || hasBegun;
      return { ...finished(runId, call, result), ...(isKnown && executionOf(approvalId, call, result, refused)) };
    },
  };
}

async function executeOnce(
  services: Pick<EffectServices, "store" | "now">,
  { key: effectKey, runId, attempts, request: { callId, approvalId } }: Effect<EffectOf<"tool.execute">>,
  run: ActiveRun,
  signal: AbortSignal,
): Promise<EffectResult> {
  const log = await run.log();
  const { call, step } = openCallOf(log, callId);
  const toolbox = await run.tools(signal);

  const execute = async (): Promise<ToolResult> => {
    const granted: Grant = approvalId
      ? await checkApproval(services, run, { call, step, approvalId, effectKey, signal })
      : { args: call.args, notes: [] };
    if (!approvalId && mayNeedApprovalNow(toolbox, call, log)) {
      const review = await toolbox.review(call, run.callContext({ callId, step, signal }), []);
      if (review.kind === "refuse") return review.result;
      if (review.kind === "ask") throw needsApprovalNow(call.tool);
    }
    const { approved, approval } = granted;
    const context = {
      ...run.callContext({ callId, step, signal }),
      ...(approved && { approved }),
      ...(approval && { approval: summarize(approval) }),
    };
    const grantedCall = { ...call, args: granted.args };
    if (await toolbox.runsOnce(grantedCall, context)) {
      if (attempts > 1 || (await mayHaveRunBefore(services.store, log, approval))) throw interruptedCall();
      await confirmLease();
    }
    const result = await toolbox.execute(grantedCall, context);
    return { ...result, llmContent: [...granted.notes, result.llmContent].join("\n") };
  };
  return run.change(execute, {
    step: `${step}/${callId}`,
    signal,
    toResult: (executed, overwritten) => {
      const result = withOverwritten(executed, overwritten);
      return {
        ...finished(runId, call, result),
        ...executionOf(approvalId, call, result),
        ...pullRequestOf(call, result),
      };
    },
  });
}

/** True if the database was restored from a backup that had the call already, with its approval: it may have run after the backup. */
async function mayHaveRunBefore(
  store: Pick<Store, "findPost">,
  log: readonly LoggedEvent[],
  approval: Approval | undefined,
): Promise<boolean> {
  const restored = await store.findPost(restoredPost.name);
  if (!restored) return false;
  const answeredAt = log.findLast(({ event }) => event.type === "model.answered")?.at ?? 0;
  return Math.max(answeredAt, approval?.decidedAt ?? 0) < restored.updatedAt - restoredPost.forMs;
}

/** Tells the model and people which changes of a worker, which were handed over during a call, the call has replaced. */
export function withOverwritten(result: ToolResult, paths: readonly string[]): ToolResult {
  if (paths.length === 0) return result;
  const note = `These files were also changed by a worker that finished during this call, and its changes to them were replaced by this call's: ${paths.join(", ")}`;
  const summary = [result.value.summary, note].filter(Boolean).join(" ");
  return { ...result, llmContent: `${result.llmContent}\n\n${note}`, value: { ...result.value, summary } };
}

/** True if a call's need of approval depends on state that changed after its review. */
function mayNeedApprovalNow({ find }: Pick<Toolbox, "find">, call: ModelCall, log: readonly LoggedEvent[]): boolean {
  if (typeof find(call.tool)?.needsApproval !== "function") return false;
  const answeredAt = log.findLastIndex(({ event }) => event.type === "model.answered");
  return log.slice(answeredAt + 1).some(({ event }) => {
    if (event.type === "tool.finished" || event.type === "tool.invoked") return !find(event.tool)?.readOnly;
    return event.type === "child.finished";
  });
}

function needsApprovalNow(tool: string): ToolError {
  return new ToolError(`${tool} needs approval now, because an earlier call changed what it does.`, {
    code: "STALE",
    suggestion: "Call it again, so that people are asked.",
  });
}

/** Returns the pull request that a call opened or updated, since the run also belongs to its thread. */
function pullRequestOf({ tool }: ModelCall, result: ToolResult): { pullRequest?: number } {
  const pullRequest = openedPullRequest(tool, result);
  return pullRequest === undefined ? {} : { pullRequest };
}

/** Returns the ledger entry for a call that ran under an approval, or was refused. */
function executionOf(
  approvalId: string | undefined,
  { tool }: ModelCall,
  result: ToolResult,
  refused = false,
): Pick<EffectResult, "execution"> {
  if (approvalId === undefined) return {};
  const { error } = result;
  const commit = pushedCommit(tool, result);
  return {
    execution: {
      approvalId,
      outcome: refused ? "refused" : "executed",
      ...(commit !== undefined && { commit }),
      ...(error && { reason: error.message }),
    },
  };
}

function summarize(approval: Approval): NonNullable<ToolContext["approval"]> {
  const { id, digest } = approval;
  return { id, digest, by: approversOf(approval) };
}

function finished(runId: string, { callId, tool }: ModelCall, result: ToolResult): EffectResult {
  return { events: [{ runId, event: { type: "tool.finished", callId, tool, result } }] };
}

/** The error of a call that was running when the process died, and that must or may not run again. */
export function interruptedCall(cause?: NotRunError): ToolError {
  const reason = cause ? ` It was not repeated: ${cause.reason}.` : "";
  return new ToolError(`The process stopped during this call, so it may or may not have taken effect.${reason}`, {
    code: "INTERRUPTED",
    type: "system_error",
    suggestion: "Check its effect before you try again.",
    cause,
  });
}
