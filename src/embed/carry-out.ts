import { type Approval, approvalDigest } from "#domain/approval.ts";
import { UserError } from "#domain/errors.ts";
import type { ModelCall } from "#domain/events.ts";
import type { ToolResult } from "#domain/result.ts";
import type { EffectRequest } from "#machines/effects.ts";
import { confirmApproval, type Grant } from "#runtime/calls/confirm-approval.ts";
import { reviewAnswer } from "#runtime/calls/review-answer.ts";
import { callContext } from "#runtime/effects/call-context.ts";
import { askModel } from "#runtime/model/ask-model.ts";
import { embeddedInstructionsFor } from "#runtime/model/instructions.ts";
import { transcript } from "#runtime/model/transcript.ts";
import { lastAnswer, openCallOf } from "#runtime/read-log.ts";
import type { NewEffect } from "#runtime/store/store.ts";
import { abandonOnAbort } from "#toolsets/abandon-on-abort.ts";
import { failedResult, interruptedResult, resultOfError } from "#toolsets/failed-result.ts";
import type { ApprovalDecision } from "#ui/approval-memory.ts";
import { type Drive, person } from "./drive.ts";
import { asRecord, type ShownCall } from "./reporter.ts";
import { startChild } from "./start-child.ts";

/** Does what a run wants done, and tells it what came of it. What nobody waits for here is left out. */
export async function carryOut({ kind, input }: NewEffect, drive: Drive): Promise<void> {
  const { callId = "", approvalId } = input as { callId?: string; approvalId?: string };
  switch (kind as EffectRequest["kind"]) {
    case "sandbox.open":
      return drive.tell({ type: "sandbox.opened", ...drive.session.steps.base });
    case "model.call":
      return callModel(drive);
    case "calls.review":
      return reviewCalls(drive);
    case "approval.post":
      return askApproval(drive, approvalId ?? "");
    case "question.post":
      return askPerson(drive, callId);
    case "tool.execute":
      return executeTool(drive, callId, approvalId);
    case "child.spawn":
      return callWorker(drive, callId, approvalId);
    default:
      return undefined;
  }
}

async function callModel(drive: Drive): Promise<void> {
  const { session, signal } = drive;
  const { spec, toolbox, report, around } = session;
  const iteration = drive.iteration() + 1;
  const log = session.log();
  const instructions = embeddedInstructionsFor(spec, around.briefing);
  report.trace({
    type: "message_send",
    iteration,
    messages: [{ role: "system", content: instructions }, ...transcript(log)],
    toolCount: toolbox.offered.length,
  });

  const stream = report.stream();
  try {
    const asked = await abandonOnAbort(
      () =>
        askModel(around.models, {
          model: spec.model,
          instructions,
          log,
          maxTokens: spec.worker.max_context_tokens,
          tools: toolbox.offered,
          serverSideTools: spec.worker.server_side_tools,
          find: toolbox.find,
          signal,
          onText: stream.write,
        }),
      signal,
    );
    if (asked.abandoned || signal.aborted) return;
    stream.end();
    const event = asked.value;
    if (event.type === "model.answered") {
      const { text, calls, usage } = event;
      report.trace({
        type: "response_receive",
        iteration,
        ...(text !== "" && { text }),
        toolCalls: calls.map((call) => ({ id: call.callId, name: call.tool, args: asRecord(call.args) })),
        usage: { input: usage.inputTokens, output: usage.outputTokens },
      });
      if (text.trim() !== "") report.says(text);
      report.context(usage, spec.worker.max_context_tokens);
    } else if (event.retryable) report.status("warning", event.reason);
    drive.tell(event);
  } catch (error) {
    if (signal.aborted) return;
    const reason = error instanceof Error ? error.message : String(error);
    drive.tell({ type: "model.failed", reason, retryable: false });
  } finally {
    stream.end();
  }
}

async function reviewCalls(drive: Drive): Promise<void> {
  const { session, signal } = drive;
  const { spec, toolbox } = session;
  const { answer, step } = last(drive);
  const { verdicts, approvals } = await reviewAnswer({
    spec,
    toolbox,
    calls: answer.calls,
    contextOf: (call) => callContext(session, call, step, signal),
    // The controller remembers what was approved for the session, for the whole tree.
    remembered: [],
    baseCommit: session.steps.base.commit,
    open: async ({ callId }) => ({
      id: `${spec.id}/${step}/${callId}`,
      requestedAt: Date.now(),
      expiresAt: Number.POSITIVE_INFINITY,
    }),
  });
  if (signal.aborted) return;
  for (const approval of approvals) drive.approvals.set(approval.id, approval);
  for (const verdict of verdicts) {
    const call = answer.calls.find(({ callId }) => callId === verdict.callId);
    if (verdict.kind === "refuse" && call) showWhole(drive, call, verdict.result);
  }
  drive.tell({ type: "calls.reviewed", verdicts });
}

async function askApproval(drive: Drive, approvalId: string): Promise<void> {
  const approval = drive.approvals.get(approvalId);
  // It is shown once more when it is decided, which whoever decided knows.
  if (approval?.status !== "pending") return;

  const { callId, tool: toolName } = approval;
  const decision = await decide(drive, approval);
  if (drive.signal.aborted) return;
  if (decision.approved === true) {
    drive.approvals.set(approvalId, approved(approval, decision));
    const { modifiedArgs: args } = decision;
    drive.tell({ type: "approval.granted", approvalId, callId, by: person, ...(args !== undefined && { args }) });
    return;
  }
  drive.approvals.set(approvalId, { ...approval, status: "denied" });
  const { note: reason } = decision;
  const message = `${toolName} was denied${reason ? `: ${reason}` : "."}`;
  showWhole(drive, { callId, tool: toolName, args: approval.args }, failedResult(message, { code: "DENIED" }));
  drive.tell({ type: "approval.denied", approvalId, callId, by: person, ...(reason !== undefined && { reason }) });
}

async function decide(drive: Drive, approval: Approval): Promise<ApprovalDecision> {
  const { report, around, spec } = drive.session;
  const { approvals } = around;
  const { tool: toolName, callId, reason: description, preview } = approval;
  const toolArgs = asRecord(approval.args);
  const request = {
    toolName,
    toolArgs,
    description,
    delegationPath: spec.workerPath.split(" -> "),
    stepId: callId,
    ...(preview !== undefined && { preview }),
  };
  const cached = approvals.mode === "interactive" && approvals.isSessionApproved(request);
  if (!cached) report.trace({ type: "approval_request", toolName, toolArgs, description });
  const decision = await approvals
    .requestApproval(request, { signal: drive.signal })
    .catch((error): ApprovalDecision => ({ approved: false, note: `It could not be asked for: ${messageOf(error)}` }));
  const { approved: isApproved, remember = "none" } = decision;
  report.trace({ type: "approval_decision", toolName, approved: isApproved === true, cached, remember });
  return decision;
}

/** What the person changed is what runs, and the digest covers that. */
function approved(approval: Approval, { note, modifiedArgs, remember }: ApprovalDecision): Approval {
  const decided = {
    ...approval,
    status: "approved" as const,
    decidedBy: person,
    ...(note !== undefined && { note }),
    ...(remember && { remember }),
  };
  if (modifiedArgs === undefined) return decided;
  const digest = approvalDigest({ ...approval, args: modifiedArgs, preview: undefined });
  return { ...decided, changedArgs: modifiedArgs, digest };
}

async function askPerson(drive: Drive, callId: string): Promise<void> {
  const { session, signal } = drive;
  const { call } = openCallOf(session.log(), callId);
  const { ui } = session.around;
  if (!ui) {
    const result = failedResult("Nobody can be asked: this program shows the worker to no one.", {
      code: "UNAVAILABLE",
      suggestion: "Decide yourself, and say in your answer what you assumed.",
    });
    return finish(drive, call, result);
  }
  const { question, options = [] } = asRecord(call.args) as { question?: string; options?: string[] };
  const prompt = [question ?? "The worker asks:", ...options.map((option) => `- ${option}`), "> "].join("\n");
  showStart(drive, call);
  try {
    const text = await ui.getUserInput(prompt, { signal, timeoutMs: 2 ** 31 - 1 });
    session.report.toolEnded(call, drive.iteration(), { llmContent: text, value: { kind: "text", content: text } });
    drive.tell({ type: "question.answered", callId, text, by: person });
  } catch (error) {
    if (!signal.aborted) finish(drive, call, resultOfError(error));
  }
}

async function executeTool(drive: Drive, callId: string, approvalId: string | undefined): Promise<void> {
  const { session, signal } = drive;
  const { toolbox, steps } = session;
  const { call, step } = openCallOf(session.log(), callId);
  const shown = shownCall(drive, call, approvalId);
  showStart(drive, shown);
  steps.rollback();
  let result: ToolResult;
  try {
    const { args, notes } = await granted(drive, { call, step, approvalId });
    const ran = await toolbox.execute({ ...call, args }, callContext(session, call, step, signal));
    result = { ...ran, llmContent: [...notes, ran.llmContent].join("\n") };
  } catch (error) {
    result = resultOfError(error);
  }
  if (signal.aborted) {
    steps.rollback();
    session.report.toolEnded(shown, drive.iteration(), result.error ? result : interruptedResult(call.tool));
    return;
  }
  steps.pendingChanges(`${step}/${callId}`);
  steps.markStored();
  finish(drive, shown, result);
}

async function callWorker(drive: Drive, callId: string, approvalId: string | undefined): Promise<void> {
  const { session, signal } = drive;
  const { call, step } = openCallOf(session.log(), callId);
  const shown = shownCall(drive, call, approvalId);
  showStart(drive, shown);
  const startedAt = Date.now();
  const ended = (outcome: string, isFailed: boolean) =>
    session.report.toolEnded(shown, drive.iteration(), {
      ...(isFailed
        ? failedResult(outcome, { code: signal.aborted ? "INTERRUPTED" : "EXECUTION_ERROR" })
        : { llmContent: outcome, value: { kind: "text" as const, content: outcome } }),
      durationMs: Date.now() - startedAt,
    });
  try {
    const { args } = await granted(drive, { call, step, approvalId });
    const event = await startChild(drive, { ...call, args });
    if (!event) return ended(`${call.tool} was interrupted.`, true);
    const { outcome } = event;
    ended(
      outcome.kind === "answered" ? outcome.text : "reason" in outcome ? outcome.reason : "It was cancelled.",
      outcome.kind !== "answered",
    );
    drive.tell(event);
  } catch (error) {
    if (!(error instanceof UserError)) throw error;
    ended(error.message, true);
    const outcome = { kind: "failed" as const, reason: error.message };
    drive.tell({ type: "child.finished", callId, childId: "", outcome, usage: { inputTokens: 0, outputTokens: 0 } });
  }
}

/** What may run: what the model asked, or what a person approved of it, which policy must still allow. */
async function granted(
  drive: Drive,
  { call, step, approvalId }: { call: ModelCall; step: number; approvalId: string | undefined },
): Promise<Grant> {
  const approval = approvalId === undefined ? undefined : drive.approvals.get(approvalId);
  if (!approval) return { args: call.args, notes: [] };

  const { session, signal } = drive;
  const { spec, toolbox, steps } = session;
  const context = callContext(session, call, step, signal);
  return confirmApproval(approval, { spec, toolbox, call, context, baseCommit: steps.base.commit });
}

function shownCall(drive: Drive, call: ModelCall, approvalId: string | undefined): ShownCall {
  const approval = approvalId === undefined ? undefined : drive.approvals.get(approvalId);
  return { ...call, args: approval?.changedArgs ?? approval?.args ?? call.args };
}

function showStart(drive: Drive, call: ShownCall): void {
  const { calls } = last(drive).answer;
  const index = calls.findIndex(({ callId }) => callId === call.callId) + 1;
  drive.session.report.toolStarted(call, { iteration: drive.iteration(), index, total: calls.length });
}

function showWhole(drive: Drive, call: ShownCall, result: ToolResult): void {
  showStart(drive, call);
  drive.session.report.toolEnded(call, drive.iteration(), result);
}

function finish(drive: Drive, call: ShownCall, result: ToolResult): void {
  drive.session.report.toolEnded(call, drive.iteration(), result);
  drive.tell({ type: "tool.finished", callId: call.callId, tool: call.tool, result });
}

function last({ session }: Drive) {
  const found = lastAnswer(session.log());
  if (!found) throw new Error(`The worker ${session.spec.worker.name} has not answered yet.`);
  return found;
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
